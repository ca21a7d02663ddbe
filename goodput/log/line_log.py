"""Logs of lines: where they lie, and how several processes append to one, by one thread of each."""

import contextlib
import errno
import os
import re
import time
from collections import deque
from pathlib import Path

from .append import open_lines

DIRECTORY_VARIABLE = "SCRTUNE_GOODPUT_DIR"
RETRY_S = 1.0
WAITING_LIMIT = 65_536
_WRITE_BYTES = 1 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def log_path(name: str, ending: str = ".jsonl") -> Path:
    """The file of the log `name`: in $SCRTUNE_GOODPUT_DIR, else in the current directory; absolute."""
    return absolute(Path(os.environ.get(DIRECTORY_VARIABLE, "")) / f"{_UNSAFE.sub('_', name)}{ending}")


def absolute(path: Path) -> Path:
    """`path`, whatever directory the application changes to; as it is when there is no current one."""
    with contextlib.suppress(OSError):
        return path.absolute()
    return path


class LineLog:
    """Appends lines to the file at `path`, made when the first is written; nothing is raised.

    Every write is one ``write(2)`` of whole lines with O_APPEND: those of several processes of one machine do
    not mix. Lines that cannot be written (the disk is full, the directory may not be written to) wait,
    `limit` at most, and are tried again every second; those beyond are counted in :attr:`lost`. A line that
    was written in part, or that a killed process left, is ended, so that it spoils no other; ours is then
    written anew. Readers pass over empty lines: who opens the file while another process writes may see a
    line of its that is not whole yet, and end that. The file's directory is made only if `makes_directory`.
    """

    def __init__(self, path: Path, *, limit: int = WAITING_LIMIT, makes_directory: bool = False) -> None:
        self.path = path
        self._makes_directory = makes_directory
        self.error = ""
        """Why lines wait, or empty."""
        self.lost = 0
        self.limit = limit
        self._lines: deque[bytes] = deque()
        self._file = -1
        self._torn = False
        self._retry_at_s = 0.0

    @property
    def waiting(self) -> int:
        """Lines that are not in the file yet."""
        return len(self._lines)

    def add(self, line: bytes) -> None:
        """Note `line`, which ends with a newline, for the next :meth:`write`."""
        if len(self._lines) < self.limit:
            self._lines.append(line)
        else:
            self.lost += 1

    def write(self, *, now: bool = False) -> None:
        """Write the lines that wait; after an error only when a second has passed, or if `now`."""
        if not now and self.error and time.monotonic() < self._retry_at_s:
            return
        try:
            while self._lines:
                self._write_some()
            self.error = ""
        except OSError as error:
            self.error = error.strerror or str(error)
            self._retry_at_s = time.monotonic() + RETRY_S

    def sync(self) -> None:
        """Have the file system keep what was written. What it says against that is in :attr:`error`."""
        try:
            if self._file >= 0:
                os.fsync(self._file)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe, which keeps nothing
                self.error = error.strerror or str(error)

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def begin_in_child(self) -> None:
        """Forget what the parent will write. The open file serves both: each write goes to its end."""
        self._lines = deque()
        self.lost = 0
        self.error = ""

    def _write_some(self) -> None:
        if self._file < 0:
            if self._makes_directory:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._torn = open_lines(self.path)
        taken: list[bytes] = []
        size = 0
        for line in self._lines:
            if taken and size + len(line) > _WRITE_BYTES:
                break
            taken.append(line)
            size += len(line)
        ended = b"\n" if self._torn else b""
        written = os.write(self._file, ended + b"".join(taken)) - len(ended)
        if written < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for line in taken:
            if written < len(line) - 1:  # but for its newline it would be there: the next write adds that
                break
            written -= len(line)
            self._lines.popleft()
            if written <= 0:
                break
        self._torn = written != 0
