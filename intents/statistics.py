"""Bounded summaries of what streams past."""

from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median

import msgspec

_DISTINCT_SIZES = 4096


class SizeShare(msgspec.Struct, frozen=True, kw_only=True):
    """One access size, how often it was seen, and its share of all bytes (0 to 1)."""

    size_bytes: int
    count: int
    share: float


class SizeHistogram:
    """How many accesses of each exact size, and the seconds they took.

    Holds at most 4096 distinct sizes; beyond that the rarest are merged into the next power of two, so that
    frequent sizes stay exact.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._cells: dict[int, tuple[int, float]] = {}

    def add(self, sizes: Mapping[int, int], seconds: Mapping[int, float] | None = None) -> None:
        """Add accesses: size in bytes -> count, and size -> their seconds together."""
        seconds = seconds or {}
        for size, count in sizes.items():
            old_count, old_seconds = self._cells.get(size, (0, 0.0))
            self._cells[size] = (old_count + count, old_seconds + seconds.get(size, 0.0))
            self.count += count
            self.bytes += size * count
        if len(self._cells) > _DISTINCT_SIZES:
            self._merge_rare()

    def top(self, n: int) -> tuple[SizeShare, ...]:
        """The `n` sizes that carry the most bytes."""
        heaviest = sorted(self._cells.items(), key=lambda cell: (-cell[0] * cell[1][0], cell[0]))[:n]
        return tuple(
            SizeShare(size_bytes=size, count=count, share=size * count / max(1, self.bytes))
            for size, (count, _) in heaviest
        )

    def quantile(self, q: float) -> int:
        """The smallest size such that a share `q` of all bytes lies in accesses of at most that size."""
        passed = 0
        for size in sorted(self._cells):
            passed += size * self._cells[size][0]
            if passed >= q * self.bytes:
                return size
        return 0

    def samples(self) -> Iterable[tuple[int, int, float]]:
        """(size, count, seconds together) of every cell."""
        return ((size, count, seconds) for size, (count, seconds) in self._cells.items())

    def _merge_rare(self) -> None:
        rare = sorted(self._cells, key=lambda size: self._cells[size][0])[: _DISTINCT_SIZES // 4]
        for size in rare:
            count, seconds = self._cells.pop(size)
            rounded = 1 << max(0, size - 1).bit_length()
            old_count, old_seconds = self._cells.get(rounded, (0, 0.0))
            self._cells[rounded] = (old_count + count, old_seconds + seconds)
            self.bytes += (rounded - size) * count


class Recent:
    """The last `n` of something measured, and their median."""

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
