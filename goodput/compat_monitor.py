"""``GoodputMonitor`` of ml-goodput-measurement: a job's goodput in TensorBoard while it runs.

The scalars have the peer's names, and are written with tensorboardX if it is installed; if it is not, the
monitor says so and starts nothing. There is no cloud: what the peer sends to Google Cloud Monitoring goes
nowhere, and the monitor says that, too.
"""

import datetime as dt
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Protocol

from .compat_calculator import ElasticGoodputCalculator, GoodputCalculator
from .compat_rules import CompatError
from .compat_types import BadputTimes, GCPOptions
from .store import Periodic, stop_all, tell, utc_now

_FINAL_FLUSH_S = 1.0
_SHORTEST_S = 0.1


class ScalarWriter(Protocol):
    """The part of tensorboardX's ``SummaryWriter`` that a monitor uses."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any:
        """Write one number."""

    def flush(self) -> Any:
        """Write it all down."""


def _open_tensorboard(directory: str) -> ScalarWriter | None:
    try:
        writer: ScalarWriter = import_module("tensorboardX").SummaryWriter(directory)
    except ImportError:
        tell(
            f"goodput is not written to {directory}: tensorboardX is not installed (pip install tensorboardX)"
        )
        return None
    except Exception as error:  # noqa: BLE001  monitoring never ends a job
        tell(f"goodput is not written to {directory}: {error}")
        return None
    return writer


class GoodputMonitor:
    """Computes a job's goodput now and then, on threads of its own, and writes it to TensorBoard.

    `upload_interval` and `step_deviation_interval_seconds` are in seconds, a tenth at least. A stop writes
    once more, unless `skip_final_flush`, and takes at most `final_flush_timeout_seconds` (None: as long as it
    takes), a second by default where the peer waits for ten. What still runs when the process ends is stopped
    the same way.
    `pathway_enabled`, `gcs_sync_interval_seconds` and `cache_dir` change nothing here.
    """

    _calculator: ClassVar[type[GoodputCalculator]] = GoodputCalculator

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
        self._writer: ScalarWriter | None = None
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
        self._writer = _open_tensorboard(f"{tensorboard_dir.rstrip('/')}/goodput")
        weakref.finalize(self, _stop_rest, self._running, not skip_final_flush, final_flush_timeout_seconds)

    def start_goodput_uploader(self) -> None:
        """Write goodput, and badput by type, every `upload_interval` seconds."""
        if self._writer is not None:
            update = _goodput_update(self._new_calculator(), self._writer, with_badput=self._with_badput)
            self._start("goodput uploader", update, self._upload_interval_s)

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        self._stop(("goodput uploader",), skip_final_flush)

    def start_step_deviation_uploader(self) -> None:
        """Write how far each step is from the ideal one, if `include_step_deviation`."""
        if self._writer is not None and self._with_deviation:
            update = _deviation_update(self._new_calculator(), self._writer, self._ideal_step_time_s)
            self._start("step deviation uploader", update, self._deviation_interval_s)

    def stop_step_deviation_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write the rest and stop."""
        self._stop(("step deviation uploader",), skip_final_flush)

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: list[int]) -> None:
        """Write goodput and badput of the last so many seconds, for each of these windows.

        To TensorBoard: the peer sends them to Google Cloud Monitoring only.
        """
        if self._writer is not None:
            update = _rolling_update(self._new_calculator(), self._writer, list(rolling_windows_seconds))
            self._start("rolling window uploader", update, self._upload_interval_s)

    def stop_rolling_window_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        self._stop(("rolling window uploader",), skip_final_flush)

    def start_goodput_interval_uploader(self, window_size_seconds: int) -> None:
        """One rolling window, as earlier versions of the peer call it."""
        self.start_rolling_window_goodput_uploader([window_size_seconds])

    def stop_goodput_interval_uploader(self) -> None:
        """Stop it."""
        self.stop_rolling_window_goodput_uploader()

    def _new_calculator(self) -> GoodputCalculator:
        return self._calculator(**self._settings)

    def _start(self, name: str, update: Callable[[], None], interval_s: float) -> None:
        if name in self._running:
            tell(f"the {name} runs already")
            return
        self._running[name] = Periodic(update, interval_s, name)

    def _stop(self, names: tuple[str, ...], skip_final_flush: bool | None) -> None:
        stopped = [self._running.pop(name) for name in names if name in self._running]
        if stopped:
            skip = self._skip_final_flush if skip_final_flush is None else skip_final_flush
            stop_all(stopped, once_more=not skip, timeout_s=self._final_flush_timeout_s)


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

    def start_goodput_uploader(self) -> None:
        """As every monitor, and the slices in use."""
        super().start_goodput_uploader()
        if self._writer is not None and self._with_slices:
            update = _slices_update(self._new_calculator(), self._writer)
            self._start("slice efficiency uploader", update, self._upload_interval_s)

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        self._stop(("goodput uploader", "slice efficiency uploader"), skip_final_flush)


def _goodput_update(
    calculator: GoodputCalculator, writer: ScalarWriter, *, with_badput: bool
) -> Callable[[], None]:
    def update() -> None:
        goodput, badput, step = calculator.get_job_goodput(include_badput_breakdown=with_badput)
        writer.add_scalar("goodput/goodput", goodput, step)
        _add_badput(writer, "badput", badput, step)
        writer.flush()

    return update


def _deviation_update(
    calculator: GoodputCalculator, writer: ScalarWriter, ideal_step_time_s: float | None
) -> Callable[[], None]:
    written: set[int] = set()

    def update() -> None:
        for step, deviation_s in calculator.get_step_deviation(ideal_step_time_s).items():
            if step not in written:
                writer.add_scalar("step_deviation", deviation_s, step)
                written.add(step)
        writer.flush()

    return update


def _rolling_update(
    calculator: GoodputCalculator, writer: ScalarWriter, windows_s: list[int]
) -> Callable[[], None]:
    def update() -> None:
        now = utc_now()
        for window_s in windows_s:
            start = now - dt.timedelta(seconds=window_s)
            try:
                goodput, badput, step, _, _ = calculator.get_job_goodput_interval(start, now)
            except CompatError:  # nothing happened in this window: the peer has no number for it
                continue
            writer.add_scalar(f"rolling_goodput/{window_s}s", goodput, step)
            _add_badput(writer, f"rolling_badput/{window_s}s", badput, step)
        writer.flush()

    return update


def _slices_update(calculator: GoodputCalculator, writer: ScalarWriter) -> Callable[[], None]:
    def update() -> None:
        _, _, step = calculator.get_job_goodput()
        for name, value in calculator.get_job_goodput_details().items():
            if name.endswith("_slice_efficiency") and isinstance(value, float):
                writer.add_scalar(f"elastic/{name}", value, step)
        writer.flush()

    return update


def _add_badput(writer: ScalarWriter, label: str, badput: BadputTimes, step: int) -> None:
    for kind, percent in badput.items():
        tag = f"{label}/{kind.name.lower()}"
        if isinstance(percent, dict):
            for name, part in percent.items():
                writer.add_scalar(f"{tag}/{name.lower()}", part, step)
        else:
            writer.add_scalar(tag, percent, step)


def _stop_rest(running: dict[str, Periodic], once_more: bool, timeout_s: float | None) -> None:
    stop_all(running.values(), once_more=once_more, timeout_s=timeout_s)
    running.clear()
