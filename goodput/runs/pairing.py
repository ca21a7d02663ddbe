"""Which end belongs to which start, of what one writer tells of intervals of one kind and name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ledger.claims import Longs
from ..ledger.pending_events import ENDS, LIMITS, STARTS, Stream


def ends_of(mask: Longs, run: Longs, place: Longs, reach: int = LIMITS.reach) -> Longs:
    """The index of the end of each start, or -1 for a start without one, and for ends.

    An end that follows a start is its end, also where a run began between: who lived through that only spoke
    before another told of the start. One that is left over belongs to the latest start before it that
    has none, in the same run and at most `reach` away by `place`.
    """
    found = np.full(len(mask), -1, np.int64)
    starts = mask == STARTS
    follows = np.flatnonzero(starts[:-1] & (mask[1:] == ENDS))
    found[follows] = follows + 1
    left = mask == ENDS
    left[follows + 1] = False
    alone = starts & (found < 0)
    if not left.any() or not alone.any():
        return found
    unended: list[int] = []
    for index in np.flatnonzero(left | alone).tolist():
        if starts[index]:
            unended.append(index)
        elif unended:
            start = unended.pop()
            if run[start] == run[index] and place[index] - place[start] <= reach:
                found[start] = index
            else:  # those before it are farther away still
                unended.clear()
    return found


def joined(told: Sequence[tuple[float, int]], starts_s: Sequence[float]) -> list[tuple[float, float]]:
    """When each interval that has both ends began and ended, of tokens in order and the starts of runs."""
    times, mask = (np.array(each) for each in zip(*told, strict=True))
    place = np.flatnonzero(~is_moment(times))
    times, mask = times[place], mask[place]
    ended_by = ends_of(mask, np.searchsorted(starts_s, times, side="right"), place)
    began = np.flatnonzero(ended_by >= 0)
    return list(zip(times[began].tolist(), times[ended_by[began]].tolist(), strict=True))


def is_moment(times: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a start and an end are told of the same time: such a pair changes nothing."""
    moment = np.zeros(len(times), np.bool_)
    twice = np.flatnonzero(times[1:] == times[:-1])
    moment[twice] = moment[twice + 1] = True
    return moment


def settled(stream: Stream, wanted: int, border: int, reach: int) -> int:
    """How many tokens stand for something for good, at most `wanted`, if none comes before `border`."""
    first = max(stream.settled, border - reach - 1)
    times = np.array(stream.times[first:])
    place = np.flatnonzero(~is_moment(times))
    mask = np.array(stream.values[first:], np.int64)[place]
    found = ends_of(mask, np.zeros_like(mask), place, reach)
    until = np.where(found < 0, border, place[found] + first)
    pending = place[(mask == STARTS) & (until >= border) & (place + first >= border - reach)]
    return min(wanted, int(pending[0]) + first) if len(pending) else wanted
