"""Intent 2 of the LLNL study: the distribution of access sizes, its top five and its 90th percentile."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ...goodput.events import OutputCompleted
from ...units import bytes_text, count_text
from ..events import Operation, Tier, TraceDigest
from ..intent import Evidence

TOP = 5
_DISTINCT_SIZES = 4096
_MIN_SIZES = 2
_MIN_CALLS = 8
_FAR_BELOW = 0.5
EVENT_LIMIT = 2000
"""An output of which rank 0 has as many calls traced was not traced to its end (`native/observe.c`)."""
_FILES = (Tier.CACHE, Tier.PREFIX)
_PREFERENCE = tuple(
    (tier, op) for op in (Operation.WRITE, Operation.READ) for tier in (Tier.CACHE, Tier.PREFIX, Tier.OTHER)
)
"""Writes into the cache are the application's own. When nothing goes to a cache (bypass, or a trace without
SCR) all writes outside SCR's own files are, and of a job that only reads, its reads."""


class SizeShare(msgspec.Struct, frozen=True, kw_only=True):
    """One access size, its number of accesses, and its share of all bytes (0 to 1)."""

    size_bytes: int
    count: int
    share: float


class BufferSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The application's accesses by size. Shares and percentiles are by bytes, not by calls.

    `call_s` is the fixed cost of a write into the prefix directory, if the trace has enough different sizes.
    `written_bytes` is what the traced outputs wrote on this node by their own account, about, where the trace
    has less than half of it, `seen_bytes`; else both are 0.
    """

    evidence: Evidence = Evidence()
    operation: str = Operation.WRITE
    bytes: int = 0
    top: tuple[SizeShare, ...] = ()
    p90_bytes: int = 0
    call_s: float | None = None
    seen_bytes: int = 0
    written_bytes: int = 0

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.top:
            return self._unseen() or "no reads or writes of the application were traced yet"
        sizes = ", ".join(f"{bytes_text(top.size_bytes)} {top.share:.0%}" for top in self.top)
        return (
            f"{count_text(self.evidence.count, self.operation)}, {bytes_text(self.bytes)};"
            f" top by bytes: {sizes}; p90 {bytes_text(self.p90_bytes)}{'; ' if self.written_bytes else ''}"
            f"{self._unseen()}"
        )

    def _unseen(self) -> str:
        """Return that most of the bytes are missing, why, and what to do; empty where they are not."""
        if not self.written_bytes:
            return ""
        return (
            f"the trace has {bytes_text(self.seen_bytes)} of the {bytes_text(self.written_bytes)} that these"
            " outputs wrote here: DFTracer sees no mapped files, C++ streams, io_uring or duplicated"
            " descriptors. To have it traced, write by write() or fwrite() to files of open() or fopen()"
        )


class BufferObserver:
    """Collects accesses by tier and operation: the application's own apart from those that SCR makes."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str], SizeHistogram] = {key: SizeHistogram() for key in _PREFERENCE}
        self._start_s: float | None = None
        self._end_s = 0.0
        self._written_bytes = 0

    def add_output(self, output: OutputCompleted) -> None:
        """Take in an output: what it wrote should be in the trace, if it was traced to its end."""
        if 0 < output.observed < EVENT_LIMIT:
            self._written_bytes += output.bytes

    def add(self, digest: TraceDigest) -> None:
        """Take in a stretch of trace."""
        for access in digest.accesses:
            histogram = self._sizes.get((access.tier, access.op))
            if histogram is None:
                continue
            histogram.add(access.sizes, access.seconds)
            self._start_s = access.start_s if self._start_s is None else min(self._start_s, access.start_s)
            self._end_s = max(self._end_s, access.end_s)

    def observe(self, nodes: int = 1, traced: int = 1) -> BufferSizes:
        """Return the intent, in a job on so many nodes, of which `traced` ones have sent their trace.

        They share what the outputs wrote.
        """
        seen_bytes = sum(self._sizes[tier, Operation.WRITE].bytes for tier in _FILES)
        written_bytes = self._written_bytes * min(traced, nodes) // max(1, nodes)
        if seen_bytes >= _FAR_BELOW * written_bytes:
            seen_bytes = written_bytes = 0
        key = next((key for key in _PREFERENCE if self._sizes[key].bytes > 0), None)
        if key is None or self._start_s is None:
            return BufferSizes(seen_bytes=seen_bytes, written_bytes=written_bytes)
        histogram = self._sizes[key]
        cost = fit_call_cost(self._sizes[Tier.PREFIX, Operation.WRITE].samples())
        return BufferSizes(
            evidence=Evidence(
                count=histogram.count,
                window_s=self._end_s - self._start_s,
                end_s=self._end_s,
                source="DFTracer",
                is_partial=written_bytes > 0,
            ),
            operation=key[1],
            bytes=histogram.bytes,
            top=histogram.top(TOP),
            p90_bytes=histogram.quantile(0.9),
            call_s=cost[0] if cost else None,
            seen_bytes=seen_bytes,
            written_bytes=written_bytes,
        )


