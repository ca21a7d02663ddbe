"""What ml-goodput-measurement gets wrong (`docs/goodput.md` has the table), and the true answers."""

import random
from collections.abc import Iterator

import pytest

from scrtune.goodput.events import (
    GoodputEvent,
    IntervalEnded,
    IntervalStarted,
    OutputCompleted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Ledger

from ...support.short_job import T0, ended, interval, spent, started, starts, told

MIN = 60.0


def primer(steps: bool) -> list[GoodputEvent]:
    """The example of the resiliency library's primer, minutes; its steps whole, or by their starts alone."""

    def computed(first: int, count: int, at: float, each: float) -> list[GoodputEvent]:
        made = starts(first, count, at * MIN, each * MIN)
        if not steps:
            return list(made)
        return [
            StepCompleted(step=step.step, start_s=step.time_s, end_s=step.time_s + each * MIN)
            for step in made
        ]

    def saved(dataset: int, start: float, end: float) -> OutputCompleted:
        return OutputCompleted(
            dataset=dataset, name=f"{dataset}", start_s=T0 + start * MIN, end_s=T0 + end * MIN
        )

    def loaded(start: float, end: float) -> RestartCompleted:
        return RestartCompleted(dataset=1, name="1", start_s=T0 + start * MIN, end_s=T0 + end * MIN)

    return [
        started(0),
        loaded(0, 5),
        *computed(25, 25, 5, 2),
        saved(1, 55, 60),
        *computed(50, 20, 60, 2),
        ended(100 * MIN, 1),
        started(115 * MIN),
        loaded(115, 120),
        *computed(50, 25, 120, 3),
        saved(2, 195, 200),
        ended(200 * MIN),
    ]


@pytest.mark.parametrize("steps", [True, False])
def test_the_primer_as_steps_is_half_goodput(steps: bool) -> None:
    account = told(*primer(steps)).account(T0, reference_step_s=2 * MIN)
    assert account.wall_s == 200 * MIN
    assert spent(account) == {
        "productive": 100 * MIN,
        "restore": 10 * MIN,
        "wasted_progress": 40 * MIN,
        "recovery": 15 * MIN,
        "checkpoint_other": 10 * MIN,
        "step_slowdown": 25 * MIN,
    }
    assert account.goodput == 0.5
    assert account.steps == 50


def test_a_hang_of_an_hour_is_badput_and_the_window_is_the_window() -> None:
    ledger = told(started(0), *starts(0, 501, 0), *starts(501, 500, 4101), ended(4601))
    account = ledger.account(T0)
    assert account.wall_s == 4601
    assert spent(account) == {"productive": 1001.0, "other": 3600.0}
    inside = ledger.window(T0 + 1000, T0 + 2000, T0 + 4601)
    assert (inside.wall_s, inside.buckets["other"], inside.goodput) == (1000.0, 1000.0, 0.0)
    around = ledger.window(T0 + 400, T0 + 4201, T0 + 4601)
    assert (around.wall_s, around.buckets["other"]) == (3801.0, 3600.0)


def test_a_long_checkpoint_or_evaluation_inside_a_step_is_no_hang() -> None:
    account = told(
        started(0),
        *starts(0, 50, 0),
        interval("custom", 50, 80, "eval"),
        interval("checkpoint_save", 80.5, 100.5),
        *starts(50, 50, 101),
        ended(151),
    ).account(T0)
    assert spent(account) == {"productive": 101.0, "custom:eval": 30.0, "checkpoint_other": 20.0}


@pytest.mark.parametrize("stride", [2, 10, 100])
def test_sparse_steps_count_for_those_between(stride: int) -> None:
    log = [StepStarted(step=step, time_s=T0 + step) for step in range(0, 1000, stride)]
    account = told(started(0), *log, ended(1000)).account(T0)
    assert spent(account) == {"productive": 1000.0}
    assert account.steps == 1000 - stride + 1  # how many the last one stands for, nobody said


@pytest.mark.parametrize("step_s", [0.5, 0.001])
def test_steps_may_be_of_any_length(step_s: float) -> None:
    account = told(started(0), *starts(0, 100, 0, step_s), ended(100 * step_s)).account(T0)
    assert account.goodput == 1.0
    assert account.steps == 100


def test_a_new_process_of_the_same_job_reads_on() -> None:
    ledger = told(started(0), *starts(0, 45, 0))
    assert ledger.account(T0 + 44).steps == 45
    for event in (started(60), *starts(45, 45, 70), ended(115)):
        ledger.handle(event)
    account = ledger.account(T0)
    assert (account.steps, account.runs, account.wall_s) == (90, 2, 115.0)
    assert spent(account) == {"productive": 89.0, "recovery": 16.0, "startup": 10.0}


def test_a_clean_end_does_not_stop_the_clock_of_a_job_that_goes_on() -> None:
    ledger = told(started(0), *starts(0, 10, 0), ended(10))
    assert ledger.account(T0 + 1000).wall_s == 10
    for event in (started(40), *starts(10, 10, 40), ended(50)):
        ledger.handle(event)
    account = ledger.account(T0 + 1000)
    assert account.wall_s == 50
    assert spent(account) == {"productive": 20.0, "other": 30.0}


def test_nested_preparation_initialisation_and_restore_sum_to_the_wall_time() -> None:
    account = told(
        started(0),
        interval("training_prep", 0, 50),
        interval("device_init", 5, 20),
        interval("checkpoint_restore", 18, 31),
        *starts(0, 60, 50),
        ended(110),
    ).account(T0)
    assert spent(account) == {
        "restore": 13.0,
        "device_init": 13.0,
        "training_prep": 24.0,
        "productive": 60.0,
    }
    assert account.wall_s == 110


def test_two_ranks_that_log_the_same_steps_are_no_disruption() -> None:
    ahead = starts(0, 100, 0.25, 1.0, "rank 1")
    account = told(started(0), *starts(0, 100, 0, 1.0, "rank 0"), *ahead, ended(100)).account(T0)
    assert spent(account) == {"productive": 100.0}
    assert (account.steps, account.runs) == (100, 1)
    assert account.skew_s == pytest.approx(0.25, abs=1e-6)


def test_the_order_of_arrival_does_not_matter() -> None:
    log = primer(steps=False)
    shuffled = list(log)
    for seed in range(20):
        random.Random(seed).shuffle(shuffled)
        assert told(*shuffled).account(T0) == told(*log).account(T0)


def test_an_event_of_the_users_own_across_the_border_of_two_steps_counts() -> None:
    account = told(started(0), *starts(0, 10, 0), interval("custom", 3.5, 5.5, "eval"), ended(10)).account(T0)
    assert spent(account) == {"productive": 8.0, "custom:eval": 2.0}


def test_the_users_events_of_one_name_may_lie_in_each_other() -> None:
    borders = ((IntervalStarted, 2), (IntervalStarted, 3), (IntervalEnded, 4), (IntervalEnded, 9))
    events = [made(kind="custom", name="eval", time_s=T0 + at) for made, at in borders]
    account = told(started(0), *starts(0, 12, 0), *events, ended(12)).account(T0)
    assert spent(account) == {"productive": 5.0, "custom:eval": 7.0}


def test_what_a_first_step_takes_longer_than_the_second_is_start_up() -> None:
    """The peer's own rule, kept: the first step compiles."""
    first = StepStarted(step=0, time_s=T0 + 5)
    account = told(started(0), first, *starts(1, 9, 36), ended(45)).account(T0)
    assert spent(account) == {"startup": 35.0, "productive": 10.0}


def test_an_interval_that_never_ends_ends_with_its_writers_next_step_or_last_word() -> None:
    init = IntervalStarted(kind="device_init", time_s=T0)
    lost = told(started(0), init, *starts(0, 10, 5), ended(15)).account(T0)
    assert spent(lost) == {"device_init": 5.0, "productive": 10.0}
    crashed = told(
        started(0), init, IntervalStarted(kind="training_prep", time_s=T0 + 4), started(20)
    ).account(T0 + 20)
    assert spent(crashed) == {"device_init": 4.0, "recovery": 16.0}


def test_loading_data_beside_the_steps_costs_nothing_and_is_distinguished() -> None:
    account = told(
        started(0),
        *starts(0, 10, 0),
        interval("data_loading", 2, 3),
        interval("data_loading_async", 4, 9),
        IntervalStarted(kind="data_loading_async", time_s=T0 + 8),
        IntervalEnded(kind="data_loading_async", time_s=T0 + 9.5),
        ended(10),
    ).account(T0)
    assert spent(account) == {"productive": 9.0, "data_loading": 1.0}
    assert account.data_loading_async_s == 5.5


def test_a_hang_in_the_last_step_of_a_run_is_badput_although_the_runs_end_is_reported() -> None:
    hung = [started(0), *starts(0, 100, 0), ended(3700)]
    assert spent(told(*hung).account(T0)) == {"productive": 100.0, "other": 3600.0}
    resumed = told(*hung, started(3710), *starts(90, 20, 3710), ended(3730)).account(T0)
    assert spent(resumed) == {"productive": 110.0, "wasted_progress": 10.0, "other": 3610.0}


def test_the_last_of_sparse_steps_is_held_against_as_many_as_the_others_stand_for() -> None:
    log = [StepStarted(step=step, time_s=T0 + step) for step in range(0, 1000, 50)]
    assert spent(told(started(0), *log, ended(1000)).account(T0)) == {"productive": 1000.0}
    assert spent(told(started(0), *log, ended(5000)).account(T0)) == {"productive": 1000.0, "other": 4000.0}


def test_a_long_checkpoint_in_the_step_before_hides_no_hang() -> None:
    account = told(
        started(0),
        *starts(0, 50, 0),
        interval("checkpoint_save", 49.5, 149.5),
        *starts(50, 1, 150),
        *starts(51, 49, 1050),
        ended(1099),
    ).account(T0)
    assert spent(account) == {"productive": 100.0, "checkpoint_other": 100.0, "other": 899.0}


def test_a_long_evaluation_in_the_second_step_hides_no_compilation_in_the_first() -> None:
    account = told(
        started(0),
        *starts(0, 1, 0),
        *starts(1, 1, 30),
        interval("custom", 30.5, 60.5, "eval"),
        *starts(2, 20, 61),
        ended(81),
    ).account(T0)
    assert spent(account) == {"productive": 22.0, "startup": 29.0, "custom:eval": 30.0}


def test_steps_that_are_made_again_within_a_run_are_wasted_the_first_time() -> None:
    """One that restarted by itself, without telling a second start."""
    again = [started(0), *starts(0, 50, 0), *starts(20, 80, 50), ended(130)]
    account = told(*again).account(T0)
    assert spent(account) == {"productive": 100.0, "wasted_progress": 30.0}
    assert (account.steps, account.runs) == (100, 1)


@pytest.mark.parametrize("form", [StepStarted, StepCompleted])
@pytest.mark.parametrize("writer", ["", "rank0"])
@pytest.mark.parametrize("back_to", [20, 47])
def test_a_restart_within_a_run_is_found_after_each_event_in_any_form_and_order(
    form: type, writer: str, back_to: int
) -> None:
    def made(first: int, count: int, at: float) -> Iterator[GoodputEvent]:
        for step in starts(first, count, at, 1.0, writer):
            if form is StepStarted:
                yield step
            else:
                yield StepCompleted(
                    step=step.step, start_s=step.time_s, end_s=step.time_s + 1, writer=step.writer
                )

    log = [started(0), *made(0, 50, 0), *made(back_to, 30, 50), *made(back_to, 40, 80), ended(120)]
    expected = {"productive": back_to + 40.0, "wasted_progress": 50.0 - back_to + 30}
    ledger = Ledger()
    for event in log:
        ledger.handle(event)
        ledger.account(T0)
    assert spent(ledger.account(T0)) == expected
    for seed in range(5):
        random.Random(seed).shuffle(log)
        assert spent(told(*log).account(T0)) == expected


def test_a_named_writer_goes_back_with_a_single_step_and_several_together_begin_one_life() -> None:
    again = [
        *starts(0, 10, 0, 1.0, "rank0"),
        *starts(0, 10, 0.25, 1.0, "rank1"),
        *starts(9, 6, 10, 1.0, "rank0"),
        *starts(9, 6, 10.25, 1.0, "rank1"),
    ]
    account = told(started(0), *again, ended(16)).account(T0)
    assert spent(account) == {"productive": 15.25, "wasted_progress": 0.75}


@pytest.mark.parametrize("behind", [0.25, 1.25, 2.5, 7.5])
def test_ranks_that_log_without_a_name_and_apart_are_no_restart(behind: float) -> None:
    account = told(started(0), *starts(0, 100, 0), *starts(0, 100, behind), ended(100 + behind)).account(T0)
    assert "wasted_progress" not in spent(account)
    assert account.steps == 100


def test_a_writers_last_word_is_the_same_in_any_form() -> None:
    evaluation = [
        IntervalStarted(kind="custom", name="eval", time_s=T0 + 12),
        IntervalEnded(kind="custom", name="eval", time_s=T0 + 15),
    ]
    expected = {"productive": 12.0, "custom:eval": 3.0}
    for whole in (evaluation, [interval("custom", 12, 15, "eval")]):
        assert spent(told(started(0), *starts(0, 10, 0), *whole).account(T0)) == expected
