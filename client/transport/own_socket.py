"""A connected ZeroMQ socket that belongs to one process and never delays its end."""

import os
import weakref

import zmq


class OwnSocket:
    """A socket of `kind`, connected to `endpoint`, with a context (and so an I/O thread) of its own.

    It is made before its peer exists and outlives the peer's restarts: ZeroMQ reconnects. At most
    `queue_limit` messages wait in it. It is closed at the process's end if nobody closed it before, and waits
    at most `linger_s` for messages under way. A forked child inherits the object but must not use the socket:
    it asks :attr:`ours` first. Raises :class:`zmq.ZMQError` for a bad endpoint.
    """

    def __init__(self, kind: int, endpoint: str, *, queue_limit: int, linger_s: float = 0.1) -> None:
        self._pid = os.getpid()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = context.socket(kind)
        # The finalizer holds the socket too: a context that ends before its sockets are closed waits forever.
        self._finalizer = weakref.finalize(self, _close, context, self.socket, self._pid, linger_s)
        try:
            self.socket.setsockopt(zmq.SNDHWM, max(1, queue_limit))
            self.socket.connect(endpoint)
        except zmq.ZMQError:
            self.close(0.0)
            raise

    @property
    def ours(self) -> bool:
        """Return whether this process made the socket and has not closed it."""
        return self._finalizer.alive and os.getpid() == self._pid

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
