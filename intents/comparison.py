"""Whether a change made checkpoints cheaper, by what they cost before and after: log costs, in pairs.

What is said of a trial anywhere, its verdict and what it saves, is this one comparison. Means of costs are
geometric ones: their ratio is the ratio that is told, and one dear checkpoint does not decide.
"""

from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import NormalDist, fmean, stdev

import msgspec

from .intent import counted

PAIR_NOISE = 0.21
"""SD of log cost between two observations in neighbouring blocks of two, as if pairs were independent: what
8 % independent and 15 % autocorrelated noise (0.7 from one checkpoint to the next) come to."""
CONFIDENCE = 0.9
"""Of an interval; with (1 + this) / 2 the truth is below its upper end."""
_FEW = 2
_LOWEST_SHARE = 0.05
_NORMAL = NormalDist()
_BOUND = _NORMAL.inv_cdf((1 + CONFIDENCE) / 2)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison in log cost: `ratio` is after / before, `p_better` that after is cheaper.

    `before_s` and `after_s` are geometric means; `low` and `high` bound the ratio with 90 %, so that `high`
    is below 1 where `p_better` is above 0.95.
    """

    pairs: int
    before_s: float
    after_s: float
    ratio: float
    low: float
    high: float
    p_better: float

    @property
    def text(self) -> str:
        """In words."""
        between = f"{self.low:.2f} to {self.high:.2f} with 90 %"
        return f"{self.ratio:.2f} times the cost before ({between}), in {counted(self.pairs, 'pair')}"


def compare(before: Sequence[float], after: Sequence[float], spread: float = 0.0) -> Comparison:
    """Compare costs in the order in which they were seen, each pair close in time; at least one.

    What one side has more is left out. The noise of a pair is never taken below its prior, nor below what
    `spread`, the SD of log costs under the same settings, makes of it. Costs below a twentieth of the mean,
    which is noise, count as that.
    """
    pairs = min(len(before), len(after))
    logs = _logs([*before[:pairs], *after[:pairs]])
    before_log, after_log = fmean(logs[:pairs]), fmean(logs[pairs:])
    differences = [a - b for b, a in zip(logs[:pairs], logs[pairs:], strict=True)]
    measured = stdev(differences) if pairs > _FEW else 0.0
    error = max(PAIR_NOISE, measured, sqrt(2) * spread) / sqrt(pairs)
    mean = after_log - before_log
    return Comparison(
        pairs=pairs,
        before_s=exp(before_log),
        after_s=exp(after_log),
        ratio=exp(mean),
        low=exp(mean - _BOUND * error),
        high=exp(mean + _BOUND * error),
        p_better=_NORMAL.cdf(-mean / error),
    )


def spread(costs: Sequence[float]) -> float:
    """SD of log costs; 0 while fewer than three are known."""
    if len(costs) <= _FEW:
        return 0.0
    return stdev(_logs(costs))


def _logs(costs: Sequence[float]) -> list[float]:
    lowest = max(1e-9, _LOWEST_SHARE * fmean(costs))
    return [log(max(each, lowest)) for each in costs]
