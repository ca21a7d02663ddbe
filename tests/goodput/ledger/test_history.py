"""A ledger's memory is bounded, and what it forgets still counts."""

from collections.abc import Callable

import pytest

from scrtune.goodput import buckets
from scrtune.goodput.events import (
    GoodputEvent,
    IntervalEnded,
    IntervalStarted,
    JobQueued,
    JobStarted,
    OutputStarted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Ledger

from ...support.memory import kept_bytes
from ...support.short_job import T0, spent, step


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

    assert kept_bytes(lambda: ledger(40_000)) < 1.25 * kept_bytes(lambda: ledger(20_000))


def test_many_writers_and_few_claims_lose_nothing_to_that_bound() -> None:
    ledger, knows = Ledger(remembered=1000), Ledger(remembered=None)
    for number in range(40):
        events: list[GoodputEvent] = [
            StepStarted(step=number, time_s=T0 + 2 * number, writer=f"rank{rank}") for rank in range(2000)
        ]
        load = {"kind": "data_loading", "writer": "rank0"}
        events += [
            IntervalStarted(time_s=T0 + 2 * number + 1, **load),
            IntervalEnded(time_s=T0 + 2 * number + 1.5, **load),
        ]
        for event in events:
            ledger.handle(event)
            knows.handle(event)
    assert ledger.account(T0 + 80) == knows.account(T0 + 80)


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

    assert kept_bytes(lambda: ledger(40_000)) < 1.25 * kept_bytes(lambda: ledger(20_000))


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
