"""``GoodputMonitor`` of ml-goodput-measurement: a job's goodput in TensorBoard while it runs.

The scalars have the peer's names; tensorboardX encodes them, and if it is not installed the monitor says so
and starts nothing. There is no cloud: what the peer sends to Google Cloud Monitoring goes nowhere, and the
monitor says that, too.
"""

import datetime as dt
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, TypeAlias

from .compat_calculator import ElasticGoodputCalculator, GoodputCalculator
from .compat_rules import CompatError
from .compat_types import BadputTimes, GCPOptions
from .store import Periodic, new_lock, stop_all, tell, utc_now
from .tensorboard import TensorBoard

_FINAL_FLUSH_S = 1.0
_SHORTEST_S = 0.1

Scalar: TypeAlias = tuple[str, float, int]
"""Tag, value, step."""


class _Scalars:
    """The event file of a monitor, which its uploaders share."""

    def __init__(self, board: TensorBoard) -> None:
        self._board = board
        self._lock = new_lock()

    def write(self, scalars: Iterable[Scalar]) -> None:
        """Write them all down. Raises OSError, and whatever computing them raises."""
        known = list(scalars)
        with self._lock:
            for tag, value, step in known:
                self._board.add_scalar(tag, value, step)
            self._board.flush()


def _open_tensorboard(directory: str) -> _Scalars | None:
    if "://" in directory:
        tell(f"goodput is not written to {directory}: only to directories of this machine")
        return None
    try:
        return _Scalars(TensorBoard(f"{directory}/goodput"))
    except ImportError as error:
        tell(f"goodput is not written to {directory}: {error} (pip install 'scrtune[monitoring]')")
        return None


