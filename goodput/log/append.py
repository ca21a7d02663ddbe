"""Files that only grow: by whole pieces of one process, or by the lines of many."""

import contextlib
import os
import stat
from pathlib import Path


def open_lines(path: Path) -> tuple[int, bool]:
    """A descriptor to append lines to `path` with, for any number of processes, and whether it is torn.

    A torn file ends within a line, as a killed process or a full disk leaves it: the next line begins with a
    newline. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        status = os.fstat(descriptor)
        has_lines = stat.S_ISREG(status.st_mode) and status.st_size > 0
        return descriptor, has_lines and os.pread(descriptor, 1, status.st_size - 1) != b"\n"
    except OSError:
        os.close(descriptor)
        raise


class AppendedFile:
    """`path`, opened for appending at the first piece; its directory is made if it is not there.

    For pieces of any bytes that one process writes: on a full disk a piece is there, or it is taken back.
    With many writers that could cut off another's line: those end torn lines instead (:func:`open_lines`).
    With `has_lines`, a line that somebody else left torn is ended before the first piece.
    """

    def __init__(self, path: Path, *, has_lines: bool = False) -> None:
        self.path = path
        self._has_lines = has_lines
        self._is_torn = False
        self._descriptor: int | None = None

    def append(self, piece: bytes) -> None:
        """Write all of `piece`, or nothing that stays. Raises OSError when the disk takes no more."""
        if self._descriptor is None:
            self._descriptor = self._open()
        if self._is_torn:
            piece = b"\n" + piece
        written = 0
        try:
            while written < len(piece):
                written += os.write(self._descriptor, piece[written:])
        except OSError:
            self._take_back(written)
            raise
        self._is_torn = False

    def first_line(self) -> str | None:
        """The first line as it is on disk, without its end and byte order mark; None when there is none."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            if line := file.readline(1 << 16):
                return line.decode("utf-8-sig", "replace").rstrip("\r\n")
        return None

    def close(self) -> None:
        """Close the file; the next piece opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._has_lines:
            descriptor, self._is_torn = open_lines(self.path)
            return descriptor
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, 0o644)

    def _take_back(self, written: int) -> None:
        """Cut a piece off that was written in part; what others appended behind it stays."""
        if written and self._descriptor is not None:
            with contextlib.suppress(OSError):
                end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
                if os.fstat(self._descriptor).st_size == end:
                    os.ftruncate(self._descriptor, end - written)
