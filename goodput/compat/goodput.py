"""The peer's modules `goodput` and `goodput_elastic`: recorders and calculators, over a local log."""

import datetime as dt
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import ClassVar

from .goodput_utils import (
    BadputTimes,
    BadputType,
    GoodputType,
    IntervalMetricType,
    IntervalWorkloadMetricDetails,
    MetricType,
    SliceEfficiency,
    WorkloadMetricDetails,
    compute_ideal_step_time,
    get_timestamp_from_log_entry,
)
from .recorder_names import Moment, PeerNames
from .rules import (
    CompatAccount,
    CompatError,
    CompatEvents,
    account_without,
    compat_account,
    compat_window,
    slice_efficiency,
    step_deviations,
)
from .store import CompatJob, Entry, PeerLogger, log_of, tell, utc_now

__all__ = [
    "BadputType",
    "ElasticGoodputCalculator",
    "ElasticGoodputRecorder",
    "GoodputCalculator",
    "GoodputRecorder",
    "GoodputType",
    "IntervalMetricType",
    "IntervalWorkloadMetricDetails",
    "MetricType",
    "UnproductiveTimeDict",
    "WorkloadMetricDetails",
    "compute_ideal_step_time",
    "get_timestamp_from_log_entry",
]

UnproductiveTimeDict = BadputTimes

# keys of entries, under the names that the peer's users read raw entries by
_JOB_NAME = "job_name"
_STEP_COUNT = "step_count"
_STEP_START_TIME = "step_start_time"
_JOB_START_TIME = "job_start_time"
_JOB_END_TIME = "job_end_time"
_TPU_INIT_START_TIME = "tpu_init_start_time"
_TPU_INIT_END_TIME = "tpu_init_end_time"
_TRAINING_PREPARATION_START_TIME = "training_prep_start_time"
_TRAINING_PREPARATION_END_TIME = "training_prep_end_time"
_DATA_LOADING_START_TIME = "data_loading_start_time"
_DATA_LOADING_END_TIME = "data_loading_end_time"
_CUSTOM_BADPUT_EVENT_TYPE = "custom_badput_event_type"
_CUSTOM_BADPUT_EVENT_START_TIME = "custom_badput_event_start_time"
_CUSTOM_BADPUT_EVENT_END_TIME = "custom_badput_event_end_time"

_PREFIXES = {
    "device_init": "tpu_init",
    "custom": "custom_badput_event",
    "elastic_scale_up": "elastic_wait",
    "elastic_slice_down": "elastic_wait",
}
"""What the keys of an interval begin with, where it is not its kind."""
_NAMED = {"custom_badput_event": _CUSTOM_BADPUT_EVENT_TYPE, "elastic_wait": "elastic_wait_event_type"}
"""What these begin with, and the key that holds the interval's name."""
_CHECKPOINTER = {
    "checkpoint_save": ("save", "checkpoint_manager_blocking"),
    "checkpoint_restore": ("restore", "checkpoint_manager"),
}
"""How the peer's users' checkpointer, Orbax, logs these."""


class GoodputRecorder(PeerNames):
    """Writes down when a job, its steps and all that is not training begin and end, without waiting.

    `logger_name` names the log (:func:`~.line_log.log_path`), `cloud_logger` is another one.
    """

    def __init__(  # noqa: PLR0913  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        logging_enabled: bool = False,
        cloud_logger: PeerLogger | None = None,
        *,
        background_grace_period_s: float = 5.0,  # noqa: ARG002
        background_batch_size: int = 100,  # noqa: ARG002
        background_max_latency_s: float = 2.0,  # noqa: ARG002
    ) -> None:
        self.job_name = job_name
        self._log = log_of(cloud_logger, logger_name) if logging_enabled else None

    def flush(self) -> None:
        """Return when the file has all that was recorded, or after a second; a failure is reported."""
        if self._log is not None:
            self._log.flush()

    def custom_name(self, event_type: str) -> str:
        """Return it as the caller spells it: entries are upper-cased when they are read."""
        return event_type

    def job_started(self, ranks: int = 1, nodes: int = 1, at: Moment = None) -> None:  # noqa: ARG002
        """Record that the job, or its next run, starts."""
        self._write(lambda: {_JOB_START_TIME: seconds(at)})

    def job_ended(self, exit_code: int | None = None, at: Moment = None) -> None:  # noqa: ARG002
        """Record that the job ends."""
        self._write(lambda: {_JOB_END_TIME: seconds(at)})

    def step_started(self, step: int, at: Moment = None) -> None:
        """Record that a step begins; it lasts until the next one does."""
        self._write(lambda: {_STEP_COUNT: int(step), _STEP_START_TIME: seconds(at)})

    def started(self, kind: str, name: str = "", at: Moment = None) -> None:
        """Record that an interval begins."""
        self._write(lambda: _edge(kind, "start", name, at))

    def ended(self, kind: str, name: str = "", at: Moment = None) -> None:
        """Record that it ends."""
        self._write(lambda: _edge(kind, "end", name, at))

    def checkpointed(
        self, kind: str, step: int, start: Moment, end: Moment = None, directory: str = ""
    ) -> None:
        """Record that a ``checkpoint_save`` or ``checkpoint_restore`` blocked from `start` to `end`."""
        event_type, prefix = _CHECKPOINTER[kind]
        self._write(
            lambda: {
                "step": int(step),
                "event_type": event_type,
                "directory": directory,
                f"{prefix}_start_time": seconds(start),
                f"{prefix}_duration_secs": seconds(end) - seconds(start),
            }
        )

    def slices(self, active: int, total: int, available: int = 0, at: Moment = None) -> None:
        """Record how many slices work, are asked for, and could be had."""
        self._write(
            lambda: {
                "active_slices": int(active),
                "total_slices": int(total),
                "available_slices": int(available),
                "elastic_slice_counts_timestamp": seconds(at),
            }
        )

    def _write(self, entry: Callable[[], Entry]) -> None:
        if self._log is not None:
            self._log.append({_JOB_NAME: self.job_name, **entry()})


