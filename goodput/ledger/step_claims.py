"""What the starts of steps stand for: a step lasts until the next one of its writer."""

import numpy as np
import numpy.typing as npt

from ..steps.hangs import AROUND, HUNG
from .claims import Doubts, Flags, Longs, Steps, where

_PIECE = 8192
"""Columns of so many numbers stay in a core's own cache."""
_NEIGHBOURS = np.array([each for each in range(-AROUND, AROUND + 1) if each])

Doubles = npt.NDArray[np.float64]


def step_claims(time: Longs, number: Longs, is_last: Flags, closing: Longs) -> tuple[Steps, Doubts, Longs]:
    """Return what the starts of steps stand for, those in doubt, and their indices.

    `is_last` says which are the last of their run and writer: they last until `closing`. Steps may be sparse:
    one that is followed by number n + 10 stands for ten, and the last one of a run is compared with the
    others as if it were one like the one before.
    """
    end, covers = np.append(time[1:], time[:1]), np.ones_like(number)
    covers[:-1] = np.maximum(1, number[1:] - number[:-1])
    covers[is_last] = 1
    end[is_last] = np.maximum(time[is_last], closing)
    is_first = np.append(np.ones(min(1, len(is_last)), np.bool_), is_last[:-1])
    sparse, last = covers.copy(), np.flatnonzero(is_last & ~is_first)
    sparse[last] = covers[last - 1]
    parts = []
    for first in range(0, max(1, len(time)), _PIECE):
        low = max(0, first - AROUND)
        part, chosen = slice(low, first + _PIECE + AROUND), slice(first - low, first - low + _PIECE)
        rate = (end[part] - time[part]) / sparse[part]
        at, its = _in_doubt(rate, is_first[part], is_last[part], chosen)
        parts.append((at + low, its))
    found, usual = map(np.concatenate, zip(*parts, strict=True))
    limit = np.rint(usual * sparse[found]).astype(np.int64)
    made = Steps(time, end, number, covers)
    doubts = Doubts(*where(made, found), limit, is_first[found].astype(np.int64))
    return made, doubts, found


def _in_doubt(rate: Doubles, is_first: Flags, is_last: Flags, chosen: slice) -> tuple[Longs, Doubles]:
    """Return the chosen steps that last out of all proportion, and what one usually lasts there.

    That is the median of up to four steps on either side in the same run and of the same writer, but for its
    last one, whose end is not known. Of a run's first step, which compiles, it is that of the next four.
    """
    known = np.where(is_last, np.inf, rate)
    padded = np.concatenate([np.full(AROUND, np.inf), known, np.full(AROUND, np.inf)])
    two = np.minimum(padded[:-1], padded[1:])
    four = np.minimum(two[:-2], two[2:])
    least = np.minimum(four[: len(rate)], four[AROUND + 1 :])
    suspects = (rate > HUNG * least) | (is_first & (rate > 0))
    found = np.flatnonzero(suspects[chosen]) + chosen.start
    if not len(found):
        return found, np.zeros(0)
    group = np.cumsum(is_first)
    near = found[:, np.newaxis] + _NEIGHBOURS
    inside = (near >= 0) & (near < len(rate))
    near = np.where(inside, near, found[:, np.newaxis])
    times = np.where(inside & (group[near] == group[found][:, np.newaxis]), known[near], np.inf)
    times.sort(axis=1)
    count = np.isfinite(times).sum(axis=1)
    rows = np.arange(len(found))
    usual = (times[rows, np.maximum(count - 1, 0) // 2] + times[rows, np.minimum(count // 2, 7)]) / 2
    usual = np.where(count > 0, usual, 0.0)
    long = (usual > 0) & (rate[found] > np.where(is_first[found], 1, HUNG) * usual)
    return found[long], usual[long]
