"""The application's own events, pushed to the daemon without ever making the application wait."""

import itertools
import os
import socket as host_socket
import threading
import warnings

import zmq

from ...intents.events import Event
from . import wire
from .own_socket import OwnSocket

QUEUE_LIMIT = 10_000
LINGER_S = 0.1
_numbers = itertools.count(1)


class Emitter:
    """Pushes events to `endpoint`, each in an envelope of its own. Never blocks and never raises.

    Events wait in a queue of `queue_limit` while the daemon is not there (yet, or any more). What does not
    fit, or cannot be encoded, is counted in :attr:`dropped`, and the total travels in the next envelope.
    A forked child that emits gets a socket, a sequence and a sender's name of its own. Threads may share an
    emitter.
    """

    def __init__(self, endpoint: str, *, sender: str | None = None, queue_limit: int = QUEUE_LIMIT) -> None:
        self._endpoint = endpoint
        self._queue_limit = queue_limit
        host = host_socket.gethostname().split(".")[0]
        # each has its own sequence, and so a name of its own
        self.sender = sender or f"emit:{host}:{os.getpid()}:{next(_numbers)}"
        self._open()

    def _open(self) -> None:
        # Reentrant: a signal handler may emit while the thread it interrupts does.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._sequence = 0
        self.dropped = 0
        self.error = ""
        """Why there is no socket, or empty."""
        self._own: OwnSocket | None = None
        try:
            self._own = OwnSocket(zmq.PUSH, self._endpoint, queue_limit=self._queue_limit, linger_s=LINGER_S)
        except zmq.ZMQError as error:
            self.error = f"{self._endpoint}: {error}; every event is dropped. Name the daemon's endpoint."

    def emit(self, event: Event) -> bool:
        """Send `event`; whether it found a place in the queue."""
        if os.getpid() != self._pid:
            self._start_anew_in_child()
        with self._lock:
            if self._send(event):
                self._sequence += 1
                return True
            self.dropped += 1
            return False

    def _send(self, event: Event) -> bool:
        if self._own is None:
            return False
        try:
            message = wire.encode(
                sender=self.sender, sequence=self._sequence, dropped=self.dropped, events=(event,)
            )
            self._own.socket.send(message, zmq.NOBLOCK)
        except Exception:  # noqa: BLE001  whatever is wrong with an event or the socket: the application goes on
            return False
        return True

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
        """Close, waiting `linger_s` at most for events that are still under way. Later events are dropped."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            own, self._own = self._own, None
            if own is not None:
                own.close(linger_s)
