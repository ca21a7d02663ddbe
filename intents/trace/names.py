"""The names behind hashes, and the processes of a job, both bounded."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from ...goodput.validation import LARGEST_INTEGER
from .digest import FileKey
from .lines import MAX_HASH, Arguments, TraceRecord

MAX_NAMES = 131_072
"""Hashes remembered; beyond that the oldest quarter is forgotten."""
MAX_PROCESSES = 65_536
"""Processes remembered; beyond that those are forgotten that wrote nothing since the last take."""

UNIT_NS = {"NS": 1, "US": 1_000, "MS": 1_000_000, "SEC": 1_000_000_000}
"""DFTRACER_TIME_METRIC -> nanoseconds."""

_64_BITS = 2**64 - 1
_COLLIDING = 1
"""The generation whose hashes are explained anew."""


class Names(dict[FileKey, str]):
    """Hash -> name. Several threads may read and add at a time."""

    def hashes(self) -> list[str]:
        """Return the keys that hold throughout the job and are not the name itself."""
        known = list(self.items())  # at once: another thread may add to them
        return [key for key, name in known if isinstance(key, str) and key != name]

    def put(self, key: FileKey, name: str) -> None:
        """Remember `name`."""
        if self.room <= 0:
            for old in list(islice(self, MAX_NAMES // 4)):
                self.pop(old, None)
        self[key] = name

    @property
    def room(self) -> int:
        """Number of names that may be added before the oldest are forgotten."""
        return MAX_NAMES - len(self)


@dataclass(slots=True)
class Process:
    """One process: the sender of its lines, nanoseconds of its unit of time, its host and format."""

    source: str
    pid: int | None
    unit_ns: int
    host: FileKey | None = None
    """A hash or a name."""
    generation: int | None = None
    seen: bool = False
    """Since the last take."""

    def key_of(self, value: int | str) -> FileKey:
        """Return the key of a hash across the job; generation 1's 16 bits are unique in one process only."""
        return (self.source, self.pid, value & _64_BITS) if isinstance(value, int) else value[:MAX_HASH]


class Processes:
    """The processes of the job, by the sender of their lines and their pid.

    `on_full` is called before processes are forgotten that were not seen.
    """

    def __init__(self, on_full: Callable[[], None]) -> None:
        self._on_full = on_full
        self._known: dict[tuple[str, int | None], Process] = {}
        self.host_names = Names()
        self._last: Process | None = None

    def of(self, record: TraceRecord, source: str) -> Process | None:
        """Return the process that wrote `record`; None when there are too many."""
        process = self._last
        if process is None or process.pid != record.pid or process.source != source:
            process = self._last = self._find(source, record.pid)
        if process is not None and process.host is None and record.args is not None:
            self._learn_host(process, record.args)
        return process

    def get(self, source: str, pid: int) -> Process | None:
        """Return a process that is known already."""
        return self._known.get((source, pid))

    def _find(self, source: str, pid: int | None) -> Process | None:
        process = self._known.get((source, pid))
        if process is not None:
            return process
        if len(self._known) >= MAX_PROCESSES:
            self._on_full()
            self._known = {key: old for key, old in self._known.items() if old.seen}
        if len(self._known) >= MAX_PROCESSES:
            return None
        # a merged trace says its unit once, on a line without a pid
        merged = self._known.get((source, None))
        process = self._known[source, pid] = Process(source, pid, merged.unit_ns if merged else UNIT_NS["US"])
        return process

    def _learn_host(self, process: Process, args: Arguments) -> None:
        if args.hhash != "":
            process.host = process.key_of(args.hhash)
        elif args.hostname:
            process.host = args.hostname
            self.host_names.put(args.hostname, args.hostname)

    def hosts(self) -> dict[int, str]:
        """Return the host of each pid: its name, else its hash; of one source."""
        return {
            pid: self.host_names.get(process.host) or str(process.host)
            for (_, pid), process in self._known.items()
            if pid is not None and process.host is not None
        }

    @property
    def are_ordered(self) -> bool:
        """Whether a process has said its unit of time, or has hashes that are explained anew."""
        return any(
            process.unit_ns != UNIT_NS["US"] or process.generation == _COLLIDING
            for process in self._known.values()
        )

    def take_seen(self, *, final: bool) -> tuple[tuple[str, int], ...]:
        """Return (host, pid) of the processes since the last call, but for those with an unexplained host."""
        seen: list[tuple[str, int]] = []
        for (_, pid), process in self._known.items():
            if not process.seen or pid is None or abs(pid) > LARGEST_INTEGER:
                continue
            host = "" if process.host is None else self.host_names.get(process.host)
            if host is None and not final:
                continue
            process.seen = False
            seen.append((host or "", pid))
        return tuple(sorted(set(seen)))
