"""What a checkpoint costs: blocking time and what its flush takes from the steps, without a bias."""

import random
from collections.abc import Iterator
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.checkpoint_cost import (
    CheckpointCost,
    CheckpointCosts,
    costs_of,
    costs_of_saves,
)
from scrtune.goodput.events import (
    FlushCompleted,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobStarted,
    OutputCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.ledger.ledger import Ledger

from ..support.memory import kept_bytes
from ..support.outputs import flush, output, step


def costs(*events: GoodputEvent) -> list[CheckpointCost]:
    meter = CheckpointCosts()
    return [cost for event in events for cost in meter.handle(event)]


def phases(count: int, *, run_delay_s: float, scatter: float) -> CheckpointCosts:
    """Intervals of two steps of a length that changes, a flush beside the first one, and told waits."""
    meter, rng, now = CheckpointCosts(), random.Random(5), 0.0
    for number in range(1, count + 1):
        told = {"cpu_s": 1.0, "run_delay_s": run_delay_s}
        meter.handle(output(number, now, now + 1, due=True, **told))
        step_s = 10.0 * rng.uniform(1 - scatter, 1 + scatter)
        meter.handle(step(now + 1, step_s + run_delay_s))
        meter.handle(flush(number, now + 1, now + 1 + step_s))
        meter.handle(step(now + 1 + step_s + run_delay_s, step_s))
        now += 1 + 2 * step_s + run_delay_s
    meter.handle(output(count + 1, now, now + 1, **told))
    return meter


def test_where_steps_differ_the_waits_for_cores_tell_what_a_flush_takes() -> None:
    """None here: what is left is what memory may take, 2 % give or take 5."""
    (amended,) = phases(12, run_delay_s=0.0, scatter=0.4).amended
    assert amended.slowdown_s == pytest.approx(0.02 * amended.flush_s, abs=0.05 * amended.flush_s)
    assert hypot(amended.slowdown_error_s, amended.reference_error_s) < 0.05 * amended.flush_s
    (amended,) = phases(12, run_delay_s=4.0, scatter=0.4).amended
    assert 2.0 < amended.slowdown_s < 5.3, "4 s of waits, of which the flush has between its share and all"


def test_where_steps_are_alike_they_tell_it() -> None:
    (amended,) = phases(12, run_delay_s=2.0, scatter=1e-4).amended
    assert amended.slowdown_s == pytest.approx(2.0, abs=0.02)


def test_without_told_waits_nothing_more_is_known() -> None:
    made = CheckpointCosts()
    for number in (1, 2):
        made.handle(output(number, 10 * number, 10 * number + 1, due=True))
        made.handle(flush(number, 10 * number + 1, 10 * number + 2))
    assert not made.amended


def flushed_all_the_time(count: int, *, run_delay_s: float, step_s: float = 2.0) -> list[CheckpointCost]:
    """Checkpoints, each beside one step and with a flush from its end until the next one begins."""
    events: list[GoodputEvent] = []
    for number in range(1, count + 1):
        start_s = number * (step_s + 1)
        told = {"cpu_s": step_s - run_delay_s, "run_delay_s": run_delay_s}
        events += [step(start_s - step_s, step_s), output(number, start_s, start_s + 1, due=True, **told)]
        events.append(flush(number, start_s + 1, start_s + 1 + step_s))
    return costs(*events)


def test_where_each_step_is_beside_a_flush_the_waits_for_a_core_tell_what_it_takes() -> None:
    *_, last = flushed_all_the_time(12, run_delay_s=0.5)
    assert last.slowdown_s == pytest.approx(0.5, rel=0.01)
    assert 0.2 < last.reference_error_s < 0.6, "others use the cores, too"
    assert last.slowdown_error_s < 0.1
    *_, last = flushed_all_the_time(12, run_delay_s=0.0)
    assert last.slowdown_s == pytest.approx(0.0, abs=1e-9)


def test_steps_that_had_no_flush_beside_them_say_more_than_waits_for_a_core() -> None:
    before = [step(number, 1.0) for number in range(5)]
    told = output(1, 5, 6, due=True), output(2, 7.5, 8, due=True, cpu_s=0.2, run_delay_s=1.3)
    (first, second) = costs(
        *before, told[0], step(6, 1.5), flush(1, 6, 7.5), told[1], step(8, 1.5), flush(2, 8, 9.5)
    )
    assert (first.slowdown_s, second.slowdown_s) == (pytest.approx(0.5), pytest.approx(0.5))


@given(st.floats(0, 10), st.floats(0, 10))
def test_no_wait_for_a_core_makes_a_step_free_or_longer(cpu_s: float, run_delay_s: float) -> None:
    made = CheckpointCosts()
    made.handle(output(1, 0, 1, due=True))
    made.handle(step(1, 2.0))
    made.handle(output(2, 3, 4, due=True, cpu_s=cpu_s, run_delay_s=run_delay_s))
    reference = made.steps.reference
    assert reference is None or 0 <= reference.step_s <= 2.0


def test_a_checkpoint_without_a_flush_is_known_at_once() -> None:
    (cost,) = costs(output(1, 10, 12))
    assert (cost.cost_s, cost.blocking_s, cost.slowdown_s, cost.flushed) == (2, 2, 0, False)
    assert cost.generation == 3


def test_a_background_flush_adds_what_it_took_from_the_steps() -> None:
    normal = [step(number, 1.0) for number in range(5)]
    (cost,) = costs(*normal, output(1, 5, 6, due=True), step(6, 1.5), step(7.5, 1.5), flush(1, 6, 9))
    assert cost.slowdown_s == pytest.approx(1.0)
    assert cost.cost_s == pytest.approx(2.0)
    assert (cost.flush_s, cost.flushed, cost.flush_threads, cost.time_s) == (3, True, 4, 9)


def test_a_step_that_a_flush_ends_within_counts_when_it_has_ended() -> None:
    """The end of a flush is told at once, the step around it later."""
    normal = [step(number, 1.0) for number in range(5)]
    before = [*normal, output(1, 5, 6, due=True), step(6, 1.5), flush(1, 6, 8.5)]
    assert costs(*before) == []
    (cost,) = costs(*before, step(7.5, 1.5))
    assert cost.slowdown_s == pytest.approx(1.0)
    (cost,) = costs(*before, output(2, 7.6, 8.6, due=True))
    assert (cost.dataset, cost.slowdown_s) == (1, pytest.approx(0.5)), "no step will come"


@pytest.mark.parametrize("flush_first", [True, False])
def test_a_blocking_flush_may_be_reported_before_or_after_its_output(flush_first: bool) -> None:
    pair = [flush(1, 5, 9, asynchronous=False), output(1, 0, 9, due=True, flush_s=4)]
    (cost,) = costs(*(pair if flush_first else reversed(pair)))
    assert (cost.cost_s, cost.flush_s, cost.blocked_on_flush_s, cost.slowdown_s) == (9, 4, 4, 0)


def test_after_a_blocking_flush_steps_count_as_undisturbed() -> None:
    meter = CheckpointCosts()
    for event in (output(1, 0, 9, due=True), flush(1, 5, 9, asynchronous=False), step(9, 2.0)):
        meter.handle(event)
    assert meter.steps.reference
    assert meter.steps.reference.step_s == 2.0


def test_a_flush_that_ends_after_the_next_output_still_counts_for_its_own() -> None:
    made = costs(output(1, 0, 1, due=True), output(2, 5, 6, due=True), flush(1, 1, 7), flush(2, 7, 8))
    assert [(cost.dataset, cost.flush_s, cost.interval_s) for cost in made] == [(1, 6, 0), (2, 1, 5)]


def test_the_time_between_two_outputs_is_from_the_end_of_one_to_the_start_of_the_next() -> None:
    found = costs(output(1, 0, 90), output(2, 100, 105), output(3, 112, 140))
    assert [(cost.between_s, cost.interval_s) for cost in found] == [(0, 0), (10, 100), (7, 12)]


def test_a_flush_that_failed_makes_no_cost() -> None:
    assert costs(output(1, 0, 1, due=True), flush(1, 1, 2, valid=False), flush(1, 1, 3)) == []
    assert costs(flush(1, 0, 1, valid=False), output(1, 0, 1, due=True)) == []


def test_a_new_run_hears_nothing_of_the_old_ones_flush() -> None:
    assert costs(output(1, 0, 1, due=True), JobStarted(time_s=5), flush(1, 1, 6)) == []


def test_noise_credits_at_most_half_the_blocking_time() -> None:
    cost = CheckpointCost(dataset=1, generation=0, time_s=0, blocking_s=2, slowdown_s=-9)
    assert cost.cost_s == 1


def test_lost_flushes_cost_no_memory() -> None:
    def meter(datasets: int) -> CheckpointCosts:
        made = CheckpointCosts()
        for dataset in range(datasets):
            made.handle(output(dataset, dataset, dataset + 0.5, due=True))
            made.handle(flush(-dataset - 1, dataset, dataset + 1))
        return made

    assert kept_bytes(lambda: meter(1000)) < 1.25 * kept_bytes(lambda: meter(100))


@given(
    st.lists(
        st.one_of(
            st.builds(output, st.integers(1, 5), st.floats(0, 50), st.floats(0, 99), due=st.booleans()),
            st.builds(
                flush, st.integers(1, 5), st.floats(0, 50), st.floats(0, 99), asynchronous=st.booleans()
            ),
            st.builds(step, st.floats(0, 99), st.floats(-1, 9)),
        ),
        max_size=60,
    )
)
def test_whatever_comes_costs_are_finite_and_not_negative(seen: list[GoodputEvent]) -> None:
    assert all(0 <= cost.cost_s < 1e6 for cost in costs(*seen))


def test_saves_are_checkpoints_and_those_that_overlap_are_one() -> None:
    def save(start_s: float, end_s: float, writer: str = "") -> Interval:
        return Interval(kind="checkpoint_save", start_s=start_s, end_s=end_s, writer=writer)

    pair = (
        IntervalStarted(kind="checkpoint_save", time_s=200, writer="1"),
        IntervalEnded(kind="checkpoint_save", time_s=205, writer="1"),
    )
    open_end = IntervalStarted(kind="checkpoint_save", time_s=400, writer="1")
    other = Interval(kind="custom", start_s=0, end_s=50)
    begun, begun_again = JobStarted(time_s=0), JobStarted(time_s=250)
    events = (begun, save(100, 103, "0"), save(101, 104, "1"), *pair, begun_again, save(300, 306), other)
    found = costs_of_saves(JobEvents([*events, open_end]))
    assert [cost.blocking_s for cost in found] == [4, 5, 6]
    assert [cost.interval_s for cost in found] == [0, 100, 0]
    assert [cost.dataset for cost in found] == [1, 2, 3]
    assert costs_of_saves(JobEvents()) == []


def test_saves_in_each_other_cost_what_the_account_has() -> None:
    marks = [(2, IntervalStarted), (3, IntervalStarted), (4, IntervalEnded), (9, IntervalEnded)]
    log = [JobStarted(time_s=0), *(made(kind="checkpoint_save", time_s=float(at_s)) for at_s, made in marks)]
    ledger = Ledger()
    ledger.extend(log)
    (cost,) = costs_of_saves(JobEvents(log))
    assert cost.blocking_s == ledger.account(10).buckets["checkpoint_other"] == 7


def test_a_million_steps_are_not_made_events_for_what_checkpoints_cost() -> None:
    class Columns(JobEvents):
        def __iter__(self) -> Iterator[GoodputEvent]:
            raise AssertionError("events were made")

    events: list[GoodputEvent] = [StepStarted(step=step, time_s=float(step)) for step in range(100)]
    events += [StepCompleted(step=step, start_s=step, end_s=step + 1.0) for step in range(10)]
    flush = FlushCompleted(dataset=1, start_s=12.0, end_s=16.0)
    output = OutputCompleted(
        dataset=1, name="c1", start_s=10.0, end_s=12.0, generation=0, write_s=2.0, flush_due=True
    )
    events += [StepCompleted(step=step, start_s=12 + 2 * step, end_s=14.0 + 2 * step) for step in range(2)]
    (cost,) = costs_of(Columns([*events, flush, output]))  # whatever came first
    assert (cost.blocking_s, cost.slowdown_s) == (2.0, 2.0)
