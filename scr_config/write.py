"""Write a config file so that SCR, which may read it at any time, sees the old one or the new one, whole."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

_DEFAULT_MODE = 0o600


class ConfigWriteError(OSError):
    """The config file could not be written; the old one, if any, is untouched. The text says what to do."""


def write_config(path: Path, text: str) -> None:
    """Replace the file at `path` (through links, its mode kept, else 0600) by `text`, atomically and durably.

    Raises :class:`ConfigWriteError`. Characters that stand for undecodable bytes become those bytes again.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigWriteError(
            error.errno or errno.EIO,
            f"{path}: SCR's config file cannot be written ({reason}); what was there is untouched."
            " Make its directory writable, free some space, or set SCR_CONF_FILE to another path",
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
