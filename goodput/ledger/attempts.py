"""The attempts of a job, and which of its steps were made again.

An attempt begins with a run, with a restart, and where the numbers of steps go back within a run: nobody has
to say so. A step is wasted if its number is not below the lowest number of any later attempt.
"""

import numpy as np

from .claims import Flags, Longs, is_changed
from .facts import Facts
from .launches import NEVER


class Attempts:
    """When attempts began, the lowest number of each, and from which number on its steps were made again.

    Attempt 0 lies before the first. Of the first ones is known that they have steps as `low`.
    """

    def __init__(self, begins: Longs, low: Longs, steps: Facts) -> None:
        self.begins = begins
        self.least = np.append(low, np.full(len(begins) + 1 - len(low), NEVER))
        attempt = self.of(steps.time)
        first = np.flatnonzero(is_changed(attempt))
        if len(first):
            np.minimum.at(self.least, attempt[first], np.minimum.reduceat(steps.number, first))
        self.wasted_from = np.minimum.accumulate(np.append(self.least[1:], NEVER)[::-1])[::-1]

    def of(self, times: Longs) -> Longs:
        """Return in which attempt each of `times` lies."""
        return np.searchsorted(self.begins, times, side="right")

    def are_wasted(self, times: Longs, number: Longs) -> Flags:
        """Return which steps, begun at `times`, were made again."""
        if self.wasted_from[0] == NEVER:
            return np.zeros(len(times), np.bool_)
        wasted: Flags = number >= self.wasted_from[self.of(times)]
        return wasted


def named_rollbacks(who: Longs, run: Longs, number: Longs) -> Flags:
    """Return which steps, by writer in order of time, are not above their writer's last in the run."""
    back: Flags = ~is_changed(who, run)
    back[1:] &= number[1:] <= number[:-1]
    return back


def nameless_rollbacks(number: Longs, run: Longs) -> Flags:
    """Return which steps, by the only writer without a name, in order of time, go back.

    Several may report without a name, in turns. So one goes back that lies at least two below the one before
    it, if the two behind it count on by the stride by which the one before it did, unless that is the first.
    """
    stride = np.diff(number)
    back: Flags = np.zeros(len(number), np.bool_)
    counts_on = (stride[1:-1] > 0) & (stride[1:-1] == stride[2:])
    counted_on = is_changed(run)[:-3]
    counted_on[1:] |= stride[:-3] == stride[2:-1]
    back[1:-2] = (stride[:-2] < -1) & counts_on & counted_on & (run[3:] == run[:-3])
    return back


def begins_within(
    run: Longs, stream: Longs, time: Longs, known_run: int, known: tuple[Longs, Longs]
) -> Longs:
    """Return when attempts begin within runs, where streams go back, each in order of time.

    The first time that any stream goes back within a run is the begin of the job's second attempt in that
    run, the second time that of the third, and so on. In `known_run` these streams went back so often before.
    """
    count = dict(zip(*(column.tolist() for column in known), strict=True))
    most = max(count.values(), default=0)
    seen = {(known_run, who): times for who, times in count.items()}
    found: dict[tuple[int, int], int] = {}
    for its, who, at in zip(run.tolist(), stream.tolist(), time.tolist(), strict=True):
        nth = seen.get((its, who), 0)
        seen[its, who] = nth + 1
        if its != known_run or nth >= most:
            found[its, nth] = min(at, found.get((its, nth), at))
    return np.array(list(found.values()), np.int64)
