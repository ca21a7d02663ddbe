"""Write a file so that whoever reads it, SCR at any time, sees the old one or the new one, whole."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

BACKUP_SUFFIX = ".scrtune-backup"
_DEFAULT_MODE = 0o600


class ConfigWriteError(OSError):
    """A file could not be written; the old one, if any, is untouched. The text says what to do."""

    def __str__(self) -> str:
        """The text alone, without the number that OSError puts before it."""
        return str(self.strerror)


def write_config(path: Path, text: str) -> None:
    """Replace the file at `path` (through links, its mode kept, else 0600) by `text`, atomically and durably.

    Raises :class:`ConfigWriteError`. Characters that stand for undecodable bytes become those bytes again.
    """
    _write(path, text.encode("utf-8", "surrogateescape"))


def back_up(path: Path) -> Path:
    """Keep a copy of the file at `path` beside it, as ``<name>.scrtune-backup``; a copy that is there stays.

    Returns where the copy is. Raises :class:`ConfigWriteError`, and OSError when `path` cannot be read.
    """
    original = Path(os.path.realpath(path))
    backup = original.with_name(original.name + BACKUP_SUFFIX)
    if not backup.exists():
        _write(backup, original.read_bytes())
    return backup


def _write(path: Path, data: bytes) -> None:
    try:
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigWriteError(
            error.errno or errno.EIO,
            f"{path}: cannot be written ({reason}); what was there is untouched."
            " Make its directory writable, free some space, or choose another path",
        ) from error


def _replace(path: Path, data: bytes) -> None:
    mode = _mode_of(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(path.parent)


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _DEFAULT_MODE


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a power failure, where the file system can: the file is in place already."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
