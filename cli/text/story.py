"""Stories of intents and parameters, as people read them on a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ...daemon.views import ExplainView
from ...intents.rules.parameter import DerivedParameter
from ..format import value_text
from ..views.story import Story, standing
from .tables import facts, plain_table


def story(told: Story) -> RenderableType:
    """Return the sections of a story, one below the other."""
    shown: list[RenderableType] = [Text(f"Job {told.job_id}: {told.about}", style="bold")]
    shown += [Text(f"Told: {each}.") for each in told.contradictions]
    for each in told.sections:
        rows = {name: text for name, text in each.rows.items() if text}
        shown += ["", Text(each.title, style="bold"), facts(rows)]
    return Group(*shown)


def parameters(found: Sequence[DerivedParameter], view: ExplainView | None = None) -> RenderableType:
    """Return a row for each parameter that follows without a trial: its value, and what became of it."""
    rows = ((each.name, _value(each), each.intent, standing(each, view)) for each in found)
    title = "What follows without a trial (scrtune explain NAME says why)"
    return plain_table("parameter", "follows", "from", "standing", rows=rows, title=title)


def _value(each: DerivedParameter) -> str:
    if each.value is None:
        return f"{len(each.lines)} lines" if each.lines else "-"
    return value_text(each.value)
