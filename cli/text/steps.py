"""The step times of a job, as people read them, and as rows."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ...goodput.readers.resiliency import moment
from ...goodput.steps.types import SlowStep, StepSummary, Straggler
from ...units import count_text, seconds_text
from ..format import printable
from . import tables

_SHOWN = 3


def table(steps: StepSummary) -> RenderableType:
    """Return the ideal step, how far steps are from it, the slowest, and the stragglers."""
    made = tables.plain_table("step times", "")
    peers = (
        f"none, {steps.no_peers_ideal}" if steps.peers_ideal_s is None else seconds_text(steps.peers_ideal_s)
    )
    rolling = f"{seconds_text(steps.rolling_deviation_s)} over the last {steps.rolling}"
    rows = [
        ("steps", f"{steps.steps}, {seconds_text(steps.mean_s)} on average"),
        ("ideal", f"{seconds_text(steps.ideal_s)}; by ml-goodput-measurement: {peers}"),
        ("deviation", f"{seconds_text(steps.deviation_s)} on average, {rolling}"),
        ("slowest", "\n".join(_slow(each) for each in steps.slowest[:_SHOWN])),
        ("stragglers", _stragglers(steps)),
    ]
    for name, text in rows:
        made.add_row(name, Text(text))
    return made


def rows(steps: StepSummary) -> Iterator[tuple[str, float, float]]:
    """Yield what was measured, in seconds, and in percent of the ideal step."""
    named = [
        ("ideal_step", steps.ideal_s),
        ("mean_step", steps.mean_s),
        ("deviation", steps.deviation_s),
        ("rolling_deviation", steps.rolling_deviation_s),
        *((_name(each), each.took_s) for each in steps.slowest),
        *((f"straggler:{each.writer}", each.took_s) for each in steps.stragglers),
    ]
    if steps.peers_ideal_s is not None:
        named.append(("peers_ideal_step", steps.peers_ideal_s))
    for what, seconds in named:
        yield what, seconds, seconds / steps.ideal_s * 100 if steps.ideal_s else 0.0


def _name(each: SlowStep) -> str:
    """Return its name; of several runs each may have made a step of that number."""
    return f"slow_step:{each.step}" + (f":run{each.run}" if each.run else "")


def _slow(each: SlowStep) -> str:
    who = f", {printable(each.writer)}" if each.writer else ""
    run = f", run {each.run}" if each.run else ""
    what = f"step {each.step}: {seconds_text(each.took_s)}"
    if each.steps > 1:
        what = f"steps {each.step} to {each.step + each.steps - 1}: {seconds_text(each.took_s)} each"
    return f"{what}, {moment(each.start_s)}{run}{who}"


def _stragglers(steps: StepSummary) -> str:
    if steps.no_stragglers:
        return f"unknown: {steps.no_stragglers}"
    if not steps.stragglers:
        return "none"
    lines = [_straggler(each) for each in steps.stragglers[:_SHOWN]]
    if more := len(steps.stragglers) - _SHOWN:
        lines += [f"and {more} more"] if more > 0 else []
    return "\n".join(lines)


def _straggler(each: Straggler) -> str:
    name, more = printable(each.writer) or "(no name)", seconds_text(each.excess_s)
    of = f"in {each.slow} of {count_text(each.steps, 'step')}"
    return f"{name}: {each.ratio:.2f} times as long as the others, {more} more a step, {of}"
