"""What the starts of steps stand for: a step lasts until the next one of its writer."""

import numpy as np
import numpy.typing as npt

from ..steps.hangs import AROUND, HUNG
from .claims import MOST_SPARSE, OPEN, SPARSE, Claims, Doubts, Flags, Longs, joined
from .facts import Tokens

_PIECE = 8192
"""Columns of so many numbers stay in a core's own cache."""
_NEIGHBOURS = np.array([-4, -3, -2, -1, 1, 2, 3, 4])

Doubles = npt.NDArray[np.float64]
Stepped = tuple[Claims, Doubts, Longs]
"""What is sure, what is in doubt, and behind which number the steps that each token stands for end."""


def step_claims(tokens: Tokens, run: Longs, closing: Longs, kind: int) -> Stepped:
    """Return what the starts of steps stand for.

    `run` is that of each token; the last of a run and writer lasts until `closing`. Steps may be sparse: one
    that is followed by number n + 10 stands for ten, and the last one of a run is compared with the others as
    if it were one like the one before.

    It is done a piece at a time: a step depends on those around it, and how long these took.
    """
    made = []
    for first in range(0, max(1, len(run)), _PIECE):
        low, behind = max(0, first - AROUND - 1), min(first + _PIECE, len(run))
        part = slice(low, behind + AROUND + 1)
        chosen = slice(first - low, behind - low)
        made.append(_piece(Tokens(*(each[part] for each in tokens)), run[part], closing[part], chosen, kind))
    claims, doubts, numbers = zip(*made, strict=True)
    return joined(claims), joined(doubts), np.concatenate(numbers)


def _piece(tokens: Tokens, run: Longs, closing: Longs, chosen: slice, kind: int) -> Stepped:
    writer, time, step = tokens
    count = len(time)
    same = np.zeros(count, np.bool_)
    same[:-1] = (run[1:] == run[:-1]) & (writer[1:] == writer[:-1])
    end = np.where(same, np.append(time[1:], 0), np.maximum(time, closing))
    jump = np.append(step[1:], 0) - step
    covers = np.where(same & (jump > 0), jump, 1)
    is_first = np.ones(count, np.bool_)
    is_first[1:] = ~same[:-1]
    sparse, last = covers.copy(), np.flatnonzero(~same & ~is_first)
    sparse[last] = covers[last - 1]
    rate = (end - time) / sparse
    found, usual = _in_doubt(rate, same, np.cumsum(is_first), is_first, chosen)
    limit = np.rint(usual * sparse[found]).astype(np.int64)
    first = is_first[found].astype(np.int64)
    doubts = Doubts(time[found], end[found], step[found], limit, first, covers[found])
    is_sure = np.ones(count, np.bool_)
    is_sure[found] = False
    kinds = kind + (np.minimum(covers - 1, MOST_SPARSE) << SPARSE) + np.where(same, 0, OPEN)
    claims = Claims(*(each[chosen] for each in (time, end, kinds, step)))
    if len(found):
        claims = Claims(*(each[is_sure[chosen]] for each in claims))
    return claims, doubts, (step + covers)[chosen]


def _in_doubt(
    rate: Doubles, same: Flags, group: Longs, is_first: Flags, chosen: slice
) -> tuple[Longs, Doubles]:
    """Return the chosen steps that last out of all proportion, and what one usually lasts there.

    That is the median of up to four steps on either side in the same `group` (writer and run), but for its
    last one, whose end is not known. Of a run's first step, which compiles, it is that of the next four.
    """
    known = np.where(same, rate, np.inf)
    padded = np.concatenate([np.full(AROUND, np.inf), known, np.full(AROUND, np.inf)])
    two = np.minimum(padded[:-1], padded[1:])
    four = np.minimum(two[:-2], two[2:])
    least = np.minimum(four[: len(rate)], four[AROUND + 1 :])
    suspects = (rate > HUNG * least) | (is_first & (rate > 0))
    found = np.flatnonzero(suspects[chosen]) + chosen.start
    if not len(found):
        return found, np.zeros(0)
    near = found[:, np.newaxis] + _NEIGHBOURS
    inside = (near >= 0) & (near < len(rate))
    near = np.where(inside, near, found[:, np.newaxis])
    times = np.where(inside & same[near] & (group[near] == group[found][:, np.newaxis]), rate[near], np.inf)
    times.sort(axis=1)
    count = np.isfinite(times).sum(axis=1)
    rows = np.arange(len(found))
    usual = (times[rows, np.maximum(count - 1, 0) // 2] + times[rows, np.minimum(count // 2, 7)]) / 2
    usual = np.where(count > 0, usual, 0.0)
    long = (usual > 0) & (rate[found] > np.where(is_first[found], 1, HUNG) * usual)
    return found[long], usual[long]
