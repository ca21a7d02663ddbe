"""What a copy costs, fitted to what the trace saw: seconds = calls x latency + bytes / bandwidth."""

from collections.abc import Iterable

import msgspec
import numpy as np
from sklearn.linear_model import LinearRegression

_MIN_SIZES = 2
_MIN_CALLS = 8

CALL_PRIOR_S = 8e-6
"""Prior for one traced call of a copy, until the trace has two sizes: a write took 4.7-6.1 us under dftracer
2.2.0 and 0.75 us without; rounded up for the read that goes with it."""

CACHE_WRITE_PRIOR_BYTES_PER_S = 2 * 1024**3
"""Prior for writing into a memory cache, until the trace has seen one."""


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A copy's cost: a fixed part for each call, and a part for each byte."""

    latency_s: float
    seconds_per_byte: float
    calls: int

    def seconds(self, total_bytes: int, buffer_bytes: int) -> float:
        """Time to move `total_bytes` in calls of `buffer_bytes`."""
        return -(-total_bytes // max(1, buffer_bytes)) * self.latency_s + total_bytes * self.seconds_per_byte


def fit_transfer(samples: Iterable[tuple[int, int, float]]) -> Transfer | None:
    """Fit (size, count, seconds together) by least squares on the mean time per call, weighted by count.

    Both coefficients are kept at or above 0. None with fewer than two sizes or eight calls: a line needs
    two points.
    """
    cells = [(size, count, seconds) for size, count, seconds in samples if size > 0 and count > 0]
    calls = sum(count for _, count, _ in cells)
    if len(cells) < _MIN_SIZES or calls < _MIN_CALLS:
        return None
    sizes, counts, seconds = (np.asarray(column, dtype=np.float64) for column in zip(*cells, strict=True))
    model = LinearRegression(positive=True)
    # with positive=True the intercept is free: give it as a column to keep it at or above 0 as well
    design = np.column_stack([np.ones_like(sizes), sizes])
    model.set_params(fit_intercept=False)
    model.fit(design, seconds / counts, sample_weight=counts)
    latency_s, seconds_per_byte = (float(value) for value in model.coef_)
    return Transfer(latency_s=latency_s, seconds_per_byte=seconds_per_byte, calls=calls)
