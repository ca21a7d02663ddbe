"""RuleCooldown the daemon: at most the limit, never an exception, and the best answer there is."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.transport import wire
from scrtune.client.transport.daemon_client import AdviceClient, DaemonUnavailable, ask_daemon
from scrtune.intents.effects import Advice

PATIENCE_MS = 10_000
LONG_S = 10.0  # for asks that are answered: a busy machine must not turn them into timeouts
SHORT_S = 0.005


def advice(generation: int) -> Advice:
    return Advice(generation=generation, settings={"SCR_FLUSH": generation}, reason="a test")


def answer(generation: int) -> bytes:
    return msgspec.json.encode(wire.Answer(result=msgspec.Raw(msgspec.json.encode(advice(generation)))))


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


StartDaemon = Callable[[], Daemon]


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path / 'control.sock'}"


@pytest.fixture
def start_daemon(endpoint: str) -> Iterator[StartDaemon]:
    """Call it to have a daemon at the endpoint, now."""
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())

        def start() -> Daemon:
            socket = stack.enter_context(context.socket(zmq.ROUTER))
            socket.setsockopt(zmq.LINGER, 0)
            socket.bind(endpoint)
            return Daemon(socket)

        yield start


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    return start_daemon()


def arrived(client: AdviceClient) -> None:
    """Wait until an answer lies in the client's socket."""
    assert client._own is not None
    assert client._own.socket.poll(PATIENCE_MS)


def ask_in_vain(client: AdviceClient) -> Advice | None:
    """One ask that gets no answer in time."""
    client._limit_s = SHORT_S
    got = client.ask()
    client._limit_s = LONG_S
    return got


def ask(client: AdviceClient, daemon: Daemon, *payloads: bytes) -> Advice | None:
    """One ask, which the daemon answers with `payloads` while the client waits."""

    def serve() -> None:
        identity, question = daemon.hear()
        assert question.command == "recommendation"
        for payload in payloads:
            daemon.say(identity, payload)

    thread = threading.Thread(target=serve)
    thread.start()
    got = client.ask()
    thread.join()
    return got


@pytest.fixture
def client(endpoint: str) -> Iterator[AdviceClient]:
    client = AdviceClient(endpoint, limit_s=LONG_S)
    yield client
    client.close()


def test_the_daemons_answer_is_what_counts(client: AdviceClient, daemon: Daemon) -> None:
    assert ask(client, daemon, answer(1)) == advice(1)
    assert ask(client, daemon, answer(2)) == advice(2)
    assert client.timeouts == 0
    assert client.wait_s > 0


def test_without_a_daemon_and_a_memory_there_is_no_advice(client: AdviceClient) -> None:
    assert ask_in_vain(client) is None
    assert client.timeouts == 1


def test_without_an_answer_the_last_one_counts(client: AdviceClient, daemon: Daemon) -> None:
    ask(client, daemon, answer(3))
    assert ask_in_vain(client) == advice(3)


def test_a_client_that_never_heard_anything_reads_the_file(endpoint: str, tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    client = AdviceClient(endpoint, limit_s=SHORT_S, last_known=file)
    assert client.ask() is None
    file.write_bytes(b"{torn")
    assert client.ask() is None
    file.write_bytes(msgspec.json.encode(advice(4)))
    assert client.ask() == advice(4)
    client.close()


def test_what_was_heard_counts_more_than_the_file(endpoint: str, daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    file.write_bytes(msgspec.json.encode(advice(9)))
    client = AdviceClient(endpoint, limit_s=LONG_S, last_known=file)
    ask(client, daemon, answer(2))
    assert ask_in_vain(client) == advice(2)
    client.close()


def test_a_late_answer_is_used_when_the_next_one_does_not_come(client: AdviceClient, daemon: Daemon) -> None:
    ask_in_vain(client)
    daemon.say(daemon.hear()[0], answer(5))
    arrived(client)
    assert ask_in_vain(client) == advice(5)


def test_a_late_answer_does_not_replace_a_newer_one(client: AdviceClient, daemon: Daemon) -> None:
    ask(client, daemon, answer(6))
    ask_in_vain(client)
    daemon.say(daemon.hear()[0], answer(5))
    arrived(client)
    assert ask_in_vain(client) == advice(6)


def test_a_late_answer_does_not_stand_in_for_the_current_one(client: AdviceClient, daemon: Daemon) -> None:
    ask_in_vain(client)
    daemon.say(daemon.hear()[0], answer(5))
    arrived(client)
    assert ask(client, daemon, answer(6)) == advice(6)


def test_a_daemon_that_lost_its_journal_may_begin_at_0_again(client: AdviceClient, daemon: Daemon) -> None:
    ask(client, daemon, answer(7))
    assert ask(client, daemon, answer(0)) == advice(0)


def test_a_dead_daemon_costs_two_limits_and_no_more(
    client: AdviceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    assert client._own is not None
    poll = client._own.socket.poll
    monkeypatch.setattr(client._own.socket, "poll", lambda limit: (limits.append(limit), poll(limit))[1])
    for _ in range(30):  # more than the questions that find a place in the queue
        assert ask_in_vain(client) is None
    assert limits == [5, 5] + [0] * 28
    assert client.timeouts == 30


def test_a_daemon_that_comes_back_is_waited_for_again(
    client: AdviceClient, start_daemon: StartDaemon
) -> None:
    for _ in range(20):
        ask_in_vain(client)
    daemon = start_daemon()
    daemon.say(daemon.hear()[0], answer(1))  # to one of the questions that waited
    arrived(client)
    while daemon.socket.poll(200):
        daemon.hear()  # the others
    assert ask(client, daemon, answer(2)) == advice(2)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="torn"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b'{"result":"\xff"}', id="not UTF-8 within"),
        pytest.param(b'{"result":null}', id="no result"),
        pytest.param(b'{"result":{"generation":"one"}}', id="a generation that is text"),
        pytest.param(b'{"result":{"generation":9},"error":"no such command"}', id="an error"),
        pytest.param(b'{"result":{"generation":9},"version":2}', id="another protocol version"),
        pytest.param(b"[" * 100_000, id="bottomless"),
    ],
)
def test_an_answer_without_advice_is_counted_and_the_last_known_stays(
    client: AdviceClient, daemon: Daemon, payload: bytes
) -> None:
    ask(client, daemon, answer(3))
    assert ask(client, daemon, payload) == advice(3)
    assert (client.unusable, client.timeouts) == (1, 0)


@given(payload=st.binary())
def test_no_answer_makes_ask_raise(payload: bytes) -> None:
    client = AdviceClient("ipc:///nonexistent", limit_s=SHORT_S)
    try:
        assert client._understood(payload) is None
    finally:
        client.close()


def test_a_bad_endpoint_is_told_and_the_last_known_counts(tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    file.write_bytes(msgspec.json.encode(advice(4)))
    client = AdviceClient("nonsense://nowhere", last_known=file)
    assert "nonsense://nowhere" in client.error
    assert client.ask() == advice(4)
    client.close()


def test_after_close_the_last_known_counts(client: AdviceClient, daemon: Daemon) -> None:
    ask(client, daemon, answer(3))
    client.close()
    assert client.ask() == advice(3)


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
