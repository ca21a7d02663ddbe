"""Keep the facts of a job, and settle the older ones, so that one more event costs what it changes.

What is settled is only a shortcut: where something new reaches behind the horizon, all that is remembered is
derived anew. Facts older than what is remembered are forgotten, and what they came to stays.
"""

from bisect import bisect_right

from ..buckets import Codes
from ..job_events import JobEvents
from .claims import Longs
from .derivation import Derived, Limits, Settled
from .facts import NOTHING, Facts, Moments, StreamNames, merged_facts, read
from .sweep import Timeline
from .times import NEVER

_SLACK = 1.25
_MOMENTS = 16_384
"""More starts, ends, or marks of a job than that are not taken in by a ledger that forgets."""


class LedgerHistory:
    """All that is known of a job, of which about `remembered` claims are kept (None: all)."""

    def __init__(self, codes: Codes, remembered: int | None, limits: Limits) -> None:
        self._names, self._remembered, self._limits = StreamNames(codes), remembered, limits
        self._floor = self._settled = Settled()
        self._older: list[Facts] = []
        """The facts from the floor to the horizon."""
        self._timelines: list[Timeline] = []
        self._horizons: list[int] = []
        self._settle_at = 2 * limits.tail
        self.derived = self._derive(NOTHING)

    @property
    def begin(self) -> int:
        """From when on it is known where the time went."""
        return max(self.derived.first, self._floor.at)

    def take(self, events: JobEvents) -> None:
        """Take in more events; what is older than all that is remembered counts for nothing.

        Only then is the horizon moved: who asks once, of a whole log, does not pay for it.
        """
        new = read(events, self._names)
        if self._floor.at > -NEVER:
            new = new.between(self._floor.at, NEVER)
        if self._remembered is not None:
            new = new._replace(moments=_bounded(self.derived.facts.moments, new.moments))
        if new.earliest == NEVER:
            return
        self._settle()
        known = self.derived
        if new.earliest > self._settled.at or not self._older:
            self.derived = self._derive(merged_facts(known.facts, new))
        if self._older and (self.derived is known or not self.derived.agrees(known)):
            self._start_anew(known, new)
        self._forget()

    def spent(self, until: int) -> Longs:
        """Return nanoseconds by code from the first event to `until`."""
        at = bisect_right(self._horizons, until)
        return self._timelines[at].until(until) if at < len(self._timelines) else self.derived.spent(until)

    def _derive(self, facts: Facts) -> Derived:
        return Derived(facts, self._settled, self._names, self._limits)

    def _start_anew(self, known: Derived, new: Facts = NOTHING) -> None:
        """Derive all that is remembered behind the floor: what was `known`, and more."""
        facts = merged_facts(*self._older, known.facts.between(self._settled.at, NEVER), new)
        self._settled, self._older, self._timelines, self._horizons = self._floor, [], [], []
        self.derived = self._derive(facts)

    def _settle(self) -> None:
        """Move the horizon, when much lies behind it."""
        size = self.derived.size
        if size <= self._settle_at:
            return
        at = self.derived.horizon(self._limits.tail)
        self._settle_at = 2 * (size if at is None else self._limits.tail)
        if at is not None:
            self._older.append(self.derived.facts.between(self._settled.at if self._older else -NEVER, at))
            self._timelines.append(self.derived.timeline)
            self._horizons.append(at)
            self._settled, tail = self.derived.settle(at)
            self.derived = self._derive(tail)

    def _forget(self) -> None:
        """Move the floor, when there is more than is remembered."""
        size = sum(each.size for each in self._older) + self.derived.size
        if self._remembered is None or size <= _SLACK * self._remembered:
            return
        if self._older:
            self._start_anew(self.derived)
        at = self.derived.horizon(self._remembered)
        if at is not None:
            self._floor, tail = self.derived.settle(at)
            self._settled = self._floor
            self.derived = self._derive(tail)


def _bounded(known: Moments, new: Moments) -> Moments:
    """Return the `new` ones of the kinds of which not too many are known."""
    pairs = zip(known, new, strict=True)
    return Moments(*(more if len(kept) < _MOMENTS else frozenset() for kept, more in pairs))
