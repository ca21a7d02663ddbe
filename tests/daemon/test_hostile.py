"""Whatever is sent to a real daemon: it lives, it counts, it shows what it counted, and it goes on tuning."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from scrtune.client.transport import wire
from scrtune.client.transport.wire import Answer
from scrtune.daemon.journal.records import JournalReader
from scrtune.goodput.events import JobStarted, OutputCompleted, OutputStarted, StepCompleted
from scrtune.intents.events import (
    LARGEST_COUNT,
    EventsLost,
    KnowledgeRecalled,
    NodeObserved,
    ProcessUse,
    SettingsObserved,
    TraceDigest,
)
from scrtune.intents.tune.knowledge import Knowledge

WaitUntil = Callable[[Callable[[], object]], None]
TRACES = Path(__file__).parents[1] / "data" / "traces"
STEP = StepCompleted(step=1, start_s=1.0, end_s=2.0)


@contextlib.contextmanager
def connected(endpoint: str, kind: int) -> "Iterator[zmq.Socket[bytes]]":
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.set_hwm(10_000)
        socket.connect(endpoint)
        yield socket


def status_text(daemon: Any) -> str:
    """What `scrtune status` prints, every run of blanks as one."""
    ran = subprocess.run(
        [sys.executable, "-m", "scrtune", "status", "--job-id", "j"],
        env={"SCRTUNE_RUN_DIR": str(daemon.paths.base), "PATH": "", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return " ".join(ran.stdout.split())


def test_messages_that_are_none_are_counted_and_seen_in_status(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.push(
        b"",
        b"\xc1\xff\x00" * 1000,
        b"\x91" * 1_000_000,
        b"\x96" + bytes(20_000_000),
        msgspec.msgpack.encode([9, "a", 0, 0]),
        msgspec.msgpack.encode([1, "a", 0, 0, b"", [{"type": "dance"}, {"type": "step_completed"}, 7]]),
        wire.encode(sender="b", sequence=0, events=[StepCompleted(step=1, start_s=nan, end_s=inf)]),
    )
    daemon.tell(STEP)
    assert daemon.until_events(1).rejected == {
        "empty message": 1,
        "neither DFTracer lines nor an envelope": 2,
        "messages larger than 16 MiB": 1,
        "protocol version 9; this daemon speaks 1": 1,
        "events of an unknown type or shape": 3,
        "events with a number or text out of bounds": 1,
    }
    assert "1 messages larger than 16 MiB" in status_text(daemon)


def test_lines_that_are_none_are_counted_and_seen_in_status(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start()
    daemon.push(
        b"no json\n",
        b'{"id":1,"na',
        b"[" * 100_000 + b"\n",
        b'{"a":' * 20_000 + b"\n",
        b'{"name":"write","cat":"POSIX","ts":1,"dur":1e400,"ph":"X"}\n',
        b"\x00\x01\x02\n",
    )
    for path in sorted(TRACES.glob("gen4-broken-strings/**/*.pfw")):
        daemon.push(path.read_bytes())  # any PUSH socket may send raw lines
    wait_until(lambda: daemon.view("status").counters.trace_events > 20)
    dropped = daemon.view("status").counters.dropped
    assert dropped["broken json"] >= 4
    assert sum(dropped.values()) >= 6
    assert f"dropped lines {dropped['broken json']} broken json" in status_text(daemon)


def test_events_that_make_no_sense_neither_end_nor_stop_it(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    absurd = [
        SettingsObserved(settings={"FOO": 1}, sources={"FOO": "user config"}),
        SettingsObserved(settings={"SCR_FLUSH": "x" * 60_000}, sources={"SCR_FLUSH": "nowhere"}),
        SettingsObserved(settings={"SCR_FLUSH": 1}, ranks=0, nodes=0, processes=(("", -1), ("n", 2**50))),
        SettingsObserved(settings={}, ranks=-5, nodes=-7, floor="LEANING", cache="\x00", prefix="/" * 5000),
        NodeObserved(host="", cpus=(), processes=(ProcessUse(pid=-1, cpus=(), cores_used=-1e11),)),
        OutputStarted(dataset=-1, name="", time_s=-1e11, generation=-1),
        OutputCompleted(dataset=-1, name="", start_s=1e11, end_s=-1e11, bytes=-1, files=-1),
        *(
            OutputCompleted(
                dataset=number, name="", start_s=-1e11, end_s=1e11, bytes=2**53, files=2**53, flush_s=1e11
            )
            for number in range(8)
        ),
        *(EventsLost(source=f"s{number}", count=LARGEST_COUNT) for number in range(8)),
        StepCompleted(step=-(2**53), start_s=1e11, end_s=-1e11),
        JobStarted(time_s=-1e11, ranks=-1, nodes=0),
    ]
    daemon.tell(*absurd)
    daemon.tell(STEP)
    daemon.until_events(len(absurd) + 1)
    for command in ("status", "explain", "goodput", "recommendation"):
        daemon.view(command)
    assert daemon.end(15) == 0
    assert len(list(JournalReader(daemon.paths.journal))) >= len(absurd) + 1


def test_one_message_neither_counts_nor_names_what_cannot_be(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    refused = [
        EventsLost(source="s", count=28_000_000_000_000),
        EventsLost(source="s" * 2000, count=1),
        TraceDigest(lines=2**40),
        TraceDigest(lines=-1),
        TraceDigest(dropped={"broken json": 2**53}),
        TraceDigest(generations={10**6: 1}),
        KnowledgeRecalled(knowledge=Knowledge(jobs=1, checkpoints=1, failures=-(2**53))),
        TraceDigest(processes=(("h" * 2000, 1),)),
    ]
    daemon.tell(*refused)
    daemon.tell(*(TraceDigest(lines=9, dropped={f"{n}": 1, f"{n}?": 1, "no time": 1}) for n in range(1000)))
    daemon.tell(*(EventsLost(source=f"s{number}", count=2) for number in range(1000)))
    daemon.push(wire.encode(sender="liar", sequence=2**60, dropped=2**60))
    daemon.tell(STEP)
    view = daemon.until_events(2001)
    assert view.rejected == {"events of an unknown type or shape": len(refused)}
    counters = view.counters
    assert counters.dropped == {"no time": 1000, "others": 2000, "events with times that cannot be": 1}
    assert counters.trace_lines == 9000
    assert len(counters.lost) <= 257
    assert sum(counters.lost.values()) <= 2000 + 2 * LARGEST_COUNT


def test_senders_without_end_do_not_fill_its_memory(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.push(
        *(
            wire.encode(sender=f"sender-{number}", sequence=0, dropped=number, events=())
            for number in range(30_000)
        )
    )
    daemon.tell(STEP)
    # every one but the first said that it had dropped something
    lost = daemon.until_events(30_000).counters.lost
    assert sum(lost.values()) == sum(range(30_000))
    assert len(lost) <= 101


def test_hostile_questions_get_an_error_and_are_counted(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    questions = [b"", b"\xff" * 100, b"[" * 60_000, b'{"command":"dance"}', b"x" * 1_000_000]
    with connected(daemon.paths.control_endpoint, zmq.DEALER) as socket:
        for question in questions:
            socket.send_multipart([b"", b"and", b"more", question])
            assert socket.poll(60_000)
            *envelope, answer = socket.recv_multipart()
            assert envelope == [b"", b"and", b"more"]
            assert msgspec.json.decode(answer, type=Answer).error
    assert daemon.view("status").rejected == {"questions": len(questions)}
    assert "5 questions" in status_text(daemon)


def test_a_flood_of_questions_from_one_who_never_listens_holds_nobody_up(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    with connected(daemon.paths.control_endpoint, zmq.DEALER) as socket:
        for _ in range(20_000):
            with contextlib.suppress(zmq.Again):
                socket.send_multipart([b"", b'{"command":"status"}'], zmq.NOBLOCK)
        daemon.tell(STEP)
        daemon.until_events(1)


@pytest.mark.parametrize("option", [zmq.SUB, zmq.REQ])
def test_the_wrong_kind_of_socket_at_the_events_endpoint_is_harmless(real_daemon: Any, option: int) -> None:
    daemon = real_daemon.start()
    with connected(daemon.paths.events_endpoint, option) as socket:
        if option == zmq.REQ:
            with contextlib.suppress(zmq.Again):
                socket.send(b"hello", zmq.NOBLOCK)
        daemon.tell(STEP)
        daemon.until_events(1)
