"""Accesses, summed up by tier and operation until they are taken.

An access is first summed up with the others of its file: which tier the file lies in may be learnt later.
All times are integers, in nanoseconds, so that no order of the lines changes a sum.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

from ...goodput.validation import LARGEST_INTEGER, LARGEST_S
from ..events import LARGEST_COUNT, Access, Content, Operation, Tier

MOVES_DATA = frozenset((Operation.READ, Operation.WRITE))

MAX_SIZES = 4096
"""Distinct sizes kept for each place and operation; further ones count without their size."""
MAX_THREADS = 4096
MAX_PENDING = 131_072
"""Sizes, threads and files that may wait for an explanation of their hash before all are given up."""

_SCR_DIRECTORY = "/.scr/"
_WORDS = (
    ("optim", Content.OPTIMIZER),
    ("layer", Content.LAYER),
    ("model", Content.MODEL),
    ("weight", Content.MODEL),
    ("param", Content.MODEL),
)
"""Words in the names of files, the telling ones first: DeepSpeed's ``layer_01-model_00-model_states.pt`` is a
layer, Megatron's ``model_optim_rng.pt`` mostly the optimizer's."""
_NS = 1e9

FileKey = str | tuple[str, int | None, int]
"""A file in the lines: a hash, a path, or, in generation 1, (source, pid, hash). Empty for none."""
Thread = tuple[int | None, int | None]
"""(pid, tid)."""


def seconds(time_ns: int) -> float:
    """Return nanoseconds as seconds, within what an event may hold: a senseless time costs only itself."""
    return min(time_ns / _NS, LARGEST_S)


class AccessSum(NamedTuple):
    """Accesses that are alike but for their times. `size` is None where it is not known.

    A scanner may be asked to round it down to a power of two; `bytes` are exact.
    """

    op: Operation
    thread: Thread
    size: int | None
    calls: int
    bytes: int
    duration_ns: int
    start_ns: int
    end_ns: int


class Places(Protocol):
    """What is summed up together: a text for each path, its tier or something finer."""

    def of(self, path: str) -> str:
        """Return the place of `path`."""


def content_of(path: str) -> Content:
    """Return what the file at `path` holds, by the words in its name."""
    name = path.rstrip("/").rpartition("/")[2].lower()
    return next((content for word, content in _WORDS if word in name), Content.OTHER)


class Tiers:
    """The tiers of paths: the longest matching directory wins; ``.scr`` below it is SCR's own.

    A place is a tier, and after a slash the content of the file where its name tells it.
    """

    def __init__(self, directories: Mapping[str, str]) -> None:
        by_path = {PurePosixPath(directory): Tier(tier) for directory, tier in directories.items()}
        longest_first = sorted(by_path.items(), key=lambda item: len(item[0].parts), reverse=True)
        self._prefixes = [(f"{path}".rstrip("/") + "/", tier) for path, tier in longest_first]

    def of(self, path: str) -> str:
        """Return the place of `path`."""
        tier, is_scr = self.find(path)
        content = content_of(path)
        return Tier.SCR if is_scr else tier if content is Content.OTHER else f"{tier}/{content}"

    def find(self, path: str) -> tuple[Tier, bool]:
        """Return the tier whose directory `path` is in, and whether it is one of SCR's own files there."""
        below = _plain_path(path) + "/"
        for prefix, tier in self._prefixes:
            if below.startswith(prefix):
                return tier, _SCR_DIRECTORY in below[len(prefix) - 1 :]
        return Tier.OTHER, False


