"""The wire between an application's node and its daemon, byte by byte (docs/wire.md)."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import zmq
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.client.transport import wire
from scrtune.goodput.events import StepCompleted
from scrtune.intents.events import EventsLost, StorageProbed

STEP = StepCompleted(step=5, start_s=1.0, end_s=2.5)
STEP_BYTES = (
    b"\x84\xa4type\xaestep_completed\xa4step\x05"
    b"\xa7start_s\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"
    b"\xa5end_s\xcb\x40\x04\x00\x00\x00\x00\x00\x00"
)
ENVELOPE_WITH_EVENT = b"\x96\x01\xa9emit:n1:7\x03\x01\xc4\x00\x91" + STEP_BYTES
ENVELOPE_WITH_LINES = b'\x96\x01\xaaforward:n1\x00\x00\xc4\x09{"id":1}\n\x90'


def envelope(*events: bytes) -> bytes:
    return b"\x96\x01\xa1a\x00\x00\xc4\x00" + bytes([0x90 + len(events)]) + b"".join(events)


def test_golden_bytes_of_an_envelope_with_an_event() -> None:
    assert wire.encode(sender="emit:n1:7", sequence=3, dropped=1, events=(STEP,)) == ENVELOPE_WITH_EVENT
    decoded = wire.decode(ENVELOPE_WITH_EVENT)
    assert decoded.events == (STEP,)
    assert decoded.envelope is not None
    assert (decoded.envelope.sender, decoded.envelope.sequence, decoded.envelope.dropped) == (
        "emit:n1:7",
        3,
        1,
    )


def test_golden_bytes_of_an_envelope_with_lines() -> None:
    assert wire.encode(sender="forward:n1", sequence=0, lines=b'{"id":1}\n') == ENVELOPE_WITH_LINES
    decoded = wire.decode(ENVELOPE_WITH_LINES)
    assert decoded.lines == b'{"id":1}\n'
    assert decoded.events == ()


@pytest.mark.parametrize("lines", [b'{"id":1}\n{"id":2}\n', b"[", b"  {}\n", b"not json at all"])
def test_what_begins_below_0x80_is_raw_lines_whatever_it_says(lines: bytes) -> None:
    assert wire.decode(lines) == wire.Message(lines=lines)


def test_golden_bytes_of_question_and_answer() -> None:
    assert msgspec.json.encode(wire.Question(command="pin", values={"A": "1"}, names=("B",))) == (
        b'{"command":"pin","version":1,"values":{"A":"1"},"names":["B"]}'
    )
    assert msgspec.json.encode(wire.Answer(result=msgspec.Raw(b'{"a":1}'))) == (
        b'{"result":{"a":1},"error":"","version":1}'
    )
    assert msgspec.json.decode(b'{"command":"status"}', type=wire.Question) == wire.Question(command="status")


def test_an_envelope_may_grow_fields_at_its_end() -> None:
    longer = b"\x97" + ENVELOPE_WITH_EVENT[1:] + b"\xa3new"
    assert wire.decode(longer) == wire.decode(ENVELOPE_WITH_EVENT)


def test_an_event_may_grow_fields() -> None:
    grown = b"\x85" + STEP_BYTES[1:] + b"\xa3new\xc3"
    assert wire.decode(envelope(grown)).events == (STEP,)


def test_golden_bytes_of_a_probe_whose_other_fields_have_their_defaults() -> None:
    short = b"\x83\xa4type\xaestorage_probed\xa4host\xa2n1\xa5bytes\x05"
    assert wire.decode(envelope(short)).events == (StorageProbed(host="n1", bytes=5),)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"\x81\xa4type\xa7unheard", id="unknown type"),
        pytest.param(b"\x81\xa4type\xaestep_completed", id="required fields missing"),
        pytest.param(b"\x81\xa4type\xa1\xff", id="text that is not UTF-8"),
        pytest.param(b"\x05", id="a number"),
        pytest.param(b"\xc0", id="nil"),
    ],
)
def test_an_unknown_event_does_not_affect_the_others(bad: bytes) -> None:
    decoded = wire.decode(envelope(STEP_BYTES, bad, STEP_BYTES))
    assert decoded.events == (STEP, STEP)
    assert decoded.unknown == 1


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x90", id="an empty array"),
        pytest.param(b"\x80", id="a map"),
        pytest.param(b"\xff", id="a number"),
        pytest.param(b"\xc1", id="no MessagePack"),
        pytest.param(ENVELOPE_WITH_EVENT[:-1], id="cut short"),
        pytest.param(ENVELOPE_WITH_EVENT + b"x", id="something after the end"),
        pytest.param(b"\x96\x01\xa1\xff\x00\x00\xc4\x00\x90", id="a sender that is not UTF-8"),
        pytest.param(
            b"\x96\x01\xa1a\x00\x00\xc4\x00\xdd\xff\xff\xff\xff", id="four billion events announced"
        ),
        pytest.param(b"\x96\x01\xa1a\x00\x00\xc6\xff\xff\xff\xff", id="four gigabytes announced"),
        pytest.param(envelope(b"\x91" * 100_000), id="bottomless"),
        pytest.param(b"\x96\x01\x07\x00\x00\xc4\x00\x90", id="a sender that is a number"),
    ],
)
def test_what_is_neither_form_is_refused(message: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(message)


def test_another_protocol_version_is_refused_by_name() -> None:
    with pytest.raises(wire.WireError, match="protocol version 2; this daemon speaks 1"):
        wire.decode(b"\x96\x02" + ENVELOPE_WITH_EVENT[2:])


@given(st.binary())
@example(b"\x96\x01\xa1\xff\x00\x00\xc4\x00\x90")
def test_no_bytes_raise_anything_but_a_wire_error(message: bytes) -> None:
    try:
        decoded = wire.decode(message)
    except wire.WireError:
        return
    assert decoded.lines == message or decoded.envelope is not None


@given(st.data())
def test_a_damaged_envelope_raises_nothing_but_a_wire_error(data: st.DataObject) -> None:
    damaged = bytearray(wire.encode(sender="a", sequence=1, events=(STEP, EventsLost(source="b", count=2))))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = wire.decode(bytes(damaged))
    except wire.WireError:
        return
    if decoded.envelope is not None:
        assert len(decoded.events) + decoded.unknown == len(decoded.envelope.events)


@given(
    sender=st.text(),
    sequence=st.integers(0, 2**63),
    dropped=st.integers(0, 2**63),
    lines=st.binary(),
    steps=st.lists(
        st.builds(StepCompleted, step=st.integers(0, 2**63), start_s=st.floats(), end_s=st.floats())
    ),
)
def test_what_is_encoded_is_decoded(
    sender: str, sequence: int, dropped: int, lines: bytes, steps: list[StepCompleted]
) -> None:
    decoded = wire.decode(
        wire.encode(sender=sender, sequence=sequence, dropped=dropped, lines=lines, events=steps)
    )
    assert decoded.envelope is not None
    assert (decoded.envelope.sender, decoded.envelope.sequence) == (sender, sequence)
    assert (decoded.envelope.dropped, decoded.lines, decoded.unknown) == (dropped, lines, 0)
    assert repr(decoded.events) == repr(tuple(steps))  # NaN is not equal to itself


EVENTS = "ipc:///run/user/1000/scrtune/4711/node1/events.sock"
CONTROL = "ipc:///run/user/1000/scrtune/4711/node1/control.sock"


def examples(language: str) -> list[str]:
    """The code blocks of docs/wire.md."""
    text = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def heard_from(
    tmp_path: Path, kind: int, command: list[str], documented: str, answer: bytes | None = None
) -> tuple[bytes, bytes]:
    """What `command`, one of the examples, sends to a socket of `kind`, and what it prints."""
    endpoint = f"ipc://{tmp_path / 'x.sock'}"
    (tmp_path / "trace.pfw").write_bytes(b'{"id":1}\n{"id":2}\n')
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    assert documented in command[-1]
    command[-1] = command[-1].replace(documented, endpoint)
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.bind(endpoint)
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdout is not None
            try:
                heard = b""
                while heard.count(b"\n") < 2 and answer is None and b"emit:" not in heard:
                    assert socket.poll(60_000), f"the example sent only {heard!r}"
                    heard += socket.recv()
                if answer is not None:
                    assert socket.poll(60_000), "the example asked nothing"
                    address, empty, heard = socket.recv_multipart()
                    socket.send_multipart([address, empty, answer])
                    return heard, process.stdout.read()
            finally:
                with contextlib.suppress(ProcessLookupError):  # `tail -F` goes on for ever
                    os.killpg(process.pid, signal.SIGKILL)
    return heard, b""


def test_the_documented_ways_to_push_lines_work(tmp_path: Path) -> None:
    python, shell = examples("python")[0], examples("sh")[0]
    for command in ([sys.executable, "-c", python], ["sh", "-c", shell]):
        heard, _ = heard_from(tmp_path, zmq.PULL, command, EVENTS)
        assert heard == b'{"id":1}\n{"id":2}\n'


def test_the_documented_way_to_push_an_event_works(tmp_path: Path) -> None:
    heard, _ = heard_from(tmp_path, zmq.PULL, [sys.executable, "-c", examples("python")[1]], EVENTS)
    assert wire.decode(heard).events == (STEP,)


def test_the_documented_way_to_ask_works(tmp_path: Path) -> None:
    answer = b'{"result":{"generation":3}}'
    heard, printed = heard_from(tmp_path, zmq.ROUTER, ["sh", "-c", examples("sh")[1]], CONTROL, answer)
    assert msgspec.json.decode(heard, type=wire.Question) == wire.Question(command="recommendation")
    assert printed.strip() == answer
