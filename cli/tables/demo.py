"""What `scrtune demo` reports."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median

from ...units import seconds_text
from ..blocks import Document, Section, Styled, Table, table
from ..views.demo import DemoComparison, DemoOutcome, DemoRun, DemoView
from ..views.tuner_changes import tuner_changes
from . import job
from .summary import savings

FIRST, LAST = 3, 6
"""Checkpoints at the beginning and in the end whose costs are shown."""


def report(view: DemoView) -> Document:
    """Return what the job does, every decision with its reason, the table, and a verdict for each start."""
    sections: list[Section] = [[job.intents(view.comparisons[0].explain.intents)]]
    for each in view.comparisons:
        found = each.explain
        sections.append([Styled(f"Tuned from {each.start} (scrtune explain --job-id {found.job_id})")])
        sections.append([job.decisions(tuner_changes(found.decisions, found.gains), found.start_s)])
    state = view.comparisons[0].status
    notes = (
        f"{state.ranks} ranks, {state.engine} engine, {view.seconds:.0f} s in all. The two runs alone: mean"
        " (least - most). Checkpoints: the time that they blocked; of the first"
        f" {FIRST} and the last {LAST} the median (least - most)."
    )
    verdicts: Document = [[verdict(each), *savings(each.status)] for each in view.comparisons]
    return [*sections, [_table(view)], [notes], *verdicts]


ROWS: dict[str, tuple[Callable[[DemoRun], Sequence[float]], Callable[[Sequence[float]], float]]] = {
    "whole job": (lambda run: [run.whole_s], fmean),
    "steps": (lambda run: [sum(run.step_s)], fmean),
    "checkpoints": (lambda run: [sum(run.checkpoint_s)], fmean),
    "start and end": (lambda run: [run.rest_s], fmean),
    "first checkpoints": (lambda run: run.checkpoint_s[:FIRST], median),
    "last checkpoints": (lambda run: run.checkpoint_s[-LAST:], median),
}
"""What is shown of the runs of a column, in seconds, and which middle of it."""


def _columns(view: DemoView) -> Iterator[tuple[str, ...]]:
    for each in view.comparisons:
        seen = each.status.observation
        yield _column(f"{each.start}\nalone", each.alone, "-")
        observed = f"{seconds_text(seen.cost_s)} ({seen.share:.2%})"
        yield _column(f"{each.start}\ntuned", (each.tuned,), observed)
        if each.found is not None:
            yield _column("alone,\nas found", (each.found,), "-")


def _column(name: str, runs: Sequence[DemoRun], observed: str) -> tuple[str, ...]:
    cells = (
        _with_bounds(middle, [value_s for run in runs for value_s in values_s(run)])
        for values_s, middle in ROWS.values()
    )
    return (f">{name}", *cells, observed)


def _table(view: DemoView) -> Table:
    """Return the columns side by side."""
    title = "The whole job without scrtune and with it, by the clocks of its command and of rank 0"
    headings, *rows = zip(("", *ROWS, "observation"), *_columns(view), strict=True)
    return table(*headings, rows=rows, title=title)


def verdict(each: DemoComparison) -> Styled:
    """Return the result from one start, also when the job was slower for it."""
    before, after = each.alone
    more = f"tuning did not pay: {each.ratio - 1:.0%} more time for the whole job"
    result, style = {
        DemoOutcome.FASTER: (f"the whole job took {1 - each.ratio:.0%} less time", "bold green"),
        DemoOutcome.SAME: (f"no difference of the whole job beyond noise ({each.noise:.0%})", "bold yellow"),
        DemoOutcome.SLOWER: (more, "bold red"),
    }[each.outcome]
    last_s = median([*before.checkpoint_s[-LAST:], *after.checkpoint_s[-LAST:]])
    more_s = each.tuned.rest_s - fmean((before.rest_s, after.rest_s))
    return Styled(
        f"From {each.start}: {result}. {before.whole_s:.1f} and {after.whole_s:.1f} s alone,"
        f" {each.tuned.whole_s:.1f} s tuned, start and end {seconds_text(more_s)} longer;"
        f" a checkpoint in the end blocked {seconds_text(last_s)} alone,"
        f" {seconds_text(median(each.tuned.checkpoint_s[-LAST:]))} tuned. {_allowed(each)}",
        style,
    )


def _allowed(each: DemoComparison) -> str:
    """Return what this machine allows, as far as was found."""
    if each.found is None:
        return f"Nothing better was found: {each.status.savings.why_nothing}."
    last = seconds_text(median(each.found.checkpoint_s[-LAST:]))
    return (
        f"Alone with the settings that were found: {each.found.whole_s:.1f} s, a checkpoint blocked {last}."
    )


def _with_bounds(middle: Callable[[Sequence[float]], float], values_s: Sequence[float]) -> str:
    if len(values_s) == 1:
        return seconds_text(values_s[0])
    scale, unit, digits = (1e3, "ms", 1) if max(values_s) < 1 else (1.0, "s", 2)
    shown_s = (middle(values_s), min(values_s), max(values_s))
    mid, low, high = (f"{each * scale:.{digits}f}" for each in shown_s)
    return f"{mid} {unit}\n({low} - {high})"
