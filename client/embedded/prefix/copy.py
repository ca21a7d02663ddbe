"""Copying a rank's files with threads, as SCR's AXL does: a file is one thread's work and is never split.

Every file is copied to a temporary name beside its destination and fsynced; only when all of the rank's files
are there are they renamed: a dataset which is being replaced stays whole until then. No thread calls MPI.
"""

import os
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ....scr_config.files import make_directory, sync_directory
from ...core_time import CoreTime, CoreTimer
from .index import PrefixFile

MOST_THREADS = 16  # AXL's MAX_THREADS (axl_pthread.c:26)
TEMPORARY_SUFFIX = "._AXL"
_NOT_KNOWN = CoreTime()
THREAD_NAME = "scrtune-flush"


@dataclass(frozen=True)
class Copy:
    """One file to copy to `name` below `root`: `size` is the number of bytes that it must have."""

    source: Path
    root: Path
    name: str
    size: int

    @property
    def destination(self) -> Path:
        """The path that the file has when all are copied."""
        return self.root / self.name

    @property
    def temporary(self) -> Path:
        """The path that the file has until then."""
        return self.root / f"{self.name}{TEMPORARY_SUFFIX}"


@dataclass(frozen=True)
class CopyOptions:
    """How to copy: `threads` None is AXL's own choice; without `cpus` and `nice` a thread inherits both."""

    threads: int | None
    buffer_bytes: int
    cpus: tuple[int, ...] = ()
    nice: int = 0

    def threads_for(self, files: int) -> int:
        """Return the number of threads for `files` files: at least one, and not more than files."""
        wanted = min(os.cpu_count() or 1, MOST_THREADS) if self.threads is None else self.threads
        return max(1, min(wanted, files))


class CopyThreads:
    """The threads that copy one rank's files; they start when this is made, and raise nothing.

    The last one calls `publish`, with every file in its place. :attr:`error` has the first error of any.
    """

    def __init__(
        self,
        copies: Sequence[Copy],
        options: CopyOptions,
        publish: Callable[[Sequence[PrefixFile]], None],
    ) -> None:
        self.start_s = self.end_s = time.time()
        self.bytes = sum(copy.size for copy in copies)
        self.count = options.threads_for(len(copies))
        self.error: Exception | None = None
        self.core_time = CoreTime()
        """What all threads together took of cores; zeros where Linux does not tell."""
        self._options = options
        self._buffer_bytes = max(1, min(options.buffer_bytes, max((copy.size for copy in copies), default=1)))
        self._copies = copies
        self._queue = iter(copies)
        self._copied: list[PrefixFile] = []
        self._publish = publish
        self._running = self.count
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._start(0)

    @property
    def done(self) -> bool:
        """Return whether all threads ended, with or without an error."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Return when all threads ended."""
        self._ended.wait()

    def check(self) -> None:
        """Raise :class:`OSError` if any of them failed."""
        if self.error is not None:
            raise OSError(str(self.error) or type(self.error).__name__) from self.error

    def _start(self, number: int) -> None:
        try:
            threading.Thread(target=self._work, args=(number,), name=f"{THREAD_NAME}-{number}").start()
        except Exception as error:  # noqa: BLE001 - no more threads on this system: the others do the work
            if number == 0:
                self._running = 1
            self._retire(None if number else error)

    def _work(self, number: int) -> None:
        """Copy files while there are some; the first thread starts the others: the application need not."""
        failure: Exception | None = None
        (timer := CoreTimer()).begin()
        for other in range(1, self.count) if number == 0 else ():
            self._start(other)
        try:
            self._set_place()
            buffer = bytearray(self._buffer_bytes)
            while self.error is None and (copy := next(self._queue, None)) is not None:
                self._copied.append(copy_file(copy, buffer))
        except Exception as error:  # noqa: BLE001 - a full disk, a directory gone, no memory: all are reported
            failure = error
        self._retire(failure, timer.end())

    def _set_place(self) -> None:
        """Set the calling thread's mask and nice value; nothing is undone, it ends with the flush."""
        if usable := set(self._options.cpus) & set(range(os.cpu_count() or 1)):
            with suppress(OSError):  # cores that are not ours: the inherited mask is as good
                os.sched_setaffinity(0, usable)  # 0 is the calling thread, not the process
        yield_cores(self._options.nice)

    def _retire(self, failure: Exception | None, took: CoreTime = _NOT_KNOWN) -> None:
        """Count one thread less, which `took` that of cores; the last one renames and publishes."""
        with self._lock:
            self.core_time = CoreTime(*map(sum, zip(self.core_time, took, strict=True)))
            self.error = self.error or failure
            self._running -= 1
            if self._running:
                return
        try:
            if self.error is None:
                for copy in self._copies:
                    copy.temporary.replace(copy.destination)
                for directory in {copy.destination.parent for copy in self._copies}:
                    sync_directory(directory)
                self._publish(self._copied)
        except Exception as error:  # noqa: BLE001 - as in _work
            self.error = error
        self.end_s = time.time()
        self._ended.set()


def yield_cores(nice: int) -> None:
    """Give the calling thread at least this nice value, for good: the way back takes a privilege."""
    if os.getpriority(os.PRIO_PROCESS, 0) < nice:
        os.setpriority(os.PRIO_PROCESS, 0, nice)  # Linux: 0 is the calling thread, not the process


def copy_file(copy: Copy, buffer: bytearray) -> PrefixFile:
    """Copy one file to its temporary name, in pieces as large as `buffer`, and fsync it; or leave nothing.

    Raises OSError, also when the source has not the size it must have.
    """
    make_directory(copy.destination.parent)
    crc32 = size = 0
    try:
        with copy.source.open("rb", buffering=0) as source, copy.temporary.open("wb", buffering=0) as target:
            while count := source.readinto(buffer):
                piece = memoryview(buffer)[:count]
                crc32 = zlib.crc32(piece, crc32)
                size += count
                while piece:
                    piece = piece[target.write(piece) :]
            shutil.copystat(copy.source, copy.temporary)  # SCR_COPY_METADATA
            os.fsync(target.fileno())
            mtime_ns = os.fstat(target.fileno()).st_mtime_ns
        if size != copy.size:
            raise OSError(f"{copy.source}: {size} bytes, not {copy.size} as at its output")  # noqa: TRY301 - as I/O's
    except BaseException:
        copy.temporary.unlink(missing_ok=True)
        raise
    return PrefixFile(name=copy.name, size=size, mtime_ns=mtime_ns, crc32=crc32)
