"""Events of a short job from `T0` on, and where its time went."""

from collections.abc import Iterator

from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    JobEnded,
    JobStarted,
    OutputCompleted,
    Recovered,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Account, Ledger

T0 = 1_700_000_000.0


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
    return told(*events).account(T0 + now)


def spent(made: Account) -> dict[str, float]:
    return {bucket: round(seconds, 6) for bucket, seconds in made.buckets.items() if seconds}


def told(*log: GoodputEvent) -> Ledger:
    ledger = Ledger()
    for event in log:
        ledger.handle(event)
    return ledger


def starts(first: int, count: int, at: float, each: float = 1.0, writer: str = "") -> Iterator[StepStarted]:
    return (
        StepStarted(step=first + index, time_s=T0 + at + index * each, writer=writer)
        for index in range(count)
    )


def interval(kind: str, start: float, end: float, name: str = "") -> Interval:
    return Interval(kind=kind, start_s=T0 + start, end_s=T0 + end, name=name)
