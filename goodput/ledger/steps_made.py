"""How many steps were made in a stretch of time: what a window of a job holds its time against.

In millionths of a step, so that sums are exact: of a step that began before, or ends behind, it is its share
of time. Where several ranks tell of steps at the same moment, the mean of their rates counts there.
"""

import numpy as np

from .claims import SPARSE, Claims, Longs

MILLIONTHS = 1_000_000


def steps_made(steps: Claims, lo: int, until: int, last: int) -> int:
    """Millionths of `steps` that were made from `lo` to `until`; `last` is where the account ends.

    One that only begins there counts as well; any other one that took no time does not.
    """
    begins = until >= last and bool((steps.start == last).any())
    steps = steps.where(steps.end > steps.start)
    if not _are_apart(steps):
        steps = steps.at(np.lexsort((steps.end, steps.start)))
    if not len(steps.start):
        made = 0
    elif not _are_apart(steps):
        made = _together(steps, lo, until)
    elif steps.start[0] >= lo and steps.end[-1] <= until:
        made = int(_stands_for(steps).sum()) * MILLIONTHS
    else:
        made = int((_before(steps, until) - _before(steps, lo)).sum())
    return made + MILLIONTHS * begins


def _are_apart(steps: Claims) -> bool:
    return bool((steps.start[1:] >= steps.end[:-1]).all())


def _stands_for(steps: Claims) -> Longs:
    made: Longs = (steps.kind >> SPARSE) + 1
    return made


def _before(steps: Claims, time: int) -> Longs:
    """Millionths of each before `time`: the same wherever the time line is cut."""
    share = (time - steps.start) / (steps.end - steps.start)
    made: Longs = np.rint(np.clip(share, 0.0, 1.0) * _stands_for(steps) * MILLIONTHS).astype(np.int64)
    return made


def _together(steps: Claims, lo: int, until: int) -> int:
    """Of steps that overlap: at each moment the mean of the rates of those that are under way."""
    rate = _stands_for(steps) / (steps.end - steps.start)
    start, end = (np.clip(each, lo, until) for each in (steps.start, steps.end))
    points = np.sort(np.concatenate([start, end]))
    opening, closing = np.searchsorted(points, start), np.searchsorted(points, end)
    depth = np.bincount(opening, minlength=len(points)) - np.bincount(closing, minlength=len(points))
    rates = np.bincount(opening, rate, len(points)) - np.bincount(closing, rate, len(points))
    under_way = np.cumsum(depth)[:-1]
    mean = np.where(under_way > 0, np.cumsum(rates)[:-1] / np.maximum(under_way, 1), 0.0)
    return max(0, round(float((mean * np.diff(points)).sum()) * MILLIONTHS))
