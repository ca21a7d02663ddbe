"""Sweep the time line of a job: at each moment the strongest claim wins.

A *doubt* is a stretch of a step whose end is not known: if what is left of it, once all else has its due, is
out of all proportion, the rest is a hang or a first step's start-up.
"""

from typing import NamedTuple

import numpy as np

from ..steps.hangs import HUNG
from .claims import KINDS, SPARSE, Claims, Doubts, Flags, Longs, joined, where
from .times import NEVER

MILLIONTHS = 1_000_000


class Rules(NamedTuple):
    """What claims do not say: precedence, the background, and from which step on work was wasted."""

    weakest_first: list[int]
    size: int
    background_at: Longs
    background: Longs
    attempts: Longs
    wasted_from: Longs
    step: int
    productive: int
    wasted: int
    startup: int
    other: int
    aside: int
    made: int
    last: int


class Timeline:
    """The time from `begin` on in blocks of claims, and what each block adds up to: nanoseconds by code.

    Claims and doubts are in order of their starts; `before` is what the time before `begin` came to.
    """

    def __init__(
        self, claimed: tuple[Claims, Doubts], span: tuple[int, int], before: Longs, rules: Rules, block: int
    ) -> None:
        claims, doubts = claimed
        self.begin, self._behind = span
        self.claims, self._doubts, self._rules = claims, doubts, rules
        cuts = np.unique(claims.start[block::block])
        cuts = cuts[(cuts > self.begin) & (cuts < self._behind) & ~self.is_in_doubt(cuts)]
        self._bounds = [self.begin, *cuts.tolist()]
        edges = [0, *np.searchsorted(claims.start, cuts).tolist(), len(claims.start)]
        carried = np.zeros(0, np.int64)
        self._blocks: list[tuple[slice, Longs]] = []
        self._rows = [widened(before, rules.size)]
        for at, bound in enumerate([*self._bounds[1:], self._behind]):
            own = slice(edges[at], edges[at + 1])
            self._blocks.append((own, carried))
            self._rows.append(self._rows[-1] + self._swept(at, bound, bound))
            carried = np.append(carried, np.arange(own.start, own.stop))
            carried = carried[claims.end[carried] > bound]

    def is_in_doubt(self, times: Longs) -> Flags:
        """Return which of `times` lie within a doubt."""
        before = np.searchsorted(self._doubts.start, times)
        reach = np.append(-NEVER, np.maximum.accumulate(self._doubts.end))
        within: Flags = reach[before] > times
        return within

    def until(self, time: int) -> Longs:
        """Return nanoseconds by code from the first moment of all to `time`."""
        if time >= self._behind:
            return self._rows[-1]
        at = max(0, int(np.searchsorted(self._bounds, time, side="right")) - 1)
        bound = self._bounds[at + 1] if at + 1 < len(self._bounds) else self._behind
        made: Longs = self._rows[at] + self._swept(at, bound, max(time, self._bounds[at]))
        return made

    def _swept(self, at: int, hi: int, until: int) -> Longs:
        own, carried = self._blocks[at]
        claims = where(self.claims, own)
        if len(carried):
            claims = joined([claims, where(self.claims, carried)])
        inside = slice(*np.searchsorted(self._doubts.start, (self._bounds[at], hi)).tolist())
        if at == 0:
            inside = slice(0, inside.stop)
        return sweep(claims, where(self._doubts, inside), (self._bounds[at], hi, until), self._rules)


def widened(row: Longs, size: int) -> Longs:
    """Return a row of at least that size."""
    return np.append(row, np.zeros(max(0, size - len(row)), np.int64))


