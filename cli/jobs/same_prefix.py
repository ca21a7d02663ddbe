"""Jobs that run in one prefix directory at once: each overwrites what the other has there."""

import contextlib
import os
from collections.abc import Iterator
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

from ...client.paths import JobPaths


@contextlib.contextmanager
def hold_prefix(paths: JobPaths, prefix: Path) -> Iterator[None]:
    """Note that the job has `prefix`. Raises OSError, also where the job runs already."""
    with paths.prefix.open("a", encoding="utf-8", errors="surrogateescape") as note:
        flock(note, LOCK_EX | LOCK_NB)
        note.truncate(0)
        note.write(str(prefix))
        note.flush()
        yield


def others_in(paths: JobPaths, prefix: Path) -> Iterator[str]:
    """Yield the other jobs on this host that run in `prefix`; of two that begin at once one or both do."""
    for name in sorted(os.listdir(paths.base)):  # noqa: PTH208 - names alone
        other = JobPaths.of(name, paths.host, paths.base)
        with contextlib.suppress(OSError):
            if other != paths and _is_held(other.prefix, str(prefix)):
                yield name


def _is_held(note: Path, prefix: str) -> bool:
    with note.open(encoding="utf-8", errors="surrogateescape") as file:
        try:
            flock(file, LOCK_SH | LOCK_NB)
        except BlockingIOError:
            return file.read() == prefix
    return False
