"""The resiliency library's log in the ledger: every second has a place, and one that a reader recognises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    JobEnded,
    JobStarted,
    StepStarted,
)
from scrtune.goodput.interval.failures import failures_of
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.ledger.ledger import Account, Ledger
from scrtune.goodput.readers.jsonl import JobLog
from scrtune.goodput.readers.launcher_log import (
    EstimatedLoss,
    as_goodput_events,
    estimated_loss,
    with_real_end,
)
from scrtune.goodput.readers.resiliency import (
    KINDS,
    LauncherEvent,
    metrics,
)
from scrtune.goodput.validation import span


def launcher(kind: str, minute: float, **fields: int) -> LauncherEvent:
    return LauncherEvent(kind=kind, time_us=round(minute * 60e6), **fields)


def started(minute: float, rank: int = 0) -> LauncherEvent:
    return launcher("job_started", minute, node_rank=rank)


def loaded(minute: float, step: int) -> LauncherEvent:
    return launcher("checkpoint_loaded", minute, step=step)


def saved(minute: float, step: int) -> LauncherEvent:
    return launcher("checkpoint_saved", minute, step=step)


def terminated(minute: float, rank: int = 0) -> LauncherEvent:
    return launcher("job_terminated", minute, node_rank=rank)


def by_user(minute: float) -> LauncherEvent:
    return launcher("user_terminated", minute)


def accounted(events: list[GoodputEvent], **wanted: float) -> Account:
    ledger = Ledger(remembered=None)
    ledger.extend(events)
    return ledger.account(max((span(event)[1] for event in events), default=0.0), **wanted)


def minutes(events: list[GoodputEvent], **wanted: float) -> dict[str, float]:
    """What the time went to, without what got none."""
    buckets = accounted(events, **wanted).buckets
    return {name: round(spent_s / 60, 6) for name, spent_s in buckets.items() if spent_s}


PRIMER = [
    started(0),
    loaded(5, 25),
    saved(60, 50),
    terminated(100),
    started(115),
    loaded(120, 50),
    saved(200, 75),
    terminated(200),
]


def test_the_primers_rows_come_out_as_far_as_a_launchers_log_tells_them() -> None:
    events = as_goodput_events(PRIMER)
    assert minutes(events, reference_step_s=120.0) == {
        "productive": 100,
        "restore": 10,  # Checkpoint Loading
        "wasted_progress": 40,  # Training Progress Loss
        "recovery": 15,  # Job Restart
        "step_slowdown": 35,  # Training Slowdown and Checkpoint Saving: how long that took is not told
    }
    account = accounted(events)
    assert (account.steps, account.checkpoints, account.runs) == (50, 2, 2)


def test_a_job_that_the_user_ends_later_lasts_until_then() -> None:
    events = as_goodput_events([started(0), loaded(5, 0), saved(60, 50), terminated(142), by_user(150)])
    assert minutes(events) == {"startup": 5, "productive": 55, "other": 90}


def test_the_last_step_is_whole_when_only_the_user_ends_the_job() -> None:
    events = as_goodput_events([started(0), loaded(5, 0), saved(60, 50), by_user(100)])
    assert minutes(events) == {"startup": 5, "productive": 55, "other": 40}
    assert accounted(events).steps == 50


def test_the_last_step_is_whole_while_the_job_still_runs() -> None:
    events = as_goodput_events([started(0), loaded(5, 0), saved(60, 50)])
    assert minutes(events) == {"startup": 5, "productive": 55}
    assert accounted(events).steps == 50
    assert not any(isinstance(event, JobEnded) for event in events)


def test_a_pause_after_the_user_ended_a_run_is_no_recovery() -> None:
    said = [
        started(0),
        loaded(5, 0),
        saved(60, 50),
        by_user(70),
        started(100),
        loaded(110, 50),
        saved(120, 60),
    ]
    assert minutes(as_goodput_events(said)) == {
        "startup": 5,
        "productive": 65,
        "wasted_progress": 10,
        "other": 30,
        "restore": 10,
    }


def test_a_run_that_saved_nothing_was_not_productive() -> None:
    events = as_goodput_events([started(0), loaded(5, 0), terminated(100)])
    assert minutes(events) == {"startup": 5, "other": 95}
    assert accounted(events).steps == 0


def test_what_a_run_made_behind_its_last_save_is_lost_as_soon_as_another_one_starts() -> None:
    said = [started(0), loaded(5, 0), saved(60, 50), terminated(70), started(80)]
    expected = {"startup": 5, "productive": 55, "wasted_progress": 10, "recovery": 10}
    assert minutes(as_goodput_events(said)) == expected
    assert minutes(as_goodput_events([*said, terminated(90)])) == {**expected, "startup": 15}
    again = [*said, loaded(90, 50), saved(100, 60)]
    assert minutes(as_goodput_events(again)) == {**expected, "productive": 65, "restore": 10}


def test_launchers_that_end_late_are_of_the_run_before() -> None:
    said = [
        *(started(minute, rank) for minute, rank in ((0, 0), (1, 1), (2, 2))),
        *(loaded(5, 0), saved(60, 50), terminated(70, 0)),
        *(started(80, 0), terminated(81, 1), started(82, 1), terminated(83, 2), started(84, 2)),
        *(loaded(90, 50), saved(100, 60), terminated(100, 0), terminated(100, 1), terminated(100, 2)),
    ]
    events = as_goodput_events(said)
    assert [event for event in events if isinstance(event, JobStarted)] == [
        JobStarted(time_s=0.0, nodes=3),
        JobStarted(time_s=4800.0, nodes=3),
    ]
    assert minutes(events) == {
        "startup": 5,
        "productive": 65,
        "wasted_progress": 10,
        "recovery": 10,
        "restore": 10,
    }


def loss(said: list[LauncherEvent]) -> EstimatedLoss | None:
    return estimated_loss(JobEvents(as_goodput_events(said)))


def test_the_end_of_a_run_that_nobody_recorded_is_estimated() -> None:
    first = [started(0), loaded(5, 0), saved(25, 20), saved(45, 40), saved(65, 60)]
    again = [loaded(5, 60), saved(25, 80)]
    for pause, lost in ((10, 5), (20, 10), (500, 10)):  # at most until the next save was due, 20 min on
        begin = 65 + pause
        said = [
            *first,
            started(begin),
            *(launcher(e.kind, begin + e.time_s / 60, step=e.step) for e in again),
        ]
        assert minutes(as_goodput_events(said)) == {
            "startup": 5,
            "productive": 80,
            "wasted_progress": lost,
            "recovery": pause - lost,
            "restore": 5,
        }
        assert loss(said) == EstimatedLoss(runs=1, lost_s=60.0 * lost, most_s=120.0 * lost)
        assert failures_of(JobEvents(as_goodput_events(said))).total == 1
    assert loss(first) is None


def test_what_was_made_since_a_load_is_lost_as_well() -> None:
    said = [started(0), loaded(5, 0), saved(15, 10), started(20), loaded(25, 10), started(45), loaded(50, 10)]
    assert loss(said) == EstimatedLoss(runs=2, lost_s=(2.5 + 5) * 60, most_s=(5 + 10) * 60)
    assert minutes(as_goodput_events(said))["wasted_progress"] == 7.5


def test_where_one_launcher_ended_and_the_others_went_on_the_end_is_estimated_too() -> None:
    said = [started(0), started(0, 1), loaded(5, 0), saved(15, 10), terminated(16, 1), saved(25, 20)]
    assert loss([*said, started(35), loaded(40, 20)]) == EstimatedLoss(runs=1, lost_s=300.0, most_s=600.0)
    ended = [*said, terminated(26), started(35), loaded(40, 20)]
    assert loss(ended) is None
    assert minutes(as_goodput_events(ended))["wasted_progress"] == 1


def test_sixty_seven_disruptions_of_a_hundred_nodes_lose_work() -> None:
    said, at, step = [], 0.0, 0
    for _ in range(68):
        said += [started(at + node / 1000, node) for node in range(112)]
        said.append(loaded(at + 2, step))
        for save in range(1, 4):
            said.append(saved(at + 2 + 7 * save, step + 100 * save))
        step, at = step + 300, at + 2 + 21 + 0.66
    found = loss(said)
    assert found is not None
    assert (found.runs, found.lost_s) == (67, pytest.approx(67 * 0.33 * 60, rel=1e-3))
    account = accounted(as_goodput_events(said))
    assert account.runs == 68
    assert account.buckets["wasted_progress"] == pytest.approx(found.lost_s, abs=1e-3)
    assert account.buckets["recovery"] == pytest.approx(67 * 0.66 * 60 - found.lost_s, abs=1e-3)


def test_estimated_ends_are_none_for_rules_by_which_a_job_ends_there() -> None:
    said = [
        started(0),
        loaded(5, 0),
        saved(15, 10),
        started(20),
        loaded(25, 10),
        saved(35, 20),
        terminated(40),
    ]
    events = JobEvents(as_goodput_events(said))
    assert [event.writer for event in events.others if isinstance(event, JobEnded)] == ["(estimated)", ""]
    ends = [event for event in with_real_end(events, said).others if isinstance(event, JobEnded)]
    assert ends == [JobEnded(time_s=2100.0), JobEnded(time_s=2400.0)]
    assert with_real_end(events, ()) is events


def test_each_run_that_another_one_follows_counts_as_a_failure_unless_the_user_ended_it() -> None:
    for end, failures in ((terminated(70), 1), (by_user(70), 0)):
        said = [started(0), loaded(5, 0), saved(60, 50), end, started(80), saved(90, 60)]
        assert failures_of(JobEvents(as_goodput_events(said))).total == failures


def test_a_load_within_a_run_wastes_what_was_made_beyond_it() -> None:
    said = [started(0), loaded(10, 25), saved(60, 50), saved(100, 70), loaded(120, 50), saved(200, 75)]
    events = as_goodput_events([*said, terminated(200)])
    assert minutes(events, reference_step_s=120.0) == {
        "restore": 10,
        "productive": 100,
        "wasted_progress": 60,  # 60..100 is computed again; when it broke off between 100 and 120 is not told
        "step_slowdown": 30,
    }
    assert accounted(events).steps == 50


steps = st.integers(0, 5).map(lambda number: number * 10)


@given(
    st.lists(
        st.builds(
            LauncherEvent,
            kind=st.sampled_from(KINDS),
            time_us=st.integers(0, 200).map(lambda minute: minute * 60_000_000),
            step=steps,
            node_rank=st.integers(0, 2),
        ),
        max_size=14,
    )
)
def test_the_buckets_of_any_log_sum_to_the_runtime_that_its_table_has(said: list[LauncherEvent]) -> None:
    account = accounted(as_goodput_events(said))
    told = metrics(said)
    assert account.wall_s == pytest.approx(told.total_runtime_s)
    assert sum(account.buckets.values()) == pytest.approx(told.total_runtime_s)
    assert not any(name.startswith("custom:") for name in account.buckets)


# ---- beside what the job tells itself ----


def test_beside_a_job_its_launcher_adds_ends_and_saves() -> None:
    own: list[GoodputEvent] = [
        JobStarted(time_s=0.0),
        *(StepStarted(step=number, time_s=60.0 + 10 * number) for number in range(10)),
    ]
    said = [started(0), loaded(1, 0), saved(2, 5), terminated(3)]
    events = JobLog(events=JobEvents(own), launcher=said).timeline()
    assert [event for event in events if event not in own] == [
        Interval(kind="checkpoint_save", start_s=120.0, end_s=120.0),
        JobEnded(time_s=180.0),
    ]
    account = accounted(events)
    assert (account.wall_s, account.checkpoints, account.runs) == (180.0, 1, 1)
    ended = JobLog(events=JobEvents([*own, JobEnded(time_s=170.0)]), launcher=said).timeline()
    assert list(ended)[-1] == JobEnded(time_s=170.0)


def test_a_launcher_that_started_again_tells_that_the_run_before_failed() -> None:
    own: list[GoodputEvent] = [JobStarted(time_s=0.0), JobStarted(time_s=600.0)]
    events = JobLog(
        events=JobEvents(own), launcher=[started(0), terminated(8), started(10), terminated(20)]
    ).timeline()
    assert [event.exit_code for event in events if isinstance(event, JobEnded)] == [1, None]


def test_steps_of_the_job_are_never_mixed_with_those_between_its_checkpoints() -> None:
    own: list[GoodputEvent] = [StepStarted(step=number, time_s=60.0 * number) for number in range(1, 4)]
    events = JobLog(
        events=JobEvents(own), launcher=[started(0), loaded(1, 0), saved(3, 2), terminated(5)]
    ).timeline()
    assert [event for event in events if isinstance(event, StepStarted)] == own
    assert [event for event in events if isinstance(event, JobStarted)] == [JobStarted(time_s=0.0)]
