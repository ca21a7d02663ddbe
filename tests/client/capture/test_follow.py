"""One file as it grows: whole lines, what is skipped, and what is given back."""

import contextlib
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.capture.follow import FollowedFile, ForwardCounts

from .followed import MIB, append


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
