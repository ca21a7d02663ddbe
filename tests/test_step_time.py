"""What a step should take, how far steps are from it, and which ranks hold the others up."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import StepCompleted
from scrtune.goodput.step_time import deviations_s, ideal_s, peers_ideal_s, rolling_deviation_s
from scrtune.goodput.stragglers import RankSteps


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
    made = ideal_s(each * scale for each in mixed)
    assert made == pytest.approx(scale, rel=0.03)


def test_deviations_are_distances() -> None:
    assert deviations_s([1.0, 3.0, 2.0], 2.0) == [1.0, 1.0, 0.0]
    assert list(rolling_deviation_s([2.0, 4.0, 2.0, 2.0], 2.0, 2)) == [0.0, 1.0, 1.0, 0.0]


def ranks(steps: int, slow: dict[int, float], seed: int = 1) -> RankSteps:
    """Eight ranks; every fifth step is slow for all of them, and `slow` ones take so many times as long."""
    chance, made = random.Random(seed), RankSteps()
    for step in range(steps):
        for rank in range(8):
            time_s = (3.0 if step % 5 == 0 else 1.0) * slow.get(rank, 1.0) * chance.uniform(0.98, 1.02)
            made.add(
                StepCompleted(step=step, start_s=10.0 * step, end_s=10.0 * step + time_s, writer=f"r{rank}")
            )
    return made


def test_a_rank_that_is_slow_step_after_step_is_found() -> None:
    found = ranks(50, {3: 1.5, 6: 1.2}).stragglers()
    assert [each.writer for each in found] == ["r3", "r6"]
    assert found[0].ratio == pytest.approx(1.5, rel=0.05)
    assert found[0].excess_s == pytest.approx(0.5, rel=0.1)
    assert (found[0].steps, found[0].slow) == (50, 50)


def test_noise_too_few_steps_and_a_rank_alone_are_no_stragglers() -> None:
    assert ranks(50, {}).stragglers() == []
    assert ranks(7, {3: 2.0}).stragglers() == []
    alone = RankSteps()
    alone.extend(StepCompleted(step=n, start_s=0.0, end_s=float(n), writer="r0") for n in range(1, 50))
    assert alone.stragglers() == []


def test_only_the_last_steps_of_a_rank_are_remembered() -> None:
    found = ranks(400, {3: 1.5}).stragglers()
    assert [(each.writer, each.steps) for each in found] == [("r3", 256)]
