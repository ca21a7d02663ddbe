"""When an asynchronous flush really ended: SCR notices it at a later call, DFTracer saw the last byte.

SCR logs the seconds from the start of a flush to the call that found it ended, which may be a whole
checkpoint interval more than it took. The trace has every write into the prefix directory. A flush is
corrected only when the writes since its start add up to its bytes, to the byte: then the last of them is its
last. Otherwise (some of its ranks are not traced here, the application writes there as well, a digest holds
the writes of two flushes, or two ran at once) SCR's number stands.

The trace comes in digests, some behind SCR's word and some before it. So of a job that is traced such a flush
waits, until the trace has all of it, or an output begins behind it, or the run ends. This depends on nothing
but the order of the events: a journal that is told again decides the same.
"""

from collections import deque

import msgspec

from ...goodput.events import FlushCompleted, GoodputEvent, JobEnded, JobStarted, OutputCompleted
from ..events import TraceDigest

_REMEMBERED = 4096
_MOST_HELD = 16
_CLOCKS_S = 0.005
"""DFTracer's clock and the application's may differ by this much."""


class _Written(msgspec.Struct, frozen=True):
    """What one digest says of the prefix directory. Without writes `bytes` is 0."""

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
        """Take a stretch of trace in; returns the flushes that it completes, corrected."""
        self._traced = True
        wrote = [each for each in digest.accesses if each.tier == "prefix" and each.op in ("write", "sync")]
        if not wrote:
            return []
        self._written.append(
            _Written(
                min(each.start_s for each in wrote),
                max(each.end_s for each in wrote),
                sum(each.bytes for each in wrote if each.op == "write"),
            )
        )
        corrected = [(flush, self._corrected(flush)) for flush in self._held]
        self._held = [flush for flush, known in corrected if known is None]
        return [known for _, known in corrected if known is not None]

    def event(self, event: GoodputEvent) -> list[GoodputEvent]:
        """Take an event in; returns what is to be counted now, in order: `event` itself, unless it waits."""
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
        """The flushes that waited longest, as SCR tells of them."""
        released = self._held[: max(0, count)]
        self._held = self._held[len(released) :]
        return list(released)

    def _corrected(self, flush: FlushCompleted) -> FlushCompleted | None:
        """`flush` up to its last byte; None while the trace does not account for exactly its bytes."""
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
