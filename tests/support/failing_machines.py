"""Machines that fail at a constant rate, and what an interval loses there."""

import numpy as np

from scrtune.goodput.interval.failure_rate import FailurePrior
from scrtune.goodput.interval.model import exact, goodput

MTBF_S = 10_000.0


def lost_points(interval_s: float, checkpoint_s: float) -> float:
    """Points of goodput below the best, where a restart takes as long as a checkpoint."""
    best_s = exact(checkpoint_s, MTBF_S)
    best, own = (goodput(each, checkpoint_s, MTBF_S, checkpoint_s) for each in (best_s, interval_s))
    return 100 * (best - own)


def drawn(rng: np.random.Generator, prior: FailurePrior) -> float:
    """The failure rate of a machine as the prior has them: the ratio of two Gamma variables."""
    return float(rng.gamma(prior.weight) / rng.gamma(prior.weight + 1) / prior.unit_s)
