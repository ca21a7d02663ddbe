"""Paired comparison of the log costs of checkpoints before and after a change.

The variance of a pair combines its prior and what is seen between the pairs, weighted by their degrees of
freedom: a moderated t statistic (G. K. Smyth 2004, "Linear models and empirical Bayes methods"). A trial's
verdict and its gain both come from this one comparison. Means are geometric: their ratio is the ratio that is
shown, and one expensive checkpoint does not decide.
"""

from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import fmean, stdev

import msgspec

from ...units import count_text

PAIR_NOISE = 0.21
"""SD of log cost between two observations in neighbouring blocks of two, as if pairs were independent: of 8 %
independent and 15 % autocorrelated noise (0.7 from one checkpoint to the next)."""
PRIOR_PAIRS = 3
"""Pairs that the prior counts as. With six, the intervals of simulated jobs held the truth in 85 % of the
trials instead of 89 %: costs whose flush is hard to tell from the noise of steps scatter more."""
CONFIDENCE = 0.9
"""Of an interval; with probability (1 + this) / 2 the truth is below its upper end."""
_FEW = 2
_LOWEST_SHARE = 0.05


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison: `ratio` is after / before, `p_better` the probability that after is cheaper.

    `before_s` and `after_s` are geometric means. `low` and `high` are the 90 % interval of the ratio: `high`
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
        """The ratio, its interval and the pairs, for people."""
        between = f"{self.low:.2f} to {self.high:.2f} with 90 %"
        return f"{self.ratio:.2f} times the cost before ({between}), in {count_text(self.pairs, 'pair')}"


def compare(
    before: Sequence[float], after: Sequence[float], spread: float = 0.0, *, across_runs: bool = False
) -> Comparison:
    """Return the comparison of costs in the order in which they were observed, each pair close in time.

    At least one pair; the surplus of one side is left out. The prior noise of a pair is at least PAIR_NOISE,
    and more where `spread`, the SD of log costs under the same settings, is. Costs below a twentieth of the
    mean, which is noise, count as that. Differences between two runs cannot be seen within them:
    `across_runs` pairs that agree do not reduce the noise.
    """
    from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped] # noqa: PLC0415 - slow to load

    pairs = min(len(before), len(after))
    logs = _logs([*before[:pairs], *after[:pairs]])
    before_log, after_log = fmean(logs[:pairs]), fmean(logs[pairs:])
    mean = after_log - before_log
    seen = sum((a - b - mean) ** 2 for b, a in zip(logs[:pairs], logs[pairs:], strict=True))
    freedom = PRIOR_PAIRS + pairs - 1
    known = max(PAIR_NOISE, sqrt(2) * spread)
    variance = (PRIOR_PAIRS * known**2 + seen) / freedom
    error = sqrt((max(known**2, variance) if across_runs else variance) / pairs)
    bound = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return Comparison(
        pairs=pairs,
        before_s=exp(before_log),
        after_s=exp(after_log),
        ratio=exp(mean),
        low=exp(mean - bound),
        high=exp(mean + bound),
        p_better=float(stdtr(freedom, -mean / error)),
    )


def spread(costs: Sequence[float]) -> float:
    """Return the SD of log costs; 0 while fewer than three are known."""
    if len(costs) <= _FEW:
        return 0.0
    return stdev(_logs(costs))


def _logs(costs: Sequence[float]) -> list[float]:
    lowest = max(1e-9, _LOWEST_SHARE * fmean(costs))
    return [log(max(each, lowest)) for each in costs]
