"""The last steps of a running job: the ideal one, and how far each was from it."""

from collections.abc import Iterator
from typing import Any

import pytest

from scrtune.goodput.events import JobStarted, StepCompleted, StepStarted
from scrtune.goodput.steps.recent import RecentSteps


def steps(*times_s: float, first: int = 0) -> Iterator[StepCompleted]:
    now = 0.0
    for step, time_s in enumerate(times_s, first):
        yield StepCompleted(step=step, start_s=now, end_s=now + time_s)
        now += time_s


def recent(*events: Any) -> RecentSteps:
    seen = RecentSteps()
    for event in events:
        seen.handle(event)
    return seen


def test_the_ideal_step_leaves_outliers_out_also_below_a_second() -> None:
    seen = recent(*steps(0.01, 0.011, 0.009, 0.01, 5.0))
    assert seen.ideal_s == pytest.approx(0.01)
    assert dict(seen.take_deviations())[4] == pytest.approx(4.99)


def test_steps_that_only_begin_last_to_the_next_one_of_their_writer() -> None:
    starts = [("a", 0, 0.0), ("b", 0, 0.5), ("a", 1, 1.0), ("b", 1, 2.5), ("a", 2, 2.0)]
    seen = recent(*(StepStarted(step=step, time_s=time_s, writer=who) for who, step, time_s in starts))
    assert seen.ideal_s == pytest.approx(1.5)  # of step 0 the slower of two ranks counts: 2 s
    assert dict(seen.take_deviations()) == {0: pytest.approx(0.5), 1: pytest.approx(0.5)}


def test_sparse_steps_share_the_time_between_them() -> None:
    seen = recent(*(StepStarted(step=step, time_s=step * 0.5) for step in (0, 10, 17, 40, 41)))
    assert seen.ideal_s == pytest.approx(0.5)


def test_a_regular_stride_makes_each_recorded_step_one_step() -> None:
    seen = recent(*(StepStarted(step=step, time_s=step * 0.5) for step in range(0, 50, 10)))
    assert seen.ideal_s == pytest.approx(5.0)
    assert [step for step, _ in seen.take_deviations()] == [0, 10, 20, 30]


def test_going_back_or_a_new_run_ends_no_step() -> None:
    seen = recent(
        StepStarted(step=5, time_s=1.0),
        StepStarted(step=3, time_s=90.0),
        JobStarted(time_s=100.0),
        StepStarted(step=4, time_s=500.0),
    )
    assert seen.ideal_s is None
    assert seen.last == 4


def test_deviations_are_taken_once_and_memory_is_bounded() -> None:
    seen = recent(*steps(*[1.0] * 5000))
    assert len(seen.take_deviations()) == 1024
    assert seen.take_deviations() == ()
    assert recent().ideal_s is None
    assert recent().deviation_s == 0
