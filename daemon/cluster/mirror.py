"""The leader's journal and snapshot at the node that is next in line, which goes on from them.

The holder says how much it has of each file, and the leader answers with what comes next. So nothing is
remembered of the other side, and either may be started again. What a leader has written is never
interpreted before it is this daemon's own journal: then it is read as that of a daemon that was killed.
"""

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path

from ...client.paths import JobPaths
from .messages import Holding, Part

log = logging.getLogger("scrtune.daemon")

JOURNAL, SNAPSHOT = "journal", "snapshot"
_NAMES = (JOURNAL, SNAPSHOT)
_PART_BYTES = 1024 * 1024
_LARGEST_BYTES = 1 << 30


def next_part(paths: JobPaths, journal_version: str, holding: tuple[Holding, ...]) -> Part | None:
    """Return what a node that has `holding` lacks of this daemon's files: the next part, the journal first.

    The snapshot is of a journal that is long enough; else it comes with the next look.
    """
    held = {each.name: each for each in holding}
    for name in _NAMES:
        path = _path(paths, name)
        with suppress(OSError), path.open("rb") as file:
            status = os.fstat(file.fileno())
            version = journal_version if name == JOURNAL else f"{status.st_ino}-{status.st_mtime_ns}"
            has = held.get(name) or Holding(name)
            offset = has.size if has.version == version else 0
            if offset < status.st_size:
                file.seek(offset)
                return Part(name, version, offset, status.st_size, file.read(_PART_BYTES))
    return None


def _path(paths: JobPaths, name: str) -> Path:
    return paths.journal if name == JOURNAL else paths.snapshot


class _Copy:
    """One file of the leader's: the last whole copy stays until the next one is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._growing = path.with_name(f"{path.name}.part")
        self._version = ""
        self._size = 0

    def holding(self, name: str) -> Holding:
        return Holding(name, self._version, self._size)

    def write(self, part: Part) -> None:
        """Raises OSError."""
        if part.offset == 0:
            self._version, self._size = part.version, 0
        elif (part.version, part.offset) != (self._version, self._size) or part.size > _LARGEST_BYTES:
            return
        is_growing = not part.offset or self._growing.exists()
        path = self._growing if is_growing else self.path
        mode = os.O_WRONLY | os.O_CREAT | (0 if part.offset else os.O_TRUNC) | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, mode, 0o600)
        try:
            written = os.pwrite(descriptor, part.data, part.offset)
        finally:
            os.close(descriptor)
        if written < len(part.data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size = part.offset + written
        if is_growing and self._size >= part.size:
            self._growing.replace(self.path)

    def remove(self) -> None:
        self._version, self._size = "", 0
        for path in (self.path, self._growing):
            path.unlink(missing_ok=True)


class Mirror:
    """The copies that this node holds; they outlive its daemon."""

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._copies = {name: _Copy(paths.root / f"{name}.leader") for name in _NAMES}
        self.error = ""
        """Why the last part could not be written, or empty."""

    @property
    def holding(self) -> tuple[Holding, ...]:
        """What is there, as far as it is known to be the present leader's."""
        return tuple(copy.holding(name) for name, copy in self._copies.items())

    @property
    def is_there(self) -> bool:
        """Return whether there is a journal to go on from."""
        return self._copies[JOURNAL].path.exists()

    def write(self, part: Part) -> None:
        """Take in a part; one that cannot be written is asked for again."""
        if (copy := self._copies.get(part.name)) is None:
            return
        try:
            copy.write(part)
            self.error = ""
        except OSError as error:
            if not self.error:
                log.warning("the leader's state cannot be kept here (%s)", error.strerror)
            self.error = error.strerror or str(error)
            with suppress(OSError):
                copy.remove()

    def install(self) -> bool:
        """Make the copies this daemon's own files, its own journal goes aside; False: there are none."""
        if not self.is_there:
            return False
        try:
            with suppress(FileNotFoundError):
                self._paths.journal.replace(self._paths.journal.with_suffix(".follower"))
            self._paths.snapshot.unlink(missing_ok=True)
            for name, copy in self._copies.items():
                if copy.path.exists():
                    copy.path.replace(_path(self._paths, name))
                copy.remove()
        except OSError as error:
            log.error("the last leader's state cannot be taken over: %s", error)
            return False
        return True
