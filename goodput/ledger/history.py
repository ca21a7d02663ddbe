"""Keep the facts of a job, and settle the older ones, so that one more event costs what it changes.

What is settled is only a shortcut: where something new reaches behind the horizon, all that is remembered is
derived anew. Facts older than what is remembered are forgotten, and what they came to stays.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..buckets import Codes
from ..job_events import JobEvents
from .claims import nanoseconds, where
from .derivation import Derived, Limits, Settled
from .facts import MOMENTS, NOT_CLAIMS, Facts, read
from .launches import NEVER
from .sweep import Timeline

_SLACK = 1.02
"""Times what is remembered; what lies behind an event that comes late is derived anew in any case."""
_MOMENTS = 4_096
"""More starts, ends, or marks of a job than that are not taken in by a ledger that forgets."""
_NOT_CLAIMS = 4
"""For each claim that is remembered, 160 bytes: borders and words beyond that are not taken in either. An
interval, which is a claim, has two borders, and goes with the claims that are forgotten."""


class _Chapter(NamedTuple):
    """The facts until a horizon, with those kept of what was settled before, and where the time went.

    So many claims lie between.
    """

    settled: Settled
    facts: Facts
    timeline: Timeline
    until: int
    size: int


class LedgerHistory:
    """All that is known of a job, of which about `remembered` claims are kept (None: all)."""

    def __init__(self, codes: Codes, remembered: int | None, limits: Limits) -> None:
        self._codes, self._remembered, self._limits = codes, remembered, limits
        self._older: list[_Chapter] = []
        self._settle_at = 2 * limits.tail
        self.derived = self._derive(Facts(), Settled())

    @property
    def begin(self) -> int:
        """From when on it is known where the time went."""
        return max(self.derived.first, self._floor.at)

    def take(self, events: JobEvents) -> None:
        """Take in more events; what is older than all that is remembered counts for nothing.

        Only then is the horizon moved: who asks once, of a whole log, does not pay for it.
        """
        new = read(events, self._codes)
        if self._floor.at > -NEVER:
            new = new.between(self._floor.at, NEVER)
        if self._remembered is not None:
            new = self._bounded(new, max(_MOMENTS, _NOT_CLAIMS * self._remembered))
        if not new.size:
            return
        self._settle()
        known = self.derived
        is_late = bool(self._older) and new.time.min() <= known.settled.at
        if not is_late:
            self.derived = self._derive(known.facts.merged(new), known.settled)
        if is_late or (self._older and not self.derived.agrees(known)):
            first, *later = (*self._older, self.derived)
            known_facts = first.facts.merged(*(each.facts.between(each.settled.at, NEVER) for each in later))
            self.derived = self._derive(known_facts.merged(new), self._floor)
            self._older = []
        self._forget()

    def spent(self, until: int) -> list[int]:
        """Return nanoseconds by code from the first event to `until`."""
        row: list[int] = []
        if until > self.derived.first:
            chapter = next((each for each in self._older if until <= each.until), self.derived)
            row = chapter.timeline.until(until).tolist()
        return row + [0] * (len(self._codes) - len(row))

    def steps_made(self, until: int) -> int:
        """Return how many steps that count were made until then, in millionths."""
        if until <= self.derived.first:
            return 0
        chapter = next((each for each in self._older if until <= each.until), self.derived)
        return chapter.settled.steps_made + chapter.timeline.steps_made(until)

    def are_wasted(self, begun_s: Sequence[float], number: Sequence[int]) -> list[bool]:
        """Return which of the steps with these numbers, begun at these times, were computed again."""
        attempts = self.derived.attempts
        wasted: list[bool] = attempts.are_wasted(nanoseconds(begun_s), np.array(number, np.int64)).tolist()
        return wasted

    @property
    def _floor(self) -> Settled:
        return self._older[0].settled if self._older else self.derived.settled

    def _derive(self, facts: Facts, settled: Settled) -> Derived:
        return Derived(facts, settled, self._codes, self._limits)

    def _bounded(self, new: Facts, most: int) -> Facts:
        """Return the `new` facts of forms of which not too many are known: of what claims nothing, `most`."""
        bounds = dict.fromkeys(MOMENTS, _MOMENTS) | dict.fromkeys(NOT_CLAIMS, most)
        many = [form for form, bound in bounds.items() if self.derived.facts.of(form).size >= bound]
        return where(new, ~np.isin(new.form, many)) if many else new

    def _settle(self) -> None:
        """Move the horizon, when much lies behind it."""
        size = self.derived.size
        if size > self._settle_at:
            chapter = self._settled_but(self._limits.tail)
            self._older += chapter
            self._settle_at = 2 * (self._limits.tail if chapter else size)

    def _forget(self) -> None:
        """Move the floor, when there is more than is remembered."""
        if self._remembered is None:
            return
        size = self.derived.size + sum(each.size for each in self._older)
        while self._older and size - self._older[0].size >= self._remembered:
            size -= self._older.pop(0).size
        if not self._older and size > _SLACK * self._remembered:
            self._settled_but(self._remembered)

    def _settled_but(self, keep: int) -> "list[_Chapter]":
        """Settle all but about so many claims, if possible; return what is settled."""
        derived = self.derived
        at = derived.horizon(keep)
        if at is None:
            return []
        settled, tail = derived.settle(at)
        self.derived = self._derive(tail, settled)
        facts, size = derived.facts.between(-NEVER, at), derived.size - self.derived.size
        return [_Chapter(derived.settled, facts, derived.timeline, at, size)]
