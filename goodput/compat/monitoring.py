"""The peer's modules `monitoring` and `monitoring_elastic`: a job's goodput in TensorBoard while it runs.

The uploaders of a monitor share one reading of the log, beside which the application goes on: it rests. The
scalars have the peer's names; tensorboardX encodes them, and if it is not installed the monitor says so and
starts nothing. There is no cloud: what the peer sends to Google Cloud Monitoring goes nowhere, and the
monitor says that, too.
"""

import datetime as dt
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from ..log.tensorboard import TensorBoard
from .goodput import GoodputCalculator
from .goodput_utils import (
    ACTIVITY_EXCLUSION_LIST,
    BadputType,
    GCPOptions,
    IntervalMetricType,
    IntervalWorkloadMetricDetails,
    MetricType,
    WorkloadMetricDetails,
)
from .peer.columns import account_of, window_of
from .peer.job import CompatJob
from .peer.rules import CompatAccount, CompatError
from .peer.step_times import deviations_s, step_times
from .peer.store import LocalLog, tell, utc_now
from .peer.table import Rows
from .peer.uploads import Uploads, Work

__all__ = [
    "ACTIVITY_EXCLUSION_LIST",
    "BadputType",
    "ElasticGoodputMonitor",
    "GCPOptions",
    "GoodputCalculator",
    "GoodputMonitor",
    "IntervalMetricType",
    "IntervalWorkloadMetricDetails",
    "MetricType",
    "WorkloadMetricDetails",
]

MOST_AT_ONCE = 10_000
"""Step deviations that are written while somebody waits: in 0.1 s or so."""
_SHORTEST_S = 0.1
_GOODPUT = "goodput uploader"
_DEVIATION = "step deviation uploader"
_ROLLING = "rolling window uploader"


class _Scalars:
    """Writes what a monitor shows of a job, and calls `rest` while it reads what is new."""

    def __init__(
        self,
        job: CompatJob,
        board: TensorBoard,
        rest: Callable[[], bool],
        *,
        with_badput: bool,
        elastic: bool,
    ) -> None:
        self._job = job
        self._rest = rest
        self._board = board
        self._with_badput = with_badput
        self._elastic = elastic
        self.with_slices = False
        self.ideal_step_time_s: float | None = None
        self._told = 0

    def goodput(self, _is_last: bool) -> None:
        """Write goodput of the job so far, its badput by type, and the slices of an elastic one."""
        account = account_of(self._read(), utc_now().timestamp(), elastic=self._elastic)
        self._add_goodput("goodput/goodput", "badput" if self._with_badput else "", account, "goodput")
        if self.with_slices:
            efficiency = dict[str, float](**self._job.slice_efficiency(account.total_s))
            for name, share in efficiency.items():
                self._board.add_scalar(f"elastic/{name}", share, account.max_productive_step)
        self._board.flush()

    def rolling(self, windows_s: Sequence[int], _is_last: bool) -> None:
        """Write goodput and badput of the last so many seconds; nothing where nothing happened."""
        self._read()
        now_s = utc_now().timestamp()
        for window_s in windows_s:
            rows = self._job.table.rows((now_s - window_s, now_s))
            with suppress(CompatError):
                account = window_of(rows, elastic=self._elastic)
                self._add_goodput(f"rolling_goodput/{window_s}s", f"rolling_badput/{window_s}s", account)
        self._board.flush()

    def deviations(self, is_last: bool) -> None:
        """Write how far each new step is from the ideal one; not too many while somebody waits."""
        rows = self._read()
        count = len(step_times(rows.steps, rows.times_s)[0])
        if count == self._told:
            return
        _, numbers, distances_s = deviations_s(rows, self.ideal_step_time_s)
        if is_last and (left_out := count - self._told - MOST_AT_ONCE) > 0:
            tell(f"of {left_out} steps no deviation is written: there is time for the last ones only")
            self._told += left_out
        is_awaited = False
        while self._told < count and not is_awaited:
            piece = slice(self._told, self._told + MOST_AT_ONCE)
            for step, deviation_s in zip(numbers[piece].tolist(), distances_s[piece].tolist(), strict=True):
                self._board.add_scalar("step_deviation", deviation_s, step)
            self._board.flush()
            self._told = min(piece.stop, count)
            is_awaited = self._rest()

    def _read(self) -> Rows:
        for _ in self._job.read_on():
            self._rest()
        return self._job.table.rows()

    def _add_goodput(self, tag: str, badput_tag: str, account: CompatAccount, title: str = "") -> None:
        """Add goodput, and badput by type if that has a tag. Titles may have characters that tags may not."""
        add, step = self._board.add_scalar, account.max_productive_step
        add(tag, account.goodput_percent, step, display_name=title)
        for badput, percent in account.breakdown().items() if badput_tag else ():
            name = badput.name.lower()
            if not isinstance(percent, dict):
                add(f"{badput_tag}/{name}", percent, step, display_name=name)
                continue
            for part, part_percent in percent.items():
                add(f"{badput_tag}/{name}/{part.lower()}", part_percent, step, display_name=part.lower())


