"""Files that only grow by whole pieces, and TensorBoard's event files made of them."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.log.append import AppendedFile


@given(pieces=st.lists(st.binary(max_size=40), max_size=8), room=st.integers(0, 150))
def test_on_a_full_disk_a_piece_is_there_or_it_is_not(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], room: int
) -> None:
    file = AppendedFile(tmp_path_factory.mktemp("full") / "file")
    expected = b""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        for piece in pieces:
            if len(expected) + len(piece) <= room:
                file.append(piece)
                expected += piece
            else:
                with pytest.raises(OSError, match="File too large"):
                    file.append(piece)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        file.close()
    assert (file.path.read_bytes() if pieces else b"") == expected
