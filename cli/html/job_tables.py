"""The tables that only the page of a job has; those that commands print as well are in `cli/tables`."""

from collections.abc import Iterator, Sequence

from ...daemon.views import ExplainView
from ...goodput.buckets import TUNING
from ...goodput.report import Report
from ...goodput.report_lanes import by_kind
from ...units import count_text, duration_text
from ..blocks import DIM, Cell, Lines, Styled, Swatch, Table, table
from ..format import value_text
from ..tables.goodput import GAINS_NOTE, estimate_text
from ..views.tuner_changes import TunerChange
from .theme import colour_of, group_of

_LEAST_S = 0.0005
"""A shorter time would be shown as 0.000 s."""
_BAR = 6.0
"""Ems: the width of a bar for all of the time."""


def _seconds(value_s: float) -> str:
    return f"{value_s:,.3f}"


def changes(found: Sequence[TunerChange], start_s: float) -> Table:
    """Return a row for each change of the tuner in a job that began at `start_s`."""
    headings = (">saves", ">so far", ">before", ">checkpoints", ">at", ">gen")
    note = f"{GAINS_NOTE} Times are since the job began."
    rows = (_change(each, start_s) for each in found)
    return table(
        "change and reason", *headings, rows=rows, title="Changes of the tuner", note=note, kind="changes"
    )


def _change(change: TunerChange, start_s: float) -> Sequence[Cell]:
    decision, gain = change.decision, change.gain
    what = change.what.replace(" -> ", "\N{NO-BREAK SPACE}\N{RIGHTWARDS ARROW}\N{NO-BREAK SPACE}")
    about = (Styled(change.name), what, Styled(decision.because, DIM), Styled(change.word))
    at = (duration_text(decision.time_s - start_s), str(decision.generation))
    reason = (change.ended.because,) if change.ended else ()
    if gain is None:
        return (Lines((*about, *reason)), *["-"] * 4, *at)
    saves = f"{_seconds(gain.saved_s)}\n{gain.low_s:.3f} to {gain.high_s:.3f}"
    seen = (_seconds(gain.total_s), _seconds(gain.before_s), f"{gain.checkpoints:,}")
    return (Lines((*about, *reason)), saves, *seen, *at)


def settings(found: ExplainView) -> Table:
    """Return a row for each parameter, with the best other value of those that scrtune may change."""
    levers = {each.name: each for each in found.levers}
    rows: list[Sequence[Cell]] = []
    for name, active in sorted(found.settings.items()):
        own, lever, shown = found.baseline.get(name), levers.get(name), value_text(active)
        other = "" if lever is None or lever.other is None else value_text(lever.other)
        cells = (value_text(own), found.sources.get(name, ""), shown if active == own else Styled(shown))
        rows.append((name, *cells, other, lever.why if lever else ""))
    headings = ("parameter", "yours", "from", "in force", "best other", "why")
    note = (
        "In force: at the end, or now while the job runs. The best other value is with all else as goes best"
        " with it."
    )
    return table(*headings, rows=rows, title="Settings", note=note, kind="texts")


def account(report: Report) -> Table:
    """Return a row for each bucket, as the figure has them."""
    whole_s = report.account.wall_s
    rows = (
        (
            *(_bucket(name), group_of(name), _seconds(spent_s)),
            Swatch(f"{spent_s / whole_s:.2%}", colour_of(name), _BAR * spent_s / whole_s),
        )
        for name, spent_s in report.spent
        if spent_s >= _LEAST_S
    )
    note = "Every second lies in one bucket; docs/goodput.md defines them."
    return table(
        *("bucket", "shown as", ">seconds", ">share"),
        rows=rows,
        title="Where the time went",
        note=f"{note} {estimate_text(report.estimated)}" if report.estimated else note,
        total=("wall time", "", _seconds(whole_s), "100.00%"),
    )


def _bucket(name: str) -> Swatch:
    return Swatch(name, colour_of(name))


def costs(report: Report) -> Table:
    """Return a row for each part of what checkpoints cost."""
    count, seen, parts = report.checkpoints, report.account.checkpoints, report.cost_parts
    total_s = sum(parts.values())
    rows = (
        (_bucket(name), _seconds(spent_s), duration_text(spent_s / count), f"{spent_s / total_s:.1%}")
        for name, spent_s in parts.items()
        if spent_s >= _LEAST_S
    )
    out_of = f" out of {seen:,}" if seen > count else ""
    tuning = " In the account trials are tuning." if report.account.buckets[TUNING] > 0 else ""
    return table(
        *("bucket", ">seconds", ">mean", ">share"),
        rows=rows,
        title="What checkpoints cost",
        note=f"Measured, of {count:,}{out_of}: blocking, and the slowdown of steps by flushes.{tuning}",
        total=("all", _seconds(total_s), duration_text(total_s / count), "100.0%"),
    )


def lanes(report: Report) -> Table:
    """Return a row for each kind of event."""
    spent_s = report.account.buckets
    rows = (
        (
            *(each.name, f"{each.events:,}"),
            *(
                (_seconds(each.busy_s), duration_text(each.busy_s / each.events))
                if each.busy_s >= _LEAST_S
                else ("-", "-")
            ),
            _seconds(spent_s[each.name]) if each.name in spent_s else "-",
        )
        for each in report.lanes
    )
    note = (
        "By their own times, which may overlap. The account has every moment once, and also the time between"
        " two runs."
    )
    headings = ("kind", ">events", ">seconds", ">mean", ">in the account")
    return table(*headings, rows=rows, title="What happened", note=note)


def disruptions(report: Report) -> Table:
    """Return a row for each kind of disruption."""
    rows = (
        (
            *(kind, f"{len(group):,}", nodes or "-"),
            *(duration_text(each.time_s - report.account.start_s) for each in (group[0], group[-1])),
        )
        for kind, group, nodes in by_kind(report.disruptions)
    )
    note = "First and last are since the job began."
    return table("what", ">times", "which", ">first", ">last", rows=rows, title="Disruptions", note=note)


def steps(report: Report) -> Table:
    """Return what steps took; without steps no row."""
    rows, note = [(name, duration_text(took_s)) for name, took_s in _step_times(report)], ""
    if report.steps is not None:
        found = report.steps.summary
        why = f" Stragglers cannot be determined: {found.no_stragglers}." if found.no_stragglers else ""
        note = f"{count_text(found.steps, 'step')}; a step that was computed again counts again.{why}"
    return table("", ">time", rows=rows, title="What steps took", note=note)


def _step_times(report: Report) -> Iterator[tuple[str, float]]:
    """Yield what the table of step times has, in seconds."""
    if (steps := report.steps) is None:
        return
    summary = steps.summary
    yield from (("ideal", summary.ideal_s), ("mean", summary.mean_s))
    yield from ((f"{share} % took at most", took_s) for share, took_s in steps.percentiles_s.items())
    yield from (("longest", steps.most_s), ("mean distance from the ideal", summary.deviation_s))
    for each in summary.stragglers:
        yield f"straggler {each.writer}: {each.ratio:.2f} x the others", each.took_s
