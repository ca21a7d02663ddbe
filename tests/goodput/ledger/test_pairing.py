"""Intervals that are reported by starts and ends."""

from itertools import permutations

import pytest

from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    OutputCompleted,
)
from scrtune.goodput.ledger.ledger import Ledger

from ...support.short_job import T0, account, output, recovered, restart, spent, started, step


def test_an_interval_that_a_rank_began_before_another_reported_the_start_is_whole() -> None:
    made = account(
        IntervalStarted(kind="device_init", time_s=T0 + 9, writer="rank1"),
        started(10),
        IntervalEnded(kind="device_init", time_s=T0 + 15, writer="rank1"),
        step(0, 15, 20),
        now=20,
    )
    assert spent(made) == {"device_init": 6.0, "productive": 5.0}


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
