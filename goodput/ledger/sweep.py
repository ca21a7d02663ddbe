"""Sweep the time line of a job: at each moment the strongest claim wins.

A *doubt* is a stretch of a step whose end is not known: if what is left of it, once all else has its due, is
out of all proportion, the rest is a hang or a first step's start-up.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import buckets
from ..buckets import Codes
from .attempts import Attempts
from .claims import BucketClaims, Doubts, Longs, Spans, StepClaims, distinct, joined, where
from .launches import NEVER
from .step_claims import HUNG, Doubles

MILLIONTHS = 1_000_000
_IN_DOUBT = -1
"""The code of what is left of doubts, until it is resolved: all claims are stronger."""

_Curve = tuple[int, Doubles, Doubles]
"""A moment, times since then, and how many steps were made until these."""


class Claimed(NamedTuple):
    """All claims of a job, and what unclaimed time is from when on: times and codes."""

    intervals: BucketClaims
    steps: StepClaims
    doubts: Doubts
    attempts: Attempts
    background: tuple[Longs, Longs]


class Timeline:
    """Where the time of a `span` went; `before` is a row: nanoseconds by code of the time before."""

    def __init__(self, claimed: Claimed, span: tuple[int, int], before: Longs, codes: Codes) -> None:
        self.begin, self.behind = span
        self._ahead = claimed.background[1][-1]
        self._before = np.append(before, np.zeros(len(codes) - len(before), np.int64))
        intervals, steps, attempts = claimed.intervals, claimed.steps, claimed.attempts
        wasted = attempts.are_wasted(steps.start, steps.number)
        self._productive = where(steps, ~wasted) if wasted.any() else steps
        self._begins_last = bool((self._productive.start == self.behind).any())
        claims = {
            code: Spans(*where(intervals, intervals.code == code)[:2])
            for code in np.flatnonzero(np.bincount(intervals.code)).tolist()
        }
        claims[codes[buckets.PRODUCTIVE]] = Spans(*self._productive[:2])
        claims[codes[buckets.WASTED_PROGRESS]] = Spans(*where(steps, wasted)[:2])
        claims = {code: each.clipped(*span).union() for code, each in claims.items()}
        aside = claims.pop(codes[buckets.ASYNC_LOADING], Spans())
        groups = _groups(claimed.doubts, attempts, span)
        claims[_IN_DOUBT] = Spans(groups.start, groups.end)
        weakest_first = (_IN_DOUBT, *codes.weakest_first())
        ranked = [(code, claims[code]) for code in weakest_first if code in claims]
        spent = _painted(ranked, claimed.background, span)
        pieces, self._of_doubts, self._at_once = _resolved(groups, spent.pop(_IN_DOUBT))
        for bucket, piece in pieces.items():
            spent[codes[bucket]] = joined([spent.get(codes[bucket], Spans()), piece]).union()
        spent[codes[buckets.ASYNC_LOADING]] = aside
        self._spent = [(code, each, np.cumsum(each.end - each.start)) for code, each in spent.items()]

    def until(self, time: int) -> Longs:
        """Return nanoseconds by code from the first moment of all to `time`, also ahead of the span."""
        row: Longs = self._before.copy()
        row[self._ahead] += max(0, time - self.behind)
        for code, (start, end), total in self._spent:
            if at := int(np.searchsorted(start, time)):
                row[code] += total[at - 1] - max(0, int(end[at - 1]) - time)
        return row

    def steps_made(self, time: int) -> int:
        """Return how many of the steps that count were made from the begin to a time, in millionths.

        A share of one that ends later; where several ranks report steps at once, the mean of their rates.
        """
        made = float(self._at_once.steps[self._at_once.end <= time].sum())
        for origin, points, steps in self._curves:
            early, late = np.interp([self.begin - origin, time - origin], points, steps)
            made += float(late - early)
        return round((made + (time >= self.behind and self._begins_last)) * MILLIONTHS)

    @cached_property
    def _curves(self) -> "tuple[_Curve, _Curve]":
        """How many steps were made until when; what they are made of is kept no longer."""
        curves = _curve(self._productive), _curve(self._of_doubts)
        self._productive = self._of_doubts = StepClaims()
        return curves


def _painted(
    weakest_first: list[tuple[int, Spans]], background: tuple[Longs, Longs], span: tuple[int, int]
) -> dict[int, Spans]:
    """Return the spans of each code: weaker claims, which are apart, are painted over by stronger ones."""
    edges = [background[0], np.array(span), *(edge for _, each in weakest_first for edge in each)]
    points = distinct(np.clip(np.concatenate(edges), *span))
    start, end = points[:-1], points[1:]
    winner = background[1][np.searchsorted(background[0], start, side="right") - 1]
    for code, claims in weakest_first:
        borders = np.zeros(len(points), np.int8)
        borders[np.searchsorted(points, claims.start)] += 1
        borders[np.searchsorted(points, claims.end)] -= 1
        winner[np.cumsum(borders, dtype=np.int8)[:-1] > 0] = code
    codes = (_IN_DOUBT, *np.flatnonzero(np.bincount(winner + 1)[1:]).tolist())
    return {code: Spans(start[winner == code], end[winner == code]) for code in codes}


def _curve(steps: StepClaims) -> _Curve:
    """Return how many steps were made until when: at each moment at the mean of the rates under way."""
    lasts = steps.end > steps.start
    steps = steps if lasts.all() else where(steps, lasts)
    if not len(steps.start):
        return 0, np.zeros(1), np.zeros(1)
    if (steps.start[1:] >= steps.end[:-1]).all():
        made = np.cumsum(steps.steps)
        points = np.ravel(np.column_stack(steps[:2]))
        values = np.ravel(np.column_stack([made - steps.steps, made]))
    else:
        points = distinct(np.concatenate(steps[:2]))
        values = np.append(0.0, np.cumsum(_mean_rates(steps, points) * np.diff(points)))
    return int(points[0]), (points - points[0]).astype(np.float64), values.astype(np.float64)


def _mean_rates(steps: StepClaims, points: Longs) -> Doubles:
    """Return how many of the steps under way each of them makes in a nanosecond, from point to point."""
    rate = steps.steps / (steps.end - steps.start)
    opening, closing = (np.searchsorted(points, each) for each in steps[:2])
    count = len(points)
    under_way = np.cumsum(np.bincount(opening, minlength=count) - np.bincount(closing, minlength=count))
    rates = np.cumsum(np.bincount(opening, rate, count) - np.bincount(closing, rate, count))
    return np.where(under_way > 0, rates / np.maximum(under_way, 1), 0.0)[:-1]


def _groups(doubts: Doubts, attempts: Attempts, span: tuple[int, int]) -> Doubts:
    """Return doubts that overlap as one, and whether they are wasted."""
    wasted = attempts.are_wasted(doubts.start, doubts.number).astype(np.int64)
    start, end = (np.clip(each, *span) for each in (doubts.start, doubts.end))
    each = doubts._replace(start=start, end=end, wasted=wasted)
    each = where(each, end > start)
    each = where(each, np.argsort(each.start, kind="stable"))
    reach = np.append(-NEVER, np.maximum.accumulate(each.end))[:-1]
    begins = np.flatnonzero(each.start >= reach)
    greatest = Doubts(*(np.maximum.reduceat(column, begins) for column in each))
    return greatest._replace(start=each.start[begins], wasted=np.minimum.reduceat(each.wasted, begins))


def _resolved(groups: Doubts, left: Spans) -> tuple[dict[str, Spans], StepClaims, StepClaims]:
    """Return what is left of doubts by bucket, pieces of steps that count, and those that take no time."""
    group = np.searchsorted(groups.start, left.start, side="right") - 1
    length = left.end - left.start
    whole = np.zeros(len(groups.start), np.int64)
    np.add.at(whole, group, length)
    before = np.cumsum(length) - length - (np.cumsum(whole) - whole)[group]
    first = groups.first == 1
    kept = np.where(whole <= np.where(first, 1, HUNG) * groups.limit, whole, groups.limit)
    cut = left.start + np.clip(np.where(first, whole - kept, kept)[group] - before, 0, length)
    head, tail, is_first = Spans(left.start, cut), Spans(cut, left.end), first[group]
    stepped = joined([where(head, ~is_first), where(tail, is_first)])
    its = np.append(group[~is_first], group[is_first])
    counts = groups.wasted[its] == 0
    pieces = {
        buckets.PRODUCTIVE: where(stepped, counts),
        buckets.WASTED_PROGRESS: where(stepped, ~counts),
        buckets.STARTUP: where(head, is_first),
        buckets.OTHER: where(tail, ~is_first),
    }
    share = (stepped.end - stepped.start) / np.maximum(kept, 1)[its] * groups.steps[its]
    made = where(StepClaims(stepped.start, stepped.end, its, share), counts)
    at_once = where(
        StepClaims(groups.start, groups.end, whole, groups.steps), (kept == 0) & (groups.wasted == 0)
    )
    return {bucket: where(each, each.end > each.start) for bucket, each in pieces.items()}, made, at_once
