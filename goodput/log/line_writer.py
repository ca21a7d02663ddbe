"""Lines on their way into a log, by a thread: who hands one over waits for nothing."""

import contextlib
import os
import sys
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import ClassVar

import msgspec

from .line_log import WAITING_LIMIT, LineFile

GATHER_S = 0.02
CLOSE_LIMIT_S = 1.0
_RETRY_S = 1.0
_SLICE = 128
"""Encoded at once: 0.1 ms or so, for which an application's thread may have to wait."""


class _Flush:
    """Asks the thread to write what was handed over before; `done` is set then. The last one ends it."""

    def __init__(self, *, is_last: bool = False) -> None:
        self.began_s = time.monotonic()
        self.done = threading.Event()
        self.is_written = False
        self.is_last = is_last


_living: "weakref.WeakSet[LineWriter]" = weakref.WeakSet()


class LineWriter:
    """Writes lines, and events as a line of JSON each, to the file at `path`, alone in this process.

    Nothing blocks or raises. At most `limit` lines wait, for the thread and for the file, which is tried
    again every second; what is lost beyond that is counted in :attr:`lost`. A killed process loses what was
    handed over in the last `gather_s` seconds. A forked child writes its own lines, and none of its
    parent's. Where a file system hangs, whoever waits does so from when the first one began to.
    """

    _what: ClassVar[str] = "lines"
    _reason: ClassVar[str] = "no place was left for them, or no JSON can have them"

    def __init__(
        self,
        path: Path,
        *,
        limit: int = WAITING_LIMIT,
        gather_s: float = GATHER_S,
        makes_directory: bool = False,
    ) -> None:
        self.path = path
        self.users = 0
        """How many have it from :func:`shared_writer`."""
        self._limit, self._gather_s = limit, gather_s
        self._file = LineFile(path, makes_directory=makes_directory)
        self._begin()
        _living.add(self)

    def _begin(self) -> None:
        """Begin, also in a forked child: its parent's thread is not there, and may have held any lock."""
        # a signal handler may record while the thread that it interrupts does: all of this is reentrant
        self._lock = threading.RLock()
        self._bell = threading.Lock()  # held, but for a moment after it was rung
        self._bell.acquire()
        self._queue: SimpleQueue[bytes | msgspec.Struct | _Flush] = SimpleQueue()
        self._flushes = 0  # in the queue
        self._lines: deque[bytes] = deque()
        self._awaited: _Flush | None = None  # the first that is not done yet
        self._thread: threading.Thread | None = None
        self._is_closed = self._is_over = False
        self._refused = self._lost_told = 0
        self._retry_at_s = 0.0
        self.error = ""
        """Why lines wait, or empty."""

    @property
    def _waiting(self) -> int:
        return self._queue.qsize() - self._flushes + len(self._lines)

    @property
    def lost(self) -> int:
        """Lines that were lost so far; once closed, also those that still wait."""
        return self._refused + (self._waiting if self._is_over else 0)

    def put(self, item: bytes | msgspec.Struct) -> bool:
        """Hand over a line with its end, or an event; return whether it found a place."""
        if self._is_closed or self._queue.qsize() + len(self._lines) >= self._limit:
            self.lose()
            return False
        self._queue.put(item)
        if self._thread is None:
            self._start()
        return True

    def lose(self) -> None:
        """Count a line that will not be written."""
        with self._lock:
            self._refused += 1
        if self._thread is None and not self._is_closed:
            self._start()  # the log may be written to: not by the thread that closes, which must not hang

    def flush(self, timeout_s: float = CLOSE_LIMIT_S) -> bool:
        """Wait, `timeout_s` at most, until the file has what was put before; return whether it has."""
        if self._is_closed or self._thread is None:
            return not self._waiting
        if (left_s := self._left_s(timeout_s)) <= 0:
            return False
        flush = _Flush()
        with self._lock:
            if self._awaited is None or self._awaited.done.is_set():
                self._awaited = flush
        self._ask(flush)
        flush.done.wait(left_s)
        return flush.is_written

    def close(self, timeout_s: float = CLOSE_LIMIT_S) -> str:
        """Write what is there, waiting `timeout_s` at most; return what there is to say of new losses."""
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
        if is_first:
            self._ask(_Flush(is_last=True))
            if self._thread is None:
                self._run()  # there was nothing to write, or no thread to be had
            elif self._thread is not threading.current_thread():
                self._thread.join(self._left_s(timeout_s))
            self._is_over = True
        if (lost := self.lost) <= self._lost_told:
            return ""
        self._lost_told = lost
        hangs = self._thread is not None and self._thread.is_alive()
        reason = self.error or ("it does not take them" if hangs else self._reason)
        return f"{lost} {self._what} are not in {self.path}: {reason}"

    def _line(self, item: bytes | msgspec.Struct) -> bytes:
        return item if isinstance(item, bytes) else msgspec.json.encode(item) + b"\n"

    def _write_lines(self) -> None:
        """Write what waits. Raises OSError."""
        while self._lines:
            self._file.write(self._lines)

    def _finish(self) -> None:
        """Close what the thread has opened: it has written the last line, or tried to."""
        self._file.close()

    def _left_s(self, timeout_s: float) -> float:
        first = self._awaited
        if first is None or first.done.is_set():
            return timeout_s
        return max(0.0, first.began_s + timeout_s - time.monotonic())

    def _ask(self, flush: _Flush) -> None:
        with self._lock:
            self._flushes += 1
        self._queue.put(flush)
        with contextlib.suppress(RuntimeError):  # somebody else has rung
            self._bell.release()

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
        is_last = False
        while not is_last:
            with contextlib.suppress(Empty):
                is_last = self._take(self._queue.get(timeout=_RETRY_S if self.error else None))
                if self._queue.qsize() < _SLICE and not (self._flushes or is_last):
                    self._bell.acquire(timeout=self._gather_s)  # let more gather
                for _ in range(_SLICE - 1):
                    is_last = is_last or self._take(self._queue.get_nowait())
            if not self.error or time.monotonic() >= self._retry_at_s:
                self._write()
        self._finish()

    def _take(self, item: bytes | msgspec.Struct | _Flush) -> bool:
        """Encode a line, or do what a flush asks for; return whether it is the last."""
        if isinstance(item, _Flush):
            with self._lock:
                self._flushes -= 1
            self._write()
            item.is_written = not self._lines
            item.done.set()
            return item.is_last
        try:
            self._lines.append(self._line(item))
        except Exception:  # noqa: BLE001  whatever is wrong with one: the others are written
            self.lose()
        return False

    def _write(self) -> None:
        try:
            self._write_lines()
            self.error = ""
        except OSError as error:
            self.error = error.strerror or str(error)
            self._retry_at_s = time.monotonic() + _RETRY_S


_shared: dict[Path, LineWriter] = {}
_sharing = threading.RLock()  # a finalizer may come at any time


def shared_writer(path: Path) -> LineWriter:
    """Return the process's one writer of a file; every call needs one of :func:`release`."""
    with _sharing:
        writer = _shared.setdefault(path, LineWriter(path, makes_directory=True))
        writer.users += 1
        return writer


def release(writer: LineWriter) -> str:
    """Close it, if nobody else has it; return what is to be reported then, as :meth:`LineWriter.close`."""
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
        writer._begin()  # noqa: SLF001


os.register_at_fork(after_in_child=_begin_in_child)
