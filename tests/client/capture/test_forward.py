"""DFTracer's files on their way into a sink: every line exactly once, whatever happens to the files."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.capture.follow import KEPT_BYTES, FollowedFile, ForwardCounts
from scrtune.client.capture.forward import Forwarder

PATIENCE_S = 20.0
MIB = 1024 * 1024


class Kept:
    """A sink that keeps the lines. It may be full, or unable to send."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.learnt = b""
        self.dropped = 0
        self.room = 1_000_000
        self.sends = True
        self.was_final = False

    @property
    def lines(self) -> bytes:
        return b"".join(self.chunks)

    def learn(self, lines: bytes) -> None:
        self.learnt += lines

    def add(self, lines: bytes) -> int:
        if len(self.chunks) >= self.room:
            return 0
        self.chunks.append(lines)
        return len(lines.splitlines())

    def send(self, dropped: int, *, final: bool = False) -> bool:
        self.dropped = dropped
        self.was_final |= final
        return self.sends

    def close(self) -> None:
        """Nothing is under way."""


@pytest.fixture
def sink() -> Kept:
    return Kept()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Where the files are."""
    (tmp_path / "traces").mkdir()
    return tmp_path / "traces"


Start = Callable[..., Forwarder]


@pytest.fixture
def start(traces: Path) -> Iterator[Start]:
    """Call it to have a forwarder, with these options."""
    with contextlib.ExitStack() as stack:

        def make(sink: Kept, log_prefix: Path = traces / "app", **options: object) -> Forwarder:
            return stack.enter_context(contextlib.closing(Forwarder(log_prefix, sink, **options)))  # type: ignore[arg-type]

        yield make


@pytest.fixture
def forwarder(start: Start, sink: Kept) -> Forwarder:
    return start(sink)


def work(forwarder: Forwarder) -> int:
    """Rounds, each with a look at the files, until one sends nothing. Returns the lines sent."""
    total = 0
    forwarder.scan()
    while sent := forwarder.poll():
        total += sent
        forwarder.scan()
    return total


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def numbered(start: int, stop: int) -> bytes:
    return b"".join(b'{"id":%d}\n' % number for number in range(start, stop))


def test_lines_arrive_once_and_in_order_as_the_file_grows(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    file = traces / "app-1-preload.pfw"
    for start in range(0, 30, 10):
        append(file, numbered(start, start + 10))
        assert work(forwarder) == 10
        assert sink.chunks[-1] == numbered(start, start + 10)
    assert work(forwarder) == 0
    assert sink.lines == numbered(0, 30)


def test_the_files_of_all_processes_are_followed_also_those_that_appear_later(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    append(traces / "app-1-app.pfw", b"one\n")
    append(traces / "app-2-fork.pfw", b"two\n")
    assert work(forwarder) == 2
    append(traces / "app-3-preload.pfw", b"three\n")
    assert work(forwarder) == 1
    assert sorted(sink.chunks) == [b"one\n", b"three\n", b"two\n"]


def test_the_directory_may_appear_later(tmp_path: Path, start: Start, sink: Kept) -> None:
    forwarder = start(sink, tmp_path / "later" / "app")
    assert work(forwarder) == 0
    (tmp_path / "later").mkdir()
    append(tmp_path / "later" / "app-1.pfw", b"one\n")
    assert work(forwarder) == 1


def test_what_is_not_ours_is_left_alone(traces: Path, forwarder: Forwarder) -> None:
    append(traces / "other-1.pfw", b"x\n")
    append(traces / "app-1.txt", b"x\n")
    append(traces / "application-1.pfw", b"x\n")
    os.mkfifo(traces / "app-fifo.pfw")
    (traces / "app-directory.pfw").mkdir()
    (traces / "app-dangling.pfw").symlink_to("nowhere")
    assert work(forwarder) == 0
    assert forwarder.counts.unreadable == 0


def test_compressed_files_are_counted_once_and_ignored(traces: Path, forwarder: Forwarder) -> None:
    append(traces / "app-1.pfw.gz", b"x\n")
    append(traces / "app-2.pfw.gz", b"x\n")
    assert work(forwarder) + work(forwarder) == 0
    assert forwarder.counts.compressed_files == 2


def test_a_torn_line_is_held_until_its_newline(traces: Path, forwarder: Forwarder, sink: Kept) -> None:
    file = traces / "app-1.pfw"
    append(file, b"whole\nto")
    assert work(forwarder) == 1
    append(file, b"r")
    assert work(forwarder) == 0
    append(file, b"n\n")
    assert work(forwarder) == 1
    assert sink.lines == b"whole\ntorn\n"


def test_at_the_end_a_line_without_newline_is_sent_as_it_is(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    append(traces / "app-1.pfw", b"one\n{torn")
    append(traces / "app-2.pfw", b"{also torn")
    forwarder.drain()
    assert sorted(sink.chunks) == [b"one\n", b"{also torn", b"{torn"]
    assert sink.was_final
    assert forwarder.counts.lines == 3


def test_a_deleted_file_is_followed_while_it_may_be_written_to(
    traces: Path, start: Start, sink: Kept
) -> None:
    forwarder = start(sink, deleted_quiet_s=PATIENCE_S)
    file = traces / "app-1.pfw"
    with file.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        forwarder.scan()
        file.unlink()
        writer.write(b"two\n")
        assert work(forwarder) == 2
        writer.write(b"three\nre")
        assert work(forwarder) == 1
    assert forwarder.files == (file,)
    assert sink.lines == b"one\ntwo\nthree\n"


def test_a_deleted_file_that_is_quiet_is_read_to_its_end_and_closed(
    traces: Path, start: Start, sink: Kept
) -> None:
    forwarder = start(sink, deleted_quiet_s=-1.0)
    append(traces / "app-1.pfw", b"one\ntwo\nrest")
    forwarder.scan()
    (traces / "app-1.pfw").unlink()
    work(forwarder)
    assert sink.lines == b"one\ntwo\nrest"
    assert forwarder.files == ()


def test_a_file_that_is_renamed_is_followed_on_and_its_successor_too(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    file = traces / "app-1.pfw"
    with file.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        assert work(forwarder) == 1
        writer.write(b"two\n")
        file.rename(traces / "app-1.pfw.old")
        append(file, b"three\n")
        assert work(forwarder) == 2
        writer.write(b"four\n")
        append(file, b"five\n")
        assert work(forwarder) == 2
    assert sorted(sink.lines.split()) == [b"five", b"four", b"one", b"three", b"two"]


def test_a_file_renamed_within_the_pattern_is_not_sent_twice(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    append(traces / "app-1.pfw", b"one\n")
    assert work(forwarder) == 1
    (traces / "app-1.pfw").rename(traces / "app-1-old.pfw")
    (traces / "app-link.pfw").hardlink_to(traces / "app-1-old.pfw")
    assert work(forwarder) == 0


def test_a_truncated_file_is_read_from_its_start_again(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    file = traces / "app-1.pfw"
    append(file, numbered(0, 10))
    work(forwarder)
    file.write_bytes(b"new\n")
    assert work(forwarder) == 1
    assert sink.lines == numbered(0, 10) + b"new\n"
    assert forwarder.counts.truncated == 1


def test_one_flooding_file_does_not_keep_the_others_waiting(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    append(traces / "app-1.pfw", numbered(0, 100_000))
    append(traces / "app-2.pfw", b"quiet\n")
    work(forwarder)
    assert b"quiet\n" in sink.chunks[:2]
    assert len(sink.chunks) > 3


def test_a_long_line_is_sent_whole(traces: Path, forwarder: Forwarder, sink: Kept) -> None:
    long = b"x" * 300_000 + b"\n"
    append(traces / "app-1.pfw", b"before\n" + long + b"after\n")
    assert work(forwarder) == 3
    assert sink.lines == b"before\n" + long + b"after\n"


def test_a_line_beyond_all_measure_is_dropped_and_counted(
    traces: Path, forwarder: Forwarder, sink: Kept
) -> None:
    file = traces / "app-1.pfw"
    append(file, b"before\n" + b"x" * (2 * MIB + 7))
    assert work(forwarder) == 1
    append(file, b"y" * MIB)
    assert work(forwarder) == 0
    append(file, b"y\nafter\n")
    assert work(forwarder) == 1
    assert sink.lines == b"before\nafter\n"
    forwarder.drain()
    assert sink.dropped == forwarder.counts.dropped == 1


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


def test_a_file_that_fails_does_not_affect_the_others(
    traces: Path, forwarder: Forwarder, sink: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(traces / "app-1.pfw", b"one\n")
    append(traces / "app-2.pfw", b"two\n")
    append(traces / "app-3.pfw", b"three\n")
    pread = os.pread

    def failing(fd: int, size: int, offset: int) -> bytes:
        if os.path.sameopenfile(fd, bad.fileno()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, size, offset)

    with (traces / "app-2.pfw").open("rb") as bad:
        monkeypatch.setattr(os, "pread", failing)
        forwarder.scan()
        assert forwarder.poll() == 2
    assert forwarder.counts.unreadable == 1
    monkeypatch.undo()
    assert work(forwarder) == 1  # and when it is well again it is read
    assert sorted(sink.chunks) == [b"one\n", b"three\n", b"two\n"]


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


def test_a_file_that_takes_no_holes_is_remembered_and_harmless(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with contextlib.closing(FollowedFile(tmp_path / "pipe", counts := ForwardCounts(), reclaim=True)) as file:
        file.advance(2 * MIB)
        file.reclaim()
        assert counts.reclaim_error == f"{tmp_path / 'pipe'}: {os.strerror(errno.ESPIPE)}"
        counts.reclaim_error = ""
        file.advance(2 * MIB)
        file.reclaim()
    assert counts.reclaim_error == "", "it is not tried again"


@given(chunks=st.lists(st.binary(max_size=40).map(lambda chunk: chunk.replace(b"a", b"\n")), max_size=30))
def test_however_a_file_grows_whole_lines_come_out(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("grow") / "app-1.pfw"
    path.touch()
    seen = b""
    with contextlib.closing(FollowedFile(path, ForwardCounts())) as file:
        for chunk in chunks:
            append(path, chunk)
            while part := file.lines():
                assert part.endswith(b"\n")
                file.advance(len(part))
                seen += part
        assert seen + file.rest() == b"".join(chunks)
        assert b"\n" not in file.rest()


@given(
    lines=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    targets=st.lists(st.integers(0, 300), max_size=3),
)
def test_what_is_skipped_and_what_is_read_make_the_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], targets: list[int]
) -> None:
    path = tmp_path_factory.mktemp("skip") / "app-1.pfw"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    read: list[bytes] = []
    with contextlib.closing(FollowedFile(path, counts := ForwardCounts())) as file:
        for target in [*sorted(targets), 0]:
            file.skip_to(target)
            part = file.lines()
            part = part[: part.find(b"\n") + 1]
            file.advance(len(part))
            read += part.split(b"\n")[:-1]
        while part := file.lines():
            file.advance(len(part))
            read += part.split(b"\n")[:-1]
    assert len(read) + counts.dropped == len(lines)
    remaining = iter(lines)
    assert all(line in remaining for line in read)  # in order, and nothing that is not a line
