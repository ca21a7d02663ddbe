"""The peer's modules `monitoring` and `monitoring_elastic`: a job's goodput in TensorBoard while it runs.

The scalars have the peer's names; without tensorboardX the monitor says so and starts nothing. There is no
cloud: what the peer sends to Google Cloud Monitoring goes nowhere, and the monitor says that, too.
"""

import datetime as dt
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import partialmethod
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from ..log.tensorboard import TensorBoard
from .goodput import ElasticGoodputCalculator, GoodputCalculator
from .goodput_utils import GCPOptions
from .rules import CompatAccount, CompatError
from .store import tell

__all__ = ["ElasticGoodputMonitor", "GCPOptions", "GoodputMonitor"]

_SHORTEST_S = 0.1
_GOODPUT = "goodput uploader"
_DEVIATION = "step deviation uploader"
_ROLLING = "rolling window uploader"


class _Scalars:
    """Writes what a calculator finds now and then, each kind by its own thread, one upload after the other.

    A failure is reported, once while it stays the same, and ends nothing. No process waits for the threads.
    All stops together wait `patience_s` at most (None: as long as it takes), and anew after a start.
    """

    with_badput = with_slices = False
    ideal_step_time_s: float | None = None
    windows_s: Sequence[int] = ()

    def __init__(self, calculator: GoodputCalculator, board: TensorBoard, patience_s: float | None) -> None:
        self._calculator, self._board, self._turn = calculator, board, threading.Lock()
        self._patience_s = self._left_s = patience_s
        self._told = 0
        self._threads: dict[str, tuple[threading.Thread, SimpleQueue[bool]]] = {}

    def start(self, name: str, interval_s: float | None) -> None:
        """Begin to upload every so many seconds, or (None) only when it is stopped."""
        if self._is_running(name):
            tell(f"the {name} runs already")
            return
        if interval_s is not None:
            self._left_s = self._patience_s
        orders: SimpleQueue[bool] = SimpleQueue()
        work = (name, interval_s, orders)
        thread = threading.Thread(target=self._run, args=work, name="goodput monitor", daemon=True)
        self._threads[name] = thread, orders
        thread.start()

    def stop(self, name: str, *, once_more: bool) -> None:
        """Have it end, after one more upload, also of what was never started; wait as long as is left."""
        if once_more and not self._is_running(name):
            self.start(name, None)
        if not self._is_running(name):
            return
        (thread, orders), began_s = self._threads.pop(name), time.monotonic()
        for order in (True, False) if once_more else (False,):
            orders.put(order)
        if thread is threading.current_thread():  # a finalizer may come at any time
            return
        thread.join(self._left_s)
        if thread.is_alive():
            tell(f"{name}: the last update is not done in time and is given up")
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - began_s))

    def _is_running(self, name: str) -> bool:  # which it is not in a forked child
        return name in self._threads and self._threads[name][0].is_alive()

    def stop_all(self, *, once_more: bool) -> None:
        for name in filter(self._is_running, list(self._threads)):
            self.stop(name, once_more=once_more)

    def _run(self, name: str, interval_s: float | None, orders: "SimpleQueue[bool]") -> None:
        """Upload when ordered (True), and every so many seconds, until the order to end (False)."""
        write = {_GOODPUT: self._goodput, _DEVIATION: self._deviations, _ROLLING: self._rolling}[name]
        failure = ""
        while True:
            with suppress(Empty):
                if not orders.get(timeout=interval_s):
                    return
            try:
                with self._turn:
                    write()
                    self._board.flush()
            except Exception as error:  # noqa: BLE001  monitoring never ends a job
                if (text := f"{name}: {error}") != failure:
                    tell(text)
                failure = text

    def _goodput(self) -> None:
        """Add goodput of the job so far, its badput by type, and the slices of an elastic one."""
        account = self._calculator.account()
        self._add_goodput("goodput/goodput", "badput" if self.with_badput else "", account, "goodput")
        if self.with_slices:
            for name, share in dict[str, float](**self._calculator.efficiency(account.total_s)).items():
                self._board.add_scalar(f"elastic/{name}", share, account.max_productive_step)

    def _rolling(self) -> None:
        """Add goodput and badput of the last so many seconds; nothing where nothing happened."""
        now_s = self._calculator.now_s()
        for window_s in self.windows_s:
            with suppress(CompatError):
                account = self._calculator.window(now_s - window_s, now_s)
                self._add_goodput(f"rolling_goodput/{window_s}s", f"rolling_badput/{window_s}s", account)

    def _deviations(self) -> None:
        """Add how far each step is from the ideal one, those that were not written yet."""
        found_s = self._calculator.get_step_deviation(self.ideal_step_time_s)
        for step, deviation_s in list(found_s.items())[self._told :]:
            self._board.add_scalar("step_deviation", deviation_s, step)
        self._board.flush()  # those of a flush that fails are added again
        self._told = len(found_s)

    def _add_goodput(self, tag: str, badput_tag: str, account: CompatAccount, title: str = "") -> None:
        """Add goodput, and badput by type if that has a tag. Titles may have characters that tags may not."""
        add, step = self._board.add_scalar, account.max_productive_step
        add(tag, account.goodput_percent, step, display_name=title)
        for badput, percent in account.breakdown().items() if badput_tag else ():
            parts = percent if isinstance(percent, dict) else {"": percent}
            for part, part_percent in parts.items():
                name = "/".join(filter(None, (badput.name, part))).lower()
                title = part.lower() or name
                add(f"{badput_tag}/{name}", part_percent, step, display_name=title)