class GoodputMonitor:
    """Computes a job's goodput now and then, on a thread of its own, and writes it to TensorBoard.

    `upload_interval` and `step_deviation_interval_seconds` are in seconds, a tenth at least. A stop writes
    once more, unless `skip_final_flush`, also of what was never started. All stops together take
    `final_flush_timeout_seconds` at most (None: as long as it takes), a second by default where the peer
    waits for ten. What still runs when the process ends is stopped the same way. `max_logs_retention_period`
    is a timedelta, or seconds. `pathway_enabled`, `gcs_sync_interval_seconds` and `cache_dir` change nothing.
    """

    _elastic: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913, PLR0917  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        tensorboard_dir: str,
        upload_interval: float,
        monitoring_enabled: bool = False,
        pathway_enabled: bool = False,  # noqa: ARG002
        include_badput_breakdown: bool = False,
        include_step_deviation: bool = False,
        configured_ideal_step_time: float | None = None,
        step_deviation_interval_seconds: float = 10,
        gcp_options: GCPOptions | None = None,
        skip_final_flush: bool = False,
        final_flush_timeout_seconds: float | None = 1.0,
        gcs_sync_interval_seconds: int = 3600,  # noqa: ARG002
        cache_dir: str = "/tmp",  # noqa: S108, ARG002  the peer's signature; nothing is written there
        max_logs_retention_period: dt.timedelta | float | None = None,
    ) -> None:
        self._upload_interval_s = max(upload_interval, _SHORTEST_S)
        self._deviation_interval_s = max(step_deviation_interval_seconds, _SHORTEST_S)
        self._with_deviation = include_step_deviation
        self._skip_final_flush = skip_final_flush
        self._scalars: _Scalars | None = None
        self._works: dict[str, Work] = {}
        if not monitoring_enabled:
            return
        options = gcp_options or GCPOptions()
        if options.enable_gcp_goodput_metrics or options.enable_gcp_step_deviation_metrics:
            tell("nothing is sent to Google Cloud Monitoring: scrtune works without a cloud")
        if (board := _tensorboard(str(tensorboard_dir))) is None:
            return
        job = CompatJob(LocalLog(logger_name), job_name, max_logs_retention_period)
        # nothing that it runs knows the monitor, or that would never be collected and stopped
        self._uploads = Uploads(final_flush_timeout_seconds)
        self._scalars = _Scalars(
            job, board, self._uploads.rest, with_badput=include_badput_breakdown, elastic=self._elastic
        )
        self._scalars.ideal_step_time_s = configured_ideal_step_time
        self._works = {_GOODPUT: self._scalars.goodput, _DEVIATION: self._scalars.deviations}
        weakref.finalize(self, self._uploads.stop_all, once_more=not skip_final_flush)

    def start_goodput_uploader(self) -> None:
        """Write goodput, and badput by type, every `upload_interval` seconds."""
        self._start(_GOODPUT, self._upload_interval_s)

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        self._stop(_GOODPUT, skip_final_flush)

    def start_step_deviation_uploader(self) -> None:
        """Write how far each step is from the ideal one, if `include_step_deviation`."""
        if self._with_deviation:
            self._start(_DEVIATION, self._deviation_interval_s)

    def stop_step_deviation_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write the rest and stop."""
        self._stop(_DEVIATION, skip_final_flush)

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: list[int]) -> None:
        """Write goodput and badput of the last so many seconds, for each of these windows.

        To TensorBoard: the peer sends them to Google Cloud Monitoring only.
        """
        if self._scalars is not None:
            self._works[_ROLLING] = partial(self._scalars.rolling, tuple(rolling_windows_seconds))
        self._start(_ROLLING, self._upload_interval_s)

    def stop_rolling_window_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop. Without a start there are no windows to write."""
        self._works.pop(_ROLLING, None)
        self._stop(_ROLLING, skip_final_flush)

    def start_goodput_interval_uploader(self, window_size_seconds: int) -> None:
        """Start one rolling window, as earlier versions of the peer call it."""
        self.start_rolling_window_goodput_uploader([window_size_seconds])

    def stop_goodput_interval_uploader(self) -> None:
        """Stop it."""
        self.stop_rolling_window_goodput_uploader()

    def _start(self, name: str, interval_s: float) -> None:
        work = self._works.get(name)
        if work is not None and not self._uploads.start(name, work, interval_s):
            tell(f"the {name} runs already")

    def _stop(self, name: str, skip_final_flush: bool | None) -> None:
        if self._works:
            skip = self._skip_final_flush if skip_final_flush is None else skip_final_flush
            self._uploads.stop(name, self._works.get(name), once_more=not skip)


