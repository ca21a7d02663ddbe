"""Whether a change made checkpoints cheaper, by what they cost before and after: log costs, in pairs.

Differences scatter by what is known of checkpoints beforehand and by what is seen between the pairs, each as
far as it is known: a moderated t statistic (G. K. Smyth 2004, "Linear models and empirical Bayes methods").
What is said of a trial anywhere, its verdict and what it saves, is this one comparison. Means of costs are
geometric ones: their ratio is the ratio that is told, and one dear checkpoint does not decide.
"""

from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import fmean, stdev

import msgspec

from ...units import count_text
from . import student

PAIR_NOISE = 0.21
"""SD of log cost between two observations in neighbouring blocks of two, as if pairs were independent: what
8 % independent and 15 % autocorrelated noise (0.7 from one checkpoint to the next) come to."""
PRIOR_PAIRS = 3
"""Pairs that this counts as. With six, costs whose flush is hard to tell from the noise of steps scattered so
much more than was known that intervals in simulated jobs held the truth in 85 % of the trials, not 89 %."""
CONFIDENCE = 0.9
"""Of an interval; with (1 + this) / 2 the truth is below its upper end."""
_FEW = 2
_LOWEST_SHARE = 0.05


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
        return f"{self.ratio:.2f} times the cost before ({between}), in {count_text(self.pairs, 'pair')}"


def compare(
    before: Sequence[float], after: Sequence[float], spread: float = 0.0, *, across_runs: bool = False
) -> Comparison:
    """Compare costs in the order in which they were seen, each pair close in time; at least one.

    What one side has more is left out. The noise of a pair that is known beforehand is never taken below its
    prior, nor below what `spread`, the SD of log costs under the same settings, makes of it. Costs below a
    twentieth of the mean, which is noise, count as that. What differs between two runs cannot be seen within
    them: `across_runs` pairs that agree do not make that less.
    """
    pairs = min(len(before), len(after))
    logs = _logs([*before[:pairs], *after[:pairs]])
    before_log, after_log = fmean(logs[:pairs]), fmean(logs[pairs:])
    mean = after_log - before_log
    seen = sum((a - b - mean) ** 2 for b, a in zip(logs[:pairs], logs[pairs:], strict=True))
    freedom = PRIOR_PAIRS + pairs - 1
    known = max(PAIR_NOISE, sqrt(2) * spread)
    variance = (PRIOR_PAIRS * known**2 + seen) / freedom
    error = sqrt((max(known**2, variance) if across_runs else variance) / pairs)
    bound = student.quantile((1 + CONFIDENCE) / 2, freedom) * error
    return Comparison(
        pairs=pairs,
        before_s=exp(before_log),
        after_s=exp(after_log),
        ratio=exp(mean),
        low=exp(mean - bound),
        high=exp(mean + bound),
        p_better=student.cdf(-mean / error, freedom),
    )


def spread(costs: Sequence[float]) -> float:
    """SD of log costs; 0 while fewer than three are known."""
    if len(costs) <= _FEW:
        return 0.0
    return stdev(_logs(costs))


def _logs(costs: Sequence[float]) -> list[float]:
    lowest = max(1e-9, _LOWEST_SHARE * fmean(costs))
    return [log(max(each, lowest)) for each in costs]
