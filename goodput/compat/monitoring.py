"""The peer's module `monitoring`: a job's goodput in TensorBoard while it runs.

All uploaders of a monitor share one thread and one reading of the log, which goes on between the uploads:
what is left at the end is a second's worth of entries. The scalars have the peer's names; tensorboardX
encodes them, and if it is not installed the monitor says so and starts nothing. There is no cloud: what the
peer sends to Google Cloud Monitoring goes nowhere, and the monitor says that, too.
"""

import datetime as dt
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias

from ..log.machine import tell, utc_now
from ..log.periodic_tasks import Uploads
from ..log.tensorboard import TensorBoard
from ..yield_hook import YieldHook
from .columns import account_of, window_of
from .goodput import GoodputCalculator
from .goodput_utils import (
    ACTIVITY_EXCLUSION_LIST,
    BadputTimes,
    BadputType,
    GCPOptions,
    IntervalMetricType,
    IntervalWorkloadMetricDetails,
    MetricType,
    WorkloadMetricDetails,
)
from .job import CompatJob
from .rules import CompatError
from .step_times import deviations_s, step_times
from .store import LocalLog

__all__ = [
    "ACTIVITY_EXCLUSION_LIST",
    "BadputType",
    "GCPOptions",
    "GoodputCalculator",
    "GoodputMonitor",
    "IntervalMetricType",
    "IntervalWorkloadMetricDetails",
    "MetricType",
    "WorkloadMetricDetails",
]

MOST_AT_THE_END = 10_000
"""Step deviations that can be written while somebody waits: 0.1 s or so."""
_FINAL_FLUSH_S = 1.0
_SHORTEST_S = 0.1
_PIECE = 64
_GOODPUT = "goodput uploader"
_DEVIATION = "step deviation uploader"
_ROLLING = "rolling window uploader"


class Scalar(NamedTuple):
    """A number at a step; TensorBoard shows it under `title`, by default under its tag."""

    tag: str
    value: float
    step: int
    title: str = ""


Find: TypeAlias = Callable[[YieldHook, bool], Iterator[list[Scalar]]]
"""Finds what there is to write, in pieces: a :data:`~.periodic_tasks.Work` but for the writing.

It is asked for the next piece when the last one is written: how far it has come, it counts then.
"""


def _write(board: TensorBoard, find: Find, yield_hook: YieldHook, is_last: bool) -> None:
    for piece in find(yield_hook, is_last):
        for tag, value, step, title in piece:
            board.add_scalar(tag, value, step, display_name=title)
        board.flush()


def _goodput(
    job: CompatJob,
    with_badput: bool,
    elastic: bool,
    with_slices: bool,
    _yield_hook: YieldHook,
    _is_last: bool,
) -> Iterator[list[Scalar]]:
    """Find goodput of the job so far, its badput by type, and the slices of an elastic one."""
    account = account_of(job.table.rows(), utc_now().timestamp(), elastic=elastic)
    step = account.max_productive_step
    found = [Scalar("goodput/goodput", account.goodput_percent, step, "goodput")]
    if with_badput:
        found += _badput("badput", account.breakdown(), step)
    if with_slices and (efficiency := job.slice_efficiency(account.total_s)) is not None:
        found.append(Scalar("elastic/stepping_slice_efficiency", efficiency[0], step))
        found.append(Scalar("elastic/available_slice_efficiency", efficiency[1], step))
    yield found


def _rolling(
    job: CompatJob, windows_s: tuple[int, ...], elastic: bool, yield_hook: YieldHook, _is_last: bool
) -> Iterator[list[Scalar]]:
    """Find goodput and badput of the last so many seconds; nothing of a window in which nothing happened."""
    now_s = utc_now().timestamp()
    for window_s in windows_s:
        yield_hook()
        with suppress(CompatError):
            account = window_of(job.table.rows((now_s - window_s, now_s)), elastic=elastic)
            step = account.max_productive_step
            share = Scalar(f"rolling_goodput/{window_s}s", account.goodput_percent, step)
            yield [share, *_badput(f"rolling_badput/{window_s}s", account.breakdown(), step)]


