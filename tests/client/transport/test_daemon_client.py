"""Questions to the daemon: any command, any answer, and what to do where none comes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from scrtune.client.transport import wire
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.intents.effects import Advice

PATIENCE_MS = 60_000
LONG_S = 10.0  # for asks that are answered: a busy machine must not turn them into timeouts
SHORT_S = 0.005


def answer(generation: int) -> bytes:
    advice = Advice(generation=generation, settings={"SCR_FLUSH": generation}, reason="a test")
    return msgspec.json.encode(wire.Answer(result=msgspec.Raw(msgspec.json.encode(advice))))


class Daemon:
    """A ROUTER that answers when it is told to."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self.socket = socket

    def hear(self) -> tuple[bytes, wire.Question]:
        assert self.socket.poll(PATIENCE_MS), "no question came"
        identity, empty, payload = self.socket.recv_multipart()
        assert empty == b""
        return identity, msgspec.json.decode(payload, type=wire.Question)

    def say(self, identity: bytes, payload: bytes) -> None:
        self.socket.send_multipart([identity, b"", payload])


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path / 'control.sock'}"


@pytest.fixture
def daemon(endpoint: str) -> Iterator[Daemon]:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(endpoint)
        yield Daemon(socket)


def test_a_plain_req_socket_is_understood_too(daemon: Daemon, endpoint: str) -> None:
    with zmq.Context() as context, context.socket(zmq.REQ) as req:
        req.connect(endpoint)
        req.send(b'{"command": "recommendation"}')
        identity, question = daemon.hear()
        assert question == wire.Question(command="recommendation")
        daemon.say(identity, answer(1))
        assert req.poll(PATIENCE_MS)
        assert msgspec.json.decode(req.recv())["result"]["generation"] == 1


def serve_once(daemon: Daemon, payload: bytes) -> threading.Thread:
    thread = threading.Thread(target=lambda: daemon.say(daemon.hear()[0], payload))
    thread.start()
    return thread


def test_any_command_is_answered(daemon: Daemon, endpoint: str) -> None:
    thread = serve_once(daemon, b'{"result":{"up_s":3}}')
    assert bytes(ask_daemon(endpoint, "status", LONG_S).result) == b'{"up_s":3}'
    thread.join()


def test_an_error_the_daemon_tells_is_an_answer(daemon: Daemon, endpoint: str) -> None:
    thread = serve_once(daemon, b'{"error":"no such command"}')
    assert ask_daemon(endpoint, "nonsense", LONG_S).error == "no such command"
    thread.join()


def test_no_daemon_is_told_with_what_to_do(endpoint: str) -> None:
    with pytest.raises(DaemonUnavailable, match=r"no daemon answered at ipc://.*scrtune run"):
        ask_daemon(endpoint, "status", SHORT_S)


def test_a_bad_endpoint_is_told_with_what_to_do() -> None:
    with pytest.raises(DaemonUnavailable, match="name the daemon's control endpoint"):
        ask_daemon("nonsense://nowhere", "status", SHORT_S)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"hello", "is no scrtune daemon"),
        (b"\xff", "is no scrtune daemon"),
        (b'{"version":2}', "version 2, not 1"),
    ],
)
def test_a_stranger_at_the_endpoint_is_told(daemon: Daemon, endpoint: str, payload: bytes, told: str) -> None:
    thread = serve_once(daemon, payload)
    with pytest.raises(DaemonUnavailable, match=told):
        ask_daemon(endpoint, "status", LONG_S)
    thread.join()