def sweep(claims: Claims, doubts: Doubts, span: tuple[int, int, int], rules: Rules) -> Longs:
    """Return nanoseconds by code that `claims` make of [lo, hi), until the third of `span`; steps made."""
    lo, hi, until = span
    at = rules.background_at
    inside = at[np.searchsorted(at, lo, side="right") : np.searchsorted(at, hi)]
    kind = _kinds(claims, rules)
    start, end = _clipped(claims.start, lo, hi), _clipped(claims.end, lo, hi)
    groups = _groups(doubts, lo, hi, rules)
    made = steps_made(where(claims, kind == rules.productive), lo, until, rules.last)
    present = set(np.flatnonzero(np.bincount(kind)).tolist())
    is_plain = not len(inside) and not len(groups.start) and rules.aside not in present
    if is_plain and (start[1:] >= end[:-1]).all():
        row = _apart(kind, np.minimum(end, until) - np.minimum(start, until), (lo, until), rules)
        row[rules.made] = made
        return row
    edges = [start, end, inside, groups.start, groups.end, np.array([lo, hi, until], np.int64)]
    points = np.sort(np.concatenate(edges))  # the same point twice is a stretch of no length
    winner = rules.background[np.searchsorted(at, points[:-1], side="right") - 1]
    opening, closing = np.searchsorted(points, start), np.searchsorted(points, end)
    doubtful = rules.size
    from_, to = np.searchsorted(points, groups.start), np.searchsorted(points, groups.end)
    winner[_covered(from_, to, winner)] = doubtful
    for code in rules.weakest_first:
        if code in present:
            which = kind == code
            winner[_covered(opening[which], closing[which], winner)] = code
    length = np.diff(np.minimum(points, until))
    row = np.zeros(rules.size + 1, np.int64)
    np.add.at(row, winner, length)
    row = row[:-1]
    row[rules.made] = made
    if rules.aside in present:
        which = kind == rules.aside
        row[rules.aside] = length[_covered(opening[which], closing[which], winner)].sum()
    if len(groups.start):
        doubted = np.where(winner == doubtful, np.diff(points), 0)
        _resolve(groups, row, doubted, (points, until), rules)
    return row


def steps_made(steps: Claims, lo: int, until: int, last: int) -> int:
    """Return how many of `steps` were made from `lo` to `until`, in millionths, so that sums are exact.

    Of a step that began before, or ends behind, it is its share of time. Where several ranks report steps at
    the same moment, the mean of their rates counts there. One that only begins at the `last` moment of the
    account counts as well; any other one that took no time does not.
    """
    begins = until >= last and bool((steps.start == last).any())
    steps = where(steps, steps.end > steps.start)
    if not _are_apart(steps):
        steps = where(steps, np.lexsort((steps.end, steps.start)))
    if not len(steps.start):
        made = 0
    elif not _are_apart(steps):
        made = _made_together(steps, lo, until)
    elif steps.start[0] >= lo and steps.end[-1] <= until:
        made = int(_stands_for(steps).sum()) * MILLIONTHS
    else:
        made = int((_made_before(steps, until) - _made_before(steps, lo)).sum())
    return made + MILLIONTHS * begins


def _apart(kind: Longs, length: Longs, within: tuple[int, int], rules: Rules) -> Longs:
    """Return the row of the usual case: claims that follow each other, and one background."""
    lo, until = within
    row = np.zeros(rules.size, np.int64)
    np.add.at(row, kind, length)
    background = rules.background[np.searchsorted(rules.background_at, lo, side="right") - 1]
    row[background] += until - lo - length.sum()
    return row


def _clipped(times: Longs, lo: int, hi: int) -> Longs:
    return np.minimum(np.maximum(times, lo), hi)


def _kinds(claims: Claims, rules: Rules) -> Longs:
    kind = claims.kind & KINDS
    is_step = kind == rules.step
    made: Longs = np.where(
        is_step, np.where(_are_wasted(claims, rules), rules.wasted, rules.productive), kind
    )
    return made


def _are_wasted(steps: Claims | Doubts, rules: Rules) -> Flags:
    if not len(rules.attempts):
        return np.zeros(len(steps.start), np.bool_)
    attempt = np.searchsorted(rules.attempts, steps.start, side="right")
    wasted: Flags = steps.step >= rules.wasted_from[attempt]
    return wasted


def _covered(opening: Longs, closing: Longs, stretches: Longs) -> Flags:
    """Return which stretches lie between opening and closing points."""
    count = len(stretches) + 1
    depth = np.bincount(opening, minlength=count) - np.bincount(closing, minlength=count)
    covered: Flags = np.cumsum(depth)[:-1] > 0
    return covered


