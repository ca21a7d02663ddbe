"""What the starts of steps stand for, and how far apart the clocks are that told of them."""

import numpy as np
import numpy.typing as npt

from .claims import Doubts, Flags, Longs, StepClaims, is_changed, is_last, joined, last_of_each, where
from .facts import Facts, Form

HUNG = 10
"""A step that lasts more than ten times as long as its neighbours hangs."""
SKEW_STEPS = 64
_SKEW_ROWS = 8192
_AROUND = 4
"""With so many steps on either side a step is compared."""
_NEIGHBOURS = np.array([each for each in range(-_AROUND, _AROUND + 1) if each])

Doubles = npt.NDArray[np.float64]


def step_claims(
    time: Longs, number: Longs, is_open: Flags, closing: Longs
) -> tuple[StepClaims, Doubts, Longs]:
    """Return what the starts of steps stand for, those in doubt, and their indices.

    `is_open` says which are the last of their run and writer: they last until `closing`, and are compared
    with the others as if they stood for as many steps as the one before.
    """
    end, covers = np.append(time[1:], time[:1]), np.ones_like(number)
    covers[:-1] = np.maximum(1, number[1:] - number[:-1])
    covers[is_open] = 1
    end[is_open] = np.maximum(time[is_open], closing)
    is_first = np.append(np.True_, is_open)[:-1]
    sparse, last = covers.copy(), np.flatnonzero(is_open & ~is_first)
    sparse[last] = covers[last - 1]
    found, usual = _in_doubt((end - time) / sparse, is_first, is_open)
    limit = np.rint(usual * sparse[found]).astype(np.int64)
    made = StepClaims(time, end, number, covers)
    doubts = Doubts(*where(made, found), limit, is_first[found].astype(np.int64), np.zeros_like(found))
    return made, doubts, found


def _in_doubt(rate: Doubles, is_first: Flags, is_open: Flags) -> tuple[Longs, Doubles]:
    """Return the steps that last out of all proportion, and the median of up to four on either side.

    Of the same run and writer, without its last one, whose end is not known; of a run's first step the next
    four.
    """
    known = np.pad(np.where(is_open, np.inf, rate), _AROUND, constant_values=np.inf)
    two = np.minimum(known[:-1], known[1:])
    four = np.minimum(two[:-2], two[2:])
    least = np.minimum(four[: len(rate)], four[_AROUND + 1 :])
    found = np.flatnonzero((rate > HUNG * least) | (is_first & (rate > 0)))
    group = np.pad(np.cumsum(is_first), _AROUND)
    near = found[:, np.newaxis] + _NEIGHBOURS + _AROUND
    times = np.where(group[near] == group[found + _AROUND][:, np.newaxis], known[near], np.inf)
    times.sort(axis=1)
    count = np.isfinite(times).sum(axis=1)
    rows = np.arange(len(found))
    usual = (times[rows, np.maximum(count - 1, 0) // 2] + times[rows, np.minimum(count // 2, 7)]) / 2
    usual = np.where(count > 0, usual, 0.0)
    long = (usual > 0) & (rate[found] > np.where(is_first[found], 1, HUNG) * usual)
    return found[long], usual[long]


def last_steps(writers: int, most: int = SKEW_STEPS) -> int:
    """Return how many of the last steps of each of so many writers are looked at."""
    return min(most, max(2, _SKEW_ROWS // max(1, writers)))


def skew(steps: Facts, since: int, most: int) -> int:
    """Return nanoseconds between the clocks that are farthest apart, by what was reported from `since` on.

    Each writer's clock is off by the median, over the last 64 steps, of its distance from the median begin of
    a step. Of who reported starts and whole `steps`, starts count.
    """
    if (steps.who == steps.who[:1]).all():
        return 0
    steps = where(steps, steps.time >= since)
    begun, whole = (steps.of(form) for form in (Form.STEP_STARTED, Form.STEP_COMPLETED))
    steps = joined([begun, where(whole, ~np.isin(whole.who, begun.who[is_changed(begun.who)]))])
    if (steps.who == steps.who[:1]).all():
        return 0
    steps = where(steps, last_of_each(steps.who, last_steps(int(is_changed(steps.who).sum()), most)))
    steps = where(steps, np.lexsort((steps.time, steps.who, steps.number)))
    steps = where(steps, is_last(steps.who, steps.number))  # the last word counts
    place = np.cumsum(is_changed(steps.number))
    chosen = (place > place[-1] - SKEW_STEPS) & (np.bincount(place)[place] > 1)
    if not chosen.any():
        return 0
    writer, time = steps.who[chosen], steps.time[chosen]
    offsets = _medians(writer, time - _medians(place[chosen], time))
    return int(offsets.max() - offsets.min())


def _medians(group: Longs, value: Longs) -> Longs:
    """Return for each value the median of its group."""
    order = np.lexsort((value, group))
    first = np.flatnonzero(is_changed(group[order]))
    count = np.diff(first, append=len(group))
    median = (value[order[first + (count - 1) // 2]] + value[order[first + count // 2]]) // 2
    made = np.empty_like(value)
    made[order] = np.repeat(median, count)
    return made
