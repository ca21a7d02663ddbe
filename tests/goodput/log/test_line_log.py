"""Files that only grow by whole pieces, and the lines that many processes append to a file."""

import contextlib
import resource
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.log.line_log import LineFile, append_whole


@given(pieces=st.lists(st.binary(max_size=40), max_size=8), room=st.integers(0, 150))
def test_on_a_full_disk_a_piece_is_there_or_it_is_not(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], room: int
) -> None:
    path = tmp_path_factory.mktemp("full") / "deep" / "file"
    expected = b""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        for piece in pieces:
            if len(expected) + len(piece) <= room:
                append_whole(path, piece)
                expected += piece
            else:
                with pytest.raises(OSError, match="File too large"):
                    append_whole(path, piece)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (path.read_bytes() if pieces else b"") == expected


@pytest.mark.parametrize("before", [b"", b"\n", b"whole\n", b"torn"])
def test_lines_begin_behind_the_end_of_the_last_one(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(before)
    append_whole(path, b"line\n", as_lines=True)
    assert path.read_bytes() == before + (b"\n" if before == b"torn" else b"") + b"line\n"


def line(number: int) -> bytes:
    return b'{"number":%d}\n' % number


def write(file: LineFile, lines: "deque[bytes]") -> None:
    while lines:
        file.write(lines)


def test_a_line_that_a_killed_process_left_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line(1) + b'{"number":2')
    file = LineFile(path)
    write(file, deque([line(3), line(4)]))
    file.close()
    assert path.read_bytes() == line(1) + b'{"number":2\n' + line(3) + line(4)


@pytest.mark.parametrize("cut", range(2 * len(line(1)) + 1))
def test_wherever_a_write_is_cut_off_every_line_is_there_once(tmp_path: Path, cut: int) -> None:
    file, lines = LineFile(tmp_path / "log"), deque([line(1), line(2)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (cut, limits[1]))
    try:
        with contextlib.suppress(OSError):
            write(file, lines)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    lines.append(line(3))
    write(file, lines)
    file.close()
    there = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    assert [each for each in there if each in (line(1), line(2), line(3))] == [line(1), line(2), line(3)]


def test_a_thousand_lines_of_any_length_are_all_written_in_order(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "deep" / "log", makes_directory=True)
    lines = [b"\n" if number % 3 else line(number) * number for number in range(1000)]
    write(file, deque(lines))
    assert (tmp_path / "deep" / "log").read_bytes() == b"".join(lines)
