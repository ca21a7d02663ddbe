"""Student's t distribution for whole degrees of freedom, without scipy: to load that takes the daemon 0.3 s.

Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
"""

from functools import lru_cache
from math import atan, cos, pi, sin, sqrt

_HALVINGS = 64


def cdf(value: float, freedom: int) -> float:
    """How likely it is that one of `freedom` (1 or more) degrees of freedom is at most `value`."""
    angle = atan(value / sqrt(freedom))
    is_odd = freedom % 2
    term, total = (cos(angle) if is_odd else 1.0), 0.0
    for power in range(is_odd, freedom - 1, 2):
        total += term
        term *= cos(angle) ** 2 * (power + 1) / (power + 2)
    within = sin(angle) * total
    return 0.5 + (angle + within) / pi if is_odd else 0.5 + within / 2


@lru_cache(maxsize=64)
def quantile(share: float, freedom: int) -> float:
    """The value that one of `freedom` degrees of freedom is below with a likelihood of `share` (0.5 to 1)."""
    low, high = 0.0, 1.0
    while cdf(high, freedom) < share:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle, freedom) < share else (low, middle)
    return high
