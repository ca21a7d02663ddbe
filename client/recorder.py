"""Records where the time of a job goes: in a local log, and with the daemon where there is one.

Each call makes one event (:mod:`..goodput.events`), a context two, and costs the application a microsecond or
two: a thread writes it. No call blocks, and none raises for bad arguments. Users read `docs/recorder.md`.
"""

import os
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import SupportsFloat, SupportsInt

import msgspec
from typing_extensions import Self

from ..goodput.compat.recorder_names import Moment, PeerNames
from ..goodput.events import (
    INTERVAL_KINDS,
    AllocationEnded,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobQueued,
    JobStarted,
    SlicesObserved,
    StepCompleted,
    StepStarted,
)
from ..goodput.log.line_log import WAITING_LIMIT, absolute, log_path
from ..goodput.log.line_writer import CLOSE_LIMIT_S
from ..goodput.readers.ml_goodput import checkpoint_name, elastic_wait_kind
from ..goodput.validation import LARGEST_S, defect, is_near, is_within_bounds
from ..intents.events import MetricObserved
from .event_writer import EventWriter
from .paths import NO_JOB_ID, JobPaths, job_id_from_environment, writer_from_environment
from .transport.sender import Emitter

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GoodputEvent).decode
_LONGEST_NAME = 256


def epoch_seconds(moment: Moment) -> float:
    """Return epoch seconds; a datetime without a zone is local.

    Raises ValueError or TypeError for no time, or one that is more than a year ago or an hour ahead.
    """
    now = time.time()
    if moment is None:
        return now
    if isinstance(moment, (bool, str, bytes, bytearray)):  # float() takes all of these
        raise TypeError(f"{moment!r} is no time")
    time_s = moment.timestamp() if isinstance(moment, datetime) else float(moment)
    if not is_near(time_s, now):
        raise ValueError(f"{moment!r} is more than a year ago, or an hour ahead")
    return time_s


