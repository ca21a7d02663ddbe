"""Whether a change made checkpoints cheaper, by what they cost before and after: log costs, in pairs."""

from collections.abc import Sequence
from math import erf, exp, log, sqrt
from statistics import fmean, stdev

import msgspec

PAIR_NOISE = 0.21
"""SD of log cost between two observations in neighbouring blocks of two, as if pairs were independent: what
8 % independent and 15 % autocorrelated noise (0.7 from one checkpoint to the next) come to."""
_FEW = 2
_LOWEST_SHARE = 0.05


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison in log cost: `ratio` is after / before, `p_better` that after is cheaper."""

    pairs: int
    ratio: float
    p_better: float


def compare(before: Sequence[float], after: Sequence[float], spread: float = 0.0) -> Comparison:
    """Compare equally many costs, each pair close in time.

    The noise of a pair is never taken below its prior, nor below what `spread`, the SD of log costs under
    the same settings, makes of it. Costs below a twentieth of the mean, which is noise, count as that.
    """
    logs = _logs([*before, *after])
    differences = [a - b for b, a in zip(logs[: len(before)], logs[len(before) :], strict=True)]
    mean = fmean(differences)
    measured = stdev(differences) if len(differences) > _FEW else 0.0
    noise = max(PAIR_NOISE, measured, sqrt(2) * spread)
    z = -mean / (noise / sqrt(len(differences)))
    return Comparison(pairs=len(differences), ratio=exp(mean), p_better=0.5 * (1 + erf(z / sqrt(2))))


def spread(costs: Sequence[float]) -> float:
    """SD of log costs; 0 while fewer than three are known."""
    if len(costs) <= _FEW:
        return 0.0
    return stdev(_logs(costs))


def _logs(costs: Sequence[float]) -> list[float]:
    lowest = max(1e-9, _LOWEST_SHARE * fmean(costs))
    return [log(max(each, lowest)) for each in costs]
