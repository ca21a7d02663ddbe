"""What steps took, what they should take, how far they are from it, and which ranks hold the others up."""

import random
from collections import defaultdict
from statistics import median
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.goodput.compat.peer.step_times import ideal_step_time_s
from scrtune.goodput.events import GoodputEvent, JobStarted, StepCompleted, StepStarted
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.ledger.ledger import Ledger
from scrtune.goodput.steps import summary as module
from scrtune.goodput.steps.estimators import ideal_s
from scrtune.goodput.steps.summary import ROLLING, stragglers
from scrtune.goodput.steps.table import StepTable
from scrtune.goodput.steps.table import step_table as table_of_columns
from scrtune.goodput.steps.types import StepSummary, Straggler


def starts(*times_s: float, first: int = 0, every: int = 1, writer: str = "") -> list[GoodputEvent]:
    """Steps that say when they begin; they last until the next."""
    return [
        StepStarted(step=first + every * index, time_s=time_s, writer=writer)
        for index, time_s in enumerate(times_s)
    ]


def step_summary(events: list[Any], window: tuple[float, float] | None = None) -> StepSummary | None:
    return module.step_summary(JobEvents(events), window, by_number=True)


def step_table(events: list[Any]) -> StepTable:
    return table_of_columns(JobEvents(events), by_number=True)


def summary(events: list[GoodputEvent], window: tuple[float, float] | None = None) -> StepSummary:
    made = step_summary(events, window)
    assert made is not None
    return made


def steps_of(events: list[GoodputEvent]) -> list[tuple[int, float]]:
    """Number and seconds of each step of the job, by start."""
    rows = step_table(events).job
    return list(zip(rows.number.tolist(), rows.took_s.tolist(), strict=True))


# ---- estimators ----


def test_the_peers_estimator_drops_what_is_below_a_second_and_what_is_far_above() -> None:
    assert ideal_step_time_s([2.0, 2.0, 2.5, 3.0, 60.0, 0.9]) == pytest.approx((2.0 + 2.0 + 2.5 + 3.0) / 4)


def test_the_peers_estimator_has_no_answer_for_short_steps_and_ours_has() -> None:
    assert ideal_step_time_s([0.5] * 100) is None
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


# ---- what a step took ----


def test_a_step_of_which_only_the_begin_is_reported_lasts_to_the_next() -> None:
    assert steps_of(starts(10, 11, 14)) == [(0, 1.0), (1, 3.0)]


def test_sparse_numbers_share_the_time_between_them() -> None:
    made = summary(starts(0, 5, 10, 25, every=10))
    assert (made.steps, made.ideal_s) == (30, 0.5)
    assert made.mean_s == pytest.approx(25 / 30)
    assert dict(made.deviations_s) == {0: 0.0, 10: 0.0, 20: 1.0}


def test_a_step_that_is_computed_again_in_the_next_run_counts_twice() -> None:
    events = [JobStarted(time_s=0), *starts(1, 2, 3, 4), JobStarted(time_s=50), *starts(60, 63, 64, first=1)]
    assert steps_of(events) == [(0, 1.0), (1, 1.0), (2, 1.0), (1, 3.0), (2, 1.0)]
    made = summary(events)
    assert (made.steps, made.ideal_s) == (5, 1.0)
    assert dict(made.deviations_s) == {0: 0.0, 1: 2.0, 2: 0.0}  # of step 1 the last time
    slowest = made.slowest[0]
    assert (slowest.step, slowest.took_s, slowest.start_s, slowest.run) == (1, 3.0, 60.0, 2)


def test_a_step_back_within_a_run_is_another_step_and_ends_none() -> None:
    assert steps_of([*starts(0, 1, 2, 3), *starts(90, 92, 94, first=1)]) == [
        (0, 1.0),
        (1, 1.0),
        (2, 1.0),
        (1, 2.0),
        (2, 2.0),
    ]


