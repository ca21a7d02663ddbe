"""Events on their way to a local log and to the daemon, by a thread: who records one waits for nothing.

The application puts an event into a bounded queue. A thread takes what has gathered there, tells the daemon
if there is one, and appends one JSON line per event to the log.
"""

import contextlib
import os
import sys
import threading
import weakref
from queue import Empty, SimpleQueue

import msgspec

from ..goodput.events import GoodputEvent
from ..goodput.line_log import RETRY_S, LineLog
from ..intents.events import EventsLost
from .emit import Emitter

GATHER_S = 0.02
CLOSE_LIMIT_S = 1.0
_EMITTER_LINGER_S = 0.5
_SLICE = 128
"""Events taken at once: 0.1 ms or so of encoding, for which an application's thread may have to wait."""

_Item = GoodputEvent | bytes | threading.Event

_living: "weakref.WeakSet[EventWriter]" = weakref.WeakSet()


class EventWriter:
    """Appends events, or lines of bytes, to `log`; events also go to `emitter`. Nothing blocks or raises.

    `suffix` is more JSON for each event's object (``,"job_name":"x"``). A process that is killed loses what
    it recorded in the last `gather_s` seconds, and what the log could not take; at most `log.limit` events
    wait for the thread, and as many for the log. What is lost beyond that is counted in :attr:`lost`, and
    told in the log, as lost by `source`, and on standard error by :meth:`close`; what is lost behind that
    by the next close. A forked child writes its own events, and none of its parent's.
    """

    def __init__(
        self,
        log: LineLog,
        emitter: Emitter | None = None,
        *,
        source: str = "",
        suffix: bytes = b"",
        gather_s: float = GATHER_S,
    ) -> None:
        self._log = log
        self._emitter = emitter
        self._source = source
        self._tail = suffix + b"}\n"
        self._limit = log.limit
        self._gather_s = gather_s
        self._encode = msgspec.json.Encoder().encode
        self._begin()
        _living.add(self)

    def _begin(self) -> None:
        # reentrant, as the queue is: a signal handler may record while the thread that it interrupts does
        self._lock = threading.RLock()
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._hurry = threading.Lock()
        self._hurry.acquire()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = False
        self._told = False
        self._lost = 0
        self._lost_in_log = 0
        self._notice = (
            0  # what is no event in the log: 1 while it has not taken the line that tells of losses
        )
        self._lost_told = 0
        self._marks = 0  # what is no event in the queue
        self._missed: threading.Event | None = None

    @property
    def lost(self) -> int:
        """Events that were lost so far: no place in the queue or the log, or not to be encoded.

        When :meth:`close` has returned, what still waits is lost, too, unless it is written after all.
        """
        if not self._ended:
            return self._gone
        in_queue = max(0, self._queue.qsize() - self._marks)
        return self._gone + max(0, self._log.waiting - self._notice) + in_queue

    @property
    def hangs(self) -> bool:
        """Whether what a flush waited for in vain is still not done."""
        return self._missed is not None and not self._missed.is_set()

    @property
    def _gone(self) -> int:
        return self._lost + self._log.lost

    def put(self, item: GoodputEvent | bytes) -> bool:
        """Hand over an event, or a line with its end; whether it found a place."""
        if self._closed or self._queue.qsize() >= self._limit:
            self.lose()
            return False
        self._queue.put(item)
        if self._thread is None:
            self._start()
        return True

    def lose(self, count: int = 1) -> None:
        """Count events that will not be written."""
        with self._lock:
            self._lost += count
        if self._thread is None and not self._closed:
            self._start()  # the log will be told of it: not by the thread that closes, which must not hang

    def flush(self, timeout_s: float = CLOSE_LIMIT_S) -> bool:
        """Wait, `timeout_s` at most, until the log has what was put before; whether it has all of that."""
        if self._closed or self._thread is None:
            return self._queue.empty() and not self._log.waiting
        written = threading.Event()
        self._mark(written)
        if not written.wait(timeout_s):
            self._missed = written
            return False
        return not self._log.waiting

    def close(self, timeout_s: float = CLOSE_LIMIT_S) -> None:
        """Write what is there, waiting `timeout_s` at most, and say on standard error what was lost."""
        with self._lock:
            is_first, self._closed = not self._closed, True
        if is_first:
            self._end(timeout_s)
        self._say_losses()

    def _end(self, timeout_s: float) -> None:
        self._mark(None)
        if self._thread is None:
            self._run()  # there was nothing to write, or no thread to be had
        elif self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        self._ended = True

    def _say_losses(self) -> None:
        lost = self.lost
        if lost <= self._lost_told:
            return
        self._lost_told = lost
        hangs = self._thread is not None and self._thread.is_alive()
        refused = "no place was left for them, they made no event, or they came behind the end"
        reason = "it does not take them" if hangs else refused
        _say(f"{lost} events are not in {self._log.path}: {self._log.error or reason}")

    def _mark(self, mark: threading.Event | None) -> None:
        """Put what is to be done behind the events that are there, at once."""
        with self._lock:
            self._marks += 1
        self._queue.put(mark)
        self._ring()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="scrtune-recorder", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter ends: the next event, or close, tries
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
            ended = self._turn()
        if self._emitter is not None:
            self._emitter.close(_EMITTER_LINGER_S)
            if self._emitter.dropped:
                _say(f"{self._emitter.dropped} events did not reach the daemon")
        self._log.close()

    def _turn(self) -> bool:
        """Wait for something to write, let more of it gather, and write it; whether that was the end."""
        items = self._wait()
        flushed: list[threading.Event] = []
        for item in items:
            if item is not None and not isinstance(item, threading.Event):
                self._take(item)
                continue
            with self._lock:
                self._marks -= 1
            if item is not None:
                flushed.append(item)
        ended = None in items
        self._log.write(now=ended or bool(flushed))
        self._log_losses()
        if self._log.error and not self._told:
            self._told = True
            _say(f"{self._log.path}: {self._log.error}; it is tried again, and {self._limit} events can wait")
        for event in flushed:
            event.set()
        return ended

    def _wait(self) -> list[_Item | None]:
        items: list[_Item | None] = []
        with contextlib.suppress(Empty):
            items.append(self._queue.get(timeout=RETRY_S if self._log.waiting else None))
            if self._queue.qsize() < _SLICE:
                self._hurry.acquire(timeout=self._gather_s)
            while len(items) < _SLICE:
                items.append(self._queue.get_nowait())
        return items

    def _take(self, item: GoodputEvent | bytes) -> None:
        if isinstance(item, bytes):
            self._log.add(item)
            return
        try:
            line = self._line(item)
        except Exception:  # noqa: BLE001  whatever is wrong with an event: the others are written
            self.lose()
            return
        self._log.add(line)
        if self._emitter is not None:
            self._emitter.emit(item)

    def _line(self, event: GoodputEvent | EventsLost) -> bytes:
        return self._encode(event)[:-1] + self._tail

    def _log_losses(self) -> None:
        """Say in the log what it lacks, once it takes lines again."""
        if self._log.waiting:
            return
        self._notice = 0
        if fresh := self._gone - self._lost_in_log:
            self._lost_in_log += fresh
            self._notice = 1
            self._log.add(self._line(EventsLost(source=self._source, count=fresh)))
            self._log.write()

    def _begin_in_child(self) -> None:
        self._begin()
        self._log.begin_in_child()


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody has to listen
        sys.stderr.write(f"scrtune: {text}\n")


def _begin_in_child() -> None:
    for writer in _living:
        writer._begin_in_child()  # noqa: SLF001  of this module


os.register_at_fork(after_in_child=_begin_in_child)
