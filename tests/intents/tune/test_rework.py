"""The expected rework, and the price of going from one setting to another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import Values
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.rework import BEYOND_REDUNDANCY, NODE_FAILURES_PER_S, expected_rework_s, exposure_s

CACHED: Values = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_COPY_TYPE": "SINGLE"}
ASYNC: Values = {**CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}


def test_what_is_in_the_prefix_directory_is_exposed_to_nothing() -> None:
    assert exposure_s(DEFAULTS, 100.0, 30.0) == 0
    assert exposure_s(CACHED, 100.0, 30.0) == 0, "its flush had ended before the computation went on"
    assert expected_rework_s(DEFAULTS, 8, 100.0, 30.0) == 0


def test_what_the_cache_alone_holds_is_exposed_until_it_is_flushed() -> None:
    assert exposure_s(ASYNC, 100.0, 30.0) == 30
    assert exposure_s(ASYNC, 100.0, 300.0) == 100, "then the next one counts"
    assert exposure_s({**CACHED, "SCR_FLUSH": 10}, 100.0, 30.0) == 450
    assert exposure_s({**ASYNC, "SCR_FLUSH": 3}, 100.0, 30.0) == 130


def test_rework_is_the_rate_of_failures_times_what_they_destroy() -> None:
    single = expected_rework_s(ASYNC, 4, 100.0, 30.0)
    assert single == pytest.approx(NODE_FAILURES_PER_S * 4 * 100 * 30)
    for scheme in ("PARTNER", "XOR", "RS"):
        safer = expected_rework_s({**ASYNC, "SCR_COPY_TYPE": scheme}, 4, 100.0, 30.0)
        assert safer == pytest.approx(BEYOND_REDUNDANCY * single)
    alone = {**ASYNC, "SCR_COPY_TYPE": "XOR"}
    assert expected_rework_s(alone, 1, 100.0, 30.0) == pytest.approx(single / 4), "on one node it is SINGLE"


def test_llama_3s_rate_is_one_failure_of_2048_nodes_in_3_hours() -> None:
    assert pytest.approx(3.09, rel=0.01) == 1 / (2048 * NODE_FAILURES_PER_S) / 3600


@given(
    st.sampled_from([CACHED, ASYNC]),
    st.integers(1, 10_000),
    st.floats(0.1, 1e4),
    st.floats(0, 1e4),
    st.integers(1, 20),
)
def test_rarer_flushes_more_nodes_and_longer_flushes_never_expose_less(
    settings: Values, nodes: int, between_s: float, flush_s: float, every: int
) -> None:
    now = {**settings, "SCR_FLUSH": every}
    least = expected_rework_s(now, nodes, between_s, flush_s)
    assert np.isfinite(least)
    assert least >= 0
    assert expected_rework_s({**now, "SCR_FLUSH": every + 1}, nodes, between_s, flush_s) >= least
    assert expected_rework_s(now, nodes + 1, between_s, flush_s) >= least
    assert expected_rework_s(now, nodes, between_s, 2 * flush_s) >= least
