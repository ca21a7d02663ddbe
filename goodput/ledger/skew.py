"""How far the clocks of those who report steps are apart, by when they say that the same steps began."""

from collections.abc import Sequence

import numpy as np

from .claims import Longs, is_changed, joined, last_of_each, where
from .facts import Facts

STEPS = 64
_ROWS = 8192


def last_steps(writers: int, most: int = STEPS) -> int:
    """Return how many of the last steps of each of so many writers are looked at."""
    return min(most, max(2, _ROWS // max(1, writers)))


def skew(tables: Sequence[Facts], since: int, most: int) -> int:
    """Return nanoseconds between the clocks that are farthest apart, by what was reported from `since` on.

    Each writer is held against the median time at which a step began as all who reported it say; the
    median over the last 64 steps is how far its clock is from theirs. Who reported none of these is left out.
    Of who reported both `tables`, starts of steps count, and not steps with both ends.
    """
    if not _are_two(np.concatenate([each.who for each in tables])):
        return 0
    begun, whole = (where(each, each.time >= since) for each in tables)
    writers = begun.who[is_changed(begun.who)]
    steps = joined([begun, where(whole, ~np.isin(whole.who, writers))])
    if not _are_two(steps.who):
        return 0
    steps = where(steps, last_of_each(steps.who, last_steps(int(is_changed(steps.who).sum()), most)))
    steps = where(steps, np.lexsort((steps.time, steps.who, steps.number)))
    steps = where(steps, np.append(is_changed(steps.who, steps.number)[1:], True))  # the last word counts
    place = np.cumsum(is_changed(steps.number))
    chosen = (place > place[-1] - STEPS) & (np.bincount(place)[place] > 1)
    if not chosen.any():
        return 0
    writer, time = steps.who[chosen], steps.time[chosen]
    offsets = _medians(writer, time - _medians(place[chosen], time))
    return int(offsets.max() - offsets.min())


def _are_two(who: Longs) -> bool:
    """Return whether there are two clocks to compare."""
    return bool((who != who[:1]).any())


def _medians(group: Longs, value: Longs) -> Longs:
    """Return for each value the median of its group."""
    order = np.lexsort((value, group))
    first = np.flatnonzero(is_changed(group[order]))
    count = np.diff(first, append=len(group))
    median = (value[order[first + (count - 1) // 2]] + value[order[first + count // 2]]) // 2
    made = np.empty_like(value)
    made[order] = np.repeat(median, count)
    return made
