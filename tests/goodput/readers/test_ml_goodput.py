"""Entries of ml-goodput-measurement's recorder, and of Orbax beside it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.compat.goodput_utils import BadputType
from scrtune.goodput.compat.rules import compat_account
from scrtune.goodput.compat.store import CompatJob, log_of
from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    SlicesObserved,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.readers.detect import detect
from scrtune.goodput.readers.jsonl import Log

from ...support.list_logger import ListLogger
from ...support.read_logs import as_text, events, happenings, peer, read


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (peer(job_start_time=1.5), JobStarted(time_s=1.5)),
        (peer(job_end_time=9), JobEnded(time_s=9.0)),
        (peer(step_count=3.0, step_start_time=2.0), StepStarted(step=3, time_s=2.0)),
        (peer(tpu_init_start_time=1.0), IntervalStarted(kind="device_init", time_s=1.0)),
        (peer(tpu_init_end_time=2.0), IntervalEnded(kind="device_init", time_s=2.0)),
        (peer(training_prep_start_time=1.0), IntervalStarted(kind="training_prep", time_s=1.0)),
        (peer(data_loading_end_time=2.0), IntervalEnded(kind="data_loading", time_s=2.0)),
        (
            peer(custom_badput_event_type="eval_step", custom_badput_event_start_time=1.0),
            IntervalStarted(kind="custom", name="EVAL_STEP", time_s=1.0),
        ),
        (
            peer(elastic_wait_event_type="scale_up", elastic_wait_start_time=1.0),
            IntervalStarted(kind="elastic_scale_up", name="scale_up", time_s=1.0),
        ),
        (
            peer(elastic_wait_event_type="slice_down", elastic_wait_end_time=1.0),
            IntervalEnded(kind="elastic_slice_down", name="slice_down", time_s=1.0),
        ),
        (peer(elastic_reinit_start_time=1.0), IntervalStarted(kind="elastic_reinit", time_s=1.0)),
        (
            peer(active_slices=3, total_slices=4, available_slices=4, elastic_slice_counts_timestamp=1.0),
            SlicesObserved(time_s=1.0, active=3, total=4, available=4),
        ),
        (
            peer(
                event_type="save",
                step=5,
                directory="gs://bucket/run",
                checkpoint_manager_blocking_start_time=10.0,
                checkpoint_manager_blocking_duration_secs=2.5,
                checkpointer_blocking_start_time=None,
            ),
            Interval(kind="checkpoint_save", start_s=10.0, end_s=12.5, name="5 persistent"),
        ),
        (
            peer(
                event_type="restore",
                step=5,
                checkpoint_manager_start_time=10.0,
                checkpoint_manager_duration_secs=1.0,
            ),
            Interval(kind="checkpoint_restore", start_s=10.0, end_s=11.0, name="5 local"),
        ),
    ],
)
def test_every_kind_of_the_peers_entries_is_understood(entry: dict[str, Any], expected: GoodputEvent) -> None:
    assert events(entry, job="run-1") == [expected]


def test_entries_as_the_cloud_exports_them() -> None:
    wrapped = [
        {"insertId": "1", "logName": "projects/p/logs/g", "jsonPayload": peer(job_start_time=1.0)},
        {"insertId": "2", "timestamp": "2025-01-01T00:00:00Z", "jsonPayload": peer(job_end_time=2.0)},
        {"jsonPayload": {"type": "step_started", "step": 1, "time_s": 1.5, "job_name": "run-1"}},
        {
            "jsonPayload": {
                "timestamp": "1970-01-01T00:00:00",
                "job_name": "run-1",
                "event_type": "job_started",
                "node_rank": 0.0,
            }
        },
    ]
    expected = [JobStarted(time_s=1.0), StepStarted(step=1, time_s=1.5), JobEnded(time_s=2.0)]
    printed = json.dumps(wrapped, indent=2).encode()
    compact = json.dumps(wrapped).encode()
    for text in (printed, compact):
        log = Log()
        log.array(text)
        assert detect(text) == "json"
        assert (list(log.jobs["run-1"].events), log.problems) == (expected, [])
        assert [event.kind for event in log.jobs["run-1"].launcher] == ["job_started"]
    assert list(read(*wrapped).jobs["run-1"].events) == expected
    with_commas = read(b"[", *(as_text(each).encode() + b"," for each in wrapped), b"]")
    assert (list(with_commas.jobs["run-1"].events), with_commas.garbage) == (expected, 0)


def test_the_primer_as_dense_steps_is_what_the_facts_say_of_the_peer() -> None:
    minutes = 60.0
    entries = [peer(job_start_time=0.0)]
    entries += [
        peer(step_count=step, step_start_time=(5 + 2 * (step - 25)) * minutes) for step in range(25, 50)
    ]
    entries += [
        peer(step_count=step, step_start_time=(60 + 2 * (step - 50)) * minutes) for step in range(50, 71)
    ]
    entries += [peer(job_start_time=115 * minutes)]
    entries += [
        peer(step_count=step, step_start_time=(120 + 3 * (step - 50)) * minutes) for step in range(50, 76)
    ]
    entries += [peer(job_end_time=200 * minutes)]
    account = compat_account(events(*entries, job="run-1"), 0.0)
    assert account.goodput_percent == pytest.approx(67.5)


@given(st.lists(happenings, max_size=30))
def test_the_compat_api_reads_from_a_log_what_every_other_reader_does(said: list[dict[str, Any]]) -> None:
    entries = [peer(job_start_time=0.0), *(peer(**entry) for entry in said)]
    found = JobEvents(CompatJob(log_of(ListLogger(entries), ""), "run-1").events())
    assert list(found) == list(read(*entries).jobs["run-1"].events)


def test_a_save_in_two_places_is_two_and_what_several_hosts_say_of_one_is_its_mean() -> None:
    def save(took_s: float, directory: str) -> dict[str, Any]:
        return peer(
            event_type="save",
            step=1,
            directory=directory,
            checkpoint_manager_blocking_start_time=12.0,
            checkpoint_manager_blocking_duration_secs=took_s,
        )

    steps = [peer(step_count=step, step_start_time=10.0 * step) for step in range(5)]
    saves = [save(1.0, "/local"), save(2.0, "/local"), save(4.0, "gs://bucket")]
    said = [peer(job_start_time=0.0), *steps, *saves, peer(job_end_time=50.0)]
    account = compat_account(events(*said, job="run-1"), 0.0)
    assert account.badput_s[BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] == 1.5 + 4.0