class SizeHistogram:
    """The number of accesses of each exact size, and their seconds.

    Holds at most 4096 distinct sizes; beyond that the rarest are merged into the next power of two, so that
    frequent sizes stay exact. Sums of counts and bytes are always exact.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._counts: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._seconds: dict[int, float] = {}

    def add(self, sizes: Mapping[int, int], seconds: Mapping[int, float] = {}) -> None:
        """Add accesses: size in bytes -> count, and size -> the sum of their seconds."""
        for size, count in sizes.items():
            if size >= 0 and count > 0:
                self._add(size, count, size * count, seconds.get(size, 0.0))
                self.count += count
                self.bytes += size * count
        if len(self._counts) > _DISTINCT_SIZES:
            self._merge_rare()

    def _add(self, size: int, count: int, total_bytes: int, seconds: float) -> None:
        self._counts[size] += count
        self._bytes[size] += total_bytes
        self._seconds[size] = self._seconds.get(size, 0.0) + seconds

    def top(self, n: int) -> tuple[SizeShare, ...]:
        """Return the `n` sizes that carry the most bytes."""
        heaviest = sorted(self._bytes.items(), key=lambda item: (-item[1], item[0]))[:n]
        return tuple(
            SizeShare(size_bytes=size, count=self._counts[size], share=total / max(1, self.bytes))
            for size, total in heaviest
        )

    def quantile(self, q: float) -> int:
        """Return the smallest size such that accesses of at most that size have a share `q` of all bytes."""
        passed = 0
        for size in sorted(self._bytes):
            passed += self._bytes[size]
            if passed >= q * self.bytes:
                return size
        return 0

    def samples(self) -> Iterable[tuple[float, int, float]]:
        """Return (mean size, count, sum of seconds) of every size."""
        return ((self._bytes[each] / n, n, self._seconds[each]) for each, n in self._counts.items())

    def _merge_rare(self) -> None:
        while len(self._counts) > _DISTINCT_SIZES * 3 // 4:
            for size in sorted(self._counts, key=self._counts.__getitem__)[: _DISTINCT_SIZES // 4]:
                cell = self._counts.pop(size), self._bytes.pop(size), self._seconds.pop(size)
                self._add(1 << max(0, size - 1).bit_length(), *cell)


def fit_call_cost(samples: Iterable[tuple[float, int, float]]) -> tuple[float, float] | None:
    """Return (seconds per call, seconds per byte), fitted to (size, count, sum of seconds).

    Least squares on the mean time per call, weighted by count; both are kept at or above 0. None with fewer
    than two sizes or eight calls. (Two unknowns have a closed form; a library takes seconds to load.)
    """
    cells = [(size, count, seconds / count) for size, count, seconds in samples if size > 0 and count > 0]
    calls = sum(count for _, count, _ in cells)
    if len(cells) < _MIN_SIZES or calls < _MIN_CALLS:
        return None
    mean_size = sum(size * count for size, count, _ in cells) / calls
    mean_s = sum(each_s * count for _, count, each_s in cells) / calls
    spread = sum(count * (size - mean_size) ** 2 for size, count, _ in cells)
    together = sum(count * (size - mean_size) * (each_s - mean_s) for size, count, each_s in cells)
    slope = together / spread
    latency_s = mean_s - slope * mean_size
    if slope < 0:  # bigger calls are not slower: all of it is latency
        slope, latency_s = 0.0, mean_s
    elif latency_s < 0:  # calls cost nothing by themselves: the best line through the origin
        products = sum(count * size * each_s for size, count, each_s in cells)
        slope, latency_s = products / sum(count * size * size for size, count, _ in cells), 0.0
    return latency_s, slope
