"""The distribution of sizes: those that carry the most bytes, exactly, and percentiles, in bounded memory."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from ....units import bytes_text

TOP = 5
MAX_SIZES = 4096
"""Distinct sizes that a histogram remembers."""
_KEPT = MAX_SIZES * 3 // 4
_BIN_BITS = 5
BIN_ERROR = 2**-_BIN_BITS
"""A size that shares a bin with others is read as larger than it was by less than this share."""


class SizeShare(msgspec.Struct, frozen=True, kw_only=True):
    """One access size, its number of accesses, and its share of all bytes and of all calls (0 to 1)."""

    size_bytes: int
    count: int
    share: float
    calls_share: float = 0.0


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of access sizes: the top five by bytes, and percentiles, which are by bytes, too.

    Accesses of at most `p90_bytes` each carry nine tenths of the bytes.
    """

    count: int = 0
    bytes: int = 0
    top: tuple[SizeShare, ...] = ()
    p50_bytes: int = 0
    p90_bytes: int = 0
    p99_bytes: int = 0

    def text(self) -> str:
        """Return the distribution for people."""
        top = ", ".join(
            f"{bytes_text(each.size_bytes)} {each.share:.0%} ({each.calls_share:.0%} of calls)"
            for each in self.top
        )
        percentiles = ", ".join(map(bytes_text, (self.p50_bytes, self.p90_bytes, self.p99_bytes)))
        return f"top by bytes: {top}; p50, p90, p99 {percentiles}"


class SizeHistogram:
    """The number of accesses of each exact size.

    Holds at most 4096 distinct sizes; beyond that the rarest share bins whose ends are 3 % apart, so that
    frequent sizes stay exact, and percentiles are off by 3 % at most. Sums of counts and bytes are exact.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._counts: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._sizes: Sizes | None = None

    def add(self, sizes: Mapping[int, int]) -> None:
        """Add accesses: size in bytes -> count."""
        self._sizes = None
        for size, count in sizes.items():
            if size >= 0 and count > 0:
                self._counts[size] += count
                self._bytes[size] += size * count
                self.count += count
                self.bytes += size * count
        if len(self._counts) > MAX_SIZES:
            self._merge_rare()

    def __len__(self) -> int:
        """Return the number of sizes that are told apart."""
        return len(self._counts)

    @property
    def sizes(self) -> Sizes:
        """The distribution so far."""
        if self._sizes is None:
            p50, p90, p99 = self._quantiles(0.5, 0.9, 0.99)
            self._sizes = Sizes(
                count=self.count,
                bytes=self.bytes,
                top=self._top(),
                p50_bytes=p50,
                p90_bytes=p90,
                p99_bytes=p99,
            )
        return self._sizes

    def _top(self) -> tuple[SizeShare, ...]:
        heaviest = sorted(self._bytes.items(), key=lambda item: (-item[1], item[0]))[:TOP]
        return tuple(
            SizeShare(
                size_bytes=size,
                count=self._counts[size],
                share=total / max(1, self.bytes),
                calls_share=self._counts[size] / self.count,
            )
            for size, total in heaviest
        )

    def _quantiles(self, *shares: float) -> list[int]:
        """Return for each of the growing `shares` the size up to which accesses carry it of all bytes."""
        found: list[int] = []
        passed = 0
        for size in sorted(self._bytes):
            passed += self._bytes[size]
            while len(found) < len(shares) and passed >= shares[len(found)] * self.bytes:
                found.append(size)
        return found or [0] * len(shares)

    def _merge_rare(self) -> None:
        """Merge sizes into their bins, the rarest first. All bins together are fewer than 1,900."""
        mergeable = [size for size in self._counts if _bin_end(size) != size]
        for size in sorted(mergeable, key=self._counts.__getitem__):
            if len(self._counts) <= _KEPT:
                return
            end = _bin_end(size)
            self._counts[end] += self._counts.pop(size)
            self._bytes[end] += self._bytes.pop(size)


def _bin_end(size: int) -> int:
    """Return the largest size of the bin that has `size`: there are 32 bins to a power of two."""
    shift = max(0, size.bit_length() - 1 - _BIN_BITS)
    return -(-size >> shift) << shift
