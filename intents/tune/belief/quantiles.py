"""Quantiles over the members of an ensemble.

numpy.quantile and numpy.median load numpy.ma when they are first called, 30 ms of a core that a rank may
want, and take two to five times as long for arrays of this size.
"""

import numpy as np

from .shape import Array


def quantile(values: Array, share: float) -> Array:
    """Return the values below which `share` of the last axis lies; between two of it, interpolated."""
    ordered = np.sort(values)
    last = ordered.shape[-1] - 1
    below = int(share * last)
    low, high = ordered[..., below], ordered[..., min(below + 1, last)]
    return np.asarray(low + (high - low) * (share * last - below))


def median(values: Array) -> Array:
    """Return the medians of the last axis."""
    return quantile(values, 0.5)