class GoodputMonitor:
    """Computes a job's goodput now and then, on threads of its own, and writes it to TensorBoard.

    `upload_interval` and `step_deviation_interval_seconds` are in seconds, a tenth at least. A stop writes
    once more, unless `skip_final_flush`, and takes at most `final_flush_timeout_seconds` (None: as long as it
    takes), a second by default where the peer waits for ten. What still runs when the process ends is stopped
    the same way.
    `pathway_enabled`, `gcs_sync_interval_seconds` and `cache_dir` change nothing here.
    """

    _calculator: ClassVar[type[GoodputCalculator]] = GoodputCalculator
    _with_slices = False

    def __init__(  # noqa: PLR0913, PLR0917  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        tensorboard_dir: str,
        upload_interval: float,
        monitoring_enabled: bool = False,
        pathway_enabled: bool = False,
        include_badput_breakdown: bool = False,
        include_step_deviation: bool = False,
        configured_ideal_step_time: float | None = None,
        step_deviation_interval_seconds: float = 10,
        gcp_options: GCPOptions | None = None,
        skip_final_flush: bool = False,
        final_flush_timeout_seconds: float | None = _FINAL_FLUSH_S,
        gcs_sync_interval_seconds: int = 3600,  # noqa: ARG002
        cache_dir: str = "/tmp",  # noqa: S108, ARG002  the peer's signature; nothing is written there
        max_logs_retention_period: dt.timedelta | None = None,
    ) -> None:
        self._running: dict[str, Periodic] = {}
        self._scalars: _Scalars | None = None
        if not monitoring_enabled:
            return
        self._upload_interval_s = max(upload_interval, _SHORTEST_S)
        self._deviation_interval_s = max(step_deviation_interval_seconds, _SHORTEST_S)
        self._with_badput = include_badput_breakdown
        self._with_deviation = include_step_deviation
        self._ideal_step_time_s = configured_ideal_step_time
        self._skip_final_flush = skip_final_flush
        self._final_flush_timeout_s = final_flush_timeout_seconds
        self._settings: dict[str, Any] = {
            "job_name": job_name,
            "logger_name": logger_name,
            "using_pathways": pathway_enabled,
            "max_logs_retention_period": max_logs_retention_period,
        }
        options = gcp_options or GCPOptions()
        if options.enable_gcp_goodput_metrics or options.enable_gcp_step_deviation_metrics:
            tell("nothing is sent to Google Cloud Monitoring: scrtune works without a cloud")
        self._scalars = _open_tensorboard(tensorboard_dir)
        weakref.finalize(self, _stop_rest, self._running, not skip_final_flush, final_flush_timeout_seconds)

    def start_goodput_uploader(self) -> None:
        """Write goodput, and badput by type, every `upload_interval` seconds."""
        if self._scalars is not None:
            find = partial(_goodput, self._new_calculator(), self._with_badput, self._with_slices)
            self._start("goodput uploader", find, self._upload_interval_s)

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        self._stop("goodput uploader", skip_final_flush)

    def start_step_deviation_uploader(self) -> None:
        """Write how far each step is from the ideal one, if `include_step_deviation`."""
        if self._scalars is not None and self._with_deviation:
            find = partial(_deviations, self._new_calculator(), self._ideal_step_time_s, set())
            self._start("step deviation uploader", find, self._deviation_interval_s)

    def stop_step_deviation_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write the rest and stop."""
        self._stop("step deviation uploader", skip_final_flush)

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: list[int]) -> None:
        """Write goodput and badput of the last so many seconds, for each of these windows.

        To TensorBoard: the peer sends them to Google Cloud Monitoring only.
        """
        if self._scalars is not None:
            find = partial(_rolling, self._new_calculator(), tuple(rolling_windows_seconds))
            self._start("rolling window uploader", find, self._upload_interval_s)

    def stop_rolling_window_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        self._stop("rolling window uploader", skip_final_flush)

    def start_goodput_interval_uploader(self, window_size_seconds: int) -> None:
        """One rolling window, as earlier versions of the peer call it."""
        self.start_rolling_window_goodput_uploader([window_size_seconds])

    def stop_goodput_interval_uploader(self) -> None:
        """Stop it."""
        self.stop_rolling_window_goodput_uploader()

    def _new_calculator(self) -> GoodputCalculator:
        return self._calculator(**self._settings)

    def _start(self, name: str, find: Callable[[], Iterator[Scalar]], interval_s: float) -> None:
        scalars = self._scalars
        if scalars is None:
            return
        if name in self._running:
            tell(f"the {name} runs already")
            return
        # nothing that runs knows the monitor, or it would never be collected and stopped
        self._running[name] = Periodic(lambda: scalars.write(find()), interval_s, name)

    def _stop(self, name: str, skip_final_flush: bool | None) -> None:
        periodic = self._running.pop(name, None)
        if periodic is not None:
            skip = self._skip_final_flush if skip_final_flush is None else skip_final_flush
            stop_all([periodic], once_more=not skip, timeout_s=self._final_flush_timeout_s)


class ElasticGoodputMonitor(GoodputMonitor):
    """A monitor for jobs whose number of slices changes; `include_slice_efficiency` adds how many work."""

    _calculator: ClassVar[type[GoodputCalculator]] = ElasticGoodputCalculator

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
        max_logs_retention_period: dt.timedelta | None = None,
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


def _goodput(calculator: GoodputCalculator, with_badput: bool, with_slices: bool) -> Iterator[Scalar]:
    """Goodput of the job so far, its badput by type, and the slices of an elastic one."""
    goodput, badput, step = calculator.get_job_goodput(include_badput_breakdown=with_badput)
    yield "goodput/goodput", goodput, step
    yield from _badput("badput", badput, step)
    if with_slices:
        for name, value in calculator.get_job_goodput_details().items():
            if name.endswith("_slice_efficiency") and isinstance(value, float):
                yield f"elastic/{name}", value, step


def _deviations(
    calculator: GoodputCalculator, ideal_step_time_s: float | None, written: set[int]
) -> Iterator[Scalar]:
    """How far each step is from the ideal one; `written` has those that were told before."""
    for step, deviation_s in calculator.get_step_deviation(ideal_step_time_s).items():
        if step not in written:
            written.add(step)
            yield "step_deviation", deviation_s, step


def _rolling(calculator: GoodputCalculator, windows_s: tuple[int, ...]) -> Iterator[Scalar]:
    """Goodput and badput of the last so many seconds; nothing of a window in which nothing happened."""
    now = utc_now()
    for window_s in windows_s:
        start = now - dt.timedelta(seconds=window_s)
        with suppress(CompatError):
            goodput, badput, step, _, _ = calculator.get_job_goodput_interval(start, now)
            yield f"rolling_goodput/{window_s}s", goodput, step
            yield from _badput(f"rolling_badput/{window_s}s", badput, step)


def _badput(label: str, badput: BadputTimes, step: int) -> Iterator[Scalar]:
    for kind, percent in badput.items():
        tag = f"{label}/{kind.name.lower()}"
        if isinstance(percent, dict):
            for name, part in percent.items():
                yield f"{tag}/{name.lower()}", part, step
        else:
            yield tag, percent, step


def _stop_rest(running: dict[str, Periodic], once_more: bool, timeout_s: float | None) -> None:
    stop_all(running.values(), once_more=once_more, timeout_s=timeout_s)
    running.clear()
