"""Drop-behind: what is written past the cache finds the pages of checkpoints that newer ones have replaced.

As native/behind.c does it for a real SCR, where the reasons are. Here a checkpoint is on the storage when it
is published, so that those before it can go at once.
"""

import os
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

KEPT = 3
"""Checkpoints that are remembered: the newest, and those to drop when the next one begins."""
THREAD_NAME = "scrtune-drop-behind"


class DropBehind:
    """The files of one rank's last checkpoints in the prefix directory."""

    def __init__(self) -> None:
        self._published: deque[tuple[Path, ...]] = deque(maxlen=KEPT)

    def started(self) -> None:
        """Let the checkpoints before the newest leave the page cache, for the one that begins."""
        if not self._published:
            return
        newest, replaced = self._published.pop(), {*chain.from_iterable(self._published)}
        self._published = deque([newest], maxlen=KEPT)
        if replaced := replaced.difference(newest):  # the application may write the same files again
            with suppress(RuntimeError):  # no more threads on this system
                threading.Thread(target=_drop, args=(replaced,), name=THREAD_NAME, daemon=True).start()

    def published(self, files: Iterable[Path]) -> None:
        """Take in that a checkpoint is in the prefix directory, written there or flushed: `files` of it."""
        self._published.append(tuple(files))


def _drop(files: Iterable[Path]) -> None:
    """Drop what is on the storage; the application waits for none of it."""
    for path in files:
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