class Recorder(PeerNames):
    """Records the events of the job `job_name` in the process `writer`.

    The job is by default its id in the environment, else :func:`program_name`; `writer` ``rank<n>``, as the
    launcher says, else empty; `log` ``<job name>-goodput.jsonl`` (:func:`.line_log.log_path`). With `enabled`
    false every call does nothing. Threads may share a recorder; a forked child gets a queue and a thread of
    its own. The process's end closes it, within a second.
    """

    def __init__(
        self,
        job_name: str = "",
        *,
        writer: str | None = None,
        log: str | os.PathLike[str] | None = None,
        enabled: bool = True,
        queue_limit: int = WAITING_LIMIT,
    ) -> None:
        self.job_name = job_name or _job_id() or program_name()
        self.writer = writer_from_environment() if writer is None else str(writer)
        self.log = log_path(f"{self.job_name}-goodput") if log is None else absolute(Path(log))
        self._enabled = enabled
        paths = JobPaths.announced() if enabled else None
        self._writer = EventWriter(
            self.log,
            Emitter.to_daemon_of(paths) if paths else None,
            source=_text(self.writer),
            suffix=b',"job_name":' + msgspec.json.encode(_text(self.job_name)),
            limit=queue_limit,
        )
        weakref.finalize(self, self._writer.close)

    @property
    def lost(self) -> int:
        """Events lost so far: no room for them, or bad arguments; once closed, also those not in the log."""
        return self._writer.lost

    def record(self, event: GoodputEvent) -> None:
        """Record any event of :mod:`..goodput.events`."""
        self._make(lambda: _checked(event))

    def job_started(self, ranks: int = 1, nodes: int = 1, at: Moment = None) -> None:
        """Record that the job's processes are up: by one writer or by each, before a run's first step."""
        self._make(
            lambda: JobStarted(
                time_s=epoch_seconds(at), ranks=_whole(ranks), nodes=_whole(nodes), writer=self.writer
            )
        )

    def job_ended(self, exit_code: int | None = None, at: Moment = None) -> None:
        """Record that the job ended by itself; by each writer that recorded its start. 0 and None: well."""
        self._make(
            lambda: JobEnded(
                time_s=epoch_seconds(at),
                exit_code=None if exit_code is None else _whole(exit_code),
                writer=self.writer,
            )
        )

    @contextmanager
    def job(self, ranks: int = 1, nodes: int = 1) -> Iterator[None]:
        """Record one run of the job; its exit code is 0 when it ends without an exception."""
        self.job_started(ranks, nodes)
        exit_code = 1
        try:
            yield
            exit_code = 0
        except SystemExit as end:
            exit_code = 0 if end.code in (None, 0) else 1
            raise
        finally:
            self.job_ended(exit_code)

    def job_queued(self, at: Moment = None) -> None:
        """Record that the job, or its next run, was submitted to the resource manager."""
        self._make(lambda: JobQueued(time_s=epoch_seconds(at)))

    def allocation_ended(self, at: Moment = None) -> None:
        """Record that the allocation comes to its end as planned."""
        self._make(lambda: AllocationEnded(time_s=epoch_seconds(at)))

    def step_started(self, step: int, at: Moment = None) -> None:
        """Record the start of a step; it lasts until this writer's next event. Steps may be sparse."""
        self._make(lambda: StepStarted(step=_whole(step), time_s=epoch_seconds(at), writer=self.writer))

    def step_completed(self, step: int, start: Moment, end: Moment = None) -> None:
        """Record a step from `start` to `end`."""

        def made() -> StepCompleted:
            start_s, end_s = _span(start, end)
            return StepCompleted(step=_whole(step), start_s=start_s, end_s=end_s, writer=self.writer)

        self._make(made)

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Record one step of the main loop, without its checkpoint. One that raises is not recorded."""
        start_s = time.time()
        yield
        self.step_completed(step, start_s)

    def started(self, kind: str, name: str = "", at: Moment = None) -> None:
        """Record the start of an interval; a `kind` not in :data:`INTERVAL_KINDS` is a custom one's name."""
        self._edge(IntervalStarted, kind, name, at)

    def ended(self, kind: str, name: str = "", at: Moment = None) -> None:
        """Record the end of the latest interval of that kind and name."""
        self._edge(IntervalEnded, kind, name, at)

    @contextmanager
    def interval(self, kind: str, name: str = "") -> Iterator[None]:
        """Record an interval, up to the end of the context, also by an exception."""
        self.started(kind, name)
        try:
            yield
        finally:
            self.ended(kind, name)

    def device_init(self) -> AbstractContextManager[None]:
        """Record the initialization of the accelerators, or of the communication between the ranks."""
        return self.interval("device_init")

    def training_prep(self) -> AbstractContextManager[None]:
        """Record the preparation of the main loop: model, optimizer, data sets."""
        return self.interval("training_prep")

    def startup(self) -> AbstractContextManager[None]:
        """Record the start-up of the program: tracing and compilation."""
        return self.interval("startup")

    def data_loading(self, *, asynchronous: bool = False) -> AbstractContextManager[None]:
        """Record loading of data, for which the main loop waits, unless `asynchronous`."""
        return self.interval("data_loading_async" if asynchronous else "data_loading")

    def checkpoint_save(self, name: str | int = "") -> AbstractContextManager[None]:
        """Record the writing of a checkpoint (its name or step) without SCR, in the main loop."""
        return self.interval("checkpoint_save", str(name))

    def checkpoint_restore(self, name: str | int = "") -> AbstractContextManager[None]:
        """Record the reading of a checkpoint without SCR."""
        return self.interval("checkpoint_restore", str(name))

    def checkpointed(
        self, kind: str, step: int, start: Moment, end: Moment = None, directory: str = ""
    ) -> None:
        """Record a ``checkpoint_save`` or ``checkpoint_restore`` without SCR that is over."""

        def made() -> Interval:
            start_s, end_s = _span(start, end)
            name = checkpoint_name(_whole(step), directory)
            return Interval(kind=kind, start_s=start_s, end_s=end_s, name=name, writer=self.writer)

        self._make(made)

    def custom(self, name: str) -> AbstractContextManager[None]:
        """Record other work of the application that stops the main loop, such as an evaluation."""
        return self.interval("custom", name)

    def elastic_wait(self, event_type: str) -> AbstractContextManager[None]:
        """Record waiting for slices: ``scale_up``, or ``slice_down``."""
        return self.interval(elastic_wait_kind(event_type), event_type)

    def elastic_reinit(self) -> AbstractContextManager[None]:
        """Record the initialization of the job with other slices."""
        return self.interval("elastic_reinit")

    def slices(self, active: int, total: int, available: int = 0, at: Moment = None) -> None:
        """Record how many slices of an elastic job are active, asked for, and available."""
        self._make(
            lambda: SlicesObserved(
                time_s=epoch_seconds(at),
                active=_whole(active),
                total=_whole(total),
                available=_whole(available),
            )
        )

    def record_metric(self, name: str, value: SupportsFloat, step: int, at: Moment = None) -> None:
        """Record a measured value that shall not grow without bounds, such as the loss, at `step`.

        NaN and infinities are worth recording, too. The daemon says when it diverges, and from which
        checkpoint on (``scrtune status``); of what shall not fall record the negative.
        """
        self._make(
            lambda: MetricObserved(
                name=str(name)[:_LONGEST_NAME],
                value=_finite(value),
                step=_whole(step),
                time_s=epoch_seconds(at),
                writer=self.writer,
            )
        )

    def flush(self, timeout_s: float = CLOSE_LIMIT_S) -> bool:
        """Wait up to `timeout_s` until the log has all that was recorded; return whether it has."""
        return self._writer.flush(timeout_s)

    def close(self) -> None:
        """Write all that waits, within a second, and report losses on standard error."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _edge(
        self, event: type[IntervalStarted] | type[IntervalEnded], kind: str, name: str, at: Moment
    ) -> None:
        if kind not in INTERVAL_KINDS:
            kind, name = "custom", kind
        self._make(lambda: event(kind=kind, time_s=epoch_seconds(at), name=str(name), writer=self.writer))

    def _make(self, event: Callable[[], GoodputEvent | MetricObserved]) -> None:
        if not self._enabled:
            return
        try:
            made = event()
        except Exception:  # noqa: BLE001  whatever was given: the application goes on
            self._writer.lose()
        else:
            self._writer.put(made)


def program_name() -> str:
    """Return the program's name and a digest of its command line and directory: the same for its next run.

    Options like ``--local_rank=1``, by which launchers distinguish the processes of a job, do not count.
    """
    command = sys.argv if sys.argv[:1] not in ([], [""], ["-c"]) else ["python", *sys.orig_argv[1:]]
    identity = [os.fspath(absolute(Path())), *(each for each in command if "rank" not in each)]
    return f"{Path(command[0]).stem}-{zlib.crc32(os.fsencode(chr(0).join(identity))):08x}"


def _job_id() -> str:
    job_id = job_id_from_environment()
    return "" if job_id == NO_JOB_ID else job_id


def _text(name: str) -> str:
    """Return `name` as Unicode: an environment may have any bytes."""
    return name.encode("utf-8", "replace").decode()


def _span(start: Moment, end: Moment) -> tuple[float, float]:
    start_s, end_s = epoch_seconds(start), epoch_seconds(end)
    if end_s < start_s:
        raise ValueError(f"{end!r} is before {start!r}")
    return start_s, end_s


def _whole(number: SupportsInt) -> int:
    """Raise ValueError, OverflowError or TypeError for what is no whole number, or out of bounds."""
    value = int(number)
    if not is_within_bounds(value):
        raise OverflowError(f"{value!r:.100} is no number of anything")
    return value


def _finite(value: SupportsFloat) -> float | None:
    """Return the number within the bounds of an event; None for what is no finite one."""
    number = float(value)
    return max(-LARGEST_S, min(LARGEST_S, number)) if isfinite(number) else None


def _checked(event: GoodputEvent) -> GoodputEvent:
    """Return `event`, whose fields nothing has looked at so far, or raise ValueError or TypeError."""
    _decode(_encode(event))
    if not is_within_bounds(event):
        raise ValueError("a number or text out of bounds")
    if what := defect(event, time.time()):
        raise ValueError(what)
    return event
