"""The heaps of Python and of glibc (mallopt(3), malloc_trim(3)); another C library is left alone."""

import ctypes
import gc
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
    """Give back to the system all pages that nothing lies in.

    Python keeps up to 2,000 freed tuples of each size for the next ones, and one of them is enough to keep an
    arena of 1 MiB. Only a full collection empties these lists; with all frozen it has nothing to look at.
    """
    gc.freeze()
    gc.collect()
    gc.unfreeze()
    _glibc("malloc_trim", 0)


def _glibc(name: str, *arguments: int) -> None:
    with suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)
