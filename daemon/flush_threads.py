"""The CPUs of flush threads that run already, set from outside.

Threads inherit the mask of the thread that starts them, so the preloaded library takes care of those to
come. Left are threads that were started before ``SCRTUNE_FLUSH_CPUS`` was active, or without it.

Nothing marks a thread as one that flushes, so only one that can be nothing else is touched (all must hold):

- its process is a rank of this job, of this user, and has at this moment a file below the cache open for
  reading and one below the prefix directory open for writing;
- it is neither the main thread nor one that was there when the process was first looked at, and has its
  process's name (runtimes name theirs, AXL does not);
- it copies: it wrote what it read, but for one buffer (`/proc/PID/task/TID/io`). OpenMP's threads do no I/O,
  an application's own writers read little, its readers write little.

What such a thread copied cannot be seen: one of the application's own that copies during a flush looks the
same, and is bound as a flush thread is.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..intents.events import Values
from ..intents.rules.situation import number
from ..scr_config.catalogue import cpus_of

_LEAST_BYTES = 64 * 1024
_MESSAGE_BYTES = 4096  # a line or two that it wrote to standard error
_START_TIME = 22 - 3  # field 22 of proc(5)'s stat; the third is the first behind the name
_PROC = Path("/proc")


class _Thread(NamedTuple):
    pid: int
    tid: int
    start: str
    """Its start time in clock ticks: another thread may have the number later."""

    @property
    def directory(self) -> Path:
        return _PROC / str(self.pid) / "task" / str(self.tid)


class FlushThreads:
    """Binds the flush threads of a job's processes on this node, and restores their masks."""

    def __init__(self) -> None:
        self.counts = {"bound": 0, "given back": 0, "not bound: the system refused": 0}
        """Threads so far: bound; given their own mask back while they ran; and refused by the system."""
        self._first: dict[tuple[int, str], frozenset[int]] = {}
        self._held: dict[_Thread, tuple[frozenset[int], frozenset[int]]] = {}

    def look(self, pids: Iterable[int], settings: Values, *, cache: str, prefix: str) -> None:
        """Bind the flush threads among those of `pids` to the CPUs that the active `settings` name.

        If they name none, what was bound is given back. `cache` and `prefix` are where a flush copies from
        and to. A process or thread that ends meanwhile, or is not ours to look at, is passed over.
        """
        ranks = [rank for pid in pids if (rank := _rank(pid)) is not None]
        for rank in ranks:
            self._first.setdefault(rank, frozenset(_numbers(_PROC / str(rank[0]) / "task")))
        for gone in self._first.keys() - set(ranks):
            del self._first[gone]
        wanted = _cpus(settings)
        buffer_bytes = number(settings, "SCR_FILE_BUF_SIZE")
        self._give_back(wanted)
        if not (wanted and cache and prefix) or "\0" in cache + prefix:
            return
        for rank in ranks:
            if _copies_between(rank[0], cache, prefix):
                for thread in _threads(rank[0], self._first[rank]):
                    if thread not in self._held and _is_copier(thread, buffer_bytes):
                        self._bind(thread, wanted)

    def _bind(self, thread: _Thread, cpus: frozenset[int]) -> None:
        try:
            own = frozenset(os.sched_getaffinity(thread.tid))
            if own == cpus or _start_of(thread.directory) != thread.start:
                return
            os.sched_setaffinity(thread.tid, cpus)
            self._held[thread] = own, frozenset(os.sched_getaffinity(thread.tid))
        except ProcessLookupError:
            return
        except OSError:
            self.counts["not bound: the system refused"] += 1
            return
        self.counts["bound"] += 1

    def _give_back(self, wanted: frozenset[int]) -> None:
        """Give back what is bound to anything but `wanted`, unless somebody else has bound it since."""
        for thread, (own, ours) in list(self._held.items()):
            if _start_of(thread.directory) != thread.start:
                del self._held[thread]
            elif not wanted or not ours <= wanted:
                del self._held[thread]
                try:
                    if frozenset(os.sched_getaffinity(thread.tid)) == ours:
                        os.sched_setaffinity(thread.tid, own)
                        self.counts["given back"] += 1
                except OSError:
                    continue


def _cpus(settings: Values) -> frozenset[int]:
    """Return the CPUs that flush threads are to run on; none if none, or none that exist, are named."""
    try:
        return cpus_of(str(settings.get("SCRTUNE_FLUSH_CPUS", "")))
    except ValueError:
        return frozenset()


def _rank(pid: int) -> tuple[int, str] | None:
    """Return a process of this user's, by its number and its start; None for any other."""
    try:
        is_ours = pid > 0 and (_PROC / str(pid)).stat().st_uid == os.getuid()
    except OSError:
        return None
    start = _start_of(_PROC / str(pid)) if is_ours else ""
    return (pid, start) if start else None


def _threads(pid: int, passed_over: Collection[int]) -> Iterator[_Thread]:
    """Return the threads later than `passed_over`, but for the main one, that have their process's name."""
    name = _text(_PROC / str(pid) / "comm")
    for tid in _numbers(_PROC / str(pid) / "task"):
        thread = _Thread(pid, tid, _start_of(_PROC / str(pid) / "task" / str(tid)))
        is_later = tid != pid and tid not in passed_over
        if is_later and thread.start and _text(thread.directory / "comm") == name:
            yield thread


def _is_copier(thread: _Thread, buffer_bytes: int) -> bool:
    """Return whether it wrote what it read, except for one buffer that is under way."""
    counts = dict(line.split(": ") for line in _text(thread.directory / "io").splitlines())
    read, written = int(counts.get("rchar", 0)), int(counts.get("wchar", 0))
    lags = read - written
    return written >= _LEAST_BYTES and -_MESSAGE_BYTES <= lags <= min(buffer_bytes, written)


def _copies_between(pid: int, cache: str, prefix: str) -> bool:
    """Return whether the process has a file below `cache` open to read, and one below `prefix` to write."""
    source, target = (os.path.realpath(directory) + os.sep for directory in (cache, prefix))
    reads = writes = False
    for fd in _numbers(_PROC / str(pid) / "fd"):
        try:
            path = str((_PROC / str(pid) / "fd" / str(fd)).readlink())
        except OSError:
            continue
        mode = _access_mode(pid, fd)
        reads = reads or (path.startswith(source) and mode == os.O_RDONLY)
        writes = writes or (path.startswith(target) and mode in (os.O_WRONLY, os.O_RDWR))
    return reads and writes


def _access_mode(pid: int, fd: int) -> int | None:
    for line in _text(_PROC / str(pid) / "fdinfo" / str(fd)).splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE
    return None


def _start_of(directory: Path) -> str:
    """Return when the process or thread of this directory of /proc was started; empty when it has ended."""
    _, _, fields = _text(directory / "stat").rpartition(")")  # a name may have anything in it
    return fields.split()[_START_TIME] if fields else ""


def _numbers(directory: Path) -> list[int]:
    try:
        return [int(each.name) for each in directory.iterdir()]
    except OSError:
        return []


def _text(path: Path) -> str:
    """Return the text of a file of /proc; empty when it has gone, or is not ours to read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
