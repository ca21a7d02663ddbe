"""Logs of lines: where they lie, and how any number of processes append whole lines to one."""

import contextlib
import errno
import os
import re
import stat
from collections import deque
from itertools import islice
from pathlib import Path

DIRECTORY_VARIABLE = "SCRTUNE_GOODPUT_DIR"
WAITING_LIMIT = 65_536
_LINES_A_WRITE = 512
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def log_path(name: str, ending: str = ".jsonl") -> Path:
    """Return the absolute path of the log `name`: in $SCRTUNE_GOODPUT_DIR, else in the current directory."""
    return absolute(Path(os.environ.get(DIRECTORY_VARIABLE, "")) / f"{_UNSAFE.sub('_', name)}{ending}")


def absolute(path: Path) -> Path:
    """Return `path`, whatever directory the application changes to; as it is without a current one."""
    with contextlib.suppress(OSError):
        return path.absolute()
    return path


class LineFile:
    """Appends lines to the file at `path`, made with the first; its directory only if `makes_directory`.

    Every write is one ``write(2)`` of whole lines with O_APPEND: processes of one machine do not mix. A torn
    line is ended, and ours written anew. Readers pass over empty lines.
    """

    def __init__(self, path: Path, *, makes_directory: bool = False) -> None:
        self.path = path
        self._makes_directory = makes_directory
        self._descriptor = -1
        self._is_torn = False

    def write(self, lines: deque[bytes]) -> None:
        """Move `lines` into the file, from the left, some or all; the rest is not in it. Raises OSError."""
        if self._descriptor < 0:
            self._open()
        taken = list(islice(lines, _LINES_A_WRITE))
        ended = b"\n" if self._is_torn else b""
        written = os.write(self._descriptor, ended + b"".join(taken)) - len(ended)
        if written < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for line in taken:
            if written < max(1, len(line) - 1):  # all but its newline is enough: the next write adds that
                break
            written -= len(line)
            lines.popleft()
        self._is_torn = written != 0

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        if self._makes_directory:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._is_torn = _is_torn(self._descriptor)


def append_whole(path: Path, piece: bytes, *, as_lines: bool = False) -> None:
    """Append all of `piece` to `path`, or nothing that stays: for a file with one writer. Raises OSError.

    The directory is made if needed. With `as_lines`, a line that somebody else left torn is ended first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as file:
        end, written = file.seek(0, os.SEEK_END), 0
        if as_lines and _is_torn(file.fileno()):
            piece = b"\n" + piece
        try:
            while written < len(piece):
                written += file.write(piece[written:])
        except OSError:
            with contextlib.suppress(OSError):
                if written and file.seek(0, os.SEEK_END) == end + written:
                    file.truncate(end)
            raise


def _is_torn(descriptor: int) -> bool:
    """Return whether the file ends within a line, as a killed process or a full disk leaves it."""
    status = os.fstat(descriptor)
    has_lines = stat.S_ISREG(status.st_mode) and status.st_size > 0
    return has_lines and os.pread(descriptor, 1, status.st_size - 1) != b"\n"
