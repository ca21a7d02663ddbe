"""The true end of an asynchronous flush: SCR notices it at a later call, DFTracer saw the last byte.

SCR logs the seconds from the start of a flush to the call that found it ended, which may be a whole
checkpoint interval more than it took. The trace has every write into the prefix directory. A flush is
corrected only when the writes since its start add up to exactly its bytes: the last of them is its end.
Otherwise (some of its ranks are not traced here, the application writes there as well, a digest holds the
writes of two flushes, or two ran at once) SCR's time stands.

Digests of the trace arrive before or after SCR's event. So a flush of a traced job waits until the trace has
all of it, an output begins after it, or the run ends. This depends on the order of the events alone: a
replayed journal gives the same decisions.
"""

from collections import deque

import msgspec

from ...goodput.events import FlushCompleted, GoodputEvent, JobEnded, JobStarted, OutputCompleted
from ..events import Operation, Tier, TraceDigest

_REMEMBERED = 4096
_WRITES = (Operation.WRITE, Operation.SYNC)
_MOST_HELD = 16
_CLOCKS_S = 0.005
"""DFTracer's clock and the application's may differ by this much."""


class _Written(msgspec.Struct, frozen=True):
    """The writes into the prefix directory in one digest; only syncs when `bytes` is 0."""

    start_s: float
    end_s: float
    bytes: int


class FlushTimes:
    """Corrects flushes of `source` ``scr``; all other events pass. Memory is bounded."""

    def __init__(self) -> None:
        self._written: deque[_Written] = deque(maxlen=_REMEMBERED)
        self._held: list[FlushCompleted] = []
        self._traced = False

    def digest(self, digest: TraceDigest) -> list[FlushCompleted]:
        """Take in a stretch of trace; returns the flushes that it completes, corrected."""
        self._traced = True
        wrote = [each for each in digest.accesses if each.tier == Tier.PREFIX and each.op in _WRITES]
        if not wrote:
            return []
        self._written.append(
            _Written(
                min(each.start_s for each in wrote),
                max(each.end_s for each in wrote),
                sum(each.bytes for each in wrote if each.op == Operation.WRITE),
            )
        )
        corrected = [(flush, self._corrected(flush)) for flush in self._held]
        self._held = [flush for flush, known in corrected if known is None]
        return [known for _, known in corrected if known is not None]

    def event(self, event: GoodputEvent) -> list[GoodputEvent]:
        """Take in an event; returns the events to count now, in order: `event` itself, unless it waits."""
        match event:
            case FlushCompleted(asynchronous=True, valid=True, source="scr") if self._traced:
                known = self._corrected(event)
                if known is not None:
                    return [known]
                self._held.append(event)
                return self._release(len(self._held) - _MOST_HELD)
            case JobStarted() | JobEnded():
                return [*self._release(len(self._held)), event]
            case OutputCompleted():
                older = sum(flush.end_s < event.start_s for flush in self._held)
                return [*self._release(older), event]
            case _:
                return [event]

    def _release(self, count: int) -> list[GoodputEvent]:
        """Return the `count` flushes that waited longest, with SCR's times."""
        released = self._held[: max(0, count)]
        self._held = self._held[len(released) :]
        return list(released)

    def _corrected(self, flush: FlushCompleted) -> FlushCompleted | None:
        """Return `flush` up to its last byte; None while the trace does not have exactly its bytes."""
        left, end_s = flush.bytes, flush.start_s
        first_s = flush.start_s - _CLOCKS_S
        for written in sorted(self._written, key=lambda each: each.start_s):
            if written.end_s < first_s:
                continue
            if left <= 0 and (written.bytes or written.end_s > flush.end_s):
                break  # the next flush
            left -= written.bytes
            if left < 0 or written.start_s < first_s or written.end_s > flush.end_s + _CLOCKS_S:
                return None
            end_s = max(end_s, written.end_s)
        if left or not flush.bytes:
            return None
        return msgspec.structs.replace(flush, end_s=min(flush.end_s, end_s), source="dftracer")
