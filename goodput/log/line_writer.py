"""Lines on their way into a log, by a thread: who hands one over waits for nothing."""

import contextlib
import os
import sys
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from typing import ClassVar

import msgspec

from .line_log import WAITING_LIMIT, LineFile

GATHER_S = 0.02
CLOSE_LIMIT_S = 1.0
_RETRY_S = 1.0
_SLICE = 128
"""Encoded at once: 0.1 ms or so, for which an application's thread may have to wait."""


class _Flush:
    """Asks the thread to write what was handed over before; `done` is set then."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.done = threading.Event()
        self.is_written = False


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
        self._limit = limit
        self._gather_s = gather_s
        self._file = LineFile(path, makes_directory=makes_directory)
        self._begin()
        _living.add(self)

    def _begin(self) -> None:
        """Begin, also in a forked child: its parent's thread is not there, and may have held any lock."""
        # a signal handler may record while the thread that it interrupts does: all of this is reentrant
        self._lock = threading.RLock()
        self._bell = threading.Lock()  # held, but for a moment after it was rung
        self._bell.acquire()
        self._items: deque[bytes | msgspec.Struct] = deque()
        self._lines: deque[bytes] = deque()
        self._flushes: deque[_Flush] = deque()
        self._awaited: _Flush | None = None  # the first that is not done yet
        self._thread: threading.Thread | None = None
        self._is_idle = self._is_closed = self._is_over = False
        self._refused = self._lost_told = 0
        self._retry_at_s = 0.0
        self.error = ""
        """Why lines wait, or empty."""

    @property
    def lost(self) -> int:
        """Lines that were lost so far; once closed, also those that still wait."""
        return self._refused + (len(self._items) + len(self._lines) if self._is_over else 0)

    def put(self, item: bytes | msgspec.Struct) -> bool:
        """Hand over a line with its end, or an event; return whether it found a place."""
        # in this order: what the thread moves meanwhile must not count twice
        if self._is_closed or len(self._lines) + len(self._items) >= self._limit:
            self.lose()
            return False
        self._items.append(item)
        if self._is_idle:
            self._is_idle = False
            self._ring()
        elif self._thread is None:
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
            return not (self._items or self._lines)
        if (left_s := self._left_s(timeout_s)) <= 0:
            return False
        flush = _Flush()
        with self._lock:
            if self._awaited is None or self._awaited.done.is_set():
                self._awaited = flush
        self._flushes.append(flush)
        self._ring()
        flush.done.wait(left_s)
        return flush.is_written

    def close(self, timeout_s: float = CLOSE_LIMIT_S) -> str:
        """Write what is there, waiting `timeout_s` at most; return what there is to say of new losses."""
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
        if is_first:
            self._end(timeout_s)
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

    def _end(self, timeout_s: float) -> None:
        self._ring()
        if self._thread is None:
            self._run()  # there was nothing to write, or no thread to be had
        elif self._thread is not threading.current_thread():
            self._thread.join(self._left_s(timeout_s))
        self._is_over = True

    def _left_s(self, timeout_s: float) -> float:
        first = self._awaited
        if first is None or first.done.is_set():
            return timeout_s
        return max(0.0, first.began_s + timeout_s - time.monotonic())

    def _ring(self) -> None:
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
            self._wait()
            # in this order: what was put before the end or a flush is among the items
            is_last = self._is_closed
            flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
            self._drain(at_once=is_last or bool(flushes))
            for flush in flushes:
                flush.is_written = not self._lines
                flush.done.set()
        self._finish()

    def _wait(self) -> None:
        """Wait for something to do, and let more of it gather."""
        self._is_idle = True
        while not (self._items or self._flushes or self._is_closed):
            if not self._bell.acquire(timeout=_RETRY_S if self.error else -1):
                break
        self._is_idle = False
        if len(self._items) < _SLICE and not (self._flushes or self._is_closed):
            self._bell.acquire(timeout=self._gather_s)

    def _drain(self, *, at_once: bool) -> None:
        """Encode and write what is there now, by slices; after an error once a second, or `at_once`."""
        left = len(self._items)
        while True:
            for _ in range(min(left, _SLICE)):
                self._take(self._items.popleft())
            left = max(0, left - _SLICE)
            if (at_once and not left) or not self.error or time.monotonic() >= self._retry_at_s:
                self._write()
            if not left:
                return

    def _take(self, item: bytes | msgspec.Struct) -> None:
        try:
            self._lines.append(self._line(item))
        except Exception:  # noqa: BLE001  whatever is wrong with one: the others are written
            self.lose()

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