def test_of_several_ranks_the_slowest_makes_the_step() -> None:
    events = [
        StepCompleted(step=step, start_s=step, end_s=step + took_s, writer=writer)
        for step in range(3)
        for writer, took_s in (("a", 0.5), ("b", 0.75))
    ]
    assert steps_of([*events]) == [(0, 0.75), (1, 0.75), (2, 0.75)]
    nameless = [StepCompleted(step=each.step, start_s=each.start_s, end_s=each.end_s) for each in events]
    assert steps_of([*nameless]) == [(0, 0.75), (1, 0.75), (2, 0.75)]


def test_ranks_that_tell_of_different_numbers_count_each_step_once() -> None:
    every_tenth, own = starts(0, 20, every=10, writer="a"), starts(12, 14, 16, first=5, writer="b")
    made = summary([*every_tenth, *own])
    assert made.steps == 5 + 1 + 1  # 0 to 4 of the first rank, then what the second knows better


def test_where_both_ends_are_reported_starts_say_nothing_more() -> None:
    told = [StepCompleted(step=step, start_s=step, end_s=step + 0.25, writer="a") for step in range(3)]
    assert steps_of([*starts(0, 1, 2, writer="a"), *told]) == [(0, 0.25), (1, 0.25), (2, 0.25)]


def test_what_cannot_be_is_passed_over() -> None:
    events: list[GoodputEvent] = [
        StepStarted(step=0, time_s=float("nan")),
        StepStarted(step=1 << 62, time_s=1.0),
        StepCompleted(step=1, start_s=5.0, end_s=4.0),
        StepCompleted(step=2, start_s=5.0, end_s=float("inf")),
    ]
    assert step_summary(events) is None
    assert step_summary([]) is None
    huge = summary([*starts(0, 1, 2, every=1 << 59)])
    assert huge.steps == 1 << 60


class Reference:
    """The steps of a job, one event at a time: what the columns must come to."""

    def __init__(self, events: list[StepStarted | StepCompleted | JobStarted]) -> None:
        runs = sorted({event.time_s for event in events if isinstance(event, JobStarted)})
        told = defaultdict(list)
        for event in events:
            if not isinstance(event, JobStarted):
                at_s = event.start_s if isinstance(event, StepCompleted) else event.time_s
                told[sum(run_s <= at_s for run_s in runs), event.writer].append((at_s, event.step, event))
        self.slowest: dict[tuple[int, int, int], float] = {}
        for (run, _), words in told.items():
            whole = [each for each in words if isinstance(each[2], StepCompleted)]
            said = sorted(whole or words, key=lambda each: each[:2])
            attempt = 0
            for index, (at_s, step, event) in enumerate(said):
                attempt += index > 0 and step <= said[index - 1][1]
                if isinstance(event, StepCompleted):
                    self._add((run, attempt, step), event.end_s - at_s)
                elif index + 1 < len(said) and said[index + 1][1] > step:
                    later_s, later, _ = said[index + 1]
                    self._add((run, attempt, step), (later_s - at_s) / (later - step))

    def _add(self, key: tuple[int, int, int], took_s: float) -> None:
        self.slowest[key] = max(took_s, self.slowest.get(key, 0.0))


@st.composite
def logs(draw: st.DrawFn) -> list[StepStarted | StepCompleted | JobStarted]:
    """Runs of several ranks, each of which tells of its steps in its own way; sparse, back and forth."""
    events: list[StepStarted | StepCompleted | JobStarted] = []
    for run in range(draw(st.integers(0, 3))):
        begin_s = 1000.0 * run
        events.append(JobStarted(time_s=begin_s))
        for writer in sorted(draw(st.sets(st.sampled_from("abc"), max_size=3))):
            both_ends, at_s = draw(st.booleans()), begin_s
            for step in draw(st.lists(st.integers(-3, 12), max_size=9)):
                at_s += draw(st.sampled_from([0.001, 0.5, 1.0, 7.0]))
                if not both_ends:
                    events.append(StepStarted(step=step, time_s=at_s, writer=writer))
                    continue
                end_s = at_s + draw(st.sampled_from([0.0, 0.25, 3.0]))
                events.append(StepCompleted(step=step, start_s=at_s, end_s=end_s, writer=writer))
                at_s = end_s
    return events


