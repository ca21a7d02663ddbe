"""Intent 2 of the LLNL study: the distribution of access sizes, of the job and of each class of its files."""

import msgspec

from ....goodput.events import OutputCompleted
from ....units import bytes_text, count_text
from ...events import Content, Operation, Tier, TraceDigest
from ...intent import Evidence, EvidenceWindow, Intent
from .sizes import SizeHistogram, Sizes

_FAR_BELOW = 0.5
EVENT_LIMIT = 2000
"""An output of which rank 0 has as many calls traced was not traced to its end (`native/observe.c`)."""
_FILES = (Tier.CACHE, Tier.PREFIX)
_PREFERENCE = tuple(
    (tier, op) for op in (Operation.WRITE, Operation.READ) for tier in (Tier.CACHE, Tier.PREFIX, Tier.OTHER)
)
"""Writes into the cache are the application's own. When nothing goes to a cache (bypass, or a trace without
SCR) all writes outside SCR's own files are, and of a job that only reads, its reads."""


class BufferSizes(Sizes, Intent, frozen=True, kw_only=True):
    """The application's accesses by size, those of each :class:`Content` of files in `by_content`.

    `written_bytes` is what the traced outputs wrote on this node by their own account, about, where the trace
    has less than half of it, `seen_bytes`; else both are 0.
    """

    title, number = "buffer sizes", 2

    evidence: Evidence = Evidence()
    operation: str = Operation.WRITE
    by_content: dict[str, Sizes] = msgspec.field(default_factory=dict)
    seen_bytes: int = 0
    written_bytes: int = 0

    def _text(self) -> str:
        if not self.top:
            return self._unseen() or "no reads or writes of the application were traced yet"
        contents = [
            f"{content} files {sizes.bytes / max(1, self.bytes):.0%}, p90 {bytes_text(sizes.p90_bytes)}"
            for content, sizes in self.by_content.items()
        ]
        accesses = f"{count_text(self.evidence.count, self.operation)}, {bytes_text(self.bytes)}"
        parts = (accesses, self.text(), *(contents if len(contents) > 1 else []), self._unseen())
        return "; ".join(filter(None, parts))

    def _unseen(self) -> str:
        """Return that most of the bytes are missing, why, and what to do; empty where they are not."""
        if not self.written_bytes:
            return ""
        return (
            f"the trace has {bytes_text(self.seen_bytes)} of the {bytes_text(self.written_bytes)} that these"
            " outputs wrote here: DFTracer sees no mapped files, C++ streams, io_uring or duplicated"
            " descriptors, and a log that the application opens itself (as DLIO does) is for scrtune replay."
            " To have it traced, write by write() or fwrite() to files of open() or fopen()"
        )


class BufferObserver:
    """Collects accesses by tier and operation: the application's own apart from those that SCR makes."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str], SizeHistogram] = {key: SizeHistogram() for key in _PREFERENCE}
        self._by_content: dict[tuple[str, str, str], SizeHistogram] = {
            (tier, op, content): SizeHistogram() for tier, op in _PREFERENCE for content in Content
        }
        self._window = EvidenceWindow()
        self._written_bytes = self._seen_bytes = 0

    def add_output(self, output: OutputCompleted) -> None:
        """Take in an output: what it wrote should be in the trace, if it was traced to its end."""
        if 0 < output.observed < EVENT_LIMIT:
            self._written_bytes += output.bytes

    def add(self, digest: TraceDigest) -> None:
        """Take in a stretch of trace."""
        for access in digest.accesses:
            histogram = self._sizes.get((access.tier, access.op))
            part = self._by_content.get((access.tier, access.op, access.content))
            if histogram is None or part is None:
                continue
            histogram.add(access.sizes)
            part.add(access.sizes)
            if access.tier in _FILES and access.op == Operation.WRITE:
                self._seen_bytes += digest.alike * access.bytes
            self._window.add(access.start_s, access.end_s)

    def observe(self, nodes: int = 1, traced: int = 1) -> BufferSizes:
        """Return the intent, in a job on so many nodes, of which `traced` ones have sent their trace.

        They share what the outputs wrote.
        """
        seen_bytes = self._seen_bytes
        written_bytes = self._written_bytes * min(traced, nodes) // max(1, nodes)
        if seen_bytes >= _FAR_BELOW * written_bytes:
            seen_bytes = written_bytes = 0
        key = next((key for key in _PREFERENCE if self._sizes[key].bytes > 0), None)
        if key is None:
            return BufferSizes(seen_bytes=seen_bytes, written_bytes=written_bytes)
        sizes = self._sizes[key].sizes
        return BufferSizes(
            evidence=self._window.evidence(sizes.count, "DFTracer", is_partial=written_bytes > 0),
            operation=key[1],
            **msgspec.structs.asdict(sizes),
            by_content={
                content.value: part.sizes
                for content in Content
                if (part := self._by_content[key[0], key[1], content]).bytes
            },
            seen_bytes=seen_bytes,
            written_bytes=written_bytes,
        )
