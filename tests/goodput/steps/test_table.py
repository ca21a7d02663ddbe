"""What each step of a job took, whoever recorded it and in whatever order."""

import random
from collections import defaultdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.goodput.events import GoodputEvent, JobStarted, StepCompleted, StepStarted
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.steps import summary as module

from ...support.steps_of_a_job import starts, step_summary, step_table, steps_of, summary


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


def test_ranks_that_each_tell_of_their_start_are_one_run() -> None:
    ranks = [JobStarted(time_s=float(at), writer=f"rank{at}") for at in range(3)]
    assert set(step_table([*ranks, *starts(5, 6, 7, 8)]).job.run.tolist()) == {1}
