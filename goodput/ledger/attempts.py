"""The attempts of a job, and which of its steps were made again.

An attempt begins with a run, with a restart, and where the numbers of steps go back within a run: nobody has
to say so. A step is wasted if its number is not below the lowest number of any later attempt.
"""

from typing import NamedTuple

import numpy as np

from .claims import Flags, Longs, is_changed
from .facts import Facts
from .times import NEVER

_COUNTED_ON = 4
"""So many steps must follow each other, each time, before a number without a name is believed to go back."""
PENDING = 4
"""The last so many steps without a name may still turn out to go back."""


class Rollbacks(NamedTuple):
    """Runs, streams (twice the writer, and the table of steps) and times of steps that go back."""

    run: Longs
    stream: Longs
    time: Longs


class Attempts:
    """When attempts began, the lowest number of each, and from which number on its steps were made again.

    Attempt 0 lies before the first. Of the first ones is known that they have steps as `low`.
    """

    def __init__(self, begins: Longs, low: Longs, tables: list[Facts]) -> None:
        self.begins = begins
        self.least = np.append(low, np.full(len(begins) + 1 - len(low), NEVER))
        for steps in tables:
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


def nameless_rollbacks(number: Longs, run: Longs, first: int = 1, highest: int = -NEVER) -> Longs:
    """Return indices of the steps, from `first` on, with which the only writer without a name goes back.

    Of numbers that several may report without a name, one must lie at least two below the highest of its
    attempt, which must be the last one, and the steps before it and behind it must each count on. The attempt
    began with the first of them, or before it, with a `highest` number there.
    """
    down = np.flatnonzero(number[first:] < number[first - 1 : -1]) + first
    down = down[down + 2 < len(number)]
    stride = np.diff(number)
    down = down[(stride[down] > 0) & (stride[down] == stride[down + 1])]
    found: list[int] = []
    low = upto = 0
    for at in down.tolist():
        begins = int(np.searchsorted(run, run[at]))
        if begins > low:
            low, upto, highest = begins, begins, -NEVER
        highest = max(highest, int(number[upto:at].max(initial=-NEVER)))
        upto = at
        count = min(highest - int(number[at]), _COUNTED_ON)
        last, early = at + count, max(low, at - 1 - count)
        if count < 2 or number[at - 1] != highest or last >= len(number):  # noqa: PLR2004 - by two at least
            continue
        counts_on = _counts_on(stride[early : at - 1]) and _counts_on(stride[at:last])
        if counts_on and run[last] == run[at]:
            found.append(at)
            low, highest = at, -NEVER
    return np.array(found, np.int64)


def begins_within(backs: Rollbacks, known_run: int, known: tuple[Longs, Longs]) -> Longs:
    """Return when attempts begin within runs, where streams go `back`, each in order of time.

    The first time that any stream goes back within a run is the begin of the job's second attempt in that
    run, the second time that of the third, and so on. In `known_run` these streams went back so often before.
    """
    count = dict(zip(*(column.tolist() for column in known), strict=True))
    most = max(count.values(), default=0)
    seen = {(known_run, stream): times for stream, times in count.items()}
    found: dict[tuple[int, int], int] = {}
    for run, stream, time in zip(*(column.tolist() for column in backs), strict=True):
        nth = seen.get((run, stream), 0)
        seen[run, stream] = nth + 1
        if run != known_run or nth >= most:
            found[run, nth] = min(time, found.get((run, nth), time))
    return np.array(list(found.values()), np.int64)


def _counts_on(stride: Longs) -> bool:
    return bool((stride > 0).all() and (stride == stride[:1]).all())
