"""The resiliency library's log: the numbers of its guide, and the same log for a ledger."""

import pytest

from scrtune.goodput.events import Interval, JobEnded, JobQueued, JobStarted, StepStarted
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.readers.jsonl import JobLog
from scrtune.goodput.readers.launcher_log import as_goodput_events
from scrtune.goodput.readers.resiliency import LauncherEvent, Metrics, metrics, microseconds, rows

from ...support.read_logs import PRIMER_LAUNCHER, SAMPLE, SAMPLE_JOB, account, read_file


def test_the_sample_log_has_the_goodput_that_its_guide_prints() -> None:
    log = read_file(SAMPLE)
    told = metrics(log.jobs[SAMPLE_JOB].launcher, 0.002569)
    assert told.goodput_percentage == 21.724463746960755
    assert told.effective_computation_time_s == 25.69
    assert told.total_runtime_s == 118.253782
    assert rows(told) == [
        ("Total Events", "27"),
        ("Job Started Count", "2"),
        ("Checkpoints Loaded", "1"),
        ("Checkpoints Saved", "20"),
        ("Total Runtime (hours)", "0.03"),
        ("Min Loaded Step", "0"),
        ("Max Saved Step", "10000"),
        ("Step Difference", "10000"),
        ("Effective Computation Time (hours)", "0.01"),
        ("Goodput Percentage", "21.72%"),
    ]
    assert log.garbage == 0


def test_the_primers_example_has_half_its_time_for_goodput() -> None:
    told = metrics(read_file(PRIMER_LAUNCHER).jobs["primer"].launcher, 120.0)
    assert (told.min_loaded_step, told.max_saved_step, told.step_difference) == (25, 75, 50)
    assert (told.effective_computation_time_s, told.total_runtime_s) == (6000.0, 12000.0)
    assert told.goodput_percentage == 50.0


def launcher(kind: str, minute: float, **fields: int) -> LauncherEvent:
    return LauncherEvent(kind=kind, time_us=round(minute * 60e6), **fields)


def test_launchers_of_many_nodes_count_once_and_the_order_of_arrival_does_not_matter() -> None:
    said = [
        launcher("user_scheduled", 0),
        *(launcher("job_started", 1 + rank, node_rank=rank) for rank in range(3)),
        launcher("checkpoint_loaded", 5, step=100),
        launcher("checkpoint_saved", 10, step=200),
        launcher("user_terminated", 12),
        *(launcher("job_terminated", 13 + rank, node_rank=rank) for rank in range(3)),
    ]
    told = metrics(said, 8.0)
    assert (told.total_events, told.job_started_count) == (6, 1)
    assert told.total_runtime_s == 900.0
    assert told.goodput_percentage == 800 / 900 * 100
    assert metrics(reversed(said), 8.0) == told


def test_a_job_that_has_saved_nothing_has_no_goodput_to_tell() -> None:
    loaded = launcher("checkpoint_loaded", 1, step=7)
    assert metrics([]) == Metrics()
    for said in (
        [loaded],
        [launcher("checkpoint_saved", 2, step=9)],
        [loaded, launcher("checkpoint_saved", 2, step=7)],
    ):
        told = metrics(said, 1.0)
        assert (told.step_difference, told.goodput_percentage) == (None, None)
        assert [name for name, _ in rows(told)][-1] == "Total Runtime (hours)"


def test_without_a_reference_step_time_the_steps_are_reported() -> None:
    told = metrics(read_file(SAMPLE).jobs[SAMPLE_JOB].launcher)
    assert (told.step_difference, told.effective_computation_time_s) == (10000, None)


def test_a_launchers_log_is_runs_and_sparse_steps_for_a_ledger() -> None:
    timeline = read_file(SAMPLE).jobs[SAMPLE_JOB].timeline()
    starts = [event for event in timeline if isinstance(event, JobStarted)]
    ends = [event for event in timeline if isinstance(event, JobEnded)]
    steps = [event.step for event in timeline if isinstance(event, StepStarted)]
    assert len(starts) == 2
    assert [event.exit_code for event in ends] == [1, None]  # the first was followed by a restart
    assert steps == [*range(0, 4001, 500), *range(4000, 9501, 500), 9999]  # the last one ends with its save
    assert sum(isinstance(event, Interval) and event.kind == "checkpoint_save" for event in timeline) == 20
    made = account(timeline, 0.002569)
    assert (made.steps, made.checkpoints, made.runs) == (10000, 20, 2)
    assert made.buckets["restore"] == pytest.approx(33.614406)  # the second run read step 4000
    assert made.buckets["other"] == pytest.approx(2.004928)  # behind the last save of all
    assert not any(name.startswith("custom:") for name in made.buckets)


def test_launchers_that_start_one_behind_the_other_are_one_run_and_one_that_starts_again_another() -> None:
    said = [
        launcher("job_started", minute, node_rank=rank) for minute, rank in ((0, 0), (1, 1), (9, 1), (10, 0))
    ]
    timeline = as_goodput_events([launcher("user_scheduled", -1), *said])
    assert [event for event in timeline if not isinstance(event, Interval)] == [
        JobQueued(time_s=-60.0),
        JobStarted(time_s=0.0, nodes=2),
        JobStarted(time_s=540.0, nodes=2),
    ]


def test_a_launcher_is_silent_beside_a_job_that_speaks_for_itself() -> None:
    job = JobLog(events=JobEvents([JobStarted(time_s=5.0)]), launcher=[launcher("job_started", 0)])
    assert list(job.timeline()) == [JobStarted(time_s=5.0)]


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01T00:00:01.25Z", 1_250_000),
        ("1970-01-01T02:00:01+02:00", 1_000_000),
        ("1970-01-01T00:00:01.000001999Z", 1_000_002),  # to the nearest microsecond
    ],
)
def test_times_are_read_to_the_microsecond(text: str, expected_us: int) -> None:
    assert microseconds(text) == expected_us


@pytest.mark.parametrize("text", ["", "yesterday", "2025-13-01T00:00:00", "0001-01-01T00:00:00+14:00x", "12"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        microseconds(text)
