"""Measure the storage of this node in a tenth of a second: a script that loads os, sys and time alone.

A rate is that of the median of up to 16 chunks of 1 MiB. Time spent waiting for a CPU is not counted: the
probe gives way to an application that computes on all of them, which is no property of the cache. What is
measured is what a checkpoint sees. The cache is used by as many writers at once as the node has ranks, in
threads (a write holds no lock of Python's): their rates are added up.

- cache writes: a new file grows, so that each page is touched for the first time (on tmpfs it is taken from
  free memory and cleared first). Not synced: the page cache takes it in.
- cache syncs: 2 MiB more of one writer, until the device has them. What is in memory has nothing to sync.
- cache reads: the same files, as a flush reads what was just written, into one buffer.
- memory: copies between two stretches of 8 MiB, beyond what most cores have for themselves.
- XOR: of two chunks, in pieces into a buffer that is used again, as an encode does. On Python's integers:
  to load numpy takes three times as long as all of this, and its rate is the same within a fifth.
"""

import _thread
import os
import sys
import time

TYPE_CHECKING = False  # of mypy: to import `typing` or `collections` takes longer than to start Python
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[int], object]

CHUNK_BYTES = 2**20
DATA_BYTES = 8 * CHUNK_BYTES
MOST_BYTES = 16 * CHUNK_BYTES
"""Written to the cache at most by one writer, half by each of several: more would say nothing new."""
MOST_WRITERS = 8
"""Many more would wait for Python, and for each other's memory as the job's ranks do."""
BUDGET_S = 0.08
"""With 12 ms for the interpreter a tenth of a second."""

_WRITES_UNTIL, _READS_UNTIL, _COPIES_UNTIL, _XORS_UNTIL = 0.45, 0.65, 0.85, 1.0  # of the budget
_MOST_OF_FREE = 0.05
_PATTERN_BYTES = 2**16  # of random bytes: beyond the window of a file system that compresses
_PIECE_BYTES = 2**15  # malloc has memory of this size at hand, and does not ask the system for it
_NICE = 5
_SYNCED_BYTES = 2 * CHUNK_BYTES  # 20 ms of a disk
_NO_DEVICE_S = 5e-5


def unhindered_clock() -> "Callable[[], float]":
    """Return a clock, in seconds, that stands still while this thread waits for a CPU, where Linux tells."""

    def waited_ns() -> int:
        return int(os.pread(fd, 64, 0).split()[1])

    def clock() -> float:
        before_ns, after_ns, now_s = -1, waited_ns(), 0.0
        while before_ns != after_ns:  # it had to wait between the two looks
            before_ns, now_s, after_ns = after_ns, time.perf_counter(), waited_ns()
        return now_s - after_ns / 1e9

    try:
        fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        waited_ns()
    except (OSError, IndexError):
        return time.perf_counter
    return clock


def side_by_side(timed: "Callable[[Step], list[float]]", steps: "list[Step]") -> list[list[float]]:
    """Return the seconds that `steps` took, all but the first in threads. Raises the last OSError of any."""
    found: list[list[float]] = [[] for _ in steps]
    errors: list[OSError] = []
    locks = [_thread.allocate_lock() for _ in steps]

    def run(number: int) -> None:
        try:
            found[number] = timed(steps[number])
        except OSError as error:
            errors.append(error)
        finally:
            locks[number].release()

    for lock in locks:
        lock.acquire()
    for number in range(1, len(steps)):
        _thread.start_new_thread(run, (number,))
    run(0)
    for lock in locks:
        lock.acquire()
    if errors:
        raise errors[-1]
    return found


