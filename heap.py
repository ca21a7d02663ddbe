"""The C library's heap, as glibc's mallopt(3) and malloc_trim(3) set it; another C library is left alone."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of malloc.h


def set_limits(*, own_pages_bytes: int, kept_bytes: int, heaps: int = 0) -> None:
    """Give buffers of `own_pages_bytes` or more pages of their own; keep `kept_bytes` of free ones at most.

    All threads share `heaps`, where that is not 0: then call this before threads are started. By itself glibc
    raises the first limit to the largest buffer that was ever freed, up to 32 MiB.
    """
    _glibc("mallopt", _MMAP_THRESHOLD, own_pages_bytes)
    _glibc("mallopt", _TRIM_THRESHOLD, kept_bytes)
    if heaps:
        _glibc("mallopt", _ARENA_MAX, heaps)


def give_back() -> None:
    """Give back to the system all pages that nothing lies in."""
    _glibc("malloc_trim", 0)


def _glibc(name: str, *arguments: int) -> None:
    with suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)
