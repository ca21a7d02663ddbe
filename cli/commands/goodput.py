"""`scrtune goodput`: where the time of a job went, from its daemon or from whatever log there is of it."""

import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import click
import msgspec

from ...client.paths import JobPaths
from ...daemon.journal import JournalError
from ...daemon.views import GoodputView
from ...goodput.events import GoodputEvent
from ...goodput.ledger.ledger import Account
from ...goodput.ledger.ledger import Window as LedgerWindow
from ...goodput.peer_rules.differences import Difference, differences
from ...goodput.peer_rules.rules import CompatAccount, CompatError, compat_account, compat_window
from ...goodput.readers import resiliency
from ...goodput.readers.launcher_log import with_real_end
from ...goodput.steps.facts import StepSummary
from ...goodput.validation import span
from ...intents.tune.gains import GainView
from ...units import parse_duration_s
from .. import job_record as told
from .. import jobs
from ..job_record import Told, UnknownJobError
from ..logs import LogError

__all__ = [
    "FORMATS",
    "POLICIES",
    "JobGoodputView",
    "JobView",
    "LogError",
    "LogsView",
    "UnknownJobError",
    "of_job",
    "report",
    "report_job",
    "step_time_of",
    "window_of",
]

Policy = Literal["conserving", "compat", "both"]
POLICIES = get_args(Policy)
FORMATS = ("table", "json", "csv")

