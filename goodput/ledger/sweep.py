"""What claims make of a stretch of time: at each moment the strongest one wins.

A *doubt* is a stretch of a step whose end was not told: if what is left of it, once all else has its due, is
out of all proportion, the rest is a hang or a first step's start-up.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..steps.hangs import HUNG
from .claims import KINDS, Claims, Doubt, Longs
from .steps_made import MILLIONTHS, steps_made


class Rules(NamedTuple):
    """What is not told by claims: precedence, the background, and from which step on work was wasted."""

    weakest_first: list[int]
    size: int
    background_at: Longs
    background: Longs
    attempts: Longs
    wasted_from: Longs
    any_wasted: bool
    step: int
    productive: int
    wasted: int
    startup: int
    other: int
    aside: int
    made: int
    first: int
    last: int


def sweep(claims: Claims, doubts: list[Doubt], span: tuple[int, int, int], rules: Rules) -> Longs:
    """Nanoseconds by code that `claims` make of [lo, hi), counted until the third of `span`; steps made."""
    lo, hi, until = span
    at = rules.background_at
    inside = at[np.searchsorted(at, lo, side="right") : np.searchsorted(at, hi)]
    kind = _kinds(claims, rules)
    start, end = _clipped(claims.start, lo, hi), _clipped(claims.end, lo, hi)
    groups = _groups(doubts, lo, hi, rules) if doubts else None
    made = steps_made(claims.where(kind == rules.productive), lo, until, rules.last)
    is_plain = groups is None and not len(inside) and rules.aside not in kind
    if is_plain and (start[1:] >= end[:-1]).all():
        row = _apart(kind, np.minimum(end, until) - np.minimum(start, until), (lo, until), rules)
        row[rules.made] = made
        return row
    edges = [start, end, inside, np.array([lo, hi, until], np.int64)]
    if groups is not None:
        edges += [groups.start, groups.end]
    points = np.sort(np.concatenate(edges))  # the same point twice is a stretch of no length
    count = len(points) - 1
    winner = rules.background[np.searchsorted(at, points[:-1], side="right") - 1]
    opening, closing = np.searchsorted(points, start), np.searchsorted(points, end)
    doubtful = rules.size
    if groups is not None:
        depth = np.bincount(np.searchsorted(points, groups.start), minlength=count + 1)
        depth -= np.bincount(np.searchsorted(points, groups.end), minlength=count + 1)
        winner[np.cumsum(depth)[:count] > 0] = doubtful
    present = set(np.flatnonzero(np.bincount(kind)).tolist())
    for code in rules.weakest_first:
        if code in present:
            winner[_covered(kind == code, opening, closing, count)] = code
    length = np.diff(np.minimum(points, until))
    row = np.zeros(rules.size + 1, np.int64)
    np.add.at(row, winner, length)
    row = row[:-1]
    row[rules.made] = made
    if rules.aside in present:
        row[rules.aside] = length[_covered(kind == rules.aside, opening, closing, count)].sum()
    if groups is not None:
        doubted = np.where(winner == doubtful, np.diff(points), 0)
        _resolve(groups, row, doubted, (points, until), rules)
    return row


def _apart(kind: Longs, length: Longs, within: tuple[int, int], rules: Rules) -> Longs:
    """The usual case: claims that follow each other, and one background."""
    lo, until = within
    row = np.zeros(rules.size, np.int64)
    np.add.at(row, kind, length)
    background = rules.background[np.searchsorted(rules.background_at, lo, side="right") - 1]
    row[background] += until - lo - length.sum()
    return row


def _clipped(times: Longs, lo: int, hi: int) -> Longs:
    return np.minimum(np.maximum(times, lo), hi)


class _Groups(NamedTuple):
    """Doubts that overlap, taken together."""

    start: Longs
    end: Longs
    limit: Longs
    first: Longs
    wasted: Longs
    steps: Longs


def _groups(doubts: list[Doubt], lo: int, hi: int, rules: Rules) -> _Groups:
    made: list[list[int]] = []
    for doubt in sorted(doubts):
        start, end = max(lo, doubt.start), min(hi, doubt.end)
        if end <= start:
            continue
        attempt = int(np.searchsorted(rules.attempts, doubt.start, side="right"))
        wasted = int(doubt.step >= rules.wasted_from[attempt])
        if made and start < made[-1][1]:
            last = made[-1]
            last[1:] = [
                max(last[1], end),
                max(last[2], doubt.limit),
                max(last[3], doubt.first),
                min(last[4], wasted),
                max(last[5], doubt.steps),
            ]
        else:
            made.append([start, end, doubt.limit, doubt.first, wasted, doubt.steps])
    columns = np.array(made, np.int64).reshape(-1, 6)
    return _Groups(*columns.T)


def _resolve(groups: _Groups, row: Longs, length: Longs, where: tuple[Longs, int], rules: Rules) -> None:
    """Enter what is left of each doubt: as a step as far as it can be one, and else as what it must be."""
    points, until = where
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


def _kinds(claims: Claims, rules: Rules) -> Longs:
    kind = claims.kind & KINDS
    if not rules.any_wasted:
        return np.where(kind == rules.step, rules.productive, kind)
    attempt = np.searchsorted(rules.attempts, claims.start, side="right")
    step = np.where(claims.step >= rules.wasted_from[attempt], rules.wasted, rules.productive)
    made: Longs = np.where(kind == rules.step, step, kind)
    return made


def _covered(which: npt.NDArray[np.bool_], opening: Longs, closing: Longs, count: int) -> Any:
    depth = np.bincount(opening[which], minlength=count + 1) - np.bincount(
        closing[which], minlength=count + 1
    )
    return np.cumsum(depth)[:count] > 0
