"""`scrtune goodput LOG...`: where the time of a job went, from whatever log there is of it."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import click
import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..goodput import resiliency
from ..goodput.compat_rules import CompatAccount, CompatError, compat_account, compat_window
from ..goodput.differences import Difference, differences
from ..goodput.events import GoodputEvent
from ..goodput.formats import JobLog
from ..goodput.ledger import Account, Ledger
from ..goodput.ledger import Window as LedgerWindow
from ..goodput.sanity import span
from ..intents.intent import counted
from . import show
from .check_command import printable
from .goodput_logs import LogError, read_logs
from .views import GoodputView

__all__ = [
    "FORMATS",
    "POLICIES",
    "LogError",
    "UnknownJobError",
    "csv_of_account",
    "refuse_without_logs",
    "report",
    "show_logs",
    "window_of",
]

Policy = Literal["conserving", "compat", "both"]
POLICIES = get_args(Policy)
FORMATS = ("table", "json", "csv")

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LAST = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)")
_NUMBER = re.compile(r"-?\d{1,11}(\.\d{1,9})?")
_WINDOW_HELP = "START..END or LAST, as in 900, 15m, 2h or 1d"


class Window(msgspec.Struct, frozen=True):
    """A part of a job's time: from `start_s` to `end_s` (epoch seconds, None: all), or its last seconds."""

    start_s: float | None = None
    end_s: float | None = None
    last_s: float | None = None

    def of(self, events: Sequence[GoodputEvent]) -> tuple[float, float]:
        """Where it lies for a job with these events."""
        first_s = min(span(event)[0] for event in events)
        final_s = max(span(event)[1] for event in events)
        if self.last_s is not None:
            return final_s - self.last_s, final_s
        return (
            first_s if self.start_s is None else self.start_s,
            final_s if self.end_s is None else self.end_s,
        )


class UnknownJobError(LookupError):
    """The logs have no such job, or none at all; the text says which there are."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's logs say. Of the policies that were not asked for there is nothing.

    `metrics` are those of the resiliency library. `window` is the part that was asked for, as epoch seconds;
    `goodput` is the conserving one, 0 to 1; `no_compat` says why the peer's rules give nothing.
    """

    job_name: str
    events: int
    metrics: resiliency.Metrics
    window: tuple[float, float] | None = None
    goodput: float | None = None
    conserving: Account | LedgerWindow | None = None
    compat: dict[str, Any] | None = None
    no_compat: str = ""
    differences: tuple[Difference, ...] = ()


