"""``GoodputCalculator`` of ml-goodput-measurement, over a local log; delegates to ``peer_rules``.

Use a calculator from one thread.
"""

import datetime as dt
from contextlib import suppress
from typing import ClassVar, cast

from ..log.store import CloudLogger, LogStore, store_of, tell, utc_now
from ..peer_rules.rules import CompatAccount, CompatError
from ..peer_rules.steps import compat_step_deviation
from ..peer_rules.types import (
    BadputTimes,
    ElasticIntervalWorkloadMetricDetails,
    ElasticWorkloadMetricDetails,
    GoodputType,
    IntervalWorkloadMetricDetails,
    WorkloadMetricDetails,
)
from .job import CompatJob


class GoodputCalculator:
    """Goodput and badput of a job, by its log.

    `cloud_logger` takes another :class:`~.store.LogStore` than the local log `logger_name`, or a logger with
    the peer's two methods. With `max_logs_retention_period` (a timedelta, or seconds), what is older than
    that is left out; else all counts. `using_pathways`, `gcs_path` and `cache_dir` change nothing: there is
    no cache on disk that could go stale, and no cloud.
    """

    _elastic: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913, PLR0917  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        cloud_logger: LogStore | CloudLogger | None = None,
        using_pathways: bool = False,
        max_logs_retention_period: dt.timedelta | float | None = None,
        gcs_path: str | None = None,  # noqa: ARG002
        cache_dir: str = "/tmp",  # noqa: S108, ARG002  the peer's signature; nothing is written there
    ) -> None:
        self.job_name = job_name
        self.using_pathways = using_pathways
        store = store_of(cloud_logger, logger_name)
        self._job = CompatJob(store, job_name, since_s(max_logs_retention_period))
        self._steps_seen = 0
        self._ideal_step_time_s = 0.0
        self._deviations: dict[int, float] = {}
        self._account: CompatAccount | None = None

    def now_s(self) -> float:
        """Return the time up to which a job that has not ended is counted, in epoch seconds."""
        return utc_now().timestamp()

    def get_job_goodput(
        self, include_badput_breakdown: bool = False, configured_ideal_step_time: float | None = None
    ) -> tuple[float, BadputTimes, int]:
        """Goodput in percent, badput in percent (empty unless asked for), and the last productive step.

        Raises ValueError if the log has no start of the job, no time, or more productive time than time.
        """
        self._job.read_on()
        self._account = self._job.account(self.now_s(), elastic=self._elastic)
        with suppress(CompatError):  # a job may have goodput and no two steps yet: get_step_deviation says so
            self._update_deviations(configured_ideal_step_time)
        breakdown = self._account.breakdown() if include_badput_breakdown else {}
        return self._account.goodput_percent, breakdown, self._account.max_productive_step

    def get_job_goodput_interval(
        self, interval_start: dt.datetime, interval_end: dt.datetime
    ) -> tuple[float, BadputTimes, int, float, int]:
        """Goodput and badput in percent, last productive step, seconds and disruptions of a window.

        The seconds are those from the window's first entry to its last. A time without a zone is UTC. Raises
        ValueError if the window has no two moments to tell of.
        """
        if interval_start is None or interval_end is None:
            raise CompatError("a window needs its start and its end: pass two datetimes")
        self._job.read_on()
        start_s, end_s = _epoch_s(interval_start), _epoch_s(interval_end)
        account = self._job.window(start_s, end_s, elastic=self._elastic)
        return (
            account.goodput_percent,
            account.breakdown(),
            account.max_productive_step,
            account.total_s,
            account.disruptions,
        )

    def get_step_deviation(self, configured_ideal_step_time: float | None = None) -> dict[int, float]:
        """How far each step is from the ideal step time, in seconds.

        Until a new step is logged, what was found before is returned, whatever ideal is configured now, as in
        the peer. Raises ValueError if there are no step times, or no ideal one.
        """
        self._job.read_on()
        self._update_deviations(configured_ideal_step_time)
        return dict(self._deviations)

    def get_job_goodput_details(self) -> WorkloadMetricDetails:
        """What the last :meth:`get_job_goodput` found, in seconds; zeros before the first one."""
        account = self._account
        if account is None:
            return {
                "goodput_time": {},
                "badput_time": {},
                "max_productive_step": 0,
                "total_elapsed_time": 0.0,
                "disruption_count": 0,
                "step_time_deviation": {},
                "ideal_step_time": 0.0,
                "total_excluded_time": 0.0,
            }
        return {
            "goodput_time": {GoodputType.TOTAL: account.productive_s},
            "badput_time": dict(account.badput_s),
            "max_productive_step": account.max_productive_step,
            "total_elapsed_time": account.total_s,
            "disruption_count": account.disruptions,
            "step_time_deviation": dict(self._deviations),
            "ideal_step_time": self._ideal_step_time_s,
            "total_excluded_time": 0.0,
        }

    def get_interval_metric_details(
        self, interval_start: dt.datetime, interval_end: dt.datetime
    ) -> IntervalWorkloadMetricDetails:
        """A window's goodput and badput in percent, empty if there is none to tell, and its length in s."""
        details: IntervalWorkloadMetricDetails = {
            "interval_goodput": {},
            "interval_badput": {},
            "interval_size": int((interval_end - interval_start).total_seconds()),
        }
        try:
            goodput, badput, *_ = self.get_job_goodput_interval(interval_start, interval_end)
        except ValueError as error:
            tell(f"no goodput from {interval_start} to {interval_end}: {error}")
            return details
        return {**details, "interval_goodput": {GoodputType.TOTAL: goodput}, "interval_badput": badput}

    def _update_deviations(self, configured_ideal_step_time_s: float | None) -> None:
        steps = self._job.steps
        if self._deviations and steps.seen == self._steps_seen:
            return
        self._ideal_step_time_s, self._deviations = compat_step_deviation(
            steps.times_s, configured_ideal_step_time_s
        )
        self._steps_seen = steps.seen


class ElasticGoodputCalculator(GoodputCalculator):
    """A calculator for jobs whose number of slices changes: waits and re-initialisations are told apart."""

    _elastic: ClassVar[bool] = True

    def get_job_goodput_details(self) -> ElasticWorkloadMetricDetails:
        """As of every job, with the efficiency of its slices (0 to 1) if any were recorded."""
        details = cast(ElasticWorkloadMetricDetails, super().get_job_goodput_details())
        if (efficiency := self._job.slice_efficiency(details["total_elapsed_time"])) is not None:
            details["stepping_slice_efficiency"], details["available_slice_efficiency"] = efficiency
        return details

    def get_interval_metric_details(
        self, interval_start: dt.datetime, interval_end: dt.datetime
    ) -> ElasticIntervalWorkloadMetricDetails:
        """As of every job, with the efficiency of the slices (0 to 1) that were recorded in the window."""
        details = cast(
            ElasticIntervalWorkloadMetricDetails,
            super().get_interval_metric_details(interval_start, interval_end),
        )
        start_s, end_s = _epoch_s(interval_start), _epoch_s(interval_end)
        if (efficiency := self._job.slice_efficiency_within(start_s, end_s)) is not None:
            details["stepping_slice_efficiency"], details["available_slice_efficiency"] = efficiency
        return details


def since_s(period: dt.timedelta | float | None) -> float | None:
    """From when on entries count, as epoch seconds; None: from the first one on, as no period at all says."""
    if not period:
        return None
    period_s = period.total_seconds() if isinstance(period, dt.timedelta) else period
    return utc_now().timestamp() - period_s


def _epoch_s(time: dt.datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=dt.timezone.utc)).timestamp()
