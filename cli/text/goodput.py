"""Where the time of jobs went, as people read it, and as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...daemon.views import GoodputView
from ...goodput.account import Account
from ...goodput.account import Window as LedgerWindow
from ...goodput.peer_rules.differences import Difference
from ...goodput.readers import resiliency
from ...goodput.steps.types import StepSummary
from ...units import count_text
from ..format import printable
from ..views.goodput import CompatView, JobGoodputView, JobView, LogsView
from . import gains, steps, tables

_MILLISECOND_S = 1e-3
_SHOWN_PERCENT = 0.05


def csv_of_logs(view: LogsView) -> str:
    """Return one line for each kind of time of each policy, and for steps."""
    return _csv((job.job_name, *row) for job in view.jobs for row in _csv_rows(job))


def csv_of_job(view: JobGoodputView) -> str:
    """Return one line for each bucket of a job of scrtune's, and for its steps."""
    rows = [*_account_rows(view.account), *_step_rows(view.steps)]
    return _csv((view.job_name, *row) for row in rows)


def _csv(rows: Iterable[Sequence[float | str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("job", "policy", "what", "seconds", "percent"))
    writer.writerows(rows)
    return out.getvalue()


def _csv_rows(job: JobView) -> Iterator[tuple[str, str, float, float | str]]:
    metrics = job.metrics
    yield "resiliency", "total_runtime", metrics.total_runtime_s, 100.0
    if metrics.effective_computation_time_s is not None:
        percent = metrics.goodput_percentage
        effective_s = metrics.effective_computation_time_s
        yield "resiliency", "effective_computation_time", effective_s, "" if percent is None else percent
    if job.conserving is not None:
        yield from _account_rows(job.conserving)
    if job.compat is not None:
        for what, spent_s in _compat_rows(job.compat):
            yield "compat", what, spent_s, spent_s / job.compat.total_s * 100
        yield "compat", "total", job.compat.total_s, 100.0
    yield from _step_rows(job.steps)


def _account_rows(account: Account | LedgerWindow) -> Iterator[tuple[str, str, float, float]]:
    for bucket, spent_s in account.buckets.items():
        yield "conserving", bucket, spent_s, spent_s / account.wall_s * 100 if account.wall_s else 0.0
    yield "conserving", "wall_time", account.wall_s, 100.0


def _step_rows(summary: StepSummary | None) -> Iterator[tuple[str, str, float, float]]:
    if summary is not None:
        yield from (("steps", *row) for row in steps.rows(summary))


def _compat_rows(compat: CompatView) -> Iterator[tuple[str, float]]:
    yield "productive", compat.productive_s
    for badput, spent in compat.badput_s.items():
        if isinstance(spent, dict):
            yield from ((f"{badput}:{name}", part_s) for name, part_s in spent.items())
        else:
            yield badput, spent


def job(view: JobGoodputView) -> RenderableType:
    """Return where the time of a job of scrtune's went, what each change gained, and what its steps took."""
    spent = gains.goodput(view, tells_steps=view.tells_steps)
    return Group(heading(view.job_name), "", spent, *_steps(view.steps))


def heading(job_name: str) -> str:
    """Return the line above a job, as the resiliency library has it."""
    return f"=== Goodput Analysis for Job: {printable(job_name) or '(no name)'} ==="


def _steps(summary: StepSummary | None) -> list[RenderableType]:
    return [] if summary is None else ["", steps.table(summary)]


def logs(view: LogsView) -> RenderableType:
    """Return all jobs, one below the other, as tables."""
    return Group(*(part for each in view.jobs for part in _parts(each)))


def _parts(job: JobView) -> list[RenderableType]:
    parts: list[RenderableType] = ["", heading(job.job_name), "", _metrics_table(job.metrics)]
    if job.window is not None:
        parts += ["", _window_text(job.window, job.conserving)]
    if isinstance(job.conserving, Account):
        account = job.conserving
        gained = GoodputView(goodput=account.goodput, account=account, costs=(), gains=job.gains)
        parts += ["", gains.goodput(gained, tells_steps=job.tells_steps)]
    elif job.conserving is not None and job.conserving.wall_s:
        parts += ["", tables.buckets(job.conserving, "window"), f"goodput {job.conserving.goodput:.1%}"]
    if two := _two_goodputs(job):
        parts.append(Text(two, style="dim"))
    parts += _steps(job.steps)
    if job.compat is not None:
        parts += ["", _compat_table(job.compat, tells_steps=job.tells_steps)]
    if job.no_compat:
        parts += ["", Text(f"compat: {job.no_compat}")]
    if job.differences:
        parts += ["", _differences_table(job.differences)]
    return parts


def _window_text(asked: tuple[float, float], found: Account | LedgerWindow | None) -> str:
    """Return the window, and what of it the job has."""
    text = f"From {_moment(asked[0])} to {_moment(asked[1])}"
    if not isinstance(found, LedgerWindow) or abs(found.wall_s - (asked[1] - asked[0])) < _MILLISECOND_S:
        return f"{text}:"
    if not found.wall_s:
        return f"{text}: the job has nothing of it"
    return f"{text}; the job has that from {_moment(found.start_s)} to {_moment(found.end_s)}:"


def _moment(time_s: float) -> str:
    return resiliency.moment(time_s, milliseconds=True)


def _two_goodputs(job: JobView) -> str:
    """Return why the table and the buckets have different goodputs, if both are shown and do."""
    theirs = job.metrics.goodput_percentage
    if theirs is None or job.goodput is None or abs(theirs - 100 * job.goodput) < _SHOWN_PERCENT:
        return ""
    whole = " of the whole job" if job.window is not None else ""
    return (
        f"The table's {theirs:.2f}%{whole} is steps saved x reference step time / total runtime;"
        f" {job.goodput:.1%} here is productive time / wall time."
    )


def _metrics_table(metrics: resiliency.Metrics) -> Table:
    table = Table(box=box.ASCII_DOUBLE_HEAD, show_lines=True)
    table.add_column("Metric")
    table.add_column("Value", min_width=7)
    for row in resiliency.rows(metrics):
        table.add_row(*row)
    return table


def _compat_table(compat: CompatView, *, tells_steps: bool) -> RenderableType:
    table = tables.plain_table("by ml-goodput-measurement", "seconds", "share", right=("seconds", "share"))
    total_s = compat.total_s
    for what, spent_s in _compat_rows(compat):
        if spent_s:
            table.add_row(printable(what), f"{spent_s:.3f}", f"{spent_s / total_s:.1%}")
    table.add_row("total", f"{total_s:.3f}", "100.0%", style="bold")
    disruptions = count_text(compat.disruptions, "disruption")
    last = f"last step {compat.last_step}, " if tells_steps else ""
    return Group(table, f"{last}{disruptions}; goodput {compat.goodput_percent:.1f}%")


def _differences_table(found: Iterable[Difference]) -> Table:
    table = tables.plain_table(
        "where they differ", "conserving", "compat", "why (there: compat)", right=("conserving", "compat")
    )
    above = ""
    for each in found:
        here, there = f"{each.conserving_s:.3f}", f"{each.compat_s:.3f}"
        if here != there:
            table.add_row(printable(each.what), here, there, "the same" if each.why == above else each.why)
            above = each.why
    return table
