"""Texts that the terminal and the page have in common: names, values of parameters, verdicts."""

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from ..intents.events import Value, Values
from ..intents.tune.decisions import Verdict
from .blocks import Styled

if TYPE_CHECKING:
    from ..goodput.readers.launcher_log import EstimatedLoss
    from ..goodput.steps.types import StepSummary

_SMALL_S = 0.1


class VerdictForm(NamedTuple):
    """How a verdict is shown: in a word, its colour on a terminal, its mark (matplotlib) on the page.

    Marks have no colour, since colours stand for time there; that of an active change `is_filled`.
    """

    word: str
    colour: str
    mark: str
    is_filled: bool = False


VERDICTS = {
    Verdict.TRIAL: VerdictForm("on trial", "yellow", "o"),
    Verdict.ACCEPTED: VerdictForm("kept", "green", "^", is_filled=True),
    Verdict.REVERTED: VerdictForm("taken back", "red", "v"),
    Verdict.REQUIRED: VerdictForm("required", "cyan", "s", is_filled=True),
    Verdict.VETOED: VerdictForm("vetoed", "magenta", "x"),
    Verdict.BASELINE: VerdictForm("yours again", "red", "D", is_filled=True),
    Verdict.PENDING: VerdictForm("pending", "blue", "P"),
}


def verdict_cell(verdict: Verdict) -> Styled:
    """Return the verdict on a change in a word."""
    return Styled(VERDICTS[verdict].word, VERDICTS[verdict].colour)


def printable(text: str) -> str:
    """Return `text` with question marks for undecodable bytes and blanks for control characters."""
    shown = text.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else " " for character in shown)


def value_text(value: Value | None) -> str:
    """Return a parameter's value; ``-`` if it is not set, ``""`` if it is empty."""
    return "-" if value is None else str(value) or '""'


def transitions_text(before: Values, after: Values) -> str:
    """Return ``NAME old -> new`` for each change, sorted by name."""
    return ", ".join(
        f"{name} {value_text(before.get(name))} -> {value_text(value)}"
        for name, value in sorted(after.items())
    )


def counted_steps(count: int, steps: "StepSummary | None") -> int:
    """Return how many steps an account has that counted `count` numbers: every stride-th is one."""
    return ceil(count / (steps.stride if steps is not None else 1))


def estimate_text(found: "EstimatedLoss") -> str:
    """Return what of a job's time is an estimate, and of which runs."""
    runs = "1 run does" if found.runs == 1 else f"{found.runs} runs do"
    return (
        f"Estimated: {found.lost_s:.3f} s of wasted_progress, which may be 0 to {found.most_s:.3f} s,"
        f" the rest being recovery. {runs} not say when they ended: after the last checkpoint, and before"
        " the next save was due or the next run began; the middle is taken."
    )


def seconds_column(seconds: float | None) -> str:
    """Return seconds with two digits after the point, or with two that are not 0; a dash for none."""
    if seconds is None:
        return "-"
    return f"{seconds:#.2g}" if 0 < seconds < _SMALL_S else f"{seconds:,.2f}"
