"""How much memory something keeps."""

import gc
import tracemalloc
from collections.abc import Callable


def kept_bytes(build: Callable[[], object]) -> int:
    """Return the bytes that what `build` returns keeps allocated."""
    build()  # what is imported and cached at the first time is not kept by it
    gc.collect()
    tracemalloc.start()
    kept = build()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return size
