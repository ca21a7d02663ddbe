"""The attempts of a job: where the numbers of steps go back it begins again, and nobody has to say so."""

from collections.abc import Iterable, Mapping

import numpy as np

from .claims import NEVER, Flags, Longs
from .facts import Tokens

_COUNTED_ON = 4
"""So many steps must follow each other, each time, before a number without a name is believed to go back."""
PENDING = 4
"""The last so many steps without a name may still turn out to go back."""


def named_rollbacks(steps: Tokens, run: Longs) -> Flags:
    """Return at which steps, by stream in order of time, a writer tells one not above its last in the run."""
    stream, _, number = steps
    back = np.zeros(len(number), np.bool_)
    back[1:] = (number[1:] <= number[:-1]) & (stream[1:] == stream[:-1]) & (run[1:] == run[:-1])
    return back


def nameless_rollbacks(number: Longs, run: Longs, first: int = 1, highest: int = -NEVER) -> Longs:
    """Return indices of the steps, from `first` on, with which the only writer without a name goes back.

    Of numbers that several may tell without a name, one must lie at least two below the highest of its
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


def begins_within(
    backs: Iterable[tuple[int, int, int]], known_run: int, known: Mapping[int, int]
) -> Iterable[int]:
    """Return when attempts begin within runs, where streams go `back` (run, stream and time, in order).

    The first time that any stream goes back within a run is the begin of the job's second attempt in that
    run, the second time that of the third, and so on. In `known_run` streams went back so often before.
    """
    most = max(known.values(), default=0)
    count = {(known_run, stream): times for stream, times in known.items()}
    found: dict[tuple[int, int], int] = {}
    for run, stream, time in backs:
        nth = count.get((run, stream), 0)
        count[run, stream] = nth + 1
        if run != known_run or nth >= most:
            found[run, nth] = min(time, found.get((run, nth), time))
    return found.values()


def _counts_on(stride: Longs) -> bool:
    return bool((stride > 0).all() and (stride == stride[:1]).all())