def _plain_path(path: str) -> str:
    """Return `path` without repeated slashes and single dots; few paths have any, and pathlib is slow."""
    return str(PurePosixPath(path)) if "//" in path or "/." in path or path.endswith("/") else path


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
        self.sizes: dict[int, int] = {}  # size -> count

    def add(self, found: AccessSum) -> None:
        """Add accesses."""
        _, thread, size, calls, total_bytes, duration_ns, start_ns, end_ns = found
        self.count += calls
        self.bytes += total_bytes
        self.duration_ns += duration_ns
        self._span(start_ns, end_ns)
        if len(self.threads) < MAX_THREADS:
            self.threads.add(thread)
        if size is not None:
            self._add_size(size, calls)

    def merge(self, other: "Group") -> None:
        """Add all of `other`."""
        self.count += other.count
        self.bytes += other.bytes
        self.duration_ns += other.duration_ns
        if other.start_ns is not None:
            self._span(other.start_ns, other.end_ns)
        if len(self.threads) < MAX_THREADS:
            self.threads |= other.threads
        for size, count in other.sizes.items():
            self._add_size(size, count)

    @property
    def size(self) -> int:
        """Number of things that are remembered here."""
        return 1 + len(self.sizes) + len(self.threads)

    def _span(self, start_ns: int, end_ns: int) -> None:
        if self.start_ns is None or start_ns < self.start_ns:
            self.start_ns = start_ns
        if end_ns > self.end_ns:  # noqa: PLR1730 - max() would cost this busy line twice as much
            self.end_ns = end_ns

    def _add_size(self, size: int, count: int) -> None:
        if size in self.sizes:
            self.sizes[size] += count
        elif len(self.sizes) < MAX_SIZES:
            self.sizes[size] = count

    def access(self, place: str, op: Operation) -> Access:
        """Return the sum as it goes to the journal."""
        tier, _, content = place.partition("/")
        return Access(
            tier=tier,
            op=op,
            content=content or Content.OTHER,
            count=min(self.count, LARGEST_INTEGER),
            bytes=min(self.bytes, LARGEST_INTEGER),
            duration_s=seconds(self.duration_ns),
            start_s=seconds(self.start_ns or 0),
            end_s=seconds(self.end_ns),
            sizes={size: min(count, LARGEST_INTEGER) for size, count in self.sizes.items()},
        )


class AccessTable:
    """All accesses since the last :meth:`take`: by file while they wait, by place once that is settled."""

    def __init__(self, new_group: Callable[[], Group] = Group) -> None:
        self._new_group = new_group
        self._waiting: dict[tuple[FileKey, Operation], Group] = {}
        self._settled: dict[tuple[str, Operation], Group] = {}
        self._unresolved = 0

    def group(self, file: FileKey, op: Operation) -> Group:
        """Return the group of the accesses `op` of `file`."""
        group = self._waiting.get((file, op))
        if group is None:
            group = self._waiting[file, op] = self._new_group()
        return group

    def settled(self, place: str, op: Operation) -> Group:
        """Return the group of the accesses `op` in `place`."""
        if (place, op) not in self._settled:
            self._settled[place, op] = self._new_group()
        return self._settled[place, op]

    def settle(self, place_of: Callable[[FileKey], str | None], *, give_up: bool = False) -> None:
        """Move the accesses of every file whose place is known; `give_up` moves the rest, too."""
        waiting, self._waiting = self._waiting, {}
        for (file, op), group in waiting.items():
            place = place_of(file)
            if place is not None:
                self.settled(place, op).merge(group)
            elif give_up:
                self._unresolved += group.count
                self._give_up(file, op, group)
            else:
                self._waiting[file, op] = group

    def _give_up(self, _file: FileKey, op: Operation, group: Group) -> None:
        self.settled(Tier.OTHER, op).merge(group)

    def settle_file(self, file: FileKey, place: str) -> None:
        """Move the accesses of `file` alone, before its name comes to mean another one."""
        for op in Operation:
            group = self._waiting.pop((file, op), None)
            if group is not None:
                self.settled(place, op).merge(group)

    @property
    def pending(self) -> int:
        """Number of files, sizes and threads that wait to be settled."""
        return sum(group.size for group in self._waiting.values())

    def take(self) -> tuple[tuple[Access, ...], int]:
        """Return the settled accesses by place and operation, and the number of those given up."""
        accesses = tuple(
            group.access(*key) for key, group in sorted(self._settled.items(), key=itemgetter(0))
        )
        unresolved, self._unresolved, self._settled = self._unresolved, 0, {}
        return accesses, min(unresolved, LARGEST_COUNT)
