"""Drop-behind: the page cache gives up checkpoints past the cache that newer ones have replaced.

As native/behind.c does it for a real SCR, where the reasons are. Here the files are on the storage when an
output is complete (:meth:`.prefix_index.Prefix.sync_written`), so that those of the output before can go.
"""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .settings import Levers

THREAD_NAME = "scrtune-drop-behind"
_NICE = 19


class DropBehind:
    """The files of one rank's newest output past the cache, which replace those of the one before."""

    def __init__(self) -> None:
        self._newest: tuple[Path, ...] = ()

    def completed(self, files: Iterable[Path], levers: Levers) -> None:
        """Let the files of the output before leave the page cache; `files` are the newest now."""
        replaced, self._newest = self._newest, tuple(files) if levers.drop_behind else ()
        if replaced:
            with suppress(RuntimeError):  # no more threads on this system
                threading.Thread(target=_drop, args=(replaced,), name=THREAD_NAME, daemon=True).start()


def _drop(files: Iterable[Path]) -> None:
    """Drop what is on the storage; the application waits for none of it."""
    if os.getpriority(os.PRIO_PROCESS, 0) < _NICE:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)  # Linux: 0 is the calling thread
    for path in files:
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
