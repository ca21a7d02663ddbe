"""The counters of what came in and what was lost, and the events that are not counted twice."""

import msgspec

from ..goodput.events import GoodputEvent
from ..goodput.validation import defect
from .events import TraceDigest
from .trace.lines import REASONS

_REMEMBERED_EVENTS = 1024
_MOST_NAMES = 256
"""Reasons, and senders; what comes later is counted together."""
_OTHERS = "others"


class Counters(msgspec.Struct, kw_only=True):
    """The input of a job, and its losses by reason."""

    events: int = 0
    trace_lines: int = 0
    trace_events: int = 0
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    generations: dict[int, int] = msgspec.field(default_factory=dict)
    unresolved: int = 0

    def add_digest(self, digest: TraceDigest) -> None:
        """Count the lines of a digest."""
        self.trace_lines += digest.lines
        self.trace_events += digest.events
        self.unresolved += digest.unresolved
        for reason, lines in digest.dropped.items():
            count(self.dropped, reason if reason in REASONS else _OTHERS, lines)
        for generation, lines in digest.generations.items():
            self.generations[generation] = self.generations.get(generation, 0) + lines


class EventFilter:
    """Finds the events that must not be counted. Remembers the last 1,024."""

    def __init__(self) -> None:
        self._seen: dict[GoodputEvent, None] = {}

    def problem(self, event: GoodputEvent, now: float) -> str | None:
        """Return why `event` is not counted: it cannot be true, or it was counted already; else None."""
        if (problem := defect(event, now)) is not None:
            return f"events with {problem}"
        if event in self._seen:
            return "events that came twice"
        self._seen[event] = None
        if len(self._seen) > _REMEMBERED_EVENTS:
            del self._seen[next(iter(self._seen))]
        return None


def count(totals: dict[str, int], name: str, more: int = 1) -> None:
    """Add `more` to what `totals` has of `name`, or of others where it has too many names."""
    if name not in totals and len(totals) >= _MOST_NAMES:
        name = _OTHERS
    totals[name] = totals.get(name, 0) + more
