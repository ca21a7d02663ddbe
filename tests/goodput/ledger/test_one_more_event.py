"""What one more event costs: of a long time line only what the event says something of is summed again."""

from collections.abc import Callable
from itertools import count

import pytest

from scrtune.goodput.events import (
    GoodputEvent,
    JobStarted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger import timeline
from scrtune.goodput.ledger.ledger import Account, Ledger
from scrtune.goodput.ledger.reckoning import Reckoning

T0 = 1_700_000_000.0


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many claims were summed since it was last asked; nothing may be worked out anew."""
    looked_at: list[int] = []

    def counting(claims: timeline.Claims, *rest: object) -> timeline.Longs:
        looked_at.append(len(claims.start))
        return real(claims, *rest)  # type: ignore[arg-type]

    def asked() -> int:
        made = sum(looked_at)
        looked_at.clear()
        return made

    real = timeline.sweep
    monkeypatch.setattr(timeline, "sweep", counting)
    return asked


def fail(*_: object) -> None:
    raise AssertionError("worked out anew")


def asked_after(ledger: Ledger, *events: GoodputEvent) -> Account:
    for event in events:
        ledger.handle(event)
    return ledger.account(T0)


def test_one_more_step_of_a_long_job(summed: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(remembered=None)
    ledger.extend(StepStarted(step=number, time_s=T0 + number) for number in range(100_000))
    ledger.account(T0)
    assert summed() >= 100_000
    monkeypatch.setattr(Reckoning, "_work_out", fail)
    for number in range(100_000, 100_010):
        asked_after(ledger, StepStarted(step=number, time_s=T0 + number))
        assert summed() <= 4 * timeline.BLOCK


def test_a_restart_that_is_told_late_costs_what_it_changes(
    summed: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow rank reports 2 s after the others went on from 500 steps before."""
    ledger = Ledger(remembered=None)
    ledger.extend(StepStarted(step=number, time_s=T0 + number) for number in range(100_000))
    asked_after(
        ledger, *(StepStarted(step=99_500 + more, time_s=T0 + 100_010 + 0.1 * more) for more in range(20))
    )
    late = RestartCompleted(dataset=1, name="d", start_s=T0 + 100_003, end_s=T0 + 100_008)
    summed()
    monkeypatch.setattr(Reckoning, "_work_out", fail)
    made = asked_after(ledger, late)
    assert summed() <= 4 * timeline.BLOCK
    assert made.buckets["wasted_progress"] == pytest.approx(500, abs=4)


def test_one_more_step_of_one_of_many_writers(
    summed: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = [f"rank {number}" for number in range(1000)]
    ledger = Ledger(remembered=None)
    for step in range(20):
        ledger.extend(StepStarted(step=step, time_s=T0 + step, writer=writer) for writer in writers)
    ledger.account(T0)
    summed()
    monkeypatch.setattr(Reckoning, "_work_out", fail)
    read = count()
    real = timeline.Timeline.exchange

    def counting(self: timeline.Timeline, *derived: timeline.Derived) -> None:
        next(read)
        real(self, *derived)

    monkeypatch.setattr(timeline.Timeline, "exchange", counting)
    for number, writer in enumerate(writers[:10]):
        asked_after(ledger, StepStarted(step=20, time_s=T0 + 20, writer=writer))
        assert next(read) == 2 * number + 1  # what one writer's tokens stand for, and no other's
        assert summed() <= 12 * timeline.BLOCK


@pytest.mark.parametrize("first", [0, 5, 300])
def test_restarts_told_late_in_any_order_give_the_account_of_the_same_told_in_time(first: int) -> None:
    """Also back to the first step of a life, and to one before it."""
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
