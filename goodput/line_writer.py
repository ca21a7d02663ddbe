"""Lines on their way into a log, by a thread: who hands one over waits for nothing."""

import contextlib
import os
import sys
import threading
from pathlib import Path
from queue import Empty, SimpleQueue

from .line_log import RETRY_S, LineLog

GATHER_S = 0.02
CLOSE_LIMIT_S = 1.0
_SLICE = 512


class _Flush:
    """Asks the thread to write what was handed over before, and to `sync` it; `done` is set then."""

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync
        self.done = threading.Event()


_Item = bytes | _Flush | None


class LineWriter:
    """Writes lines to `log`, which nobody else in this process does. Nothing blocks or raises.

    At most `log.limit` lines wait for the thread, and as many for the file; what is lost beyond that is
    counted in :attr:`lost`. A process that is killed loses what was handed over in the last
    :data:`GATHER_S` seconds, and what the file could not take. A forked child writes its own lines, and none
    of its parent's.
    """

    def __init__(self, log: LineLog) -> None:
        self.users = 0
        """How many have it from :func:`shared_writer`."""
        self._log = log
        self._begin()

    def _begin(self) -> None:
        # reentrant, as the queue is: a signal handler may record while the thread that it interrupts does
        self._lock = threading.RLock()
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._hurry = threading.Lock()
        self._hurry.acquire()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lost = 0

    @property
    def path(self) -> Path:
        """The file."""
        return self._log.path

    @property
    def lost(self) -> int:
        """Lines that were lost so far: no place was left for them."""
        return self._lost + self._log.lost

    @property
    def error(self) -> str:
        """Why lines wait, or empty."""
        return self._log.error

    def put(self, line: bytes) -> None:
        """Hand over a line with its end."""
        if self._closed or self._queue.qsize() >= self._log.limit:
            with self._lock:
                self._lost += 1
            return
        self._queue.put(line)
        if self._thread is None:
            self._start()

    def flush(self, timeout_s: float = CLOSE_LIMIT_S, *, sync: bool = False) -> bool:
        """Wait, `timeout_s` at most, until the file has what was put before; whether it has all of that.

        With `sync`, the file system was asked to keep it, too.
        """
        if self._closed or self._thread is None:
            return self._queue.empty() and not self._log.waiting
        flush = _Flush(sync=sync)
        self._queue.put(flush)
        self._ring()
        return flush.done.wait(timeout_s) and not self._log.waiting

    def close(self, timeout_s: float = CLOSE_LIMIT_S) -> str:
        """Write what is there, waiting `timeout_s` at most; returns what there is to say of lines lost."""
        with self._lock:
            if self._closed:
                return ""
            self._closed = True
        self._queue.put(None)
        self._ring()
        if self._thread is None:
            self._run()  # there was nothing to write, or no thread to be had
        elif self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        hangs = self._thread is not None and self._thread.is_alive()
        # a thread that hangs leaves the None to be counted
        lost = self.lost + self._log.waiting + self._queue.qsize() - hangs
        if lost <= 0:
            return ""
        reason = "it does not take them" if hangs else "no place was left for them"
        return f"{lost} lines are not in {self._log.path}: {self._log.error or reason}"

    def begin_in_child(self) -> None:
        """Begin anew: of the parent's threads there is none here, and its locks may be held for good."""
        self._begin()
        self._log.begin_in_child()

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

    def _ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # somebody else has rung
            self._hurry.release()

    def _run(self) -> None:
        ended = False
        while not ended:
            items = self._wait()
            ended = None in items
            flushes = [item for item in items if isinstance(item, _Flush)]
            for item in items:
                if isinstance(item, bytes):
                    self._log.add(item)
            self._log.write(now=ended or bool(flushes))
            if any(flush.sync for flush in flushes):
                self._log.sync()
            for flush in flushes:
                flush.done.set()
        self._log.close()

    def _wait(self) -> list[_Item]:
        """What there is to do, once more of it has gathered."""
        items: list[_Item] = []
        with contextlib.suppress(Empty):
            items.append(self._queue.get(timeout=RETRY_S if self._log.waiting else None))
            if self._queue.qsize() < _SLICE:
                self._hurry.acquire(timeout=GATHER_S)
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
    for writer in _shared.values():
        writer.begin_in_child()


os.register_at_fork(after_in_child=_begin_in_child)
