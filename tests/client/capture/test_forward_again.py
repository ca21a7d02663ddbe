"""A forwarder whose sink is full, or that is started anew: it goes on where all was sent."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from scrtune.client.capture.follow import KEPT_BYTES
from scrtune.client.capture.forward import Forwarder

from .followed import MIB, Kept, Start, append, numbered, work


def test_while_the_sink_has_no_room_the_lines_wait_in_the_file(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    lines = numbered(0, 80_000)
    append(traces / "app-1.pfw", lines)
    sink.room = 2
    before = work(forwarder)
    assert 0 < before < 80_000
    sink.room = 1000
    forwarder.run(lambda _: True)
    assert sink.lines == lines
    assert forwarder.counts.lines == 80_000
    assert forwarder.counts.dropped == 0


def test_too_long_a_lag_is_cut_at_a_line_and_counted(traces: Path, start: Start, sink: Kept) -> None:
    forwarder = start(sink, lag_limit_bytes=MIB)
    file = traces / "app-1.pfw"
    sink.room = 1
    append(file, numbered(0, 100_000))
    work(forwarder)
    append(file, numbered(100_000, 200_000) + b'{"id":"torn')
    work(forwarder)
    append(file, b'"}\n')
    sink.room = 1000
    forwarder.run(lambda _: True)
    received = sink.lines.splitlines()
    assert forwarder.counts.dropped > 50_000
    assert len(received) + forwarder.counts.dropped == 200_001
    assert sink.dropped == forwarder.counts.dropped
    ids = [msgspec.json.decode(line)["id"] for line in received]  # whole lines, all of them
    assert ids[-2:] == [199_999, "torn"]
    assert len(set(ids)) == len(ids)


def restarted(start: Start, forwarder: Forwarder, **options: object) -> tuple[Forwarder, Kept]:
    """Another forwarder of the same files, and its sink."""
    forwarder.close()
    return start(sink := Kept(), **options), sink


def test_a_forwarder_that_is_started_anew_goes_on_where_all_was_sent(
    traces: Path, start: Start, sink: Kept
) -> None:
    file = traces / "app-1.pfw"
    append(file, numbered(0, 10) + b'{"id":')
    append(traces / "app-2.pfw", b"other\n")
    first = start(sink)
    work(first)
    append(file, b"10}\n")
    append(traces / "app-3.pfw", b"new\n")
    again, heard = restarted(start, first)
    assert work(again) == 2
    assert sorted(heard.chunks) == [b"new\n", b'{"id":10}\n']
    assert sorted(heard.learnt.splitlines()) == sorted([*numbered(0, 10).splitlines(), b"other"])


def test_what_was_read_but_not_sent_is_read_again_by_the_next_forwarder(
    roomy: Path, start: Start, sink: Kept
) -> None:
    lines = (b"x" * 1023 + b"\n") * 4096
    append(roomy / "app-1.pfw", lines)
    sink.sends = False
    first = start(sink, roomy / "app")
    work(first)
    assert sink.lines == lines
    again, heard = restarted(start, first, log_prefix=roomy / "app")
    work(again)
    assert heard.lines == lines
    assert heard.learnt == b""


@pytest.mark.parametrize("mark", ["", "nonsense", "[]", '{"1:2":"x"}', '{"1:2":-7}', "\xe4", "[" * 100_000])
def test_without_a_mark_that_can_be_read_all_is_read(
    traces: Path, forwarder: Forwarder, start: Start, mark: str
) -> None:
    append(traces / "app-1.pfw", numbered(0, 10))
    forwarder.drain()
    (traces / "app.sent").write_text(mark)
    again, heard = restarted(start, forwarder)
    assert work(again) == 10
    assert heard.learnt == b""


def test_a_mark_that_cannot_be_written_holds_up_nothing(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    (traces / "app.sent").mkdir()
    append(traces / "app-1.pfw", numbered(0, 10))
    forwarder.drain()
    assert sink.lines == numbered(0, 10)


def test_a_file_that_is_shorter_than_its_mark_is_read_from_its_start(
    traces: Path, forwarder: Forwarder, start: Start
) -> None:
    append(traces / "app-1.pfw", numbered(0, 10))
    forwarder.drain()
    (traces / "app-1.pfw").write_bytes(b"short\n")
    again, heard = restarted(start, forwarder)
    assert work(again) == 1
    assert heard.lines == b"short\n"


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[Path]:
    """A directory on tmpfs, as in a real run, or else wherever temporary files are."""
    shared_memory = Path("/dev/shm")  # noqa: S108
    parent = shared_memory if os.access(shared_memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        yield Path(directory)


def test_what_was_sent_is_given_back_to_the_file_system(roomy: Path, start: Start, sink: Kept) -> None:
    forwarder = start(sink, roomy / "app")
    file = roomy / "app-1.pfw"
    lines = b"".join(b"%1023d\n" % number for number in range(4096))
    append(file, lines)
    occupied = file.stat().st_blocks
    sink.sends = False
    work(forwarder)
    assert file.stat().st_blocks == occupied, "it is not sent yet"
    sink.sends = True
    forwarder.run(lambda _: True)
    assert forwarder.counts.reclaim_error == ""
    assert file.stat().st_size == len(lines)
    assert file.stat().st_blocks * 512 <= occupied * 512 - 3 * MIB
    append(file, b"more\n")
    assert work(forwarder) == 1
    append(file, b"most\n")
    again, heard = restarted(start, forwarder, log_prefix=roomy / "app")
    assert work(again) == 1 + 1, "the last rounds sent nothing"
    assert heard.lines == b"more\nmost\n"
    assert lines.startswith(heard.learnt[:KEPT_BYTES])
    assert len(heard.learnt) < MIB


def test_what_is_skipped_is_given_back_though_nobody_listens(roomy: Path, start: Start, sink: Kept) -> None:
    forwarder = start(sink, roomy / "app", lag_limit_bytes=2 * MIB)
    file = roomy / "app-1.pfw"
    sink.room, sink.sends = 0, False
    for _ in range(8):
        append(file, (b"x" * 1023 + b"\n") * 1024)
        work(forwarder)
    assert file.stat().st_blocks * 512 <= 3 * MIB + 2 * KEPT_BYTES
