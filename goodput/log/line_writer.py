"""Lines on their way into a log, by a thread: who hands one over waits for nothing."""

import contextlib
import os
import sys
import threading
import time
import weakref
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import ClassVar

import msgspec

from ..events import GoodputEvent
from .line_log import RETRY_S, LineLog

GATHER_S = 0.02
CLOSE_LIMIT_S = 1.0
_SLICE = 128
"""Taken at once: 0.1 ms or so of encoding, for which an application's thread may have to wait."""


class _Flush:
    """Asks the thread to write what was handed over before, and to `sync` it; `done` is set then."""

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync
        self.began_s = time.monotonic()
        self.is_missed = False
        self.done = threading.Event()


_Item = bytes | GoodputEvent | _Flush | None
"""None is the end."""

_living: "weakref.WeakSet[LineWriter]" = weakref.WeakSet()


class LineWriter:
    """Writes lines, and events as a line of JSON each, to `log`, which nobody else in this process does.

    Nothing blocks or raises. At most `log.limit` lines wait for the thread, and as many for the file; what is
    lost beyond that is counted in :attr:`lost`. A process that is killed loses what was handed over in the
    last `gather_s` seconds, and what the file could not take. A forked child writes its own lines, and none
    of its parent's.

    Whoever waits for a thread that a file system holds up, be it for a flush or for the end, waits from when
    the first one began to: a second for each of them would add up.
    """

    _what: ClassVar[str] = "lines"
    _refused: ClassVar[str] = "no place was left for them, or no JSON can have them"

    def __init__(self, log: LineLog, *, gather_s: float = GATHER_S) -> None:
        self.users = 0
        """How many have it from :func:`shared_writer`."""
        self._log = log
        self._limit = log.limit
        self._gather_s = gather_s
        self._encode = msgspec.json.Encoder().encode
        self._begin()
        _living.add(self)

    def _begin(self) -> None:
        # reentrant, as the queue is: a signal handler may record while the thread that it interrupts does
        self._lock = threading.RLock()
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._hurry = threading.Lock()
        self._hurry.acquire()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = False
        self._lost = 0
        self._lost_told = 0
        self._marks = 0  # what is no line in the queue
        self._notes = 0  # what nobody handed over in the log
        self._awaited: _Flush | None = None  # the first that is not done yet, as far as anybody waited

    @property
    def path(self) -> Path:
        """The file."""
        return self._log.path

    @property
    def lost(self) -> int:
        """Lines that were lost so far: no place in the queue or the log, or not to be encoded.

        When :meth:`close` has returned, what still waits is lost, too, unless it is written after all.
        """
        if not self._ended:
            return self._gone
        in_queue = max(0, self._queue.qsize() - self._marks)
        return self._gone + max(0, self._log.waiting - self._notes) + in_queue

    @property
    def error(self) -> str:
        """Why lines wait, or empty."""
        return self._log.error

    @property
    def hangs(self) -> bool:
        """Whether what a flush waited for in vain is still not done."""
        return (first := self._awaited) is not None and first.is_missed and not first.done.is_set()

    @property
    def _gone(self) -> int:
        return self._lost + self._log.lost

    def put(self, item: bytes | GoodputEvent) -> bool:
        """Hand over a line with its end, or an event; whether it found a place."""
        if self._closed or self._queue.qsize() >= self._limit:
            self.lose()
            return False
        self._queue.put(item)
        if self._thread is None:
            self._start()
        return True

    def lose(self) -> None:
        """Count a line that will not be written."""
        with self._lock:
            self._lost += 1
        if self._thread is None and not self._closed:
            self._start()  # the log may be told of it: not by the thread that closes, which must not hang

    def flush(self, timeout_s: float = CLOSE_LIMIT_S, *, sync: bool = False) -> bool:
        """Wait, `timeout_s` at most, until the file has what was put before; whether it has all of that.

        With `sync`, the file system was asked to keep it, too. While an earlier flush is not done, the time
        since that one began counts.
        """
        if self._closed or self._thread is None:
            return self._queue.empty() and not self._log.waiting
        flush = _Flush(sync=sync)
        with self._lock:
            if self._awaited is None or self._awaited.done.is_set():
                self._awaited = flush
        self._mark(flush)
        if not flush.done.wait(self._left_s(timeout_s)):
            flush.is_missed = True
            return False
        return not self._log.waiting

    def close(self, timeout_s: float = CLOSE_LIMIT_S) -> str:
        """Write what is there, waiting `timeout_s` at most; returns what there is to say of what was lost.

        While a flush is not done, the time since that began counts. Later calls only have what was lost
        since.
        """
        with self._lock:
            is_first, self._closed = not self._closed, True
        if is_first:
            self._end(timeout_s)
        lost = self.lost
        if lost <= self._lost_told:
            return ""
        self._lost_told = lost
        hangs = self._thread is not None and self._thread.is_alive()
        reason = self._log.error or ("it does not take them" if hangs else self._refused)
        return f"{lost} {self._what} are not in {self._log.path}: {reason}"

    def begin_in_child(self) -> None:
        """Begin anew: of the parent's threads there is none here, and its locks may be held for good."""
        self._begin()
        self._log.begin_in_child()

    def _take(self, item: bytes | GoodputEvent) -> bool:
        """The thread has `item`; whether that makes a line."""
        try:
            line = item if isinstance(item, bytes) else self._line(item)
        except Exception:  # noqa: BLE001  whatever is wrong with one: the others are written
            self.lose()
            return False
        self._log.add(line)
        return True

    def _line(self, event: GoodputEvent) -> bytes:
        return self._encode(event) + b"\n"

    def _wrote(self) -> None:
        """The thread has written what there was, or tried to."""

    def _over(self) -> None:
        """The thread has written the last of it, or tried to."""

    def _end(self, timeout_s: float) -> None:
        self._mark(None)
        if self._thread is None:
            self._run()  # there was nothing to write, or no thread to be had
        elif self._thread is not threading.current_thread():
            self._thread.join(self._left_s(timeout_s))
        self._ended = True

    def _left_s(self, timeout_s: float) -> float:
        """What is left of it to who begins to wait now."""
        first = self._awaited
        if first is None or first.done.is_set():
            return timeout_s
        return max(0.0, first.began_s + timeout_s - time.monotonic())

    def _mark(self, mark: _Flush | None) -> None:
        """Put what is to be done behind the lines that are there, at once."""
        with self._lock:
            self._marks += 1
        self._queue.put(mark)
        with contextlib.suppress(RuntimeError):  # somebody else has rung
            self._hurry.release()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="scrtune-log", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter ends: the next line, or close, tries
                self._thread = None
                return
        # workers of multiprocessing end without atexit's calls, but not without these
        multiprocessing = sys.modules.get("multiprocessing")
        if multiprocessing and multiprocessing.parent_process() is not None:
            multiprocessing.util.Finalize(None, self.close, exitpriority=0)

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._turn()
        self._over()
        self._log.close()

    def _turn(self) -> bool:
        """Wait for something to write, let more of it gather, and write it; whether that was the end."""
        items = self._wait()
        flushes = [item for item in items if isinstance(item, _Flush)]
        ended = None in items
        with self._lock:
            self._marks -= len(flushes) + ended
        for item in items:
            if item is not None and not isinstance(item, _Flush):
                self._take(item)
        self._log.write(now=ended or bool(flushes))
        if any(flush.sync for flush in flushes):
            self._log.sync()
        self._wrote()
        for flush in flushes:
            flush.done.set()
        return ended

    def _wait(self) -> list[_Item]:
        items: list[_Item] = []
        with contextlib.suppress(Empty):
            items.append(self._queue.get(timeout=RETRY_S if self._log.waiting else None))
            if self._queue.qsize() < _SLICE:
                self._hurry.acquire(timeout=self._gather_s)
            while len(items) < _SLICE:
                items.append(self._queue.get_nowait())
        return items


_shared: dict[Path, LineWriter] = {}
_sharing = threading.RLock()  # a finalizer may come at any time


def shared_writer(path: Path) -> LineWriter:
    """This process's writer of the file at `path`; every call needs one of :func:`release`.

    One for all, so that lines are in the file in the order in which the process handed them over.
    """
    with _sharing:
        writer = _shared.setdefault(path, LineWriter(LineLog(path, makes_directory=True)))
        writer.users += 1
        return writer


def release(writer: LineWriter) -> str:
    """Close it, if nobody else has it; returns what is to be told then, as :meth:`LineWriter.close`."""
    with _sharing:
        writer.users -= 1
        if writer.users:
            return ""
        del _shared[writer.path]
    return writer.close()


def _begin_in_child() -> None:
    global _sharing  # noqa: PLW0603
    _sharing = threading.RLock()
    for writer in _living:
        writer.begin_in_child()


os.register_at_fork(after_in_child=_begin_in_child)
