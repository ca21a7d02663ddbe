"""The tables that only the page of a job has; those that commands print as well are in `cli/tables`."""

from ...goodput.buckets import TUNING
from ...goodput.report import Report
from ...goodput.report_lanes import by_kind
from ...units import duration_text
from ..blocks import Swatch, Table, table
from ..tables.goodput import estimate_text, steps_table
from .theme import colour_of, group_of

_LEAST_S = 0.0005
"""A shorter time would be shown as 0.000 s."""
_BAR = 6.0
"""Ems: the width of a bar for all of the time."""


def _seconds(value_s: float) -> str:
    return f"{value_s:,.3f}"


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
    """Return what steps took, as the terminal has it, and which share of them how much; else no row."""
    if report.steps is None:
        return table(rows=())
    shares = [f"{share} % at most {duration_text(s)}" for share, s in report.steps.percentiles_s.items()]
    shares.append(f"the longest {duration_text(report.steps.most_s)}")
    note = f"A step that was computed again counts again. Of all {', '.join(shares)}."
    return steps_table(report.steps.summary)._replace(title="What steps took", note=note)