_NUMBER = re.compile(r"-?\d{1,11}(\.\d{1,9})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DAY_S = 86_400.0
_LONGEST_STEP_S = 1e9
_MILLISECOND_S = 1e-3
_WINDOW_HELP = "START..END, a day as 2025-09-27, or LAST as in 900, 15m or 15min, 2h or 1d"


class Window(msgspec.Struct, frozen=True):
    """A part of a job's time: from `start_s` to `end_s` (epoch seconds, None: all), or its last seconds."""

    start_s: float | None = None
    end_s: float | None = None
    last_s: float | None = None

    def of(self, account: Account) -> tuple[float, float]:
        """Where it lies for a job with this account."""
        first_s, final_s = account.start_s, account.start_s + account.wall_s
        if self.last_s is not None:
            return final_s - self.last_s, final_s
        return (
            first_s if self.start_s is None else self.start_s,
            final_s if self.end_s is None else self.end_s,
        )


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's logs say. Of the policies that were not asked for there is nothing.

    `events` are the entries that were read, `metrics` those of the resiliency library. `window` is the part
    that was asked for, as epoch seconds; `goodput` is the conserving one, 0 to 1; `no_compat` says why the
    peer's rules give nothing. `steps` are those of the window, None if no step is known to have ended, or
    where not `tells_steps`: of an application that tells of none the steps that are counted are its work
    between outputs. `gains` is what each change of the tuner gained, by the journal of the job's daemon.
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
    steps: StepSummary | None = None
    tells_steps: bool = True
    gains: tuple[GainView, ...] = ()


class JobGoodputView(GoodputView, frozen=True, kw_only=True):
    """Where the time of a job of scrtune's went, and what its steps took, as far as its journal says.

    `steps` and `tells_steps` are as in :class:`JobView`.
    """

    job_name: str
    steps: StepSummary | None = None
    tells_steps: bool = True


class LogsView(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs of the logs, and what of the logs could not be read, or came more than once."""

    jobs: tuple[JobView, ...]
    entries: dict[str, int]
    ignored: dict[str, int]
    garbage: int
    lost: int
    problems: tuple[str, ...]
    repeated: int = 0


def step_time_of(_context: click.Context, _option: click.Parameter, seconds: float | None) -> float | None:
    """A click callback: a reference step time that can be one."""
    if seconds is not None and not 0 < seconds < _LONGEST_STEP_S:
        raise click.BadParameter(f"{seconds:g} is no time of a step; write seconds, above 0")
    return seconds


def window_of(_context: click.Context, _option: click.Parameter, text: str | None) -> Window | None:
    """A click callback: the window that `text` describes."""
    if text is None:
        return None
    start, between, end = text.partition("..")
    if not between and not _DATE.fullmatch(text):
        try:
            return Window(last_s=parse_duration_s(text))
        except ValueError:
            raise click.BadParameter(f"{text!r} is no window; write {_WINDOW_HELP}") from None
    try:
        window = Window(start_s=_moment_s(start), end_s=_moment_s(end))
        if not between and window.start_s is not None:  # a day
            window = Window(start_s=window.start_s, end_s=window.start_s + _DAY_S)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write times as 2025-09-27T04:51:00 or epoch seconds") from None
    if window.start_s is not None and window.end_s is not None and window.start_s >= window.end_s:
        raise click.BadParameter(f"{text!r} ends before it starts")
    return window


def _moment_s(text: str) -> float | None:
    """Epoch seconds, or a time as the logs write it (UTC unless it says its zone); None for nothing.

    A date is the begin of that day. Raises ValueError.
    """
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        return float(text)
    return resiliency.microseconds(f"{text}T00:00:00" if _DATE.fullmatch(text) else text) / 1e6


def of_job(paths: JobPaths) -> JobGoodputView:
    """A job of scrtune's, running or not: its steps are in its journal, if that can be read here.

    Raises what :func:`.jobs.goodput` raises.
    """
    view = jobs.goodput(paths)
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    with contextlib.suppress(OSError, JournalError, jobs.UnknownJobError):
        job = told.of_job(paths)
        fields |= {"steps": _steps(job.events), "tells_steps": job.tells_steps}
    return JobGoodputView(job_name=paths.job_id, **fields)


def report(paths: Iterable[Path], *, job_name: str | None = None, **wanted: Any) -> LogsView:
    """What the logs at `paths` say of their jobs, or of the one that is named.

    `wanted` is what :func:`report_job` takes. Raises UnknownJobError, :class:`.goodput_logs.LogError`,
    :class:`.journal.JournalError` and OSError.
    """
    found, logs = told.of_logs(paths, job_name)
    return LogsView(
        jobs=tuple(_job_view(each, **wanted) for each in found),
        entries=dict(logs.forms),
        ignored=dict(logs.ignored),
        garbage=logs.garbage,
        lost=logs.lost,
        problems=tuple(logs.problems),
        repeated=logs.repeated,
    )


def report_job(
    paths: JobPaths,
    *,
    reference_step_time_s: float | None = None,
    window: Window | None = None,
    policy: Policy = "conserving",
) -> LogsView:
    """The same of a job of scrtune's, running or not, by its journal.

    Raises what :func:`.told.of_job` raises.
    """
    job = told.of_job(paths)
    view = _job_view(job, reference_step_time_s, window, policy)
    return LogsView(
        jobs=(view,), entries={"journal": len(job.events)}, ignored={}, garbage=0, lost=0, problems=()
    )


def _job_view(
    job: Told,
    reference_step_time_s: float | None = None,
    window: Window | None = None,
    policy: Policy = "conserving",
) -> JobView:
    events = job.events
    if job.launcher:
        metrics = resiliency.metrics(job.launcher, reference_step_time_s)
    else:
        metrics = resiliency.metrics_of_job(events, job.account, reference_step_time_s)
    bounds = window.of(job.account) if window else None
    conserving = _conserving(job, reference_step_time_s, bounds) if policy != "compat" else None
    compat, no_compat = _compat(job, bounds) if policy != "conserving" else (None, "")
    differ: list[Difference] = []
    if conserving is not None and compat is not None:
        begun = [event for event in events if bounds is None or bounds[0] <= span(event)[0] < bounds[1]]
        differ = differences(conserving.buckets, conserving.wall_s, compat, begun)
    return JobView(
        job_name=job.name,
        events=job.read,
        metrics=metrics,
        window=bounds,
        goodput=None if conserving is None else conserving.goodput,
        conserving=conserving,
        compat=_compat_view(compat) if compat is not None else None,
        no_compat=no_compat,
        differences=tuple(differ),
        steps=_steps(events, bounds),
        tells_steps=job.tells_steps,
        gains=job.gains if policy != "compat" else (),
    )


def _steps(events: Sequence[GoodputEvent], bounds: tuple[float, float] | None = None) -> StepSummary | None:
    from ...goodput.steps.summary import step_summary  # noqa: PLC0415 - numpy: who never asks shall not pay for it

    return step_summary(events, bounds)


def _conserving(
    job: Told, reference_step_time_s: float | None, bounds: tuple[float, float] | None
) -> Account | LedgerWindow:
    if bounds is None:
        return job.ledger.account(job.now, reference_step_s=reference_step_time_s)
    return job.ledger.window(*bounds, job.now, reference_step_s=reference_step_time_s)


def _compat(job: Told, bounds: tuple[float, float] | None) -> tuple[CompatAccount | None, str]:
    events = with_real_end(job.events, job.launcher)
    elastic = any(getattr(event, "kind", "").startswith("elastic") for event in events)
    last_s = max(span(event)[1] for event in events)
    runs_on = job.account.start_s + job.account.wall_s > last_s + _MILLISECOND_S
    try:
        if bounds is not None:
            return compat_window(events, *bounds, elastic=elastic), ""
        return compat_account(events, job.now if runs_on else last_s, elastic=elastic), ""
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
