"""How much of a file is in the page cache."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

_LIBC = ctypes.CDLL(None, use_errno=True)


def resident_share(path: Path) -> float:
    """Return the share of the pages of a file, which is not empty, that are in memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as mapped:
        pages = -(-len(mapped) // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * pages)()
        start = ctypes.c_char.from_buffer(mapped)
        failed = _LIBC.mincore(ctypes.byref(start), ctypes.c_size_t(len(mapped)), found)
        del start
        assert not failed, os.strerror(ctypes.get_errno())
        return sum(each & 1 for each in found) / pages


def skip_where_pages_stay(directory: Path) -> None:
    """Skip a test where files cannot leave memory, as in tmpfs."""
    path = directory / "probe"
    path.write_bytes(bytes(1 << 20))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    stays = resident_share(path) > 0
    path.unlink()
    if stays:
        pytest.skip("the files of this file system stay in memory")
