"""Intent 9 of the LLNL study: the sizes of the last outputs of each kind, and how they drift."""

from collections import deque
from statistics import median

import msgspec

from ....goodput.events import OutputCompleted
from ....units import bytes_text, count_text
from ...events import Access, Operation, Tier, TraceDigest
from ...intent import Evidence, EvidenceWindow, Intent
from .sizes import SizeHistogram, Sizes

CHECKPOINTS, PURE_OUTPUTS = "checkpoints", "pure outputs"
KINDS = (CHECKPOINTS, PURE_OUTPUTS)

_REMEMBERED = 8
"""Outputs of a kind."""
_WAITING = 64
"""Accesses that no output is known of yet: a trace may come before what it is about."""
_TIERS = (Tier.CACHE, Tier.PREFIX, Tier.OTHER)
"""Of which the first that has any is the application's own, as in :mod:`.buffers`."""
_SLACK_S = 1e-3
"""Between the clocks of a trace and of who tells of an output."""


class KindSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The last outputs of one kind.

    `bytes` and `files` are those of the last one; `least_bytes`, `median_bytes` and `most_bytes` of the last
    eight. `drift` is how much more bytes the last one has than the one before (0.5: half as much again; None:
    there was none). `writes` are its access sizes, and `writes_drift` is that of their median by bytes; None
    where not both were traced. `is_shared`: several ranks write one file.
    """

    outputs: int = 0
    bytes: int = 0
    files: int = 0
    before_bytes: int = 0
    least_bytes: int = 0
    median_bytes: int = 0
    most_bytes: int = 0
    drift: float | None = None
    writes: Sizes = Sizes()
    writes_drift: float | None = None
    is_shared: bool = False

    @property
    def file_bytes(self) -> int:
        """Mean bytes of a file of the next output: full and incremental ones may take turns."""
        return max(self.bytes, self.before_bytes) // max(1, self.files)

    def text(self) -> str:
        """Return it for people."""
        files = f"{count_text(self.files, 'file')}{', shared' if self.is_shared else ''}"
        parts = [f"{bytes_text(self.bytes)} in {files}"]
        if self.drift is not None:
            parts.append(f"{self.drift:+.0%} against the one before")
            if self.least_bytes < self.most_bytes:
                span = (self.least_bytes, self.median_bytes, self.most_bytes)
                parts.append(f"{'/'.join(map(bytes_text, span))} (least, median, most)")
        if self.writes.count:
            drift = "" if self.writes_drift is None else f" ({self.writes_drift:+.0%})"
            parts.append(f"writes p50 {bytes_text(self.writes.p50_bytes)}{drift}")
        return ", ".join(parts)


class OutputSizes(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The sizes of outputs, by their kind."""

    title, number = "output sizes", 9
    unseen = "no output was completed yet"

    evidence: Evidence = Evidence()
    kinds: dict[str, KindSizes] = {}

    def _text(self) -> str:
        return "; ".join(
            f"{kind}: the last of {sizes.outputs} has {sizes.text()}" for kind, sizes in self.kinds.items()
        )


class _OutputSize:
    """One output, and what was traced while it was written."""

    __slots__ = ("_writes", "bytes", "end_s", "files", "start_s")  # no dict for good when it is pickled

    def __init__(self, output: OutputCompleted) -> None:
        self.start_s, self.end_s = output.start_s, output.end_s
        self.bytes, self.files = max(0, output.bytes), max(0, output.files)
        self._writes: dict[str, SizeHistogram] = {}

    def take(self, access: Access) -> bool:
        """Take in accesses if they are of this output."""
        if access.start_s < self.start_s - _SLACK_S or access.end_s > self.end_s + _SLACK_S:
            return False
        self._writes.setdefault(access.tier, SizeHistogram()).add(access.sizes)
        return True

    @property
    def writes(self) -> Sizes:
        """The application's own writes."""
        found = (self._writes[tier].sizes for tier in _TIERS if tier in self._writes)
        return next((sizes for sizes in found if sizes.bytes), Sizes())


class _Kind:
    """The outputs of one kind."""

    def __init__(self) -> None:
        self.count, self.is_shared = 0, False
        self.last: deque[_OutputSize] = deque(maxlen=_REMEMBERED)

    def add(self, output: OutputCompleted) -> _OutputSize:
        self.count += 1
        self.is_shared |= output.shared_files is True
        self.last.append(_OutputSize(output))
        return self.last[-1]

    @property
    def sizes(self) -> KindSizes:
        last, before_bytes = self.last[-1], self.last[-2].bytes if len(self.last) > 1 else 0
        all_bytes = [each.bytes for each in self.last]
        traced = [writes for each in reversed(self.last) if (writes := each.writes).count]
        return KindSizes(
            outputs=self.count,
            bytes=last.bytes,
            files=last.files,
            before_bytes=before_bytes,
            least_bytes=min(all_bytes),
            median_bytes=int(median(all_bytes)),
            most_bytes=max(all_bytes),
            drift=_drift(last.bytes, before_bytes),
            writes=traced[0] if traced else Sizes(),
            writes_drift=_drift(traced[0].p50_bytes, traced[1].p50_bytes) if traced[1:] else None,
            is_shared=self.is_shared,
        )


class OutputSizeObserver:
    """Collects outputs and, by their times, the writes that were traced in them; whichever comes first."""

    def __init__(self) -> None:
        self._kinds = {kind: _Kind() for kind in KINDS}
        self._waiting: deque[Access] = deque(maxlen=_WAITING)
        self._window = EvidenceWindow()

    def add_output(self, output: OutputCompleted) -> None:
        """Take in an output."""
        if not output.valid:
            return
        self._window.add(output.start_s, output.end_s)
        added = self._kinds[CHECKPOINTS if output.checkpoint else PURE_OUTPUTS].add(output)
        left = [access for access in self._waiting if not added.take(access)]
        self._waiting = deque(left, maxlen=_WAITING)

    def add(self, digest: TraceDigest) -> None:
        """Take in a stretch of trace."""
        for access in digest.accesses:
            if access.op == Operation.WRITE and access.tier in _TIERS and not self._take(access):
                self._waiting.append(access)

    def _take(self, access: Access) -> bool:
        return any(output.take(access) for kind in self._kinds.values() for output in reversed(kind.last))

    def observe(self) -> OutputSizes:
        """Return the intent."""
        seen = {name: kind for name, kind in self._kinds.items() if kind.last}
        count = sum(kind.count for kind in seen.values())
        return OutputSizes(
            evidence=self._window.evidence(count, "the application's outputs, and DFTracer"),
            kinds={name: kind.sizes for name, kind in seen.items()},
        )


def _drift(last: int, before: int) -> float | None:
    return last / before - 1 if before > 0 else None
