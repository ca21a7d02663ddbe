"""Accesses, summed up by tier and operation until somebody takes them.

An access is first summed up with the others of its file: which tier the file lies in may be learnt later.
All times are integers, in nanoseconds, so that no order of the lines changes a sum.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from ..events import Access

READ, WRITE, SYNC, METADATA = OPERATIONS = ("read", "write", "sync", "metadata")
MOVES_DATA = frozenset((READ, WRITE))
OTHER = "other"
SCR_OWN = "scr"

MAX_SIZES = 4096
"""Distinct sizes kept for each tier and operation; further ones count without their size."""
MAX_THREADS = 4096
MAX_PENDING = 131_072
"""Sizes, threads and files that may wait for an explanation of their hash before all are given up."""

_SCR_DIRECTORY = ".scr"
_INT64_MAX = 2**63 - 1
_NS = 1e9

FileKey = str | tuple[str, int | None, int]
"""How lines name a file: a hash, a path, or, in generation 1, (source, pid, hash). Empty when they do not."""
Thread = tuple[int | None, int | None]
"""(pid, tid)."""


class Tiers:
    """Which tier a path lies in: the longest matching directory wins; ``.scr`` below it is SCR's own."""

    def __init__(self, directories: Mapping[str, str]) -> None:
        prefixes = [(PurePosixPath(directory), tier) for directory, tier in directories.items()]
        self._prefixes = sorted(prefixes, key=lambda item: len(item[0].parts), reverse=True)

    def of(self, path: str) -> str:
        """The tier of `path`: ``cache``, ``prefix`` (or what the caller named), ``scr`` or ``other``."""
        pure = PurePosixPath(path)
        for directory, tier in self._prefixes:
            if pure.is_relative_to(directory):
                below = pure.parts[len(directory.parts) :]
                return SCR_OWN if _SCR_DIRECTORY in below else tier
        return OTHER


@dataclass(frozen=True)
class Sum:
    """Accesses that DFTracer summed up itself; `size` is the size of each when all were equal."""

    count: int
    bytes: int
    duration_ns: int
    size: int | None


class Group:
    """Accesses that are summed up together."""

    __slots__ = ("bytes", "count", "duration_ns", "end_ns", "sizes", "start_ns", "threads")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.duration_ns = 0
        self.start_ns: int | None = None
        self.end_ns = 0
        self.threads: set[Thread] = set()
        self.sizes: dict[int, list[int]] = {}  # size -> [count, nanoseconds]

    def add(self, thread: Thread, start_ns: int, duration_ns: int, size: int | None) -> None:
        """Add one access of `size` bytes, None when it moved none or the size is not known."""
        self.count += 1
        self.duration_ns += duration_ns
        self._span(start_ns, start_ns + duration_ns)
        if len(self.threads) < MAX_THREADS:
            self.threads.add(thread)
        if size is not None:
            self.bytes += size
            self._add_size(size, 1, duration_ns)

    def add_sum(self, thread: Thread, start_ns: int, summed: "Sum") -> None:
        """Add the accesses of one aggregated line."""
        self.count += summed.count
        self.bytes += summed.bytes
        self.duration_ns += summed.duration_ns
        self._span(start_ns, start_ns + summed.duration_ns)
        if len(self.threads) < MAX_THREADS:
            self.threads.add(thread)
        if summed.size is not None:
            self._add_size(summed.size, summed.count, summed.duration_ns)

    def merge(self, other: "Group") -> None:
        """Add all of `other`."""
        self.count += other.count
        self.bytes += other.bytes
        self.duration_ns += other.duration_ns
        if other.start_ns is not None:
            self._span(other.start_ns, other.end_ns)
        if len(self.threads) < MAX_THREADS:
            self.threads |= other.threads
        for size, (count, duration_ns) in other.sizes.items():
            self._add_size(size, count, duration_ns)

    def _span(self, start_ns: int, end_ns: int) -> None:
        if self.start_ns is None or start_ns < self.start_ns:
            self.start_ns = start_ns
        if end_ns > self.end_ns:  # noqa: PLR1730 - max() would cost this busy line twice as much
            self.end_ns = end_ns

    def _add_size(self, size: int, count: int, duration_ns: int) -> None:
        entry = self.sizes.get(size)
        if entry is not None:
            entry[0] += count
            entry[1] += duration_ns
        elif len(self.sizes) < MAX_SIZES:
            self.sizes[size] = [count, duration_ns]

    def access(self, tier: str, op: str) -> Access:
        """The sum, as it goes to the journal."""
        return Access(
            tier=tier,
            op=op,
            count=min(self.count, _INT64_MAX),
            bytes=min(self.bytes, _INT64_MAX),
            duration_s=self.duration_ns / _NS,
            start_s=(self.start_ns or 0) / _NS,
            end_s=self.end_ns / _NS,
            threads=max(1, len(self.threads)),
            sizes={size: min(count, _INT64_MAX) for size, (count, _) in self.sizes.items()},
            seconds={size: duration_ns / _NS for size, (_, duration_ns) in self.sizes.items()},
        )


class AccessTable:
    """All accesses since the last :meth:`take`: by file while they wait, by tier once that is settled."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[FileKey, str], Group] = {}
        self._settled: dict[tuple[str, str], Group] = {}
        self._unresolved = 0

    def group(self, file: FileKey, op: str) -> Group:
        """Where the accesses `op` of `file` are summed up."""
        group = self._waiting.get((file, op))
        if group is None:
            group = self._waiting[file, op] = Group()
        return group

    def settle(self, tier_of: Callable[[FileKey], str | None], *, give_up: bool = False) -> None:
        """Move the accesses of every file whose tier is known; `give_up` moves the rest to ``other``."""
        waiting, self._waiting = self._waiting, {}
        for (file, op), group in waiting.items():
            tier = tier_of(file)
            if tier is None and not give_up:
                self._waiting[file, op] = group
                continue
            if tier is None:
                self._unresolved += group.count
            self._settle(tier or OTHER, op, group)

    def settle_file(self, file: FileKey, tier: str) -> None:
        """Move the accesses of `file` alone, before its name comes to mean another one."""
        for op in OPERATIONS:
            group = self._waiting.pop((file, op), None)
            if group is not None:
                self._settle(tier, op, group)

    def _settle(self, tier: str, op: str, group: Group) -> None:
        settled = self._settled.get((tier, op))
        if settled is None:
            self._settled[tier, op] = group
        else:
            settled.merge(group)

    @property
    def pending(self) -> int:
        """How much waits to be settled: files, sizes and threads."""
        return sum(1 + len(group.sizes) + len(group.threads) for group in self._waiting.values())

    def take(self) -> tuple[tuple[Access, ...], int]:
        """What is settled, ordered by tier and operation, and how many of these accesses were given up."""
        accesses = tuple(group.access(*key) for key, group in sorted(self._settled.items(), key=_by_key))
        unresolved, self._unresolved, self._settled = self._unresolved, 0, {}
        return accesses, min(unresolved, _INT64_MAX)


def _by_key(item: tuple[tuple[str, str], Group]) -> tuple[str, str]:
    return item[0]
