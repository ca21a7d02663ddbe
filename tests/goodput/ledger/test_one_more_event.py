"""What one more event costs: of a long time line only the end is derived and swept again.

Counted in function calls, which do not depend on the machine, and in the most memory that is taken meanwhile.
"""

import sys
import tracemalloc
from types import FrameType
from typing import NamedTuple

import pytest

from scrtune.goodput.events import (
    GoodputEvent,
    JobStarted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Account, Ledger

T0 = 1_700_000_000.0


class Cost(NamedTuple):
    """Of an account after more events; and that account."""

    calls: int
    peak_bytes: int
    account: Account

    def is_about(self, other: "Cost") -> bool:
        return self.calls <= 1.2 * other.calls and self.peak_bytes <= 4 * other.peak_bytes


def cost(ledger: Ledger, *events: GoodputEvent) -> Cost:
    calls = 0

    def count(_frame: FrameType, what: str, _argument: object) -> None:
        nonlocal calls
        calls += what in {"call", "c_call"}

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    sys.setprofile(count)
    try:
        account = asked_after(ledger, *events)
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return Cost(calls, peak - before, account)


def asked_after(ledger: Ledger, *events: GoodputEvent) -> Account:
    for event in events:
        ledger.handle(event)
    return ledger.account(T0)


def ledger_of(steps: int) -> Ledger:
    ledger = Ledger(remembered=None)
    ledger.extend(StepStarted(step=number, time_s=T0 + number) for number in range(steps - 1))
    ledger.account(T0)
    asked_after(ledger, StepStarted(step=steps - 1, time_s=T0 + steps - 1))
    return ledger


def test_one_more_step_of_a_long_job_costs_as_much_as_of_a_short_one() -> None:
    costs = []
    for steps in (20_000, 100_000):
        ledger = ledger_of(steps)
        costs.append(
            [
                cost(ledger, StepStarted(step=number, time_s=T0 + number))
                for number in range(steps, steps + 10)
            ]
        )
    assert all(of_long.is_about(of_short) for of_short, of_long in zip(*costs, strict=True))


def test_a_restart_that_is_reported_late_costs_what_it_changes() -> None:
    """A slow rank reports 2 s after the others went on from 500 steps before."""
    costs = []
    for steps in (20_000, 100_000):
        ledger, end_s = ledger_of(steps), T0 + steps
        asked_after(
            ledger,
            *(StepStarted(step=steps - 500 + more, time_s=end_s + 10 + 0.1 * more) for more in range(20)),
        )
        late = RestartCompleted(dataset=1, name="d", start_s=end_s + 3, end_s=end_s + 8)
        costs.append(cost(ledger, late))
    of_short, of_long = costs
    assert of_long.is_about(of_short)
    assert of_long.account.buckets["wasted_progress"] == pytest.approx(500, abs=4)


def test_one_more_step_of_one_of_many_writers_of_a_long_job_costs_as_much_as_of_a_short_one() -> None:
    costs = []
    writers = [f"rank {number}" for number in range(100)]
    for steps in (120, 600):
        ledger = Ledger(remembered=None)
        for step in range(steps):
            ledger.extend(StepStarted(step=step, time_s=T0 + step, writer=writer) for writer in writers)
            ledger.account(T0)
        costs.append(
            [
                cost(ledger, StepStarted(step=steps, time_s=T0 + steps, writer=writer))
                for writer in writers[:10]
            ]
        )
    assert all(of_long.is_about(of_short) for of_short, of_long in zip(*costs, strict=True))


@pytest.mark.parametrize("first", [0, 5, 300])
def test_restarts_reported_late_in_any_order_give_the_account_of_the_same_reported_in_time(
    first: int,
) -> None:
    """Also back to the first step of an attempt, and to one before it."""
    events: list[GoodputEvent] = [JobStarted(time_s=T0)]
    restarts: list[GoodputEvent] = []
    at, step = 1.0, 0
    for back in (first, first, 250, 100, 400, 100):
        for _ in range(400):
            events.append(StepCompleted(step=step, start_s=T0 + at, end_s=T0 + at + 1))
            at, step = at + 1, step + 1
        restarts.append(RestartCompleted(dataset=1, name="d", start_s=T0 + at, end_s=T0 + at + 2))
        at, step = at + 3, back
    in_time = Ledger(remembered=None)
    in_time.extend(sorted([*events, *restarts], key=lambda event: getattr(event, "start_s", 0.0)))
    for order in (restarts, restarts[::-1], restarts[::2] + restarts[1::2]):
        late = Ledger(remembered=None)
        late.extend(events)
        late.account(T0)
        for restart in order:
            asked_after(late, restart)
        assert late.account(T0 + at) == in_time.account(T0 + at)