class ElasticGoodputRecorder(GoodputRecorder):
    """A recorder of a job whose number of slices changes while it runs: any recorder has what that needs."""


def _edge(kind: str, edge: str, name: str, at: Moment) -> Entry:
    prefix = _PREFIXES.get(kind, kind)
    key = f"{prefix}_{edge}_time"
    return {_NAMED[prefix]: name, key: seconds(at)} if prefix in _NAMED else {key: seconds(at)}


def seconds(moment: Moment) -> float:
    """Return epoch seconds; a datetime without a zone is local."""
    if moment is None:
        return utc_now().timestamp()
    return float(moment) if isinstance(moment, float | int) else moment.timestamp()


class GoodputCalculator:
    """Goodput and badput of a job, by its log. Use a calculator from one thread.

    `cloud_logger` is another log than the local one `logger_name`. What is older than
    `max_logs_retention_period` (a timedelta, or seconds) is left out. `using_pathways`, `gcs_path` and
    `cache_dir` change nothing.
    """

    _elastic: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913, PLR0917  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        cloud_logger: PeerLogger | None = None,
        using_pathways: bool = False,
        max_logs_retention_period: dt.timedelta | float | None = None,
        gcs_path: str | None = None,  # noqa: ARG002
        cache_dir: str = "/tmp",  # noqa: S108, ARG002  the peer's signature; nothing is written there
    ) -> None:
        self.job_name = job_name
        self.using_pathways = using_pathways
        self._job = CompatJob(log_of(cloud_logger, logger_name), job_name, max_logs_retention_period)
        self._steps_seen = 0
        self._ideal_step_time_s = 0.0
        self._deviations: dict[int, float] = {}
        self._account: CompatAccount | None = None

    def now_s(self) -> float:
        """Return the time up to which a job that has not ended is counted, in epoch seconds."""
        return utc_now().timestamp()

    def account(self) -> CompatAccount:
        """Account for the job so far, in seconds. Raises ValueError."""
        return compat_account(self._job.events(), self.now_s(), elastic=self._elastic)

    def window(self, start_s: float, end_s: float) -> CompatAccount:
        """Account for a window (epoch seconds). Raises ValueError."""
        return compat_window(self._job.events(), start_s, end_s, elastic=self._elastic)

    def efficiency(self, total_s: float) -> SliceEfficiency:
        """Return the use of an elastic job's slices, for so many seconds from its start; or nothing."""
        told = CompatEvents(self._job.events() if self._elastic else ())
        start_s = told.job_start_s
        return {} if start_s is None else slice_efficiency(told.slices, start_s, start_s + total_s)

    def get_job_goodput(
        self, include_badput_breakdown: bool = False, configured_ideal_step_time: float | None = None
    ) -> tuple[float, BadputTimes, int]:
        """Return goodput and badput in percent, and the last productive step. Raises ValueError."""
        told = CompatEvents(self._job.events())
        account = self._account = compat_account(told, self.now_s(), elastic=self._elastic)
        with suppress(CompatError):  # a job may have goodput and no two steps yet: get_step_deviation says so
            self._update_deviations(told, configured_ideal_step_time)
        breakdown = account.breakdown() if include_badput_breakdown else {}
        return account.goodput_percent, breakdown, account.max_productive_step

    def get_job_goodput_with_exclusions(
        self,
        exclusion_intervals: Iterable[tuple[dt.datetime, dt.datetime]],
        include_badput_breakdown: bool = False,
        configured_ideal_step_time: float | None = None,
    ) -> tuple[float, BadputTimes, int, float]:
        """Return the same as if some time (without a zone: UTC) had not been, and how many seconds of it."""
        told = CompatEvents(self._job.events())
        spans = [(epoch_s(start), epoch_s(end)) for start, end in exclusion_intervals]
        for start_s, end_s in spans:
            if start_s >= end_s:
                tell(f"an exclusion from {start_s} to {end_s} is left out: it does not end after its start")
        account, took_s = account_without(told, spans, self.now_s(), elastic=self._elastic)
        if not account.total_s:
            return 0.0, {}, account.max_productive_step, account.excluded_s
        self._account = account
        ideal_s = configured_ideal_step_time or compute_ideal_step_time([*took_s.values()])
        if ideal_s is not None:  # the distances have signs here, as in the peer
            self._ideal_step_time_s, self._steps_seen = ideal_s, told.steps
            self._deviations = {step: step_s - ideal_s for step, step_s in took_s.items()}
        breakdown = account.breakdown() if include_badput_breakdown else {}
        return account.goodput_percent, breakdown, account.max_productive_step, account.excluded_s

    def get_job_goodput_interval(
        self, interval_start: dt.datetime, interval_end: dt.datetime
    ) -> tuple[float, BadputTimes, int, float, int]:
        """Return percents, last step, seconds and disruptions of a window (UTC). Raises ValueError."""
        if interval_start is None or interval_end is None:
            raise CompatError("a window needs its start and its end: pass two datetimes")
        account = self.window(epoch_s(interval_start), epoch_s(interval_end))
        last_step, disruptions = account.max_productive_step, account.disruptions
        return account.goodput_percent, account.breakdown(), last_step, account.total_s, disruptions

    def get_step_deviation(self, configured_ideal_step_time: float | None = None) -> dict[int, float]:
        """Return how far steps are from the ideal (s); as before until a new one. Raises ValueError."""
        self._update_deviations(CompatEvents(self._job.events()), configured_ideal_step_time)
        return dict(self._deviations)

    def get_job_goodput_details(self) -> WorkloadMetricDetails:
        """Return what the last question about the job found, in seconds; zeros before the first one."""
        account, is_asked = self._account or CompatAccount(), self._account is not None
        return {
            "goodput_time": {GoodputType.TOTAL: account.productive_s} if is_asked else {},
            "badput_time": dict(account.badput_s),
            "max_productive_step": account.max_productive_step,
            "total_elapsed_time": account.total_s,
            "disruption_count": account.disruptions,
            "step_time_deviation": dict(self._deviations) if is_asked else {},
            "ideal_step_time": self._ideal_step_time_s if is_asked else 0.0,
            "total_excluded_time": 0.0,  # as there: get_job_goodput_with_exclusions returns it
            **self.efficiency(account.total_s),
        }

    def get_interval_metric_details(
        self, interval_start: dt.datetime, interval_end: dt.datetime
    ) -> IntervalWorkloadMetricDetails:
        """Return a window's goodput and badput in percent, empty if there is none, and its length in s."""
        start_s, end_s = epoch_s(interval_start), epoch_s(interval_end)
        slices = CompatEvents(self._job.events() if self._elastic else ()).slices
        inside = (each for each in slices if start_s < each.time_s <= end_s)
        details: IntervalWorkloadMetricDetails = {
            "interval_goodput": {},
            "interval_badput": {},
            "interval_size": int((interval_end - interval_start).total_seconds()),
            **slice_efficiency(inside, start_s, end_s),
        }
        try:
            account = self.window(start_s, end_s)
        except ValueError as error:
            tell(f"no goodput from {interval_start} to {interval_end}: {error}")
        else:
            details["interval_goodput"] = {GoodputType.TOTAL: account.goodput_percent}
            details["interval_badput"] = account.breakdown()
        return details

    def _update_deviations(self, told: CompatEvents, configured_ideal_step_time_s: float | None) -> None:
        if self._deviations and told.steps == self._steps_seen:
            return
        self._ideal_step_time_s, self._deviations = step_deviations(told, configured_ideal_step_time_s)
        self._steps_seen = told.steps


class ElasticGoodputCalculator(GoodputCalculator):
    """A calculator with waits and re-initialisations apart, and with the efficiency of recorded slices."""

    _elastic = True


def epoch_s(time: dt.datetime) -> float:
    """Return epoch seconds; a datetime without a zone is UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=dt.timezone.utc)).timestamp()
