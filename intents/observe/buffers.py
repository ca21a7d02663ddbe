"""Intent 2 of the study: the distribution of buffer sizes, its top five accesses and its 90th percentile."""

import msgspec

from ...units import bytes_text
from ..events import TraceDigest
from ..intent import Evidence
from .copy_cost import Transfer, fit_transfer
from .sketches import SizeHistogram, SizeShare

TOP = 5
_OPERATIONS = ("write", "read")


class BufferSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The application's accesses by size. Shares and percentiles are by bytes, not by calls.

    `transfer` is what one call into the prefix directory costs, where the trace shows enough different sizes.
    """

    evidence: Evidence = Evidence()
    operation: str = "write"
    bytes: int = 0
    top: tuple[SizeShare, ...] = ()
    p50_bytes: int = 0
    p90_bytes: int = 0
    transfer: Transfer | None = None

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.top:
            return "no reads or writes of the application were traced yet"
        sizes = ", ".join(f"{bytes_text(top.size_bytes)} {top.share:.0%}" for top in self.top)
        return (
            f"{self.evidence.count} {self.operation}s, {bytes_text(self.bytes)};"
            f" top by bytes: {sizes}; p90 {bytes_text(self.p90_bytes)}"
        )


class BufferObserver:
    """Keeps the application's own accesses apart from those that SCR makes on its behalf.

    Writes into the cache are the application's; when nothing goes to a cache (bypass, or a trace without
    SCR) all writes outside SCR's own files are, and of a job that only reads, its reads.
    """

    def __init__(self) -> None:
        self._sizes = {
            (tier, op): SizeHistogram() for tier in ("cache", "prefix", "other") for op in _OPERATIONS
        }
        self._start_s: float | None = None
        self._end_s = 0.0

    def add(self, digest: TraceDigest) -> None:
        """Take a stretch of trace in."""
        for access in digest.accesses:
            histogram = self._sizes.get((access.tier, access.op))
            if histogram is None:
                continue
            histogram.add(access.sizes, access.seconds)
            self._start_s = access.start_s if self._start_s is None else min(self._start_s, access.start_s)
            self._end_s = max(self._end_s, access.end_s)

    def observe(self) -> BufferSizes:
        """The intent as it stands."""
        tier, op = next(
            (key for key in _PREFERENCE if self._sizes[key].bytes > 0),
            ("cache", "write"),
        )
        histogram = self._sizes[tier, op]
        if histogram.bytes == 0 or self._start_s is None:
            return BufferSizes()
        return BufferSizes(
            evidence=Evidence(count=histogram.count, window_s=self._end_s - self._start_s, source="DFTracer"),
            operation=op,
            bytes=histogram.bytes,
            top=histogram.top(TOP),
            p50_bytes=histogram.quantile(0.5),
            p90_bytes=histogram.quantile(0.9),
            transfer=fit_transfer(self._sizes["prefix", "write"].samples()),
        )


_PREFERENCE = (
    ("cache", "write"),
    ("prefix", "write"),
    ("other", "write"),
    ("cache", "read"),
    ("prefix", "read"),
    ("other", "read"),
)
