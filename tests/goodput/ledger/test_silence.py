"""Until when a job was alive, and what the time is behind its last word."""

from itertools import permutations

from scrtune.goodput.events import (
    AllocationEnded,
    FlushCompleted,
    GoodputEvent,
    JobEnded,
    JobQueued,
    JobStarted,
    NodeFailed,
    SlicesObserved,
    StepCompleted,
)
from scrtune.goodput.ledger.ledger import Account, Ledger

T0 = 1_700_000_000.0
STARTED = JobStarted(time_s=T0)
STEP = StepCompleted(step=0, start_s=T0, end_s=T0 + 9)
FLUSH = FlushCompleted(dataset=1, start_s=T0 + 5, end_s=T0 + 60, asynchronous=True)
SLICES = SlicesObserved(time_s=T0 + 60, active=1, total=2)


def account(*told: GoodputEvent, now: float) -> Account:
    """The same in any order."""
    made = []
    for order in permutations(told):
        ledger = Ledger()
        for event in order:
            ledger.handle(event)
        made.append(ledger.account(T0 + now))
    assert all(each == made[0] for each in made)
    return made[0]


def spent(*told: GoodputEvent, now: float) -> dict[str, float]:
    buckets = account(*told, now=now).buckets
    return {bucket: round(seconds, 6) for bucket, seconds in buckets.items() if seconds}


def test_the_account_reaches_from_the_earliest_time_that_any_event_names_to_the_latest() -> None:
    for late in (FLUSH, SLICES):
        assert account(STARTED, STEP, late, now=0).wall_s == 60
        assert spent(STARTED, STEP, late, now=0) == {"productive": 9, "other": 51}
    early = SlicesObserved(time_s=T0 - 3, active=1, total=2)
    assert account(STARTED, STEP, early, now=0).wall_s == 12


def test_a_run_was_alive_when_a_flush_ended_or_its_slices_were_looked_at() -> None:
    again = JobStarted(time_s=T0 + 100)
    assert spent(STARTED, STEP, again, now=100) == {"productive": 9, "recovery": 91}
    for word in (FLUSH, SLICES):
        assert spent(STARTED, STEP, word, again, now=100) == {"productive": 9, "other": 51, "recovery": 40}


def test_a_node_that_fails_in_a_run_that_goes_on_is_recovered_from_until_the_run_is_heard_of() -> None:
    failed = NodeFailed(time_s=T0 + 20, node="n1")
    assert spent(STARTED, STEP, failed, now=50) == {"productive": 9, "other": 11, "recovery": 30}
    later = StepCompleted(step=1, start_s=T0 + 40, end_s=T0 + 50)
    assert spent(STARTED, STEP, failed, later, now=50) == {"productive": 19, "other": 31}


def test_a_job_that_is_queued_waits_whatever_fails_meanwhile() -> None:
    queued, failed = JobQueued(time_s=T0 + 20), NodeFailed(time_s=T0 + 30, node="n1")
    assert spent(STARTED, STEP, queued, failed, now=50) == {"productive": 9, "other": 11, "queue_wait": 30}
    before = NodeFailed(time_s=T0 + 12, node="n1")
    assert spent(STARTED, STEP, before, queued, failed, now=50) == {
        "productive": 9,
        "other": 3,
        "recovery": 8,
        "queue_wait": 30,
    }
    over = AllocationEnded(time_s=T0 + 20)
    assert spent(STARTED, STEP, over, failed, now=50) == {"productive": 9, "other": 11, "allocation_end": 30}


def test_what_comes_behind_the_end_that_a_run_reported_is_the_jobs_time_as_well() -> None:
    ended = JobEnded(time_s=T0 + 10, exit_code=0)
    assert spent(STARTED, STEP, ended, now=500) == {"productive": 9, "other": 1}
    assert spent(STARTED, STEP, ended, FLUSH, now=500) == {"productive": 9, "other": 51}