@given(logs(), st.randoms(use_true_random=False))
@example(  # each run has a step of its own
    [
        JobStarted(time_s=0.0),
        StepCompleted(step=0, start_s=0.001, end_s=0.001, writer="c"),
        JobStarted(time_s=1000.0),
        StepCompleted(step=0, start_s=1000.001, end_s=1000.001, writer="c"),
    ],
    random.Random(0),
)
@example(  # a number that comes again is computed again
    [
        StepCompleted(step=0, start_s=0.001, end_s=0.001, writer="c"),
        StepCompleted(step=0, start_s=1.001, end_s=1.001, writer="c"),
    ],
    random.Random(0),
)
def test_the_steps_are_the_same_in_any_order_of_events(
    events: list[StepStarted | StepCompleted | JobStarted], chance: random.Random
) -> None:
    expected = Reference(events).slowest
    shuffled = [*events]
    chance.shuffle(shuffled)
    for told in (events, shuffled, [*events, *events[:5]]):
        rows = step_table(told).job
        keys = zip(rows.run.tolist(), rows.attempt.tolist(), rows.number.tolist(), strict=True)
        made = dict(zip(keys, rows.took_s.tolist(), strict=True))
        assert made == pytest.approx(expected)
        assert (rows.steps > 0).all()
        assert sorted(rows.start_s.tolist()) == rows.start_s.tolist()


# ---- numbers that are far apart ----


@pytest.mark.parametrize("stride", [10, 4096])
def test_a_regular_stride_makes_each_recorded_step_one_step(stride: int) -> None:
    frames = starts(0, 2, 4, 6, 10, 12, 14, 16, 18, 20, 22, 24, every=stride)
    made = module.step_summary(JobEvents(frames))
    assert made is not None
    assert (made.stride, made.steps, made.ideal_s) == (stride, 11, 2.0)
    assert made.mean_s == pytest.approx(24 / 11)
    assert dict(made.deviations_s)[3 * stride] == 2.0
    assert (made.slowest[0].step, made.slowest[0].steps, made.slowest[0].took_s) == (3 * stride, 1, 4.0)
    numbers = summary(frames)
    assert (numbers.stride, numbers.steps, numbers.ideal_s) == (1, 11 * stride, pytest.approx(2.0 / stride))


def test_a_restart_between_two_multiples_of_the_stride_changes_no_rate() -> None:
    first, again = starts(*range(0, 60, 2), every=10), starts(100, 101, *range(103, 160, 2), first=5, every=5)
    again = [*again[:2], *starts(*range(103, 160, 2), first=20, every=10)]
    made = module.step_summary(JobEvents([JobStarted(time_s=0.0), *first, JobStarted(time_s=90.0), *again]))
    assert made is not None
    assert (made.stride, made.ideal_s, made.deviation_s) == (10, 2.0, 0.0)


def test_irregular_numbers_are_as_many_steps_as_they_say() -> None:
    told = [StepStarted(step=step, time_s=2.0 * at) for at, step in enumerate((0, 7, 20, 24, 50, 51))]
    made = module.step_summary(JobEvents([*told]))
    assert made is not None
    assert (made.stride, made.steps) == (1, 51)


def test_steps_by_both_ends_are_steps_whatever_their_numbers() -> None:
    told = [StepCompleted(step=4096 * n, start_s=2.0 * n, end_s=2.0 * n + 1.5) for n in range(12)]
    made = module.step_summary(JobEvents([*told]))
    assert made is not None
    assert (made.stride, made.steps, made.ideal_s) == (1, 12, 1.5)


# ---- the summary ----


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


def test_windows_that_follow_each_other_have_every_step_once() -> None:
    events = starts(*(1.5 * step for step in range(41)))
    parts = [step_summary(events, (edge, edge + 10)) for edge in range(0, 60, 10)]
    assert sum(part.steps for part in parts if part is not None) == summary(events).steps == 40
    assert step_summary(events, (100, 200)) is None


# ---- stragglers ----


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


def test_ranks_that_each_tell_of_their_start_are_one_run() -> None:
    ranks = [JobStarted(time_s=float(at), writer=f"rank{at}") for at in range(3)]
    assert set(step_table([*ranks, *starts(5, 6, 7, 8)]).job.run.tolist()) == {1}


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
