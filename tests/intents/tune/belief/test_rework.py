"""The expected rework: what a failure destroys because a checkpoint was not safe yet."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import Values
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.belief.rework import (
    BEYOND_REDUNDANCY,
    NODE_FAILURES_PER_S,
    expected_rework_s,
    exposure_s,
    losses_per_s,
)

CACHED: Values = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "SINGLE"}


def test_what_is_in_the_prefix_directory_is_exposed_to_nothing() -> None:
    assert exposure_s(1, False, 100.0, 30.0) == 0, "its flush had ended before the computation went on"
    assert losses_per_s(DEFAULTS, 8) == 0


def test_what_the_cache_alone_holds_is_exposed_until_it_is_flushed() -> None:
    assert exposure_s(1, True, 100.0, 30.0) == 30
    assert exposure_s(1, True, 100.0, 300.0) == 100, "then the next one counts"
    assert exposure_s(10, False, 100.0, 30.0) == 450
    assert exposure_s(3, True, 100.0, 30.0) == 130


def test_rework_is_the_rate_of_failures_times_what_they_destroy() -> None:
    single = losses_per_s(CACHED, 4)
    assert single == NODE_FAILURES_PER_S * 4
    assert expected_rework_s(single, 100.0, 30.0) == pytest.approx(NODE_FAILURES_PER_S * 4 * 100 * 30)
    for scheme in ("PARTNER", "XOR", "RS"):
        safer = losses_per_s({**CACHED, "SCR_COPY_TYPE": scheme}, 4)
        assert safer == pytest.approx(BEYOND_REDUNDANCY * single)
    alone = losses_per_s({**CACHED, "SCR_COPY_TYPE": "XOR"}, 1)
    assert alone == pytest.approx(single / 4), "on one node it is SINGLE"


def test_llama_3s_rate_is_one_failure_of_2048_nodes_in_3_hours() -> None:
    assert pytest.approx(3.09, rel=0.01) == 1 / (2048 * NODE_FAILURES_PER_S) / 3600


@given(st.integers(1, 20), st.booleans(), st.floats(0.1, 1e4), st.floats(0, 1e4))
def test_rarer_and_longer_flushes_never_expose_less(
    every: int, beside: bool, between_s: float, flush_s: float
) -> None:
    least = exposure_s(every, beside, between_s, flush_s)
    assert np.isfinite(least)
    assert least >= 0
    assert exposure_s(every + 1, beside, between_s, flush_s) >= least
    assert exposure_s(every, beside, between_s, 2 * flush_s) >= least


@given(st.integers(1, 10_000))
def test_more_nodes_never_lose_less(nodes: int) -> None:
    assert losses_per_s(CACHED, nodes + 1) > losses_per_s(CACHED, nodes) > 0
