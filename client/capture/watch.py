"""Wakes a reader when what it follows changes (inotify(7)), so that it sleeps while nothing does."""

import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

_MODIFY, _MOVED_TO, _CREATE = 0x2, 0x80, 0x100
_IGNORED, _OVERFLOW = 0x8000, 0x4000
_HEAD = struct.Struct("iIII")
_READ_BYTES = 64 * 1024

Wanted = Callable[[str], bool]
"""Whether a change of the file of this name counts; of a file that is watched itself it is empty."""


class Watch:
    """Files and directories, whose changes make one descriptor readable.

    What other nodes write into a shared file system is not seen, nor is anything where the system refuses:
    look from time to time all the same. Nothing here raises.
    """

    def __init__(self) -> None:
        # not by a package: what it finds the C library with (ctypes.util) starts ldconfig
        self._libc = ctypes.CDLL(None)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._paths: dict[Path, int] = {}
        self._wanted: dict[int, Wanted] = {}
        self._is_new = False

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptor to wait for; none where the system has none left."""
        return () if self._fd < 0 else (self._fd,)

    def add(self, path: Path, wanted: Wanted = lambda _: True) -> bool:
        """Watch a file, or what is in a directory; return whether it is watched, as from an earlier call."""
        if path not in self._paths:
            mask = ctypes.c_uint32(_MODIFY | _MOVED_TO | _CREATE)
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
            if number < 0:
                return False
            self._paths[path] = number
            self._wanted[number] = wanted
            self._is_new = True
        return True

    def changed(self) -> bool:
        """Return whether anything wanted has changed since the last call, or may have before it was added."""
        is_new, self._is_new = self._is_new, False
        return any([is_new, *(self._is_wanted(*event) for event in self._events())])

    def close(self) -> None:
        """Watch nothing any more."""
        if self._fd >= 0:
            os.close(self._fd)

    def _events(self) -> Iterator[tuple[int, int, str]]:
        try:
            while part := os.read(self._fd, _READ_BYTES):
                offset = 0
                while offset < len(part):
                    number, mask, _, length = _HEAD.unpack_from(part, offset)
                    offset += _HEAD.size + length
                    yield number, mask, os.fsdecode(part[offset - length : offset].rstrip(b"\0"))
        except OSError:  # there are no more
            return

    def _is_wanted(self, number: int, mask: int, name: str) -> bool:
        if mask & _IGNORED:  # it is gone: what has its name now is to be watched anew
            self._paths = {path: each for path, each in self._paths.items() if each != number}
            self._wanted.pop(number, None)
        return bool(mask & (_IGNORED | _OVERFLOW)) or (number in self._wanted and self._wanted[number](name))
