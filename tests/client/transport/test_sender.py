"""The application's events on their way out: whatever happens to the daemon, the application goes on."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from scrtune.client.transport import sender, wire
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import StepCompleted

PATIENCE_MS = 60_000

StartDaemon = Callable[[], "zmq.Socket[bytes]"]


def step(number: int) -> StepCompleted:
    return StepCompleted(step=number, start_s=1.0, end_s=2.0)


@pytest.fixture
def start_daemon(endpoint: str) -> Iterator[StartDaemon]:
    """Call it to have a PULL socket at the endpoint, now."""
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())

        def start() -> "zmq.Socket[bytes]":
            socket = stack.enter_context(context.socket(zmq.PULL))
            socket.bind(endpoint)
            return socket

        yield start


def receive(socket: "zmq.Socket[bytes]", count: int) -> list[wire.Envelope]:
    envelopes = []
    for _ in range(count):
        assert socket.poll(PATIENCE_MS), f"only {len(envelopes)} of {count} messages came"
        envelope = wire.decode(socket.recv()).envelope
        assert envelope is not None
        envelopes.append(envelope)
    return envelopes


def end(daemon: "zmq.Socket[bytes]", emitter: Emitter) -> None:
    """Close the daemon's socket and wait until the emitter's has noticed: what was under way may be lost."""
    assert emitter._own is not None
    with emitter._own.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED) as monitor:
        daemon.close(linger=0)
        assert monitor.poll(PATIENCE_MS), "the emitter did not notice that the daemon is gone"
        emitter._own.socket.disable_monitor()


def test_every_event_is_one_envelope_in_order(start_daemon: StartDaemon, endpoint: str) -> None:
    socket = start_daemon()
    emitter = Emitter(endpoint, sender="rank0")
    assert all(emitter.emit(step(number)) for number in range(3))
    envelopes = receive(socket, 3)
    assert [(e.sender, e.sequence, e.dropped, len(e.events)) for e in envelopes] == [
        ("rank0", 0, 0, 1),
        ("rank0", 1, 0, 1),
        ("rank0", 2, 0, 1),
    ]
    emitter.close()


@pytest.mark.parametrize("endpoint", ["ipc:///tmp/r\udcff/events.sock", "nonsense"])
def test_an_endpoint_that_cannot_be_costs_the_events_alone(endpoint: str) -> None:
    emitter = Emitter(endpoint)
    assert not emitter.emit(step(0))
    assert emitter.dropped == 1
    emitter.close()


def test_events_wait_for_a_daemon_that_comes_later(start_daemon: StartDaemon, endpoint: str) -> None:
    emitter = Emitter(endpoint)
    assert emitter.emit(step(0))
    assert [e.sequence for e in receive(start_daemon(), 1)] == [0]
    emitter.close()


def test_a_daemon_that_is_gone_and_comes_back_gets_what_was_emitted_meanwhile(
    start_daemon: StartDaemon, endpoint: str
) -> None:
    first = start_daemon()
    emitter = Emitter(endpoint)
    emitter.emit(step(0))
    receive(first, 1)
    end(first, emitter)
    assert emitter.emit(step(1))
    assert emitter.emit(step(2))
    assert [e.sequence for e in receive(start_daemon(), 2)] == [1, 2]
    emitter.close()


def test_a_full_queue_drops_and_the_count_reaches_the_daemon(
    start_daemon: StartDaemon, endpoint: str
) -> None:
    emitter = Emitter(endpoint, queue_limit=5)
    sent = [emitter.emit(step(number)) for number in range(8)]
    assert sent == [True] * 5 + [False] * 3
    assert emitter.dropped == 3
    socket = start_daemon()
    assert [e.sequence for e in receive(socket, 5)] == [0, 1, 2, 3, 4]
    assert emitter._own is not None
    assert emitter._own.socket.poll(PATIENCE_MS, zmq.POLLOUT)
    assert emitter.emit(step(8))
    assert [(e.sequence, e.dropped) for e in receive(socket, 1)] == [(5, 3)]
    emitter.close()


@pytest.mark.parametrize("bad", [object(), step(2**70), StepCompleted(step="\ud800", start_s=0, end_s=0)])  # type: ignore[arg-type]
def test_an_event_that_cannot_be_encoded_is_counted(endpoint: str, bad: StepCompleted) -> None:
    emitter = Emitter(endpoint)
    assert not emitter.emit(bad)
    assert emitter.dropped == 1
    assert emitter.emit(step(1))
    emitter.close(0.0)


def test_several_events_go_in_one_envelope(start_daemon: StartDaemon, endpoint: str) -> None:
    emitter = Emitter(endpoint)
    assert emitter.emit(step(1), step(2))
    assert emitter.emit(step(3))
    assert [len(e.events) for e in receive(start_daemon(), 2)] == [2, 1]
    emitter.close()


def test_of_several_events_only_the_one_that_cannot_be_encoded_is_lost(
    start_daemon: StartDaemon, endpoint: str
) -> None:
    emitter = Emitter(endpoint)
    assert not emitter.emit(step(1), step(2**70), step(3))
    assert emitter.dropped == 1
    assert [(len(e.events), e.dropped) for e in receive(start_daemon(), 2)] == [(1, 0), (1, 1)]
    emitter.close()


def test_what_is_held_goes_with_the_next_events(start_daemon: StartDaemon, endpoint: str) -> None:
    emitter = Emitter(endpoint, hold_s=60)
    assert emitter.emit(step(1))
    emitter.hold(step(2))
    emitter.hold(step(3), step(4))
    assert emitter.emit(step(5))
    first, second = receive(start_daemon(), 2)
    assert [msgspec.msgpack.decode(event)["step"] for event in first.events] == [1]
    assert [msgspec.msgpack.decode(event)["step"] for event in second.events] == [2, 3, 4, 5]
    emitter.close()


def test_nothing_is_held_where_nothing_was_sent_for_long(start_daemon: StartDaemon, endpoint: str) -> None:
    emitter = Emitter(endpoint, hold_s=0)
    emitter.hold(step(1))
    emitter.hold(step(2))
    assert [len(e.events) for e in receive(start_daemon(), 2)] == [1, 1]
    emitter.close()


def test_few_are_held_and_none_beyond_the_close(start_daemon: StartDaemon, endpoint: str) -> None:
    socket = start_daemon()
    emitter = Emitter(endpoint, hold_s=60)
    emitter.emit(step(0))
    for number in range(100):
        emitter.hold(step(number))
    assert [len(e.events) for e in receive(socket, 2)] == [1, 64]
    emitter.close()
    assert [len(e.events) for e in receive(socket, 1)] == [36]


def test_with_a_bad_endpoint_events_are_dropped() -> None:
    emitter = Emitter("nonsense://nowhere")
    assert not emitter.emit(step(0))
    assert emitter.dropped == 1
    emitter.close()


def test_after_close_events_are_dropped_and_closing_again_is_harmless(endpoint: str) -> None:
    emitter = Emitter(endpoint)
    emitter.close(0.0)
    emitter.close()
    assert not emitter.emit(step(0))
    assert emitter.dropped == 1


def test_threads_may_share_an_emitter(start_daemon: StartDaemon, endpoint: str) -> None:
    socket = start_daemon()
    emitter = Emitter(endpoint)

    def emit_many() -> None:
        for number in range(200):
            assert emitter.emit(step(number))

    threads = [threading.Thread(target=emit_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [e.sequence for e in receive(socket, 800)] == list(range(800))
    emitter.close()


FORK = """
import os, sys
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import StepCompleted
emitter = Emitter(sys.argv[1], sender="parent")
emitter.emit(StepCompleted(step=0, start_s=0, end_s=0))
if (child := os.fork()) == 0:
    emitter.emit(StepCompleted(step=1, start_s=0, end_s=0))
    sys.exit(0)  # runs what is registered for the end, also what the parent registered
