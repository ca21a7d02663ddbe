"""What `scrtune study` prints."""

from rich.console import Group, RenderableType
from rich.text import Text

from ...replay.study_rows import Study
from ...replay.what_if.rows import WhatIf
from ..views import study as views
from .tables import facts, text_table

_FILE_CLASSES = 12


def study(found: Study) -> RenderableType:
    """Return the table of runs, how they differ, where their bytes went, and what to know of the numbers."""
    tables = [text_table(views.runs(found), f"Seconds: {found.grouping}")]
    if found.differing_settings:
        tables.append(facts(found.differing_settings, title="Settings that differ"))
    if found.differences:
        against = f"Means against {found.base}"
        title = f"{against}: a checkpoint by its slowest thread, a flush by its slowest rank"
        tables.append(text_table(views.differences(found), title))
    if found.file_classes:
        title = "Files (digits and dashes of names left out) that took longest"
        tables.append(text_table(views.file_classes(found, _FILE_CLASSES), title))
    tables.append(facts({row.name: views.reading_text(row) for row in found.runs}, title="Read"))
    predicted = ["", _what_if(found.what_if)] if found.what_if else []
    return Group(*(part for table in tables for part in (table, "")), *_notes(found), *predicted)


def _what_if(found: WhatIf) -> RenderableType:
    """Return what is predicted, the cheapest first, what mattered, and how good predictions are."""
    title = "What if: the seconds of a checkpoint as predicted, the cheapest first"
    parts = [text_table(views.predictions(found), title)]
    parts += [Text(note) for note in (views.below(found), views.hidden(found)) if note]
    title = "Which parameters matter: as predicted, and in the runs"
    parts += ["", text_table(views.importances(found), title), ""]
    if found.held_out:
        title = "How good it is: each run as predicted from all others"
        parts += [text_table(views.held_out(found), title), Text(views.errors_text(found)), ""]
    return Group(*parts, *_notes(found))


def _notes(found: Study | WhatIf) -> list[RenderableType]:
    return [Text(f"- {note}.") for note in found.notes]
