"""Where the time of jobs went: `scrtune goodput`, of a job of scrtune's or of whatever logs there are."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ...client.paths import JobPaths
from ...daemon.journal.records import JournalError
from ...daemon.views import GoodputView
from ...goodput.compat.differences import Difference, differences
from ...goodput.compat.rules import CompatAccount, CompatError, compat_account, compat_window
from ...goodput.ledger.ledger import Account
from ...goodput.ledger.ledger import Window as LedgerWindow
from ...goodput.readers import resiliency
from ...goodput.readers.launcher_log import EstimatedLoss, estimated_loss, with_real_end
from ...intents.tune.gains import GainView
from ..errors import UnknownJobError
from ..jobs import record as job_record
from ..jobs import state as job_state
from ..jobs.record import JobRecord

if TYPE_CHECKING:
    from ...goodput.steps.summary import StepSummary

Policy = Literal["conserving", "compat", "both"]
Bounds = tuple[float, float]

_MILLISECOND_S = 1e-3


class TimeWindow(msgspec.Struct, frozen=True):
    """A part of a job's time: from `start_s` to `end_s` (epoch seconds, None: all), or its last seconds."""

    start_s: float | None = None
    end_s: float | None = None
    last_s: float | None = None

    def of(self, account: Account) -> Bounds:
        """Return where it lies for a job with this account, in epoch seconds."""
        first_s, final_s = account.start_s, account.start_s + account.wall_s
        if self.last_s is not None:
            return final_s - self.last_s, final_s
        return (
            first_s if self.start_s is None else self.start_s,
            final_s if self.end_s is None else self.end_s,
        )


class GoodputQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about a job's time; None leaves it as it is without."""

    reference_step_time_s: float | None = None
    window: TimeWindow | None = None
    policy: Policy | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked beyond where all of the time went."""
        return self == GoodputQuery()

    def has(self, policy: Policy) -> bool:
        """Return whether the account by `policy` is wanted: conserving, unless another was named."""
        return (self.policy or "conserving") in (policy, "both")


class CompatView(msgspec.Struct, frozen=True, kw_only=True):
    """A job's time by the rules of ml-goodput-measurement; badput by its name, some of it in parts."""

    total_s: float
    productive_s: float
    goodput_percent: float
    badput_s: dict[str, float | dict[str, float]]
    breakdown_percent: dict[str, float | dict[str, float]]
    max_productive_step: int
    last_step: int
    disruptions: int


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's logs say. Of the policies that were not asked for there is nothing.

    `events` are the entries that were read, `metrics` those of the resiliency library, of its own logs.
    `window` is the part that was asked for, as epoch seconds; `goodput` is the conserving one, 0 to 1;
    `no_compat` says why the peer's rules give nothing. `steps` are those of the window, None if no step is
    known to have ended, or where not `tells_steps`: without steps of the application's own, its work between
    outputs is counted.
    `gains` is what each change of the tuner gained, by the journal of the job's daemon. `estimated` is what
    of the buckets of a launcher's log is an estimate.
    """

    job_name: str
    events: int
    metrics: resiliency.Metrics | None = None
    window: Bounds | None = None
    goodput: float | None = None
    conserving: Account | LedgerWindow | None = None
    compat: CompatView | None = None
    no_compat: str = ""
    differences: tuple[Difference, ...] = ()
    steps: "StepSummary | None" = None
    tells_steps: bool = True
    gains: tuple[GainView, ...] = ()
    estimated: EstimatedLoss | None = None


class JobGoodputView(GoodputView, frozen=True, kw_only=True):
    """Where the time of a job of scrtune's went, and what its steps took, as far as its journal says.

    `steps` and `tells_steps` are as in :class:`JobView`.
    """

    job_name: str
    steps: "StepSummary | None" = None
    tells_steps: bool = True

    @property
    def jobs(self) -> tuple[JobView]:
        """The same as of logs."""
        shared = {
            name: getattr(self, name) for name in ("job_name", "goodput", "gains", "steps", "tells_steps")
        }
        return (JobView(events=0, conserving=self.account, **shared),)


class LogsView(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs of the logs, and what of the logs could not be read, or came more than once."""

    jobs: tuple[JobView, ...]
    entries: dict[str, int]
    ignored: dict[str, int] = {}
    garbage: int = 0
    lost: int = 0
    problems: tuple[str, ...] = ()
    repeated: int = 0


