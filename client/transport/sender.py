"""Envelopes pushed to the daemon without ever making the sender wait."""

import itertools
import os
import threading
import time
import warnings
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import zmq

from ...intents.events import Event
from ..paths import JobPaths, host_name
from . import wire

QUEUE_LIMIT = 10_000
LINGER_S = 0.1
_FIRST_LINGER_S = 5.0  # on a busy node an application of a few seconds may end before its daemon has begun
HOLD_S = 0.5
"""An event is held where another was sent within so long: who says much wants the cores most."""
_HELD = 64
_numbers = itertools.count(1)


class EnvelopeSocket:
    """A PUSH socket, with a context (and an I/O thread) of its own, that numbers the envelopes of `sender`.

    It outlives its peer's restarts. At most `queue_limit` messages wait in it; the process's end waits for
    them, `linger_s` at most. A forked child must not use it. Raises :class:`zmq.ZMQError` for a bad endpoint,
    and UnicodeEncodeError for one that is not UTF-8.
    """

    def __init__(self, endpoint: str, sender: str, *, queue_limit: int, linger_s: float) -> None:
        self.sender = sender
        self._sequence = 0
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = context.socket(zmq.PUSH)
        # The finalizer holds the socket too: a context that ends before its sockets are closed waits forever.
        self._finalizer = weakref.finalize(self, _close, context, self.socket, os.getpid(), linger_s)
        try:
            self.socket.setsockopt(zmq.SNDHWM, max(1, queue_limit))
            self.socket.connect(endpoint)
        except (zmq.ZMQError, UnicodeEncodeError):
            self.close(0.0)
            raise

    def push(self, events: Iterable[Event] = (), *, dropped: int = 0) -> bool:
        """Send one envelope; return False when the queue is full."""
        message = wire.encode(sender=self.sender, sequence=self._sequence, dropped=dropped, events=events)
        try:
            self.socket.send(message, zmq.NOBLOCK)
        except zmq.Again:
            return False
        self._sequence += 1
        return True

    def close(self, linger_s: float) -> None:
        """Close, waiting `linger_s` at most for messages under way. Does nothing in a forked child."""
        if detached := self._finalizer.detach():
            context, socket, pid, _ = detached[2]
            _close(context, socket, pid, linger_s)


def _close(
    context: "zmq.Context[zmq.Socket[bytes]]", socket: "zmq.Socket[bytes]", pid: int, linger_s: float
) -> None:
    if os.getpid() == pid:
        socket.close(linger=max(0, round(linger_s * 1000)))
        context.term()


class Emitter:
    """Pushes an application's events to `endpoint`. Never blocks, never raises.

    At most `queue_limit` wait. What does not fit or cannot be encoded is counted in :attr:`dropped`, which
    travels in the next envelope. A forked child that emits is a sender of its own. Threads may share it.
    While the file `unheard` is there the daemon is only beginning.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        sender: str | None = None,
        queue_limit: int = QUEUE_LIMIT,
        hold_s: float = HOLD_S,
        unheard: Path | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._hold_s = hold_s
        self._unheard = unheard
        self._queue_limit = queue_limit
        # each emitter has its own sequence, and so a name of its own
        self.sender = sender or f"emit:{host_name()}:{os.getpid()}:{next(_numbers)}"
        self._open()

    @classmethod
    def to_daemon_of(cls, paths: JobPaths) -> "Emitter":
        """Return one that pushes to the daemon of a job, which may be only beginning."""
        return cls(paths.events_endpoint, unheard=paths.unheard)

    def _open(self) -> None:
        # Reentrant: a signal handler may emit while the thread it interrupts does.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self.dropped = 0
        self._held: list[Event] = []
        self._sent_s = 0.0
        self._own: EnvelopeSocket | None = None
        with suppress(zmq.ZMQError, UnicodeEncodeError):  # a bad endpoint: every event is dropped
            self._own = EnvelopeSocket(
                self._endpoint, self.sender, queue_limit=self._queue_limit, linger_s=LINGER_S
            )

    def emit(self, *events: Event) -> bool:
        """Send `events` in one envelope, behind those that are held; return whether all could be sent.

        One costs less than several: each wakes the daemon, which takes the core from the sender where none is
        idle. Where an event cannot be encoded, each has an envelope of its own.
        """
        if os.getpid() != self._pid:
            self._start_anew_in_child()
        with self._lock:
            events, self._held = (*self._held, *events), []
            self._sent_s = time.monotonic()
            return not events or self._push(events)

    def hold(self, *events: Event) -> None:
        """Send `events`, for which nobody waits, with the next ones; at once if none were sent for `hold_s`.

        A process that is killed meanwhile takes them with it.
        """
        if os.getpid() != self._pid:
            self._start_anew_in_child()
        with self._lock:
            self._held += events
            if len(self._held) >= _HELD or time.monotonic() - self._sent_s >= self._hold_s:
                self.emit()

    def _push(self, events: tuple[Event, ...]) -> bool:
        try:
            is_sent = self._own is not None and self._own.push(events=events, dropped=self.dropped)
        except Exception:  # noqa: BLE001  whatever is wrong with an event or the socket: the application goes on
            if len(events) > 1:
                return sum(self._push((event,)) for event in events) == len(events)
            is_sent = False
        self.dropped += 0 if is_sent else len(events)
        return is_sent

    def _start_anew_in_child(self) -> None:
        with warnings.catch_warnings():
            # pyzmq warns of a socket that nobody closed: it is the parent's, and not ours to close
            warnings.simplefilter("ignore", ResourceWarning)
            if self._own is not None:
                self._own.close(0.0)
            self._own = None
        self.sender = f"{self.sender}:{os.getpid()}"
        self._open()

    def close(self, linger_s: float = LINGER_S) -> None:
        """Close, waiting `linger_s` at most for events that are still under way. Later events are dropped.

        For a daemon that is only beginning it waits longer, 5 s at most.
        """
        if os.getpid() != self._pid:
            return
        if self._unheard is not None and self._unheard.exists():
            linger_s = _FIRST_LINGER_S
        with self._lock:
            self.emit()
            if self._own is not None:
                self._own.close(linger_s)
            self._own = None