assert os.waitpid(child, 0)[1] == 0
emitter.emit(StepCompleted(step=2, start_s=0, end_s=0))
"""


def test_a_forked_child_speaks_for_itself_and_leaves_the_parent_alone(
    start_daemon: StartDaemon, endpoint: str
) -> None:
    socket = start_daemon()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, endpoint], check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    heard = {(e.sender.rstrip("0123456789"), e.sequence) for e in receive(socket, 3)}
    assert heard == {("parent", 0), ("parent:", 0), ("parent", 1)}


EXIT = """
import sys, time
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import StepCompleted
started = time.perf_counter()
emitter = Emitter(sys.argv[1])
for number in range(20_000):
    emitter.emit(StepCompleted(step=number, start_s=0, end_s=0))
if sys.argv[2] == "close":
    emitter.close()
print(emitter.dropped, time.perf_counter() - started)
"""


@pytest.mark.parametrize("end", ["close", "leave open"])
def test_without_a_daemon_the_application_ends_as_ever(endpoint: str, end: str) -> None:
    # With ZeroMQ's default linger this would never end; the bound is there to tell that apart, no more.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXIT, endpoint, end],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert done.stdout.split()[0] == "10000"
    assert done.stderr == ""


def test_what_is_under_way_at_the_end_still_reaches_a_daemon(
    start_daemon: StartDaemon, endpoint: str
) -> None:
    socket = start_daemon()
    code = EXIT.replace("20_000", "100")
    subprocess.run([sys.executable, "-c", code, endpoint, "leave open"], check=True, capture_output=True)
    assert [e.sequence for e in receive(socket, 100)] == list(range(100))


def test_a_daemon_that_begins_when_the_application_has_ended_hears_all_of_it(
    start_daemon: StartDaemon, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_FIRST_LINGER_S", PATIENCE_MS / 1000)
    unheard = tmp_path / "unheard"
    unheard.touch()
    emitter = Emitter(endpoint, unheard=unheard)
    assert emitter.emit(step(0))
    ending = threading.Thread(target=emitter.close)
    ending.start()
    ending.join(5 * sender.LINGER_S)
    assert [e.sequence for e in receive(start_daemon(), 1)] == [0]
    ending.join()


CYCLE = """
import gc, sys
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import StepCompleted
emitter = Emitter(sys.argv[1])
emitter.itself = emitter
emitter.emit(StepCompleted(step=0, start_s=0, end_s=0))
del emitter
gc.collect()
"""


def test_an_emitter_that_is_garbage_in_a_cycle_is_collected_without_waiting(endpoint: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CYCLE, endpoint],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