class LogsView(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs of the logs, and what of the logs could not be read."""

    jobs: tuple[JobView, ...]
    entries: dict[str, int]
    ignored: dict[str, int]
    garbage: int
    lost: int
    problems: tuple[str, ...]


def window_of(_context: click.Context, _option: click.Parameter, text: str | None) -> Window | None:
    """A click callback: the window that `text` describes."""
    if text is None:
        return None
    start, between, end = text.partition("..")
    if not between:
        match = _LAST.fullmatch(text)
        if match is None or not (last_s := float(match[1]) * _UNITS[match[2]]):
            raise click.BadParameter(f"{text!r} is no window; write {_WINDOW_HELP}")
        return Window(last_s=last_s)
    try:
        window = Window(start_s=_moment_s(start), end_s=_moment_s(end))
    except ValueError as error:
        raise click.BadParameter(f"{error}; write times as 2025-09-27T04:51:00 or epoch seconds") from None
    if window.start_s is not None and window.end_s is not None and window.start_s >= window.end_s:
        raise click.BadParameter(f"{text!r} ends before it starts")
    return window


def _moment_s(text: str) -> float | None:
    """Epoch seconds, or a time as the logs write it (UTC unless it says its zone); None for nothing."""
    if not text:
        return None
    return float(text) if _NUMBER.fullmatch(text) else resiliency.microseconds(text) / 1e6


def show_logs(paths: Iterable[Path], job_id: str | None, form: str, **wanted: Any) -> None:
    """Print what the logs at `paths` say; what cannot be read of them goes to standard error.

    Raises click.UsageError, and what :func:`report` raises.
    """
    if job_id is not None:
        raise click.UsageError("--job-id is about a job of scrtune's; of LOG, name one with --job-name")
    view = report(paths, **wanted)
    for problem in view.problems:
        click.echo(printable(f"scrtune: {problem}"), err=True)
    if view.lost:
        click.echo(f"scrtune: {counted(view.lost, 'event')} were lost before they were logged", err=True)
    if form == "table":
        show.console().print(shown(view))
    else:
        click.echo(text_of(view, form), nl=False)


def refuse_without_logs(*, policy: str, **wanted: object) -> None:
    """Raises click.UsageError for an option that only a LOG can have."""
    named = [name for name, value in wanted.items() if value is not None]
    if policy != "conserving":
        named.append("policy")
    if named:
        option = named[0].removesuffix("_s").replace("_", "-")
        raise click.UsageError(f"--{option} needs a LOG; a job's daemon writes the file 'journal'")


def csv_of_account(account: Account) -> str:
    """One line for each bucket of a job of scrtune's."""
    return _csv(("", *row) for row in _account_rows(account))


def report(
    paths: Iterable[Path],
    *,
    job_name: str | None = None,
    reference_step_time_s: float | None = None,
    window: Window | None = None,
    policy: Policy = "conserving",
) -> LogsView:
    """What the logs at `paths` say of their jobs, or of the one that is named.

    Raises UnknownJobError, :class:`.goodput_logs.LogError`, :class:`.journal.JournalError` and OSError.
    """
    logs = read_logs(paths)
    found = {name: log for name, log in logs.jobs.items() if log.events or log.launcher}
    if job_name is not None:
        if job_name not in found:
            raise UnknownJobError(f"no job {job_name!r} in these logs; {_listed(found)}")
        found = {job_name: found[job_name]}
    if not found:
        first = f": {logs.problems[0]}" if logs.problems else ""
        raise UnknownJobError(f"these logs say nothing of a job's time{first}")
    return LogsView(
        jobs=tuple(
            _job_view(name, log, reference_step_time_s, window, policy) for name, log in sorted(found.items())
        ),
        entries=dict(logs.forms),
        ignored=dict(logs.ignored),
        garbage=logs.garbage,
        lost=logs.lost,
        problems=tuple(logs.problems),
    )


def _listed(jobs: Iterable[str]) -> str:
    names = sorted(map(repr, filter(None, jobs)))
    return f"there are {', '.join(names[:20])}" if names else "they name no job"


def _job_view(
    name: str, log: JobLog, reference_step_time_s: float | None, window: Window | None, policy: Policy
) -> JobView:
    events = log.timeline()
    launcher = log.launcher or resiliency.from_goodput_events(events)
    if not events:  # a launcher's log of which no run is left
        metrics = resiliency.metrics(launcher, reference_step_time_s)
        return JobView(job_name=name, events=0, metrics=metrics)
    bounds = window.of(events) if window else None
    conserving = _conserving(events, reference_step_time_s, bounds) if policy != "compat" else None
    compat, no_compat = _compat(events, bounds) if policy != "conserving" else (None, "")
    differ: list[Difference] = []
    if conserving is not None and compat is not None:
        differ = differences(conserving.buckets, conserving.wall_s, compat, events)
    return JobView(
        job_name=name,
        events=len(events),
        metrics=resiliency.metrics(launcher, reference_step_time_s),
        window=bounds,
        goodput=None if conserving is None else conserving.goodput,
        conserving=conserving,
        compat=_compat_view(compat) if compat is not None else None,
        no_compat=no_compat,
        differences=tuple(differ),
    )


def _conserving(
    events: Sequence[GoodputEvent], reference_step_time_s: float | None, bounds: tuple[float, float] | None
) -> Account | LedgerWindow:
    ledger = Ledger(remembered=None)  # a window may lie anywhere
    ledger.extend(events)
    now_s = max(span(event)[1] for event in events)
    if bounds is None:
        return ledger.account(now_s, reference_step_s=reference_step_time_s)
    return ledger.window(*bounds, now_s, reference_step_s=reference_step_time_s)


def _compat(
    events: Sequence[GoodputEvent], bounds: tuple[float, float] | None
) -> tuple[CompatAccount | None, str]:
    elastic = any(getattr(event, "kind", "").startswith("elastic") for event in events)
    try:
        if bounds is not None:
            return compat_window(events, *bounds, elastic=elastic), ""
        return compat_account(events, max(span(event)[1] for event in events), elastic=elastic), ""
    except CompatError as error:
        return None, str(error)


def _compat_view(account: CompatAccount) -> dict[str, Any]:
    return {
        "total_s": account.total_s,
        "productive_s": account.productive_s,
        "goodput_percent": account.goodput_percent,
        "badput_s": {badput.name: spent for badput, spent in account.badput_s.items()},
        "breakdown_percent": {badput.name: share for badput, share in account.breakdown().items()},
        "max_productive_step": account.max_productive_step,
        "last_step": account.last_step,
        "disruptions": account.disruptions,
    }


def text_of(view: LogsView, form: str) -> str:
    """`view` as one JSON object, or as CSV: one line for each kind of time of each policy."""
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(view), indent=2).decode() + "\n"
    return _csv((job.job_name, *row) for job in view.jobs for row in _csv_rows(job))


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
        total_s = job.compat["total_s"]
        for what, spent_s in _compat_rows(job.compat):
            yield "compat", what, spent_s, spent_s / total_s * 100
        yield "compat", "total", total_s, 100.0


