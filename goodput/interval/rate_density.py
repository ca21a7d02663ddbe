"""How likely each failure rate is, added up numerically (`failure_rate.py` says why it is this density).

Rates are in the prior's units; the sums are over their logs, where the density has one peak and falls off on
both sides faster and faster.
"""

from collections.abc import Callable, Sequence
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

_NEGLIGIBLE = 40.0
_POINTS = 2001
_FIRST_REACH, _FURTHER = 1e-4, 1.25
_SOONEST = 1e-12
_Floats = NDArray[np.float64]


class RateDensity:
    """The density after so many `failures` in `watched` units of time, by a prior of this `weight`."""

    def __init__(self, failures: int, watched: float, weight: float) -> None:
        watched = max(_SOONEST, watched)

        def log_density(x: _Floats) -> _Floats:
            made: _Floats = (
                (failures + weight) * x - watched * np.exp(x) - (2 * weight + 1) * np.logaddexp(0, x)
            )
            return made

        half = weight + 1 + watched - failures  # the peak is the root of a quadratic equation in the rate
        root = sqrt(half * half + 4 * watched * (failures + weight))
        peak = log(2 * (failures + weight) / (half + root) if half > 0 else (root - half) / (2 * watched))
        least = log_density(np.array([peak]))[0] - _NEGLIGIBLE
        low, high = (_reach(log_density, peak, side, least) for side in (-1, 1))
        self._logs = np.linspace(low, high, _POINTS)
        shares = np.exp(log_density(self._logs) - least - _NEGLIGIBLE)
        self._shares = shares / shares.sum()

    @property
    def mean(self) -> float:
        """The mean rate."""
        return float(np.sum(np.exp(self._logs) * self._shares))

    def times(self, probabilities: Sequence[float]) -> list[float]:
        """The times (one over the rate) below which it lies with these probabilities, above 0 and below 1."""
        cumulated = np.cumsum(self._shares) - self._shares / 2
        logs = np.interp([1 - each for each in probabilities], cumulated, self._logs)
        return [float(time) for time in np.exp(-logs)]


def _reach(log_density: Callable[[_Floats], _Floats], peak: float, side: int, least: float) -> float:
    """Where, on that side of its peak, a density is negligible."""
    reach = _FIRST_REACH
    while log_density(np.array([peak + side * reach]))[0] > least:
        reach *= _FURTHER
    return peak + side * reach
