"""The ledger: every second lies in exactly one bucket, whatever arrives in whatever order."""

import random
from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput import buckets
from scrtune.goodput.account import Account
from scrtune.goodput.buckets import BUCKETS, FLUSH_SLOWDOWN, TUNING
from scrtune.goodput.events import (
    AllocationEnded,
    FlushCompleted,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobHalted,
    JobQueued,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    OutputStarted,
    Recovered,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import CHARGED, Ledger

from ...support.memory import kept_bytes

T0 = 1_700_000_000.0
CLAIMED = set(BUCKETS) - {buckets.STARTUP, buckets.OTHER, buckets.RECOVERY}


def step(number: int, start: float, end: float) -> StepCompleted:
    return StepCompleted(step=number, start_s=T0 + start, end_s=T0 + end)


def output(dataset: int, start: float, end: float, **parts: float) -> OutputCompleted:
    return OutputCompleted(dataset=dataset, name=f"d{dataset}", start_s=T0 + start, end_s=T0 + end, **parts)


def started(at: float) -> JobStarted:
    return JobStarted(time_s=T0 + at)


def ended(at: float, code: int | None = 0) -> JobEnded:
    return JobEnded(time_s=T0 + at, exit_code=code)


def restart(start: float, end: float) -> RestartCompleted:
    return RestartCompleted(dataset=1, name="d1", start_s=T0 + start, end_s=T0 + end)


def recovered(kind: str, start: float, end: float, *, valid: bool = True) -> Recovered:
    return Recovered(kind=kind, dataset=1, start_s=T0 + start, end_s=T0 + end, valid=valid)


def account(*events: GoodputEvent, now: float) -> Account:
    ledger = Ledger()
    for event in events:
        ledger.handle(event)
    return ledger.account(T0 + now)


def spent(made: Account) -> dict[str, float]:
    return {bucket: round(seconds, 6) for bucket, seconds in made.buckets.items() if seconds > 0}


times = st.floats(0, 1000).map(lambda value: round(value, 3))
spans = st.tuples(times, st.floats(-5, 200).map(lambda value: round(value, 3)))
parts = st.floats(-1, 100)
events = st.one_of(
    times.map(started),
    st.tuples(times, st.sampled_from([None, 0, 1])).map(lambda pair: ended(*pair)),
    st.tuples(st.integers(0, 20), spans).map(lambda it: step(it[0], it[1][0], sum(it[1]))),
    st.tuples(st.integers(1, 9), spans, parts, parts, parts, parts).map(
        lambda it: output(
            it[0], it[1][0], sum(it[1]), write_s=it[2], encode_s=it[3], flush_s=it[4], wait_s=it[5]
        )
    ),
    spans.map(lambda span: restart(span[0], sum(span))),
    times.map(lambda at: OutputStarted(dataset=1, name="d", time_s=T0 + at)),
    spans.map(lambda span: FlushCompleted(dataset=1, start_s=T0 + span[0], end_s=T0 + sum(span))),
    times.map(lambda at: JobHalted(time_s=T0 + at)),
    times.map(lambda at: NodeFailed(time_s=T0 + at)),
    st.tuples(st.sampled_from(["fetch", "rebuild", "scavenge"]), spans).map(
        lambda it: recovered(it[0], it[1][0], sum(it[1]))
    ),
)


@given(
    st.lists(events, max_size=60),
    st.lists(st.tuples(st.sampled_from(CHARGED), st.floats(-50, 50)), max_size=5),
    st.floats(0, 3000),
)
def test_the_buckets_sum_to_the_wall_time_and_none_is_negative(
    seen: list[GoodputEvent], charges: list[tuple[str, float]], now: float
) -> None:
    ledger = Ledger()
    for event in seen:
        ledger.handle(event)
        made = ledger.account(T0 + now)
        assert sum(made.buckets.values()) == pytest.approx(made.wall_s, abs=1e-6)
        assert min(made.buckets.values()) >= 0
    for bucket, charge_s in charges:
        ledger.charge(bucket, charge_s)
    made = ledger.account(T0 + now)
    assert sum(made.buckets.values()) == pytest.approx(made.wall_s, abs=1e-6)
    assert min(made.buckets.values()) >= 0
    assert 0 <= made.goodput <= 1


@given(
    st.lists(spans.filter(lambda span: span[1] > 0), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
)
def test_claimed_time_is_the_union_of_the_claims_in_any_order(
    claims: list[tuple[float, float]], shuffler: random.Random
) -> None:
    seen: list[GoodputEvent] = [
        step(number, start, start + length) if number % 2 else output(number, start, start + length)
        for number, (start, length) in enumerate(claims)
    ]
    union, reached = 0.0, -1.0
    for start, length in sorted(claims):
        union += max(0.0, start + length - max(start, reached))
        reached = max(reached, start + length)
    shuffler.shuffle(seen)
    made = account(*seen, now=0)
    assert sum(made.buckets[bucket] for bucket in CLAIMED) == pytest.approx(union, abs=1e-5)
    wall = max(start + length for start, length in claims) - min(start for start, _ in claims)
    assert made.wall_s == pytest.approx(wall, abs=1e-5)


@given(st.lists(events, max_size=30))
def test_hearing_everything_twice_in_a_row_changes_no_second(seen: list[GoodputEvent]) -> None:
    kept = [event for event in seen if not isinstance(event, JobStarted | RestartCompleted)]
    once = account(started(0), *kept, now=2000)
    twice = account(started(0), *(event for event in kept for _ in range(2)), now=2000)
    assert twice.buckets == once.buckets
    assert (twice.wall_s, twice.steps) == (once.wall_s, once.steps)


def test_a_plain_run() -> None:
    made = account(
        started(0),
        step(0, 10, 20),
        output(1, 20, 30, write_s=6, encode_s=2, flush_s=1, wait_s=0.5),
        step(1, 31, 41),
        ended(45),
        now=100,
    )
    assert spent(made) == {
        "startup": 10.0,
        "productive": 20.0,
        "checkpoint_write": 6.0,
        "checkpoint_encode": 2.0,
        "checkpoint_flush": 1.0,
        "checkpoint_wait": 0.5,
        "checkpoint_other": 0.5,
        "other": 5.0,
    }
    assert made.wall_s == 45
    assert made.goodput == pytest.approx(20 / 45)
    assert (made.steps, made.checkpoints, made.runs) == (2, 1, 1)


def test_parts_that_exceed_what_was_felt_are_scaled_down() -> None:
    made = account(output(1, 0, 10, write_s=12, encode_s=8), now=10)
    assert spent(made) == {"checkpoint_write": 6.0, "checkpoint_encode": 4.0}


def test_a_crash_wastes_the_steps_that_are_computed_again_and_the_time_to_come_back() -> None:
    made = account(
        started(0),
        step(0, 0, 10),
        output(1, 10, 12),
        step(1, 12, 22),
        step(2, 22, 32),
        started(50),
        restart(51, 55),
        step(1, 60, 70),
        now=70,
    )
    assert spent(made) == {
        "productive": 20.0,
        "wasted_progress": 20.0,
        "checkpoint_other": 2.0,
        "recovery": 18.0,
        "startup": 6.0,
        "restore": 4.0,
    }
    assert made.runs == 2


def test_going_back_to_a_better_checkpoint_within_a_run_wastes_what_diverged() -> None:
    made = account(started(0), step(0, 0, 10), step(1, 10, 20), restart(20, 21), step(1, 21, 31), now=31)
    assert spent(made) == {"productive": 20.0, "wasted_progress": 10.0, "restore": 1.0}


def test_a_clean_end_and_a_later_run_are_one_job_and_no_recovery() -> None:
    made = account(started(0), step(0, 0, 10), ended(10), started(40), step(1, 41, 51), now=51)
    assert spent(made) == {"productive": 20.0, "other": 30.0, "startup": 1.0}


def test_an_end_at_the_second_at_which_the_next_run_starts_is_that_of_the_run_before() -> None:
    for told in permutations([step(0, 0, 10), ended(10), started(10), step(1, 12, 20)]):
        made = account(started(0), *told, now=25)
        assert spent(made) == {"productive": 18.0, "startup": 2.0, "other": 5.0}
        assert made.wall_s == 25  # the second run goes on


def test_an_end_with_an_error_is_recovered_from() -> None:
    made = account(started(0), step(0, 0, 10), ended(10, 0), ended(11, 1), started(40), now=40)
    assert spent(made)["recovery"] == 29.0


def test_a_job_that_scr_halted_ended_well() -> None:
    halted = account(
        started(0), step(1, 1, 9), JobHalted(time_s=T0 + 10, reason="TIME_LIMIT"), started(50), now=51
    )
    assert spent(halted) == {buckets.STARTUP: 2, buckets.PRODUCTIVE: 8, buckets.OTHER: 41}


def test_a_node_that_failed_makes_the_time_to_the_next_run_recovery_even_behind_a_good_end() -> None:
    failed = account(
        started(0), step(1, 1, 9), ended(10), NodeFailed(time_s=T0 + 12, node="n1"), started(50), now=51
    )
    assert spent(failed) == {
        buckets.STARTUP: 2,
        buckets.PRODUCTIVE: 8,
        buckets.OTHER: 1,
        buckets.RECOVERY: 40,
    }
    assert failed.node_failures == 1


def test_what_scr_brings_back_lies_each_in_its_own_bucket() -> None:
    came_back = account(
        started(0),
        step(1, 1, 9),
        recovered("scavenge", 12, 15),
        started(50),
        recovered("rebuild", 45, 48),
        recovered("fetch", 50, 54, valid=False),
        now=55,
    )
    assert spent(came_back) == {
        buckets.STARTUP: 2,
        buckets.PRODUCTIVE: 8,
        buckets.RECOVERY: 35,
        buckets.SCAVENGE: 3,
        buckets.REBUILD: 3,
        buckets.FETCH: 4,
    }
    assert came_back.recoveries == 2


def test_a_hang_is_no_goodput() -> None:
    made = account(started(0), step(0, 0, 10), now=3610)
    assert made.wall_s == 3610
    assert made.goodput == pytest.approx(10 / 3610)


def test_after_the_end_the_clock_stands_still() -> None:
    assert account(started(0), step(0, 0, 10), ended(12), now=500).wall_s == 12


def test_steps_of_many_writers_and_sparse_steps_count_once() -> None:
    made = account(started(0), step(10, 0, 10), step(10, 0.5, 10.5), step(20, 20, 30), now=30)
    assert made.steps == 2
    assert spent(made) == {"productive": 20.5, "other": 9.5}


def test_a_checkpoint_inside_a_step_is_not_productive_whichever_comes_first() -> None:
    inside, around = output(1, 3, 5), step(0, 0, 10)
    assert spent(account(inside, around, now=10)) == {"productive": 8.0, "checkpoint_other": 2.0}


def test_what_comes_late_claims_what_nobody_had() -> None:
    made = account(started(0), step(1, 20, 30), step(0, 5, 20), now=30)
    assert spent(made) == {"startup": 5.0, "productive": 25.0}


def test_a_job_start_that_comes_late_still_starts_the_clock() -> None:
    made = account(step(0, 10, 20), started(0), now=20)
    assert spent(made) == {"startup": 10.0, "productive": 10.0}


def test_loading_beside_the_steps_is_no_bucket_however_much_of_it_is_reported_by_starts_and_ends() -> None:
    """Many more than lie in one block: those that are settled are looked at in another way than the last."""
    ledger = Ledger()
    ledger.handle(started(0))
    for number in range(5000):
        begun = T0 + 10 * number
        ledger.handle(IntervalStarted(kind="data_loading_async", time_s=begun + 1))
        ledger.handle(IntervalEnded(kind="data_loading_async", time_s=begun + 4))
    made = ledger.account(T0 + 50_000)
    assert spent(made) == {"startup": 50_000}
    assert made.data_loading_async_s == 15_000


def save(start: float, end: float) -> Interval:
    return Interval(kind="checkpoint_save", start_s=T0 + start, end_s=T0 + end)


def save_starts(at: float, writer: str = "") -> IntervalStarted:
    return IntervalStarted(kind="checkpoint_save", time_s=T0 + at, writer=writer)


def save_ends(at: float, writer: str = "") -> IntervalEnded:
    return IntervalEnded(kind="checkpoint_save", time_s=T0 + at, writer=writer)


@pytest.mark.parametrize(
    ("told", "checkpoints"),
    [
        ([save(0, 1), save(1, 2)], 2),
        ([save(0, 1), save(5, 6), save(0, 1)], 2),
        ([save_starts(0), save_ends(1), save_starts(2), save_ends(3)], 2),
        ([save_starts(0), save_ends(1), save(0, 1)], 1),
        ([save_starts(0, "a"), save_starts(0.1, "b"), save_ends(1, "a"), save_ends(1.2, "b")], 1),
        ([save_starts(0), step(1, 5, 6), save_starts(7), save_ends(8)], 1),
        ([save_starts(0), started(5), save_starts(6), save_ends(7)], 1),
        ([save(0, 1), output(1, 5, 6)], 1),
        ([save(0, 1), OutputCompleted(dataset=1, name="d", start_s=T0, end_s=T0 + 1, valid=False)], 0),
        ([recovered("fetch", 0, 1), restart(2, 3)], 0),
    ],
)
def test_checkpoints_are_scrs_or_the_saves_of_who_knows_nothing_of_scr(
    told: list[GoodputEvent], checkpoints: int
) -> None:
    for order in permutations(told):
        assert account(*order, now=10).checkpoints == checkpoints
    assert account(*told, *told, now=10).checkpoints == checkpoints


def test_saves_are_counted_over_the_whole_of_a_long_job_and_after_each_event() -> None:
    ledger = Ledger(remembered=2000)
    for number in range(5000):
        begun = 10.0 * number
        for event in (step(number, begun, begun + 5), save_starts(begun + 6), save_ends(begun + 7)):
            ledger.handle(event)
        if number % 100 == 0:
            assert ledger.account(T0).checkpoints == number + 1
    ledger.handle(save_starts(50_000))
    assert ledger.account(T0).checkpoints == 5000
    ledger.handle(save(50_000.5, 50_001))
    ledger.handle(save_ends(50_002))
    assert ledger.account(T0).checkpoints == 5001


def test_slowdown_is_taken_from_the_steps_and_given_back_when_noise_overcharged() -> None:
    ledger = Ledger()
    for event in (started(0), step(0, 0, 10)):
        ledger.handle(event)
    ledger.charge(FLUSH_SLOWDOWN, 4)
    ledger.charge(FLUSH_SLOWDOWN, -1)
    assert spent(ledger.account(T0 + 10)) == {"productive": 7.0, "flush_slowdown": 3.0}
    ledger.charge(FLUSH_SLOWDOWN, 100)
    ledger.charge(FLUSH_SLOWDOWN, -500)
    assert spent(ledger.account(T0 + 10)) == {"productive": 10.0}


def test_what_trials_cost_is_taken_from_the_checkpoints_and_from_what_their_flushes_slowed_down() -> None:
    ledger = Ledger()
    for event in (started(0), step(0, 0, 10), output(1, 10, 14, write_s=3)):
        ledger.handle(event)
    ledger.charge(FLUSH_SLOWDOWN, 4)
    ledger.charge(TUNING, 2)
    assert spent(ledger.account(T0 + 14)) == {
        "productive": 6.0,
        "flush_slowdown": 3.0,
        "checkpoint_write": 2.25,
        "checkpoint_other": 0.75,
        "tuning": 2.0,
    }
    ledger.charge(TUNING, 100)
    assert spent(ledger.account(T0 + 14)) == {"productive": 6.0, "tuning": 8.0}
    ledger.charge(TUNING, -500)
    assert spent(ledger.account(T0 + 14))["flush_slowdown"] == 4.0


def test_an_interval_that_a_rank_began_before_another_reported_the_start_is_whole() -> None:
    made = account(
        IntervalStarted(kind="device_init", time_s=T0 + 9, writer="rank1"),
        started(10),
        IntervalEnded(kind="device_init", time_s=T0 + 15, writer="rank1"),
        step(0, 15, 20),
        now=20,
    )
    assert spent(made) == {"device_init": 6.0, "productive": 5.0}


def test_memory_is_bounded() -> None:
    def ledger(steps: int) -> Ledger:
        made = Ledger(remembered=1000)
        for number in range(steps):
            made.handle(StepStarted(step=number, time_s=T0 + 2 * number))
            made.handle(step(number, 2 * number, 2 * number + 1))
            if number % 500 == 0:
                made.account(T0)
        made.account(T0)
        return made

    assert kept_bytes(lambda: ledger(20_000)) < 1.25 * kept_bytes(lambda: ledger(5000))


def test_memory_is_bounded_also_of_what_claims_no_time() -> None:
    def ledger(queued: int) -> Ledger:
        made = Ledger(remembered=1000)
        for number in range(queued):
            made.handle(JobQueued(time_s=T0 + number))
            made.handle(JobStarted(time_s=T0 + number + 0.5, writer=f"rank{number}"))
            if number % 5000 == 0:
                made.account(T0)
        made.account(T0)
        return made

    assert kept_bytes(lambda: ledger(60_000)) < 1.25 * kept_bytes(lambda: ledger(30_000))


@pytest.mark.parametrize(
    "event",
    [
        lambda number: OutputStarted(dataset=number, name="never ends", time_s=T0 + number),
        lambda number: IntervalEnded(kind="custom", name="never begins", time_s=T0 + number),
    ],
)
def test_memory_is_bounded_also_of_ends_without_begins(event: Callable[[int], GoodputEvent]) -> None:
    def ledger(count: int) -> Ledger:
        made = Ledger(remembered=1000)
        for number in range(count):
            made.handle(event(number))
        made.account(T0)
        return made

    assert kept_bytes(lambda: ledger(30_000)) < 1.25 * kept_bytes(lambda: ledger(15_000))


def test_what_is_forgotten_still_counts() -> None:
    ledger = Ledger(remembered=10_000)
    for number in range(70_000):
        ledger.handle(StepStarted(step=number, time_s=T0 + 2 * number))
        ledger.handle(step(number, 2 * number, 2 * number + 1))
        if number % 5000 == 0:
            ledger.account(T0)
    made = ledger.account(T0)
    assert (made.wall_s, made.steps) == (139_999, 70_000)
    assert spent(made) == {buckets.PRODUCTIVE: 139_999}


def test_a_window_of_a_job_longer_than_what_is_remembered_begins_where_that_does() -> None:
    ledger = Ledger(remembered=2000)
    for number in range(10_000):
        ledger.handle(step(number, number, number + 0.5))
        if number % 1000 == 0:
            ledger.account(T0)
    window = ledger.window(T0, T0 + 10_000, T0 + 10_000)
    assert 1000 < window.wall_s < 4000
    assert window.goodput == pytest.approx(0.5, abs=0.01)


def custom(*borders: tuple[str, float], name: str = "x", kind: str = "custom") -> list[GoodputEvent]:
    made = {"start": IntervalStarted, "end": IntervalEnded}
    return [made[what](kind=kind, name=name, time_s=T0 + at) for what, at in borders]


@pytest.mark.parametrize(
    ("borders", "seconds"),
    [
        ([("start", 2), ("start", 3), ("end", 4), ("end", 9)], 7.0),
        ([("start", 1), ("start", 2), ("start", 3), ("end", 4), ("end", 5), ("end", 6)], 5.0),
        ([("start", 1), ("start", 2), ("end", 3), ("start", 4), ("end", 5), ("end", 9)], 8.0),
        ([("start", 1), ("start", 3), ("end", 4), ("start", 6), ("end", 7)], 4.0),  # an end was lost
        ([("start", 1), ("end", 2), ("end", 5), ("start", 6), ("end", 7)], 2.0),  # a start was lost
    ],
)
def test_intervals_of_the_same_name_may_lie_in_each_other(
    borders: list[tuple[str, float]], seconds: float
) -> None:
    for told in permutations(custom(*borders)):
        made = account(started(0), step(0, 0, 1), step(1, 19, 20), *told, now=20)
        assert spent(made)["custom:x"] == seconds


def test_intervals_of_one_kind_are_distinguished_by_their_names() -> None:
    outer = custom(("start", 1), ("end", 9), kind="elastic_slice_down")
    inner = custom(("start", 2), ("end", 3), kind="elastic_slice_down", name="y")
    for told in permutations([*outer, *inner]):
        assert spent(account(started(0), *told, now=10))["elastic_slice_down"] == 8.0


def test_an_interval_with_many_others_of_its_name_in_it_ends_with_its_own_end_however_late_that_comes() -> (
    None
):
    inner = [border for at in range(10) for border in (("start", 2 + at), ("end", 2.5 + at))]
    told = custom(("start", 1), *inner, ("end", 15))
    later = custom(*[(what, 20 + at) for at in range(100) for what in ("start", "end")])
    ledger = Ledger()
    for event in [started(0), *told, *later]:
        ledger.handle(event)
        ledger.account(T0)
    assert ledger.account(T0) == account(started(0), *told, *later, now=0)
    assert spent(ledger.account(T0))["custom:x"] == 14.0


def test_a_kind_of_which_no_end_is_ever_reported_lasts_from_start_to_start() -> None:
    ledger = Ledger()
    for number in range(1000):
        ledger.handle(IntervalStarted(kind="custom", time_s=T0 + number))
        if number % 10 == 0:
            ledger.account(T0)
    assert spent(ledger.account(T0)) == {"custom:unnamed": 999.0}


@pytest.mark.parametrize("queued", [10.0, 20.0])
def test_the_end_of_an_allocation_lasts_until_the_job_is_queued_again(queued: float) -> None:
    told = [AllocationEnded(time_s=T0 + 10), JobQueued(time_s=T0 + queued)]
    for each in permutations(told):
        made = account(started(0), step(0, 0, 10), *each, started(30), now=30)
        assert spent(made) == {
            name: seconds
            for name, seconds in (
                ("productive", 10.0),
                ("allocation_end", queued - 10),
                ("queue_wait", 30 - queued),
            )
            if seconds
        }


def test_a_job_that_was_queued_again_before_its_allocation_ended_waits_from_then_on() -> None:
    made = account(
        started(0),
        step(0, 0, 10),
        JobQueued(time_s=T0 + 5),
        AllocationEnded(time_s=T0 + 12),
        started(30),
        now=30,
    )
    assert spent(made) == {"productive": 10.0, "queue_wait": 20.0}


def test_a_step_that_may_be_a_hang_is_below_all_that_was_reported() -> None:
    waited = Interval(kind="queue_wait", start_s=T0 + 10, end_s=T0 + 30)
    begun = [StepStarted(step=number, time_s=T0 + at) for number, at in ((0, 0), (1, 40), (2, 41))]
    made = account(started(0), *begun, waited, now=41)
    assert spent(made) == {"queue_wait": 20.0, "productive": 2.0, "startup": 19.0}
    assert spent(account(started(0), step(0, 0, 40), step(1, 40, 41), waited, now=41)) == {"productive": 41.0}