def _account_rows(account: Account | LedgerWindow) -> Iterator[tuple[str, str, float, float]]:
    for bucket, spent_s in account.buckets.items():
        yield "conserving", bucket, spent_s, spent_s / account.wall_s * 100 if account.wall_s else 0.0
    yield "conserving", "wall_time", account.wall_s, 100.0


def _compat_rows(compat: dict[str, Any]) -> Iterator[tuple[str, float]]:
    yield "productive", compat["productive_s"]
    for badput, spent in compat["badput_s"].items():
        if isinstance(spent, dict):
            yield from ((f"{badput}:{name}", part_s) for name, part_s in spent.items())
        else:
            yield badput, spent


def shown(view: LogsView) -> RenderableType:
    """All jobs, one below the other, as tables."""
    parts: list[RenderableType] = []
    for job in view.jobs:
        parts += ["", f"=== Goodput Analysis for Job: {printable(job.job_name) or '(no name)'} ===", ""]
        parts.append(_metrics_table(resiliency.rows(job.metrics)))
        if job.window is not None:
            parts.append(f"\nFrom {job.window[0]:.3f} to {job.window[1]:.3f} (epoch seconds):")
        if isinstance(job.conserving, Account):
            account = job.conserving
            parts += ["", show.goodput(GoodputView(goodput=account.goodput, account=account, costs=()))]
        elif job.conserving is not None:
            parts += ["", _window_table(job.conserving)]
        if job.compat is not None:
            parts += ["", _compat_table(job.compat)]
        if job.no_compat:
            parts += ["", Text(f"compat: {job.no_compat}")]
        if job.differences:
            parts += ["", _differences_table(job.differences)]
    return Group(*parts)


def _metrics_table(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=box.ASCII_DOUBLE_HEAD, show_lines=True)
    table.add_column("Metric")
    table.add_column("Value", min_width=7)
    for row in rows:
        table.add_row(*row)
    return table


def _window_table(window: LedgerWindow) -> RenderableType:
    table = show.plain_table("where the time went", "seconds", "share", right=("seconds", "share"))
    for bucket, spent_s in sorted(window.buckets.items(), key=lambda item: -item[1]):
        if spent_s > 0:
            table.add_row(printable(bucket), f"{spent_s:.3f}", f"{spent_s / window.wall_s:.1%}")
    table.add_row("window", f"{window.wall_s:.3f}", "100.0%" if window.wall_s else "-", style="bold")
    return Group(table, f"goodput {window.goodput:.1%}")


def _compat_table(compat: dict[str, Any]) -> RenderableType:
    table = show.plain_table("by ml-goodput-measurement", "seconds", "share", right=("seconds", "share"))
    total_s = compat["total_s"]
    for what, spent_s in _compat_rows(compat):
        if spent_s:
            table.add_row(printable(what), f"{spent_s:.3f}", f"{spent_s / total_s:.1%}")
    table.add_row("total", f"{total_s:.3f}", "100.0%", style="bold")
    disruptions = counted(compat["disruptions"], "disruption")
    steps = f"last step {compat['last_step']}, {disruptions}"
    return Group(table, f"{steps}; goodput {compat['goodput_percent']:.1f}%")


def _differences_table(found: Iterable[Difference]) -> Table:
    table = show.plain_table(
        "where they differ", "conserving", "compat", "why (there: compat)", right=("conserving", "compat")
    )
    for each in found:
        table.add_row(printable(each.what), f"{each.conserving_s:.3f}", f"{each.compat_s:.3f}", each.why)
    return table
