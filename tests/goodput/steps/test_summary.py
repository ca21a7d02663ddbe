"""What steps took in short, how far they are from the ideal, and which ranks hold the others up."""

import random
from statistics import median

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import GoodputEvent, JobStarted, RestartCompleted, StepCompleted, StepStarted
from scrtune.goodput.ledger.ledger import Ledger
from scrtune.goodput.steps.summary import ROLLING, Straggler, stragglers

from ...support.steps_of_a_job import starts, step_summary, step_table, summary


def test_the_peers_ideal_is_what_it_would_say_or_why_it_says_nothing() -> None:
    plain = summary(starts(*range(0, 40, 2)))
    assert (plain.peers_ideal_s, plain.no_peers_ideal) == (2.0, "")
    short = summary(starts(*(0.5 * step for step in range(20))))
    assert (short.ideal_s, short.peers_ideal_s) == (0.5, None)
    assert "less than a second" in short.no_peers_ideal
    sparse = summary(starts(0, 20, 40, every=10))
    assert sparse.peers_ideal_s is None
    assert "no step is followed by the one with the next number" in sparse.no_peers_ideal


def test_the_rolling_deviation_is_that_of_the_last_steps() -> None:
    slow = [StepCompleted(step=n, start_s=n, end_s=n + (1.5 if n >= 300 else 1.0)) for n in range(350)]
    made = summary([*slow])
    assert (made.ideal_s, made.rolling) == (1.0, ROLLING)
    assert made.deviation_s == pytest.approx(0.5 * 50 / 350)
    assert made.rolling_deviation_s == pytest.approx(0.5 * 50 / 100)
    assert dict(made.deviations_s)[349] == pytest.approx(0.5)


def test_of_sparse_numbers_the_rolling_deviation_is_of_as_many_steps() -> None:
    made = summary(starts(0, 500, 1000, 1600, every=500))  # the last 500 take a fifth longer
    assert (made.steps, made.rolling) == (1500, ROLLING)
    assert made.rolling_deviation_s == pytest.approx(0.2)


def test_work_between_outputs_is_no_step() -> None:
    pieces = [StepCompleted(step=(n << 20) + 1, start_s=10.0 * n, end_s=10.0 * n + 9) for n in range(5)]
    assert step_summary(pieces) is None
    assert step_summary(pieces[:1]) is not None  # a single number may be that of a step


def test_work_after_a_restart_is_no_step_before_the_first_output_either() -> None:
    pieces = [StepCompleted(step=(2 << 20) + n, start_s=10.0 * n, end_s=10.0 * n + 9) for n in range(1, 4)]
    restart = RestartCompleted(dataset=2, name="d2", start_s=1.0, end_s=2.0)
    assert step_summary([JobStarted(time_s=0.0), restart, *pieces]) is None
    other = msgspec.structs.replace(restart, dataset=1)  # these are the application's own
    assert step_summary([JobStarted(time_s=0.0), other, *pieces]) is not None


def test_windows_that_follow_each_other_have_every_step_once() -> None:
    events = starts(*(1.5 * step for step in range(41)))
    parts = [step_summary(events, (edge, edge + 10)) for edge in range(0, 60, 10)]
    assert sum(part.steps for part in parts if part is not None) == summary(events).steps == 40
    assert step_summary(events, (100, 200)) is None


def ranks(
    steps: int, slow: dict[int, float], seed: int = 1, count: int = 8, run_s: float = 0.0
) -> list[GoodputEvent]:
    """Ranks of which every fifth step is slow for all of them; `slow` ones take so many times as long."""
    chance = random.Random(seed)
    return [
        StepCompleted(
            step=step,
            start_s=run_s + 10.0 * step,
            end_s=run_s
            + 10.0 * step
            + (3.0 if step % 5 == 0 else 1.0) * slow.get(rank, 1.0) * chance.uniform(0.98, 1.02),
            writer=f"r{rank}",
        )
        for step in range(steps)
        for rank in range(count)
    ]


