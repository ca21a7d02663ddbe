"""The gain of each decision, as people read it."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ...daemon.views import GoodputView
from ...intents.tune.gains import GainView, together
from . import tables

_MANY = 100.0
_NOTE = (
    "Before, and saved a checkpoint, by the pairs of its trial: geometric means, and what bounds their\n"
    "difference with 90 %. A checkpoint costs what it blocks and what its flush slows down; losses are\n"
    "negative. So far: for all checkpoints under it; of a trial that was taken back what they took more\n"
    "than the last six without it, which is part of `tuning`, as is the time to apply settings.\n"
    "`scrtune explain` has the reasons."
)


def goodput(view: GoodputView, *, tells_steps: bool = True) -> RenderableType:
    """Return where the time went, and below it what each change gained."""
    spent = tables.goodput(view, tells_steps=tells_steps)
    return Group(spent, table(view.gains)) if view.gains else spent


def table(views: Sequence[GainView]) -> RenderableType:
    """Return a row for each change, and their sum."""
    columns = ["gen", "change", "", "before", "saves", "90 %", "checkpoints", "so far", "90 %"]
    right = [*columns[:1], *columns[3:]]
    shown = tables.plain_table(
        *columns, title="What each decision gained (seconds a checkpoint)", right=right
    )
    for view in views:
        found = view.gain
        shown.add_row(
            str(view.generation),
            view.rule,
            tables.verdict_text(view.verdict),
            _number(found.before_s),
            _number(found.saved_s),
            _between(found.low_s, found.high_s),
            str(found.checkpoints),
            _number(found.total_s),
            _between(found.total_low_s, found.total_high_s),
        )
    total_s, low_s, high_s = together(view.gain for view in views)
    row = ["", "together", *[""] * 5, _number(total_s), _between(low_s, high_s)]
    shown.add_row(*row, style="bold")
    return Group("", shown, Text(_NOTE, style="dim"))


def _number(value_s: float) -> str:
    return f"{value_s:.1f}" if abs(value_s) >= _MANY else f"{value_s:.3f}"


def _between(low_s: float, high_s: float) -> str:
    return f"{_number(low_s)} to {_number(high_s)}"
