"""The TCP sockets of a daemon: one where the others' beats arrive, one to the node that its own go to.

Both speak CURVE; pyzmq's authenticator lets in who has the job's key. Nothing here ever waits.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import parse_monitor_message

from .keys import Keys
from .messages import LARGEST_MESSAGE_BYTES

log = logging.getLogger("scrtune.daemon")

_UNSENT = 2  # beats that wait for a connection: an older one says nothing that the next does not
_RECONNECT_MS, _RECONNECT_LONGEST_MS = 100, 2000
_REFUSALS = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
WRONG_KEY = "connections without this job's key"


class Link:
    """Beats in, replies out; beats out, replies in. Raises :class:`zmq.ZMQError` if it cannot listen."""

    def __init__(self, address: str, port: int, keys: Keys, poller: zmq.Poller) -> None:
        """`port` 0 is any that is free. The sockets are registered with `poller`."""
        self._keys, self._poller = keys, poller
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = ThreadAuthenticator(self._context, log=log)
        self._others = self._context.socket(zmq.ROUTER)
        self._contact: zmq.Socket[bytes] | None = None
        self.endpoint = ""
        """Where the others reach this daemon."""
        self.refused: Counter[str] = Counter()
        try:
            self._authenticator.start()
            self._authenticator.configure_curve_callback(
                "*", SimpleNamespace(callback=lambda _domain, key: key == keys.public)
            )
            self._watch = self._others.get_monitor_socket(_REFUSALS)
            self._listen(address, port)
        except (zmq.ZMQError, OSError, RuntimeError):
            self.close()
            raise
        self._poller.register(self._others, zmq.POLLIN)
        self._poller.register(self._watch, zmq.POLLIN)

    def _listen(self, address: str, port: int) -> None:
        socket = self._others
        socket.curve_server = True
        socket.curve_secretkey = self._keys.secret
        socket.setsockopt(zmq.IPV6, int(":" in address))
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE_BYTES)
        socket.bind(f"tcp://{address}:{port or '*'}")
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def contact(self, endpoint: str) -> None:
        """Send beats to `endpoint` from now on; what waits for the one before is given up."""
        self._leave()
        socket = self._context.socket(zmq.DEALER)
        socket.curve_serverkey = socket.curve_publickey = self._keys.public
        socket.curve_secretkey = self._keys.secret
        for option, value in (
            (zmq.IPV6, 1),
            (zmq.LINGER, 0),
            (zmq.SNDHWM, _UNSENT),
            (zmq.RECONNECT_IVL, _RECONNECT_MS),
            (zmq.RECONNECT_IVL_MAX, _RECONNECT_LONGEST_MS),
            (zmq.MAXMSGSIZE, LARGEST_MESSAGE_BYTES),
        ):
            socket.setsockopt(option, value)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            log.warning("%s: no daemon of this job can be there (%s)", endpoint, error)
            socket.close()
            return
        self._contact = socket
        self._poller.register(socket, zmq.POLLIN)

    def send(self, beat: bytes) -> None:
        """Send a beat to the contact, or leave it when two others wait for a connection."""
        with suppress(zmq.Again):
            if self._contact is not None:
                self._contact.send(beat, zmq.NOBLOCK)

    def replies(self) -> Iterator[bytes]:
        """Return the replies that are there now."""
        while self._contact is not None:
            try:
                yield self._contact.recv_multipart(zmq.NOBLOCK)[-1]
            except zmq.Again:
                return

    def beats(self) -> Iterator[tuple[bytes, bytes]]:
        """Return the beats that are there now: (whom to answer, beat)."""
        self._count_refused()
        while True:
            try:
                peer, *_, beat = self._others.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield peer, beat

    def answer(self, peer: bytes, reply: bytes) -> None:
        """Answer a beat. ZeroMQ drops the answer to a node that has gone."""
        self._others.send_multipart([peer, reply], zmq.NOBLOCK)

    def _count_refused(self) -> None:
        while self._watch.poll(0):
            parse_monitor_message(self._watch.recv_multipart())
            if not self.refused[WRONG_KEY]:
                log.warning("a process without this job's key tried to join its daemons; it was refused")
            self.refused[WRONG_KEY] += 1

    def _leave(self) -> None:
        if self._contact is not None:
            self._poller.unregister(self._contact)
            self._contact.close(linger=0)
            self._contact = None

    def close(self) -> None:
        """Close all of it."""
        self._leave()
        for socket in (self._others, getattr(self, "_watch", None)):
            if socket is not None and socket in self._poller:
                self._poller.unregister(socket)
        self._others.disable_monitor()
        self._authenticator.stop()
        self._context.destroy(linger=0)