def _badput(label: str, badput: BadputTimes, step: int) -> Iterator[Scalar]:
    for kind, percent in badput.items():
        title = kind.name.lower()
        if isinstance(percent, dict):
            for name, part in percent.items():
                yield Scalar(f"{label}/{title}/{name.lower()}", part, step, name.lower())
        else:
            yield Scalar(f"{label}/{title}", percent, step, title)


class Deviations:
    """How far each step is from the ideal one: each is shown once, from the first one on."""

    def __init__(
        self, job: CompatJob, ideal_step_time_s: float | None, most_at_the_end: int = MOST_AT_THE_END
    ) -> None:
        self._job = job
        self._most_at_the_end = most_at_the_end
        self._ideal_step_time_s = ideal_step_time_s
        self._told = 0

    def find(self, yield_hook: YieldHook, is_last: bool) -> Iterator[list[Scalar]]:
        """Find those that were not shown; as long as nobody waits, and not too many at the end."""
        rows = self._job.table.rows()
        if len(step_times(rows.steps, rows.times_s)[0]) == self._told:
            return
        _, numbers, distances_s = deviations_s(rows, self._ideal_step_time_s)
        steps, distances_s = numbers[self._told :].tolist(), distances_s[self._told :]
        left_out = max(0, len(steps) - self._most_at_the_end) if is_last else 0
        if left_out:
            tell(f"of {left_out} steps no deviation is written: there is no time for more than the last ones")
            self._told += left_out
        for begin in range(left_out, len(steps), _PIECE):
            if yield_hook() and not is_last:
                return
            piece = slice(begin, begin + _PIECE)
            told_s = zip(steps[piece], distances_s[piece].tolist(), strict=True)
            found = [Scalar("step_deviation", deviation_s, step) for step, deviation_s in told_s]
            yield found
            self._told += len(found)  # not if the write fails: nobody asks for more then


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
        self._job = CompatJob(LocalLog(logger_name), job_name, max_logs_retention_period)
        self._deviations = Deviations(self._job, configured_ideal_step_time)
        # nothing that it runs knows the monitor, or that would never be collected and stopped
        self._uploads = Uploads("goodput monitor", self._job.read_on, final_flush_timeout_seconds)
        weakref.finalize(self, self._uploads.stop_all, once_more=not skip_final_flush)

    def start_goodput_uploader(self) -> None:
        """Write goodput, and badput by type, every `upload_interval` seconds."""
        if self._board is not None:
            self._start(self._board, _GOODPUT, self._find_goodput(), self._upload_interval_s)

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop."""
        if self._board is not None:
            self._stop(self._board, _GOODPUT, self._find_goodput(), skip_final_flush)

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
            find = partial(_rolling, self._job, tuple(rolling_windows_seconds), self._elastic)
            self._start(self._board, _ROLLING, find, self._upload_interval_s)

    def stop_rolling_window_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Write them a last time and stop. Without a start there are no windows to write."""
        if self._board is not None:
            self._stop(self._board, _ROLLING, None, skip_final_flush)

    def start_goodput_interval_uploader(self, window_size_seconds: int) -> None:
        """Start one rolling window, as earlier versions of the peer call it."""
        self.start_rolling_window_goodput_uploader([window_size_seconds])

    def stop_goodput_interval_uploader(self) -> None:
        """Stop it."""
        self.stop_rolling_window_goodput_uploader()

    def _find_goodput(self) -> Find:
        return partial(_goodput, self._job, self._with_badput, self._elastic, self._with_slices)

    def _start(self, board: TensorBoard, name: str, find: Find, interval_s: float) -> None:
        if not self._uploads.start(name, partial(_write, board, find), interval_s):
            tell(f"the {name} runs already")

    def _stop(self, board: TensorBoard, name: str, find: Find | None, skip_final_flush: bool | None) -> None:
        skip = self._skip_final_flush if skip_final_flush is None else skip_final_flush
        work = None if find is None else partial(_write, board, find)
        self._uploads.stop(name, work, once_more=not skip)


def _open_tensorboard(directory: str) -> TensorBoard | None:
    if "://" in directory:
        tell(f"goodput is not written to {directory}: only to directories of this machine")
        return None
    try:
        return TensorBoard(f"{directory}/goodput")
    except ImportError as error:
        tell(f"goodput is not written to {directory}: {error} (pip install 'scrtune[monitoring]')")
        return None
