"""What a change of settings gained: seconds a checkpoint, seconds so far, and how sure that is.

A trial takes checkpoints under the old and the new settings in turn, so that noise which changes slowly meets
both alike. Each turn is one :class:`Pair`; the difference of its log mean costs scatters by what is known of
checkpoints (the prior) and by what is seen between the pairs, each as far as it is known: a moderated t
interval (G. K. Smyth 2004). The total says what the checkpoints taken under the change would have cost more,
had the old settings stayed: as measured in the trial, for nobody measures them afterwards.
"""

from collections.abc import Sequence
from math import exp, log, sinh, sqrt
from statistics import fmean

import msgspec

CONFIDENCE = 0.9
TURN_NOISE = 0.148
"""SD of the difference of log means of two checkpoints each, in turns: 8 % independent noise, and 15 % with
memory (0.7 from one checkpoint to the next)."""
RUN_NOISE = 0.21
"""SD of such a difference between two runs, whose slow noise does not cancel; of means of six it is 0.17."""
PRIOR_PAIRS = 6
"""Pairs that either counts as."""
_LEAST_S = 1e-9


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Costs in seconds under the old settings, and next to them under the new ones.

    Pairs of a trial that began with a launch lie in two runs: `across_runs`.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    across_runs: bool = False


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """What a change saves, in seconds; what it costs is negative. `low` and `high` bound it with 90 %.

    `saved_s` is for one checkpoint, `total_s` for the `checkpoints` taken under the change so far.
    """

    pairs: int
    before_s: float
    saved_s: float
    low_s: float
    high_s: float
    checkpoints: int
    total_s: float
    total_low_s: float
    total_high_s: float


def gain(pairs: Sequence[Pair], checkpoints: int) -> Gain | None:
    """What a change gained, measured in `pairs`, over `checkpoints`; None where none was measured.

    Pairs without a cost on either side say nothing and are left out.
    """
    pairs = [pair for pair in pairs if pair.before and pair.after]
    if not pairs:
        return None
    logs = [tuple(log(max(_LEAST_S, fmean(costs))) for costs in (p.before, p.after)) for p in pairs]
    ratios = [after - before for before, after in logs]
    level_s = exp(fmean(fmean(each) for each in logs))  # shares no noise with the ratios

    def saved(ratio: float) -> float:
        return -2 * level_s * sinh(ratio / 2)

    mean, error = fmean(ratios), _error(ratios, RUN_NOISE if pairs[0].across_runs else TURN_NOISE)
    before_s = fmean(cost for pair in pairs for cost in pair.before)
    saved_s, low_s, high_s = saved(mean), saved(mean + error), saved(mean - error)
    return Gain(
        pairs=len(pairs),
        before_s=before_s,
        saved_s=saved_s,
        low_s=low_s,
        high_s=high_s,
        checkpoints=checkpoints,
        total_s=checkpoints * saved_s,
        total_low_s=checkpoints * low_s,
        total_high_s=checkpoints * high_s,
    )


def _error(ratios: Sequence[float], noise: float) -> float:
    """Half the width of the interval for the mean of `ratios`, whose SD is thought to be `noise`."""
    from scipy.special import stdtrit  # type: ignore[import-untyped] # noqa: PLC0415 - slow to load

    mean, seen = fmean(ratios), len(ratios) - 1
    variance = (PRIOR_PAIRS * noise**2 + sum((each - mean) ** 2 for each in ratios)) / (PRIOR_PAIRS + seen)
    return float(stdtrit(PRIOR_PAIRS + seen, (1 + CONFIDENCE) / 2)) * sqrt(variance / len(ratios))