def whole(writer: str, took_s: float) -> list[GoodputEvent]:
    return [StepCompleted(step=n, start_s=2.0 * n, end_s=2 * n + took_s, writer=writer) for n in range(12)]


def found(events: list[GoodputEvent]) -> tuple[Straggler, ...]:
    return stragglers(step_table(events))[0]


def test_a_rank_that_is_slow_step_after_step_is_found() -> None:
    first, second = found(ranks(50, {3: 1.5, 6: 1.2}))
    assert (first.writer, second.writer) == ("r3", "r6")
    assert first.ratio == pytest.approx(1.5, rel=0.05)
    assert first.excess_s == pytest.approx(0.5, rel=0.1)
    assert first.took_s == pytest.approx(1.5, rel=0.1)
    assert (first.steps, first.slow) == (50, 50)


def test_a_rank_is_held_against_the_others_of_its_own_run() -> None:
    slow_before = [JobStarted(time_s=0.0), *ranks(20, dict.fromkeys(range(8), 3.0))]
    then = [JobStarted(time_s=1000.0), *ranks(20, {2: 1.5}, run_s=1000.0)]
    assert found(slow_before) == ()
    assert [each.writer for each in found([*slow_before[1:], *then])] == []  # in 20 of its 40 steps only
    assert [each.writer for each in found(then)] == ["r2"]


def test_of_two_ranks_one_is_held_against_the_other() -> None:
    (only,) = found(ranks(20, {1: 1.3}, count=2))
    assert (only.writer, only.ratio) == ("r1", pytest.approx(1.3, rel=0.03))


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.25, 3.0]), min_size=2, max_size=5), min_size=8))
def test_a_rank_is_held_against_the_median_of_the_others(times_s: list[list[float]]) -> None:
    told = [
        StepCompleted(step=step, start_s=10.0 * step, end_s=10.0 * step + took_s, writer=str(rank))
        for step, took in enumerate(times_s)
        for rank, took_s in enumerate(took)
    ]
    expected = {}
    for rank in range(5):
        held = [
            (took[rank], median([*took[:rank], *took[rank + 1 :]])) for took in times_s if len(took) > rank
        ]
        ratios = [took_s / others_s for took_s, others_s in held if others_s > 0]
        if len(ratios) >= 8 and 2 * sum(ratio >= 1.1 for ratio in ratios) > len(ratios):
            expected[str(rank)] = pytest.approx(median(ratios))
    assert {each.writer: each.ratio for each in found([*told])} == expected


def test_noise_is_no_straggler() -> None:
    assert found(ranks(50, {})) == ()


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (ranks(7, {3: 2.0}), "no two ranks recorded 8 steps in common"),
        (ranks(50, {}, count=1), "only one writer"),
        ([*whole("", 1.0), *whole("", 1.5)], "only one writer"),
        ([*starts(0, 1, 2, writer="a"), *starts(0, 1, 2, writer="b")], "only the starts"),
    ],
)
def test_where_ranks_cannot_be_compared_it_is_said_why(events: list[GoodputEvent], why: str) -> None:
    assert found(events) == ()
    assert why in summary(events).no_stragglers


@pytest.mark.parametrize("by_both_ends", [False, True])
def test_ranks_without_a_name_that_are_apart_make_each_step_once(by_both_ends: bool) -> None:
    ledger = Ledger(remembered=None)
    log: list[GoodputEvent] = [JobStarted(time_s=1_760_000_000.0)]
    for late_s in (0.0, 1.5):
        for number in range(50):
            start_s = 1_760_000_001.0 + late_s + number
            whole = StepCompleted(step=number, start_s=start_s, end_s=start_s + 1)
            log.append(whole if by_both_ends else StepStarted(step=number, time_s=start_s))
    ledger.extend(log)
    summary = step_summary(log)
    assert summary is not None
    assert summary.steps in (49, 50)  # of starts only, nobody knows how long the last one took
    assert summary.ideal_s == pytest.approx(1)
    assert ledger.account(1_760_000_060.0).buckets["wasted_progress"] == 0
