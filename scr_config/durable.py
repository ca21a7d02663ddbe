"""Files that are either whole or not there, also after a crash."""

import os
from pathlib import Path


def write_atomic(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Put `content` at `path` so that a reader sees the old file or the new one, never a part.

    `durable` also waits until it would survive a loss of power; what lies in a cache need not.
    Raises OSError and leaves the old file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make `path` and what is missing above it, and make the new names durable."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in directory `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