class Probe:
    """The measurements, each until its share of `budget_s` seconds is used at most.

    `new_clock` returns a clock for the thread that calls it; `writers` use the cache at once.
    """

    def __init__(
        self, new_clock: "Callable[[], Callable[[], float]]", budget_s: float = BUDGET_S, writers: int = 1
    ) -> None:
        self._new_clock, self._clock = new_clock, new_clock()
        self._writers = max(1, min(writers, MOST_WRITERS, len(os.sched_getaffinity(0))))
        self._begin_s = self._clock()
        self._budget_s = budget_s
        self._data = memoryview(os.urandom(_PATTERN_BYTES) * (DATA_BYTES // _PATTERN_BYTES))

    def run(self, cache: str) -> "Iterator[tuple[str, float | str]]":
        """Yield fields of StorageProbed as they are known, with their values; every `problem` by itself."""
        try:
            yield from self._cache(cache)
        except OSError as error:
            yield "problem", f"{cache}: {error.strerror}"
        yield from self._memory()
        yield from self._xor()
        yield from self._device(cache)
        yield "probe_s", self._clock() - self._begin_s

    def _cache(self, directory: str) -> "Iterator[tuple[str, float | str]]":
        """Write a file that has no name for each writer, and read it. Raises OSError."""
        os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes as long to load as all this
        there = os.statvfs(directory)
        free_bytes = there.f_bavail * there.f_frsize
        most_bytes = MOST_BYTES // min(2, self._writers)
        end = int(min(most_bytes, _MOST_OF_FREE * free_bytes / self._writers)) // CHUNK_BYTES * CHUNK_BYTES
        if not end:
            yield "problem", f"{directory}: only {free_bytes >> 20} MiB are free"
            return
        files: list[int] = []
        try:
            for number in range(self._writers):
                path = f"{directory}/.scrtune-probe-{os.getpid()}-{number}"
                files += [
                    os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR | os.O_CLOEXEC, 0o600)
                ]
                os.unlink(path)  # noqa: PTH108 - as above
            yield "writers", self._writers
            yield self._rate("cache_write", [self._writer(each) for each in files], end, _WRITES_UNTIL)
            written = [os.fstat(each).st_size for each in files]
            yield "bytes", sum(written)
            yield self._rate("cache_read", [_reader(each) for each in files], min(written), _READS_UNTIL)
        finally:
            for each in files:
                os.close(each)

    def _device(self, directory: str) -> "Iterator[tuple[str, float | str]]":
        """Write a file that has no name, and sync it; what was wrong there is known from the other files."""
        path = f"{directory}/.scrtune-probe-{os.getpid()}-device"
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            os.unlink(path)  # noqa: PTH108 - as above
            write, count = self._writer(fd), _SYNCED_BYTES // CHUNK_BYTES
            for number in range(count):
                write(number * CHUNK_BYTES)
            begin_s = self._clock()
            os.fdatasync(fd)
            took_s = self._clock() - begin_s
            if took_s > _NO_DEVICE_S:
                yield "cache_sync_bytes_per_s", count * CHUNK_BYTES / took_s
        except OSError:
            return
        finally:
            os.close(fd)

    def _writer(self, fd: int) -> "Step":
        def write(offset: int) -> None:
            rest = self._chunk(offset)
            while rest:
                rest = rest[os.write(fd, rest) :]

        return write

    def _memory(self) -> "Iterator[tuple[str, float | str]]":
        target = memoryview(bytearray(DATA_BYTES))
        target[:] = self._data  # else this would be another measurement of first touches

        def copy(offset: int) -> None:
            target[offset : offset + CHUNK_BYTES] = self._chunk(offset)

        yield self._rate("memory", [copy], DATA_BYTES, _COPIES_UNTIL)

    def _xor(self) -> "Iterator[tuple[str, float | str]]":
        one, other = self._integers(0), self._integers(1)  # not equal: Python cuts zeros off

        def xor(_offset: int) -> None:
            for left, right in zip(one, other):  # noqa: B905 - as many of both
                left ^ right

        yield self._rate("xor", [xor], MOST_BYTES, _XORS_UNTIL)

    def _integers(self, offset: int) -> list[int]:
        pieces = range(offset, offset + CHUNK_BYTES, _PIECE_BYTES)
        return [int.from_bytes(self._data[at : at + _PIECE_BYTES], sys.byteorder) for at in pieces]

    def _chunk(self, offset: int) -> memoryview:
        begin = offset % DATA_BYTES
        return self._data[begin : begin + CHUNK_BYTES]

    def _rate(self, name: str, steps: "list[Step]", end: int, share: float) -> "tuple[str, float | str]":
        """Return the rate of all `steps` on the chunks before `end`, until `share` of the budget is used.

        More than two at once have less time each, so that together they take as much of the CPUs.
        """
        left_s = (self._begin_s + share * self._budget_s - self._clock()) * min(1.0, 2 / len(steps))

        def timed(step: "Step") -> list[float]:
            clock = self._clock if step is steps[0] else self._new_clock()
            until_s, seconds = clock() + left_s, []
            for offset in range(0, end, CHUNK_BYTES):
                begin_s = clock()
                if begin_s >= until_s:
                    break
                step(offset)
                seconds.append(clock() - begin_s)
            return seconds

        found = side_by_side(timed, steps)
        medians_s = [sorted(each)[len(each) // 2] if each else 0.0 for each in found]
        if min(medians_s) <= 0:
            return "problem", f"no time was left to measure {name}"
        return f"{name}_bytes_per_s", sum(CHUNK_BYTES / each for each in medians_s)


def _reader(fd: int) -> "Step":
    buffer = [bytearray(CHUNK_BYTES)]
    return lambda offset: os.preadv(fd, buffer, offset)


if __name__ == "__main__":
    os.nice(_NICE)
    for _name, _value in Probe(unhindered_clock, writers=int(sys.argv[2])).run(sys.argv[1]):
        os.write(1, f"{_name}={_value}\0".encode("utf-8", "surrogateescape"))
