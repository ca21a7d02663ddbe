"""Write files so that a reader sees the old one or the new one, whole, also after a crash; read our own."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

_CONFIG_MODE = 0o600
_FILE_MODE = 0o666  # less the umask
_NO_WAIT_NO_LINK = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW


class ConfigWriteError(OSError):
    """A file could not be written; the old one, if any, is untouched. The text says what to do."""

    def __str__(self) -> str:
        """Return the text alone, without the number that OSError puts before it."""
        return str(self.strerror)


def write_config(path: Path, text: str) -> None:
    """Replace the file at `path` (through links, its mode kept, else 0600) by `text`, atomically and durably.

    Raises :class:`ConfigWriteError`. Characters that stand for undecodable bytes become those bytes again.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else _CONFIG_MODE
        write_atomic(target, text.encode("utf-8", "surrogateescape"), mode=mode)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigWriteError(
            error.errno or errno.EIO,
            f"{path}: cannot be written ({reason}); what was there is untouched."
            " Make its directory writable, free some space, or choose another path",
        ) from error


def write_atomic(
    path: Path,
    content: bytes,
    *,
    durable: bool = True,
    mode: int | None = None,
    sync: Callable[[int], None] = os.fsync,
) -> None:
    """Replace the file at `path` by `content`. Raises OSError and leaves the old file.

    `durable` also waits (`sync`) until it would survive a loss of power; what lies in a cache need not. The
    new file has `mode`, by default what the umask leaves.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, _FILE_MODE if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(content)
            if durable:
                file.flush()
                sync(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent, sync)


def make_directory(path: Path) -> None:
    """Make `path` and what is missing above it, and make the new names durable."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def sync_directory(path: Path, sync: Callable[[int], None] = os.fsync) -> None:
    """Make the names in directory `path` durable, where its file system can. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # fsync(2): it does not support synchronization
            raise
    finally:
        os.close(descriptor)


def read_own(path: Path, limit_bytes: int) -> bytes:
    """Return the content of a regular file of this user's; no link is followed and nothing is waited for.

    Raises OSError, and ValueError for another kind of file, somebody else's and a larger one.
    """
    descriptor = os.open(path, _NO_WAIT_NO_LINK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError("it is no regular file of yours")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(limit_bytes + 1)
    finally:
        os.close(descriptor)
    if len(content) > limit_bytes:
        raise ValueError(f"it has more than {limit_bytes} bytes")
    return content


def file_identity(status: os.stat_result) -> tuple[int, ...]:
    """Return what differs between two files of one name, and after each change of one."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