class GoodputMonitor:
    """Computes a job's goodput now and then, on a thread of its own, and writes it to TensorBoard.

    Intervals are in seconds, a tenth at least. A stop writes once more, unless `skip_final_flush`, also of
    what was never started. All stops together take `final_flush_timeout_seconds` at most (None: as long as it
    takes). What still runs when the process ends is stopped the same way. `pathway_enabled`,
    `gcs_sync_interval_seconds` and `cache_dir` change nothing.
    """

    _calculates: ClassVar[type[GoodputCalculator]] = GoodputCalculator

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
        self._once_more = not skip_final_flush
        self._scalars: _Scalars | None = None
        if not monitoring_enabled:
            return
        options = gcp_options or GCPOptions()
        if options.enable_gcp_goodput_metrics or options.enable_gcp_step_deviation_metrics:
            tell("nothing is sent to Google Cloud Monitoring: scrtune works without a cloud")
        if (board := _tensorboard(str(tensorboard_dir))) is None:
            return
        retention = max_logs_retention_period
        calculator = self._calculates(job_name, logger_name, max_logs_retention_period=retention)
        self._scalars = _Scalars(calculator, board, final_flush_timeout_seconds)
        self._scalars.with_badput = include_badput_breakdown
        self._scalars.ideal_step_time_s = configured_ideal_step_time
        # nothing that it runs knows the monitor, or that would never be collected and stopped
        weakref.finalize(self, self._scalars.stop_all, once_more=self._once_more)

    def start_goodput_uploader(self) -> None:
        """Write goodput, and badput by type, every `upload_interval` seconds."""
        self._start(_GOODPUT, self._upload_interval_s)

    def start_step_deviation_uploader(self) -> None:
        """Write how far each step is from the ideal one, if `include_step_deviation`."""
        if self._with_deviation:
            self._start(_DEVIATION, self._deviation_interval_s)

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: list[int]) -> None:
        """Write goodput and badput of the last so many seconds, for each of these windows."""
        if self._scalars is not None:  # without a start there are no windows to write
            self._scalars.windows_s = tuple(rolling_windows_seconds)
        self._start(_ROLLING, self._upload_interval_s)

    def _start(self, name: str, interval_s: float) -> None:
        if self._scalars is not None:
            self._scalars.start(name, interval_s)

    def _stop(self, name: str, skip_final_flush: bool | None = None) -> None:
        """Write it a last time and stop."""
        if self._scalars is not None:
            once_more = self._once_more if skip_final_flush is None else not skip_final_flush
            self._scalars.stop(name, once_more=once_more)

    stop_goodput_uploader = partialmethod(_stop, _GOODPUT)
    stop_step_deviation_uploader = partialmethod(_stop, _DEVIATION)
    stop_rolling_window_goodput_uploader = partialmethod(_stop, _ROLLING)


class ElasticGoodputMonitor(GoodputMonitor):
    """A monitor for an elastic job; `include_slice_efficiency` adds how many of its slices work.

    What a monitor takes beside these is taken by name.
    """

    _calculates = ElasticGoodputCalculator

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
        **others: Any,
    ) -> None:
        others["include_badput_breakdown"] = include_badput_breakdown
        others["include_step_deviation"] = include_step_deviation
        super().__init__(
            job_name, logger_name, tensorboard_dir, upload_interval, monitoring_enabled, **others
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
