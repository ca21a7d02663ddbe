"""The daemon's two sockets and the poller that waits for them."""

import os
from collections.abc import Iterator
from types import TracebackType

import zmq
from typing_extensions import Self

from ..client.paths import JobPaths

_EVENTS_QUEUE = 10_000


class Sockets:
    """PULL for events, ROUTER for questions, and one more descriptor that wakes the poller."""

    def __init__(self, paths: JobPaths, wakeup_fd: int) -> None:
        self._paths = paths
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._events = self._context.socket(zmq.PULL)
        self._events.set_hwm(_EVENTS_QUEUE)
        self._questions = self._context.socket(zmq.ROUTER)
        self._questions.setsockopt(zmq.LINGER, 0)
        self._bind(self._events, paths.events_endpoint)
        self._bind(self._questions, paths.control_endpoint)
        self._poller = zmq.Poller()
        for waited in (self._events, self._questions, wakeup_fd):
            self._poller.register(waited, zmq.POLLIN)

    @staticmethod
    def _bind(socket: "zmq.Socket[bytes]", endpoint: str) -> None:
        """Bind; a socket file that a killed daemon left is replaced (we hold the lock)."""
        socket.bind(endpoint)
        os.chmod(endpoint.removeprefix("ipc://"), 0o600)  # noqa: PTH101

    def wait(self, seconds: float) -> None:
        """Wait for anything, `seconds` at most."""
        self._poller.poll(max(0, int(seconds * 1000)))

    def events(self) -> Iterator[bytes]:
        """The messages that are there now."""
        while True:
            try:
                yield self._events.recv(zmq.NOBLOCK)
            except zmq.Again:
                return

    def questions(self) -> Iterator[tuple[list[bytes], bytes]]:
        """The questions that are there now: (envelope to answer with, payload)."""
        while True:
            try:
                *envelope, payload = self._questions.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield envelope, payload

    def answer(self, envelope: list[bytes], payload: bytes) -> None:
        """Answer a question; an asker that has gone is not waited for."""
        self._questions.send_multipart([*envelope, payload], zmq.NOBLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._context.destroy(linger=0)
        for path in (self._paths.events_socket, self._paths.control_socket):
            path.unlink(missing_ok=True)
