"""The daemon's two sockets and the poller that waits for them."""

import os
from collections.abc import Iterator
from math import ceil

import zmq

from ..client.paths import JobPaths, RunDirectoryError

_EVENTS_QUEUE = 256  # of each sender: what waits here dies with us, what waits at the sender does not
_LARGEST_MESSAGE_BYTES = 256 * 1024 * 1024  # ZeroMQ disconnects the sender; ingest refuses far smaller ones


class Sockets:
    """PULL for events, ROUTER for questions, and further descriptors that wake the poller.

    Raises :class:`RunDirectoryError` when a socket cannot be bound.
    """

    def __init__(self, paths: JobPaths, *fds: int) -> None:
        self._paths = paths
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._events = self._context.socket(zmq.PULL)
        self._events.set_hwm(_EVENTS_QUEUE)
        self._questions = self._context.socket(zmq.ROUTER)
        self._questions.setsockopt(zmq.LINGER, 0)
        try:
            self._bind(self._events, paths.events_endpoint)
            self._bind(self._questions, paths.control_endpoint)
        except (OSError, zmq.ZMQError) as error:
            self._context.destroy(linger=0)
            raise RunDirectoryError(
                f"{paths.root}: no socket can be bound there ({error}); empty it, or name another directory"
                " with SCRTUNE_RUN_DIR"
            ) from error
        self.poller = zmq.Poller()
        for waited in (self._events, self._questions, *fds):
            self.poller.register(waited, zmq.POLLIN)

    @staticmethod
    def _bind(socket: "zmq.Socket[bytes]", endpoint: str) -> None:
        """Bind; a socket file that a killed daemon left is replaced (we hold the lock)."""
        socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST_MESSAGE_BYTES)
        socket.bind(endpoint)
        os.chmod(endpoint.removeprefix("ipc://"), 0o600)  # noqa: PTH101

    def wait(self, seconds: float) -> set[int]:
        """Wait for any of them, `seconds` at most; returns the descriptors that are readable."""
        ready = self.poller.poll(max(0, ceil(seconds * 1000)))
        return {each for each, _ in ready if isinstance(each, int)}

    def events(self, quiet_s: float = 0.0) -> Iterator[bytes]:
        """Return the messages that are there now, and those that come until none has come for `quiet_s`."""
        while True:
            try:
                yield self._events.recv(zmq.NOBLOCK)
            except zmq.Again:
                if not quiet_s or not self._events.poll(ceil(quiet_s * 1000)):
                    return

    def questions(self) -> Iterator[tuple[list[bytes], bytes]]:
        """Return the questions that are there now: (envelope to answer with, payload)."""
        while True:
            try:
                *envelope, payload = self._questions.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield envelope, payload

    def answer(self, envelope: list[bytes], payload: bytes) -> None:
        """Answer a question. ZeroMQ drops the answer to a client that has gone, or that does not read."""
        self._questions.send_multipart([*envelope, payload], zmq.NOBLOCK)

    def close(self) -> None:
        """Close both, and remove their files."""
        self._context.destroy(linger=0)
        for path in (self._paths.events_socket, self._paths.control_socket):
            path.unlink(missing_ok=True)
