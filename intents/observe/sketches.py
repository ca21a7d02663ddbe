"""Bounded summaries of what streams past."""

from collections import deque
from collections.abc import Iterable, Mapping
from statistics import fmean, median

import msgspec

_DISTINCT_SIZES = 4096


class SizeShare(msgspec.Struct, frozen=True, kw_only=True):
    """One access size, how often it was seen, and its share of all bytes (0 to 1)."""

    size_bytes: int
    count: int
    share: float


class _Cell(msgspec.Struct):
    count: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, count: int, total_bytes: int, seconds: float) -> None:
        self.count += count
        self.bytes += total_bytes
        self.seconds += seconds


class SizeHistogram:
    """How many accesses of each exact size, and the seconds they took.

    Holds at most 4096 distinct sizes; beyond that the rarest are merged into the next power of two, so that
    frequent sizes stay exact. Sums of counts and bytes are always exact.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._cells: dict[int, _Cell] = {}

    def add(self, sizes: Mapping[int, int], seconds: Mapping[int, float] | None = None) -> None:
        """Add accesses: size in bytes -> count, and size -> their seconds together."""
        seconds = seconds or {}
        for size, count in sizes.items():
            if size < 0 or count <= 0:
                continue
            self._cells.setdefault(size, _Cell()).add(count, size * count, seconds.get(size, 0.0))
            self.count += count
            self.bytes += size * count
        if len(self._cells) > _DISTINCT_SIZES:
            self._merge_rare()

    def top(self, n: int) -> tuple[SizeShare, ...]:
        """The `n` sizes that carry the most bytes."""
        heaviest = sorted(self._cells.items(), key=lambda item: (-item[1].bytes, item[0]))[:n]
        return tuple(
            SizeShare(size_bytes=size, count=cell.count, share=cell.bytes / max(1, self.bytes))
            for size, cell in heaviest
        )

    def quantile(self, q: float) -> int:
        """The smallest size such that a share `q` of all bytes lies in accesses of at most that size."""
        passed = 0
        for size in sorted(self._cells):
            passed += self._cells[size].bytes
            if passed >= q * self.bytes:
                return size
        return 0

    def samples(self) -> Iterable[tuple[float, int, float]]:
        """(mean size, count, seconds together) of every cell."""
        return ((cell.bytes / cell.count, cell.count, cell.seconds) for cell in self._cells.values())

    def _merge_rare(self) -> None:
        while len(self._cells) > _DISTINCT_SIZES * 3 // 4:
            rare = sorted(self._cells, key=lambda size: self._cells[size].count)[: _DISTINCT_SIZES // 4]
            for size in rare:
                cell = self._cells.pop(size)
                rounded = 1 << max(0, size - 1).bit_length()
                self._cells.setdefault(rounded, _Cell()).add(cell.count, cell.bytes, cell.seconds)


class Recent:
    """The last `n` of something measured, their mean and their median."""

    def __init__(self, n: int) -> None:
        self._values: deque[float] = deque(maxlen=n)

    def add(self, value: float) -> None:
        """Take one measurement in."""
        self._values.append(value)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def median(self) -> float:
        """Median of what is remembered; 0 when nothing is."""
        return median(self._values) if self._values else 0.0

    @property
    def mean(self) -> float:
        """Mean of what is remembered; 0 when nothing is."""
        return fmean(self._values) if self._values else 0.0
