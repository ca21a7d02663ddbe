"""``GoodputCalculator`` of ml-goodput-measurement, over a local log: a face on the policy ``compat``.

What was read is kept: a call costs what is new in the log, and one pass over the steps as columns. Use a
calculator from one thread.
"""

import datetime as dt
from contextlib import suppress
from typing import ClassVar, cast

from .compat_entries import EntryReader
from .compat_rules import CompatAccount, CompatError, account_of, compat_window
from .compat_steps import CompatStepTimes, compat_step_deviation, slice_efficiency
from .compat_types import (
    BadputTimes,
    ElasticIntervalWorkloadMetricDetails,
    ElasticWorkloadMetricDetails,
    GoodputType,
    IntervalWorkloadMetricDetails,
    WorkloadMetricDetails,
)
from .compat_walk import Walk
from .events import GoodputEvent
from .sanity import span
from .store import LocalLog, LogStore, tell, utc_now


class GoodputCalculator:
    """Goodput and badput of a job, by its log.

    `cloud_logger` takes another :class:`~.store.LogStore` than the local log `logger_name`. With
    `max_logs_retention_period`, what is older than that is left out; else all counts. `using_pathways` and
    `cache_dir` change nothing: there is no cache on disk that could go stale.
    """

    _elastic: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913, PLR0917  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        cloud_logger: LogStore | None = None,
        using_pathways: bool = False,
        max_logs_retention_period: dt.timedelta | None = None,
        gcs_path: str | None = None,
        cache_dir: str = "/tmp",  # noqa: S108, ARG002  the peer's signature; nothing is written there
    ) -> None:
        self.job_name = job_name
        self.using_pathways = using_pathways
        self._store = cloud_logger or LocalLog(logger_name)
        self._reader = EntryReader(job_name)
        self._position = 0
        period = max_logs_retention_period
        self._since_s = None if period is None else (utc_now() - period).timestamp()
        self._gcs_path = gcs_path
        self._events: list[GoodputEvent] = []
        self._walk = Walk()
        self._steps = CompatStepTimes()
        self._steps_seen = 0
        self._ideal_step_time_s = 0.0
        self._deviations: dict[int, float] = {}
        self._account: CompatAccount | None = None

    def get_job_goodput(
        self, include_badput_breakdown: bool = False, configured_ideal_step_time: float | None = None
    ) -> tuple[float, BadputTimes, int]:
        """Goodput in percent, badput in percent (empty unless asked for), and the last productive step.

        Raises ValueError if the log has no start of the job, no time, or more productive time than time.
        """
        self._read_on()
        self._account = account_of(self._walk, utc_now().timestamp(), elastic=self._elastic)
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
        self._read_on()
        start_s, end_s = _epoch_s(interval_start), _epoch_s(interval_end)
        account = compat_window(self._events, start_s, end_s, elastic=self._elastic)
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
        self._read_on()
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

    def sync_to_gcs(self) -> None:
        """Say that nothing is copied to a cloud: the log is a file."""
        if self._gcs_path:
            tell(f"nothing is copied to {self._gcs_path}: scrtune has the log in a local file")

    def _read_on(self) -> None:
        while True:
            before = self._position
            entries, self._position = self._store.read(before)
            if self._position == before:
                return
            events = self._reader.read(entries)
            if self._since_s is not None:
                events = [event for event in events if span(event)[0] >= self._since_s]
            self._events += events
            for event in events:
                self._walk.handle(event)
            self._steps.extend(events)

    def _update_deviations(self, configured_ideal_step_time_s: float | None) -> None:
        if self._deviations and self._steps.seen == self._steps_seen:
            return
        self._ideal_step_time_s, self._deviations = compat_step_deviation(
            self._steps.times_s, configured_ideal_step_time_s
        )
        self._steps_seen = self._steps.seen


class ElasticGoodputCalculator(GoodputCalculator):
    """A calculator for jobs whose number of slices changes: waits and re-initialisations are told apart."""

    _elastic: ClassVar[bool] = True

    def get_job_goodput_details(self) -> ElasticWorkloadMetricDetails:
        """As of every job, with the efficiency of its slices (0 to 1) if any were recorded."""
        details = cast(ElasticWorkloadMetricDetails, super().get_job_goodput_details())
        start_s = self._walk.first_job_start_s
        if start_s is None:
            return details
        end_s = start_s + details["total_elapsed_time"]
        if (efficiency := slice_efficiency(self._events, start_s, end_s)) is not None:
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
        inside = [event for event in self._events if start_s < span(event)[0] <= end_s]
        if (efficiency := slice_efficiency(inside, start_s, end_s)) is not None:
            details["stepping_slice_efficiency"], details["available_slice_efficiency"] = efficiency
        return details


def _epoch_s(time: dt.datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=dt.timezone.utc)).timestamp()
