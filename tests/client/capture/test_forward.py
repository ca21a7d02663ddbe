"""DFTracer's files on their way into a sink: every line exactly once, whatever happens to the files."""

import errno
import os
from pathlib import Path

import pytest

from scrtune.client.capture.forward import Forwarder

from .followed import MIB, Kept, Start, append, numbered, work

PATIENCE_S = 20.0


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
