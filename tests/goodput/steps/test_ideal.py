"""How long a step should take, by our estimator and the peer's."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.steps.table import ideal_s, peers_ideal_s


def test_the_peers_estimator_drops_what_is_below_a_second_and_what_is_far_above() -> None:
    assert peers_ideal_s([2.0, 2.0, 2.5, 3.0, 60.0, 0.9]) == pytest.approx((2.0 + 2.0 + 2.5 + 3.0) / 4)


def test_the_peers_estimator_has_no_answer_for_short_steps_and_ours_has() -> None:
    assert peers_ideal_s([0.5] * 100) is None
    assert ideal_s([0.5] * 100) == 0.5
    assert ideal_s([]) is None


@given(st.integers(0, 10_000), st.floats(1e-4, 1e3))
def test_the_ideal_time_survives_hiccups_and_scales_with_the_steps(seed: int, scale: float) -> None:
    chance = random.Random(seed)
    times = [chance.gauss(1.0, 0.02) for _ in range(60)]
    hiccups = [chance.uniform(5, 500) for _ in range(20)]
    cut_short = [chance.uniform(0, 0.2) for _ in range(5)]
    mixed = times + hiccups + cut_short
    chance.shuffle(mixed)
    assert ideal_s([each * scale for each in mixed]) == pytest.approx(scale, rel=0.03)