class ElasticGoodputMonitor(GoodputMonitor):
    """A monitor for an elastic job; `include_slice_efficiency` adds how many of its slices work."""

    _elastic: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913, PLR0917  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        tensorboard_dir: str,
        upload_interval: float,
        monitoring_enabled: bool = False,
        include_badput_breakdown: bool = False,
        include_step_deviation: bool = False,
        include_slice_efficiency: bool = False,
        configured_ideal_step_time: float | None = None,
        step_deviation_interval_seconds: float = 10,
        gcp_options: GCPOptions | None = None,
        skip_final_flush: bool = False,
        final_flush_timeout_seconds: float | None = 1.0,
        gcs_sync_interval_seconds: int = 3600,  # noqa: ARG002
        cache_dir: str = "/tmp",  # noqa: S108, ARG002
        max_logs_retention_period: dt.timedelta | float | None = None,
    ) -> None:
        super().__init__(
            job_name,
            logger_name,
            tensorboard_dir,
            upload_interval,
            monitoring_enabled,
            include_badput_breakdown=include_badput_breakdown,
            include_step_deviation=include_step_deviation,
            configured_ideal_step_time=configured_ideal_step_time,
            step_deviation_interval_seconds=step_deviation_interval_seconds,
            gcp_options=gcp_options,
            skip_final_flush=skip_final_flush,
            final_flush_timeout_seconds=final_flush_timeout_seconds,
            max_logs_retention_period=max_logs_retention_period,
        )
        if self._scalars is not None:
            self._scalars.with_slices = include_slice_efficiency


def _tensorboard(directory: str) -> TensorBoard | None:
    if "://" in directory:
        tell(f"goodput is not written to {directory}: only to directories of this machine")
        return None
    try:
        return TensorBoard(f"{directory}/goodput")
    except ImportError as error:
        tell(f"goodput is not written to {directory}: {error} (pip install 'scrtune[monitoring]')")
        return None
