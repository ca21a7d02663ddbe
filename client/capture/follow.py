"""One growing file of lines: whole lines are read, and the part that was read may be deallocated."""

import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

CHUNK_BYTES = 256 * 1024
LINE_LIMIT_BYTES = 1024 * 1024
RECLAIM_STEP_BYTES = 1024 * 1024
KEPT_BYTES = 64 * 1024
"""The beginning of a file is never deallocated: there DFTracer says what its process, host and unit are."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02  # fallocate(2)


@dataclass
class ForwardCounts:
    """The work of a forwarder, over all its files, since it started."""

    lines: int = 0
    """Lines taken in."""
    dropped: int = 0
    """Lines skipped: lag beyond the limit, or longer than `LINE_LIMIT_BYTES`."""
    truncated: int = 0
    """Files that became shorter and were read from their start again."""
    compressed_files: int = 0
    """Files ``.pfw.gz`` seen and ignored: DFTracer was set to compress."""
    unreadable: int = 0
    """Failed attempts to open a file (each is tried again)."""
    reclaim_error: str = ""
    """Why parts that were read could not be deallocated, or empty."""
    events: int = 0
    """Events sent that were made of the preloaded library's lines and SCR's log."""
    events_repeated: int = 0
    """Such events that were not sent, since an earlier forwarder has sent them."""
    events_garbage: int = 0
    """Lines of the library's file that it did not write."""


class Look(NamedTuple):
    """The state of a followed file in the file system."""

    size_bytes: int
    deleted: bool


class FollowedFile:
    """Reads `path` from its start as it grows, in whole lines.

    The offset is the only state: a line that is not whole yet, or could not be sent, is read again. Raises
    :class:`OSError` when it cannot be opened.
    """

    def __init__(self, path: Path, counts: ForwardCounts, *, reclaim: bool = False) -> None:
        self.path = path
        self._counts = counts
        self._reclaim = reclaim
        self._fd = self._open()
        self.key = file_key(os.fstat(self._fd))
        self.offset = 0
        self._punched = KEPT_BYTES
        self._in_skipped_line = False

    def _open(self) -> int:
        if self._reclaim:
            try:
                return os.open(self.path, os.O_RDWR)
            except PermissionError as error:
                self._cannot_reclaim(error)
        return os.open(self.path, os.O_RDONLY)

    def look(self) -> Look:
        """Return the size, and whether the name is gone. A file that became shorter starts over."""
        status = os.fstat(self._fd)
        if status.st_size < self.offset:
            self._counts.truncated += 1
            self.offset, self._punched = 0, KEPT_BYTES
            self._in_skipped_line = False
        return Look(status.st_size, deleted=status.st_nlink == 0)

    def lines(self) -> bytes:
        """Return the next whole lines, or nothing. Does not advance."""
        chunk = self._read(CHUNK_BYTES)
        while self._in_skipped_line and chunk:
            end = chunk.find(b"\n") + 1
            self._in_skipped_line = not end
            self.advance(end or len(chunk))
            chunk = self._read(CHUNK_BYTES)
        end = chunk.rfind(b"\n") + 1
        if not end:
            return self._long_line() if len(chunk) == CHUNK_BYTES else b""
        return chunk[:end]

    def _long_line(self) -> bytes:
        chunk = self._read(LINE_LIMIT_BYTES)
        end = chunk.find(b"\n") + 1
        if not end and len(chunk) == LINE_LIMIT_BYTES:
            self.skip_to(self.offset + LINE_LIMIT_BYTES)
        return chunk[:end]

    def rest(self) -> bytes:
        """Return the last line, which has no newline (yet). Does not advance."""
        return b"" if self._in_skipped_line else self._read(LINE_LIMIT_BYTES)

    def advance(self, consumed_bytes: int) -> None:
        """Move on by `consumed_bytes`."""
        self.offset += consumed_bytes

    def go_on_at(self, offset: int) -> Iterator[bytes]:
        """Move to where another reader came; yield what is left of the lines before, some of them torn.

        Stays at the start of a file that became shorter meanwhile.
        """
        if offset > os.fstat(self._fd).st_size:
            return
        while self.offset < offset:
            try:
                self.offset = min(offset, os.lseek(self._fd, self.offset, os.SEEK_DATA))
            except OSError:  # nothing is left, or no holes can be found here
                self.offset = offset
            part = self._read(min(CHUNK_BYTES, offset - self.offset))
            part = part[: part.rfind(b"\n") + 1] or part
            self.offset += len(part)
            yield part

    def reclaim(self) -> None:
        """Punch the part that was read out of the file, whose size stays, if it is worth it."""
        if self._reclaim and self.offset - self._punched >= RECLAIM_STEP_BYTES:
            end = self.offset // _PAGE_BYTES * _PAGE_BYTES
            try:
                _punch_hole(self._fd, self._punched, end - self._punched)
                self._punched = end
            except OSError as error:
                self._cannot_reclaim(error)

    def skip_to(self, target: int) -> None:
        """Skip the lines before `target`, and the one it cuts. Every line skipped is counted."""
        while self.offset < target:
            part = self._read(min(LINE_LIMIT_BYTES, target - self.offset))
            if not part:
                break
            cut = not part.endswith(b"\n")
            # a line counts where it begins
            self._counts.dropped += part.count(b"\n") + cut - self._in_skipped_line
            self._in_skipped_line = cut
            self.advance(len(part))

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _read(self, most_bytes: int) -> bytes:
        return os.pread(self._fd, most_bytes, self.offset)

    def _cannot_reclaim(self, error: OSError) -> None:
        self._reclaim = False
        self._counts.reclaim_error = f"{self.path}: {error.strerror}"


def file_key(status: os.stat_result) -> str:
    """Return the name of a file that it keeps when it is renamed: its device and inode."""
    return f"{status.st_dev}:{status.st_ino}"


def _punch_hole(fd: int, offset: int, length: int) -> None:
    """Deallocate `length` bytes; the file keeps its size and reads zeros there."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_int(fd), ctypes.c_int(_KEEP_SIZE_AND_PUNCH_HOLE))
    if libc.fallocate(*arguments, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
