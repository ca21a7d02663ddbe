"""``GoodputMonitor`` of ml-goodput-measurement: a job's goodput in TensorBoard while it runs.

All uploaders of a monitor share one thread and one reading of the log, which goes on between the uploads:
what is left at the end is a second's worth of entries.

The scalars have the peer's names; tensorboardX encodes them, and if it is not installed the monitor says so
and starts nothing. There is no cloud: what the peer sends to Google Cloud Monitoring goes nowhere, and the
monitor says that, too.
"""

import datetime as dt
import weakref
from functools import partial
from typing import ClassVar

from ..log.periodic_tasks import Uploads
from ..log.store import LocalLog, tell
from ..log.tensorboard import TensorBoard
from ..peer_rules.types import GCPOptions
from .calculator import since_s
from .job import CompatJob
from .scalars import Deviations, Find, goodput, rolling, write

_FINAL_FLUSH_S = 1.0
_SHORTEST_S = 0.1
_GOODPUT = "goodput uploader"
_DEVIATION = "step deviation uploader"
_ROLLING = "rolling window uploader"


def _open_tensorboard(directory: str) -> TensorBoard | None:
    if "://" in directory:
        tell(f"goodput is not written to {directory}: only to directories of this machine")
        return None
    try:
        return TensorBoard(f"{directory}/goodput")
    except ImportError as error:
        tell(f"goodput is not written to {directory}: {error} (pip install 'scrtune[monitoring]')")
        return None


class GoodputMonitor:
    """Computes a job's goodput now and then, on a thread of its own, and writes it to TensorBoard.

    `upload_interval` and `step_deviation_interval_seconds` are in seconds, a tenth at least. A stop writes
    once more, unless `skip_final_flush`, also of what was never started. All stops together take
    `final_flush_timeout_seconds` at most (None: as long as it takes), a second by default where the peer
    waits for ten. What still runs when the process ends is stopped the same way. `max_logs_retention_period`
    is a timedelta, or seconds. `pathway_enabled`, `gcs_sync_interval_seconds` and `cache_dir` change nothing.
    """

    _elastic: ClassVar[bool] = False
    _with_slices = False

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
        final_flush_timeout_seconds: float | None = _FINAL_FLUSH_S,
        gcs_sync_interval_seconds: int = 3600,  # noqa: ARG002
        cache_dir: str = "/tmp",  # noqa: S108, ARG002  the peer's signature; nothing is written there
        max_logs_retention_period: dt.timedelta | float | None = None,
    ) -> None:
        self._board: TensorBoard | None = None
        if not monitoring_enabled:
            return
        self._upload_interval_s = max(upload_interval, _SHORTEST_S)
        self._deviation_interval_s = max(step_deviation_interval_seconds, _SHORTEST_S)
        self._with_badput = include_badput_breakdown
        self._with_deviation = include_step_deviation
        self._skip_final_flush = skip_final_flush
        options = gcp_options or GCPOptions()
        if options.enable_gcp_goodput_metrics or options.enable_gcp_step_deviation_metrics:
            tell("nothing is sent to Google Cloud Monitoring: scrtune works without a cloud")
        self._board = _open_tensorboard(str(tensorboard_dir))  # or a Path, which the peer takes
        self._job = CompatJob(LocalLog(logger_name), job_name, since_s(max_logs_retention_period))
        self._deviations = Deviations(self._job, configured_ideal_step_time)
        # nothing that it runs knows the monitor, or that would never be collected and stopped
        self._uploads = Uploads("goodput monitor", self._job.read_on, final_flush_timeout_seconds)
        weakref.finalize(self, self._uploads.stop_all, once_more=not skip_final_flush)

    def start_goodput_uploader(self) -> None:
        """Write goodput, and badput by type, every `upload_interval` seconds."""
        if self._board is not None:
            self._start(self._board, _GOODPUT, self._goodput(), self._upload_interval_s)

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        if self._board is not None:
            self._stop(self._board, _GOODPUT, self._goodput(), skip_final_flush)

    def start_step_deviation_uploader(self) -> None:
        """Write how far each step is from the ideal one, if `include_step_deviation`."""
        if self._board is not None and self._with_deviation:
            self._start(self._board, _DEVIATION, self._deviations.find, self._deviation_interval_s)

    def stop_step_deviation_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write the rest and stop."""
        if self._board is not None:
            self._stop(self._board, _DEVIATION, self._deviations.find, skip_final_flush)

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: list[int]) -> None:
        """Write goodput and badput of the last so many seconds, for each of these windows.

        To TensorBoard: the peer sends them to Google Cloud Monitoring only.
        """
        if self._board is not None:
            find = partial(rolling, self._job, tuple(rolling_windows_seconds), self._elastic)
            self._start(self._board, _ROLLING, find, self._upload_interval_s)

    def stop_rolling_window_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop. Without a start there are no windows to write."""
        if self._board is not None:
            self._stop(self._board, _ROLLING, None, skip_final_flush)

    def start_goodput_interval_uploader(self, window_size_seconds: int) -> None:
        """One rolling window, as earlier versions of the peer call it."""
        self.start_rolling_window_goodput_uploader([window_size_seconds])

    def stop_goodput_interval_uploader(self) -> None:
        """Stop it."""
        self.stop_rolling_window_goodput_uploader()

    def _goodput(self) -> Find:
        return partial(goodput, self._job, self._with_badput, self._elastic, self._with_slices)

    def _start(self, board: TensorBoard, name: str, find: Find, interval_s: float) -> None:
        if not self._uploads.start(name, partial(write, board, find), interval_s):
            tell(f"the {name} runs already")

    def _stop(self, board: TensorBoard, name: str, find: Find | None, skip_final_flush: bool | None) -> None:
        skip = self._skip_final_flush if skip_final_flush is None else skip_final_flush
        work = None if find is None else partial(write, board, find)
        self._uploads.stop(name, work, once_more=not skip)


class ElasticGoodputMonitor(GoodputMonitor):
    """A monitor for jobs whose number of slices changes; `include_slice_efficiency` adds how many work."""

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
        final_flush_timeout_seconds: float | None = _FINAL_FLUSH_S,
        gcs_sync_interval_seconds: int = 3600,
        cache_dir: str = "/tmp",  # noqa: S108  the peer's signature; nothing is written there
        max_logs_retention_period: dt.timedelta | float | None = None,
    ) -> None:
        super().__init__(
            job_name,
            logger_name,
            tensorboard_dir,
            upload_interval,
            monitoring_enabled,
            pathway_enabled=True,
            include_badput_breakdown=include_badput_breakdown,
            include_step_deviation=include_step_deviation,
            configured_ideal_step_time=configured_ideal_step_time,
            step_deviation_interval_seconds=step_deviation_interval_seconds,
            gcp_options=gcp_options,
            skip_final_flush=skip_final_flush,
            final_flush_timeout_seconds=final_flush_timeout_seconds,
            gcs_sync_interval_seconds=gcs_sync_interval_seconds,
            cache_dir=cache_dir,
            max_logs_retention_period=max_logs_retention_period,
        )
        self._with_slices = include_slice_efficiency