class _Groups(NamedTuple):
    """Doubts that overlap, taken together."""

    start: Longs
    end: Longs
    limit: Longs
    first: Longs
    wasted: Longs
    steps: Longs


def _groups(doubts: Doubts, lo: int, hi: int, rules: Rules) -> _Groups:
    start, end = _clipped(doubts.start, lo, hi), _clipped(doubts.end, lo, hi)
    wasted = _are_wasted(doubts, rules).astype(np.int64)
    each = where(_Groups(start, end, doubts.limit, doubts.first, wasted, doubts.steps), end > start)
    if len(each.start) < 2:  # noqa: PLR2004 - one overlaps with none
        return each
    each = where(each, np.argsort(each.start, kind="stable"))
    begins = np.flatnonzero(np.append(True, each.start[1:] >= np.maximum.accumulate(each.end)[:-1]))
    return _Groups(
        each.start[begins],
        np.maximum.reduceat(each.end, begins),
        np.maximum.reduceat(each.limit, begins),
        np.maximum.reduceat(each.first, begins),
        np.minimum.reduceat(each.wasted, begins),
        np.maximum.reduceat(each.steps, begins),
    )


def _resolve(groups: _Groups, row: Longs, length: Longs, point: tuple[Longs, int], rules: Rules) -> None:
    """Enter what is left of each doubt: as a step as far as it can be one, and else as what it must be."""
    points, until = point
    summed = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
    begin, finish = np.searchsorted(points, groups.start), np.searchsorted(points, groups.end)
    stop = np.clip(np.searchsorted(points, until), begin, finish)
    whole, before = summed[finish] - summed[begin], summed[stop] - summed[begin]
    first = groups.first == 1
    is_step = np.where(first, whole <= groups.limit, whole <= HUNG * groups.limit)
    kept = np.where(is_step, whole, groups.limit)
    stepped = np.where(first, np.maximum(0, before - (whole - kept)), np.minimum(before, kept))
    row[rules.wasted] += stepped[groups.wasted == 1].sum()
    row[rules.productive] += stepped[groups.wasted == 0].sum()
    row[rules.startup] += (before - stepped)[first].sum()
    row[rules.other] += (before - stepped)[~first].sum()
    share = np.where(kept > 0, stepped / np.maximum(kept, 1), until >= groups.end)
    made = np.rint(share * groups.steps * MILLIONTHS).astype(np.int64)
    row[rules.made] += made[groups.wasted == 0].sum()


def _are_apart(steps: Claims) -> bool:
    return bool((steps.start[1:] >= steps.end[:-1]).all())


def _stands_for(steps: Claims) -> Longs:
    made: Longs = (steps.kind >> SPARSE) + 1
    return made


def _made_before(steps: Claims, time: int) -> Longs:
    """Return millionths of each before `time`: the same wherever the time line is cut."""
    share = (time - steps.start) / (steps.end - steps.start)
    made: Longs = np.rint(np.clip(share, 0.0, 1.0) * _stands_for(steps) * MILLIONTHS).astype(np.int64)
    return made


def _made_together(steps: Claims, lo: int, until: int) -> int:
    """Return millionths of steps that overlap: at each moment the mean of the rates of those under way."""
    rate = _stands_for(steps) / (steps.end - steps.start)
    start, end = (np.clip(each, lo, until) for each in (steps.start, steps.end))
    points = np.sort(np.concatenate([start, end]))
    opening, closing = np.searchsorted(points, start), np.searchsorted(points, end)
    depth = np.bincount(opening, minlength=len(points)) - np.bincount(closing, minlength=len(points))
    rates = np.bincount(opening, rate, len(points)) - np.bincount(closing, rate, len(points))
    under_way = np.cumsum(depth)[:-1]
    mean = np.where(under_way > 0, np.cumsum(rates)[:-1] / np.maximum(under_way, 1), 0.0)
    return max(0, round(float((mean * np.diff(points)).sum()) * MILLIONTHS))
