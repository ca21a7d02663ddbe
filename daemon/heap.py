"""The C library's heap: what packing and accounting take for a moment goes back to the system at once."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of malloc.h
_LARGE_BYTES = 256 * 1024


def keep_small() -> None:
    """Give each large buffer pages of its own, and all threads one heap; call before threads are started.

    By itself glibc raises the limit to the largest buffer that was ever freed, up to 32 MiB: later ones lie
    in the heap then, and what is small and stays between them keeps tens of MiB from the system.
    """
    for parameter, value in (
        (_ARENA_MAX, 1),
        (_MMAP_THRESHOLD, _LARGE_BYTES),
        (_TRIM_THRESHOLD, 4 * _LARGE_BYTES),
    ):
        _glibc("mallopt", parameter, value)


def give_back() -> None:
    """Give back all pages that nothing lies in."""
    _glibc("malloc_trim", 0)


def _glibc(name: str, *arguments: int) -> None:
    with suppress(OSError, AttributeError):  # another C library
        getattr(ctypes.CDLL(None), name)(*arguments)
