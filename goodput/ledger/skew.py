"""How far the clocks of those who report steps are apart, by when they say that the same steps began."""

import numpy as np

from .claims import Longs, is_changed, joined, last_of_each, where
from .facts import Tokens

STEPS = 64
_TOKENS = 8192


def last_steps(writers: int, most: int = STEPS) -> int:
    """Return how many of the last steps of each of so many writers are looked at."""
    return min(most, max(2, _TOKENS // max(1, writers)))


def skew(begun: Tokens, whole: Tokens, since: int, most: int) -> int:
    """Return nanoseconds between the clocks that are farthest apart, by what was reported from `since` on.

    Each writer is held against the median time at which a step began as all who reported it say; the
    median over the last 64 steps is how far its clock is from theirs. Who reported none of these is left out.
    Of who reported both, starts of steps count, and not steps with both ends.
    """
    tokens = joined([begun, where(whole, ~np.isin(whole.stream, begun.stream))])
    tokens = where(tokens, tokens.time >= since)
    writers = int(np.count_nonzero(is_changed(tokens.stream)))
    if writers < 2:  # noqa: PLR2004 - two clocks are needed to compare them
        return 0
    tokens = where(tokens, last_of_each(tokens.stream, last_steps(writers, most)))
    tokens = where(tokens, np.lexsort((tokens.time, tokens.value, tokens.stream)))
    tokens = where(
        tokens, np.append(is_changed(tokens.stream, tokens.value)[1:], True)
    )  # the last word counts
    numbers, place, count = np.unique(tokens.value, return_inverse=True, return_counts=True)
    chosen = (place >= len(numbers) - STEPS) & (count[place] > 1)
    if not chosen.any():
        return 0
    writer, time = tokens.stream[chosen], tokens.time[chosen]
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
