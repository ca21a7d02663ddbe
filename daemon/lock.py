"""One daemon per job and node: the lock file."""

import contextlib
import fcntl
import os
from pathlib import Path


class AlreadyRunningError(RuntimeError):
    """Another daemon holds the lock of this job on this node."""


class Lock:
    """An advisory lock that the kernel releases when its holder dies, however it dies."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._fd, 32).decode(errors="replace").strip() or "unknown"
            self.close()
            if not isinstance(error, BlockingIOError):
                raise
            raise AlreadyRunningError(
                f"{path}: the daemon of this job already runs on this node (pid {holder});"
                " ask it with `scrtune status`, or end it with SIGTERM"
            ) from error
        with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
            os.ftruncate(self._fd, os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0))

    def close(self) -> None:
        """Release the lock."""
        os.close(self._fd)
