"""What checkpoints would cost, as `scrtune study --what-if` prints it."""

from rich.console import Group, RenderableType
from rich.text import Text

from ...replay.what_if.rows import HeldOut, WhatIf
from ..format import seconds_column
from ..views.what_if import (
    below,
    best_text,
    changes_text,
    errors_text,
    hidden,
    interval_text,
    mattering,
    reason_text,
    share_text,
    survives_text,
)
from .tables import plain_table


def what_if(found: WhatIf) -> RenderableType:
    """Return what is predicted, the cheapest first, what mattered, and how good predictions are."""
    notes = [Text(note) for note in (below(found), hidden(found)) if note]
    parts: list[RenderableType] = [_predictions(found), *notes, "", _importances(found), ""]
    if found.held_out:
        parts += [_held_out(found), Text(errors_text(found)), ""]
    return Group(*parts, *(Text(f"- {note}.") for note in found.notes))


def _predictions(found: WhatIf) -> RenderableType:
    rows = (
        (
            str(row.rank),
            interval_text(row.checkpoint_s),
            f"{row.difference_s.value:+,.2f}",
            interval_text(row.flush_s),
            survives_text(row),
            Group(Text(changes_text(row.changes), style="bold"), Text(reason_text(row))),
        )
        for row in found.leading
    )
    numbers = (">#", ">checkpoint s", f">to {found.base}", ">flush s", ">survives")
    title = "What if: the seconds of a checkpoint as predicted, the cheapest first"
    return plain_table(*numbers, "settings, and what the seconds are", rows=rows, title=title)


def _importances(found: WhatIf) -> RenderableType:
    rows = (
        (
            row.parameter,
            seconds_column(row.worth_s) if row.best_s else "-",
            share_text(row),
            best_text(row),
            row.source,
        )
        for row in mattering(found)
    )
    heads = ("parameter", ">worth s", ">in the runs", "least s with each value (flush s)", "source")
    return plain_table(*heads, rows=rows, title="Which parameters matter: as predicted, and in the runs")


def _held_out(found: WhatIf) -> RenderableType:
    rows = (_one_held_out(row) for row in found.held_out)
    heads = ("run", "measure", ">measured s", ">predicted s", ">error", "")
    return plain_table(*heads, rows=rows, title="How good it is: each run as predicted from all others")


def _one_held_out(row: HeldOut) -> tuple[str, ...]:
    return (
        row.run,
        row.measure,
        seconds_column(row.measured_s),
        interval_text(row.predicted_s),
        f"{row.error:+.1%}",
        "" if row.has_kin else "the only one of its kind",
    )
