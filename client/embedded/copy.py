"""Copying a rank's files with threads, as SCR's AXL does.

One file is one thread's work and is never split, so the largest file bounds the time. Every file is copied
to a temporary name beside its destination and fsynced; only when all of the rank's files are there are they
renamed, so that a dataset which is being replaced stays whole as long as possible. No thread talks MPI.
"""

import os
import shutil
import threading
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from ...scr_config.files import make_directory, sync_directory

MOST_THREADS = 16  # AXL's MAX_THREADS (axl_pthread.c:26)
TEMPORARY_SUFFIX = "._AXL"
THREAD_NAME = "scrtune-flush"


@dataclass(frozen=True)
class Copy:
    """One file to copy: `size` is what it must have, in bytes."""

    source: Path
    destination: Path
    size: int


@dataclass(frozen=True)
class Copied:
    """One file that was copied; `crc32` is that of the bytes which were written."""

    destination: Path
    size: int
    crc32: int
    mtime_ns: int


@dataclass(frozen=True)
class Means:
    """How to copy: `threads` None is AXL's own choice; without `cpus` a thread inherits its mask."""

    threads: int | None
    buffer_bytes: int
    cpus: tuple[int, ...] = ()

    def threads_for(self, files: int) -> int:
        """Threads for so many files: never more than files, never none."""
        wanted = min(os.cpu_count() or 1, MOST_THREADS) if self.threads is None else self.threads
        return max(1, min(wanted, files))


class Transfer:
    """The copies of one rank, under way from the moment this is made.

    `publish` is called by the last thread, with every file in its place. What goes wrong in any thread is
    kept in :attr:`error`; nothing is ever raised into the application.
    """

    def __init__(
        self,
        copies: Sequence[Copy],
        means: Means,
        publish: Callable[[Sequence[Copied]], None],
        clock: Callable[[], float],
    ) -> None:
        self.start_s = clock()
        self.end_s = self.start_s
        self.bytes = sum(copy.size for copy in copies)
        self.threads = means.threads_for(len(copies))
        self.error: Exception | None = None
        self._means = means
        self._buffer_bytes = max(1, min(means.buffer_bytes, max((copy.size for copy in copies), default=1)))
        self._queue = deque(copies)
        self._copied: list[Copied] = []
        self._publish = publish
        self._clock = clock
        self._running = self.threads
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._start()

    @property
    def done(self) -> bool:
        """Whether it ended, well or not."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Return when it ended."""
        self._ended.wait()

    def _start(self) -> None:
        for number in range(self.threads):
            try:
                threading.Thread(target=self._work, name=f"{THREAD_NAME}-{number}").start()
            except RuntimeError as error:  # no more threads on this system: the others do the work
                self._retire(None if number else error)

    def _work(self) -> None:
        failure: Exception | None = None
        try:
            self._set_mask()
            buffer = bytearray(self._buffer_bytes)
            while self.error is None and (copy := self._next()) is not None:
                self._copied.append(copy_file(copy, buffer))
        except Exception as error:  # noqa: BLE001 - a full disk, a directory gone, no memory: all are reported
            failure = error
        self._retire(failure)

    def _set_mask(self) -> None:
        if usable := set(self._means.cpus) & set(range(os.cpu_count() or 1)):
            try:
                os.sched_setaffinity(0, usable)  # 0 is the calling thread, not the process
            except OSError:
                return  # cores that are not ours: the inherited mask is as good

    def _next(self) -> Copy | None:
        try:
            return self._queue.popleft()
        except IndexError:
            return None

    def _retire(self, failure: Exception | None) -> None:
        """One thread less; the last one renames and publishes."""
        with self._lock:
            self.error = self.error or failure
            self._running -= 1
            if self._running:
                return
        try:
            if self.error is None:
                rename_all(self._copied)
                self._publish(self._copied)
        except Exception as error:  # noqa: BLE001 - as in _work
            self.error = error
        self.end_s = self._clock()
        self._ended.set()


def temporary_of(destination: Path) -> Path:
    """The name a file has in the prefix directory until it is whole."""
    return destination.with_name(destination.name + TEMPORARY_SUFFIX)


def copy_file(copy: Copy, buffer: bytearray) -> Copied:
    """Copy one file to the temporary name of its destination, in pieces as large as `buffer`, and fsync it.

    Raises OSError, also when the source has not the size it must have. A failed copy leaves nothing behind.
    """
    make_directory(copy.destination.parent)
    temporary = temporary_of(copy.destination)
    view = memoryview(buffer)
    crc32 = size = 0
    try:
        with copy.source.open("rb", buffering=0) as source, temporary.open("wb", buffering=0) as target:
            while count := source.readinto(buffer):
                crc32 = zlib.crc32(view[:count], crc32)
                _write_all(target, view[:count])
                size += count
            shutil.copystat(copy.source, temporary)  # SCR_COPY_METADATA
            os.fsync(target.fileno())
            mtime_ns = os.fstat(target.fileno()).st_mtime_ns
        _must_have(size, copy)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Copied(copy.destination, size, crc32, mtime_ns)


def rename_all(copied: Sequence[Copied]) -> None:
    """Give every copied file its own name, durably."""
    for file in copied:
        temporary_of(file.destination).replace(file.destination)
    for directory in {file.destination.parent for file in copied}:
        sync_directory(directory)


def _must_have(size: int, copy: Copy) -> None:
    if size != copy.size:
        raise OSError(f"{copy.source}: {size} bytes, not {copy.size} as when the output was completed")


def _write_all(target: FileIO, view: memoryview) -> None:
    while view:
        view = view[target.write(view) :]
