"""Quantiles are those of numpy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from scrtune.intents.tune.belief.quantiles import median, quantile

SECONDS = arrays(np.float64, array_shapes(max_dims=2), elements=st.floats(-1e6, 1e6))


@given(SECONDS, st.floats(0, 1))
def test_a_quantile_is_that_of_the_last_axis(values: np.ndarray, share: float) -> None:
    np.testing.assert_allclose(quantile(values, share), np.quantile(values, share, axis=-1), atol=1e-9)


@given(SECONDS)
def test_half_of_the_values_are_below_the_median(values: np.ndarray) -> None:
    np.testing.assert_allclose(median(values), np.median(values, axis=-1), atol=1e-9)
