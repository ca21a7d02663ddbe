"""How long a step should take, and how far recorded numbers are apart: estimators over steps.

All times are seconds, in any order; none is negative.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Seconds: TypeAlias = NDArray[np.float64]

_DEVIATIONS = 3.0
_SIGMAS_PER_MAD = 1.4826
_PEERS_SHORTEST_S = 1.0
_REGULAR = 0.9
_ENOUGH = 3


def ideal_s(times_s: ArrayLike) -> float | None:
    """The ideal step time, of steps of any length: seconds, or None without a step.

    The mean of the steps within three robust standard deviations (1.4826 MAD each) of the median, on *either*
    side: a step that was cut short says as little of the usual one as a hiccup does. Up to half of the steps
    may be anything. Source: Rousseeuw and Croux 1993, on the median absolute deviation.
    """
    times = np.asarray(times_s, dtype=np.float64)
    if not times.size:
        return None
    distances_s = np.abs(times - np.median(times))
    reach_s = _DEVIATIONS * _SIGMAS_PER_MAD * np.median(distances_s)
    return float(times[distances_s <= reach_s].mean())


def peers_ideal_s(times_s: ArrayLike) -> float | None:
    """The ideal step time by ml-goodput-measurement's rule, or None when no step counts.

    Steps of less than a second are dropped; of the others the mean of those up to median + 3 MAD.
    """
    times = np.asarray(times_s, dtype=np.float64)
    kept = times[times >= _PEERS_SHORTEST_S]
    if not kept.size:
        return None
    middle_s = np.median(kept)
    limit_s = middle_s + _DEVIATIONS * np.median(np.abs(kept - middle_s))
    return float(kept[kept <= limit_s].mean())


def usual_stride(counts: ArrayLike) -> int:
    """How many numbers nine in ten recorded steps are apart; 1 of fewer than three, or without a rule.

    Of one recorded in ten and of one that counts ten (frames, samples) the numbers are the same: by either
    the recorded step is what there are times of.
    """
    recorded = np.asarray(counts)
    usual = int(np.median(recorded)) if recorded.size >= _ENOUGH else 1
    return usual if np.count_nonzero(recorded == usual) >= _REGULAR * recorded.size else 1