def of_running_or_ended(paths: JobPaths) -> JobGoodputView:
    """Return the view of a job of scrtune's; its steps are in its journal, if that can be read here.

    Raises what :func:`.state.goodput` raises.
    """
    view = job_state.goodput(paths)
    steps, tells_steps = None, True
    with contextlib.suppress(OSError, JournalError, UnknownJobError):
        job = job_record.of_job(paths)
        steps, tells_steps = _steps(job), job.tells_steps
    fields = msgspec.structs.asdict(view)
    return JobGoodputView(job_name=paths.job_id, steps=steps, tells_steps=tells_steps, **fields)


def of_journal(paths: JobPaths, query: GoodputQuery) -> LogsView:
    """Return what the journal of a job of scrtune's says. Raises what :func:`.record.of_job` raises."""
    job = job_record.of_job(paths)
    return LogsView(jobs=(_job_view(job, query),), entries={"journal": len(job.events)})


def of_logs(paths: Sequence[Path], job_name: str | None, query: GoodputQuery) -> LogsView:
    """Return what logs say of their jobs, or of the one that is named.

    Raises what :func:`.record.of_logs` raises.
    """
    found, logs = job_record.of_logs(paths, job_name)
    return LogsView(
        jobs=tuple(_job_view(each, query) for each in found),
        entries=dict(logs.forms),
        ignored=dict(logs.ignored),
        problems=tuple(logs.problems),
        **{name: getattr(logs, name) for name in ("garbage", "lost", "repeated")},
    )


def _job_view(job: JobRecord, query: GoodputQuery) -> JobView:
    reference_s, is_conserving = query.reference_step_time_s, query.has("conserving")
    bounds = query.window.of(job.account) if query.window else None
    conserving: Account | LedgerWindow | None = None
    if is_conserving and bounds is None:
        conserving = job.ledger.account(job.now, reference_step_s=reference_s)
    elif is_conserving and bounds is not None:
        conserving = job.ledger.window(*bounds, job.now, reference_step_s=reference_s)
    compat, no_compat = _compat(job, bounds) if query.has("compat") else (None, "")
    differ: list[Difference] = []
    if conserving is not None and compat is not None:
        differ = differences(conserving.buckets, conserving.wall_s, compat)
    return JobView(
        job_name=job.name,
        events=job.read,
        metrics=resiliency.metrics(job.launcher, reference_s) if job.launcher else None,
        window=bounds,
        goodput=None if conserving is None else conserving.goodput,
        conserving=conserving,
        compat=_compat_view(compat) if compat is not None else None,
        no_compat=no_compat,
        differences=tuple(differ),
        steps=_steps(job, bounds),
        tells_steps=job.tells_steps,
        gains=job.gains if is_conserving else (),
        estimated=estimated_loss(job.events) if job.launcher and is_conserving else None,
    )


def _steps(job: JobRecord, bounds: Bounds | None = None) -> "StepSummary | None":
    from ...goodput.steps.summary import step_summary  # noqa: PLC0415 - numpy, only when it is used

    return step_summary(job.events, bounds, by_number=bool(job.launcher))


def _compat(job: JobRecord, bounds: Bounds | None) -> tuple[CompatAccount | None, str]:
    events = with_real_end(job.events, job.launcher)
    kinds = {kind for kind, _, _ in events.borders} | {getattr(event, "kind", "") for event in events.others}
    elastic = any(kind.startswith("elastic") for kind in kinds)
    last_s = float(events.times_s().max())
    runs_on = job.account.start_s + job.account.wall_s > last_s + _MILLISECOND_S
    try:
        if bounds is not None:
            return compat_window(events, *bounds, elastic=elastic), ""
        return compat_account(events, job.now if runs_on else last_s, elastic=elastic), ""
    except CompatError as error:
        return None, str(error)


def _compat_view(account: CompatAccount) -> CompatView:
    own = ("total_s", "productive_s", "goodput_percent", "max_productive_step", "last_step", "disruptions")
    return CompatView(
        badput_s={badput.name: spent for badput, spent in account.badput_s.items()},
        breakdown_percent={badput.name: share for badput, share in account.breakdown().items()},
        **{name: getattr(account, name) for name in own},
    )
