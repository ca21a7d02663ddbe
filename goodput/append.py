"""A file that only grows, and by whole pieces: on a full disk a piece is there, or it is not."""

import contextlib
import os
from pathlib import Path


class AppendedFile:
    """`path`, opened for appending at the first piece; its directory is made if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def append(self, piece: bytes) -> None:
        """Write all of `piece`, or nothing that stays. Raises OSError when the disk takes no more."""
        if self._descriptor is None:
            self._descriptor = self._open()
        written = 0
        try:
            while written < len(piece):
                written += os.write(self._descriptor, piece[written:])
        except OSError:
            self._take_back(written)
            raise

    def first_line(self) -> str:
        """The first line as it is on disk, without its end; empty when there is none."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            return file.readline(1 << 16).decode("utf-8", "replace").rstrip("\r\n")
        return ""

    def close(self) -> None:
        """Close the file; the next piece opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, 0o644)

    def _take_back(self, written: int) -> None:
        """Cut a piece off that was written in part; what others appended behind it stays."""
        if written and self._descriptor is not None:
            with contextlib.suppress(OSError):
                end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
                if os.fstat(self._descriptor).st_size == end:
                    os.ftruncate(self._descriptor, end - written)
