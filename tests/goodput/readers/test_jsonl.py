"""Logs of other systems, and our own: what they say, by whose rules, and what becomes of garbage."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.account import Account
from scrtune.goodput.compat.goodput_utils import BadputType
from scrtune.goodput.compat.peer.job import events_of
from scrtune.goodput.compat.peer.rules import compat_account
from scrtune.goodput.events import (
    INTERVAL_KINDS,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobQueued,
    JobStarted,
    OutputCompleted,
    SlicesObserved,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.ledger.ledger import Ledger
from scrtune.goodput.readers.detect import detect
from scrtune.goodput.readers.jsonl import MAX_JOBS, MAX_PROBLEMS, JobLog, Log, LogProblem, bulk_of
from scrtune.goodput.readers.launcher_log import as_goodput_events
from scrtune.goodput.readers.ml_goodput import NotUnderstoodError
from scrtune.goodput.readers.resiliency import (
    LauncherEvent,
    Metrics,
    metrics,
    microseconds,
    rows,
)
from scrtune.goodput.validation import span

DATA = Path(__file__).parents[2] / "data"
SAMPLE = DATA / "goodput" / "resiliency.jsonl"
PRIMER = DATA / "goodput" / "primer.jsonl"
PRIMER_LAUNCHER = DATA / "goodput" / "primer_resiliency.jsonl"
SAMPLE_JOB = "yejingxin-dev2-goodput-n1--a3h-unittest-09261818"


def read(*lines: bytes | str | dict[str, Any]) -> Log:
    log = Log()
    log.lines(b"\n".join(line if isinstance(line, bytes) else as_text(line).encode() for line in lines))
    return log


def as_text(line: str | dict[str, Any]) -> str:
    return line if isinstance(line, str) else json.dumps(line)


def read_file(path: Path) -> Log:
    log = Log()
    log.lines(path.read_bytes())
    return log


def account(said: Iterable[GoodputEvent], reference_step_s: float | None = None) -> Account:
    ledger = Ledger(remembered=None)
    ledger.extend(said)
    return ledger.account(
        max((span(event)[1] for event in said), default=0.0), reference_step_s=reference_step_s
    )


def events(*lines: bytes | str | dict[str, Any], job: str = "") -> list[GoodputEvent]:
    log = read(*lines)
    assert log.problems == []
    return list(log.jobs[job].events)


# ---- the resiliency library ----


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


# ---- ml-goodput-measurement, and Orbax beside it ----


def peer(**keys: Any) -> dict[str, Any]:
    return {"job_name": "run-1", **keys}


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


times = st.floats(0, 1e4)
KEYS_OF_TIME = (
    "job_start_time",
    "job_end_time",
    "tpu_init_start_time",
    "tpu_init_end_time",
    "data_loading_start_time",
)
happenings = st.one_of(
    st.builds(lambda key, time_s: {key: time_s}, st.sampled_from(KEYS_OF_TIME), times),
    st.builds(lambda step, time_s: {"step_count": step, "step_start_time": time_s}, st.integers(0, 9), times),
    st.builds(
        lambda edge, name, time_s: {
            "custom_badput_event_type": name,
            f"custom_badput_event_{edge}_time": time_s,
        },
        st.sampled_from(("start", "end")),
        st.sampled_from(("eval", "Sdc")),
        times,
    ),
    st.builds(
        lambda step, start_s, took_s, place: {
            "event_type": "save",
            "step": step,
            "directory": place,
            "checkpoint_manager_blocking_start_time": start_s,
            "checkpoint_manager_blocking_duration_secs": took_s,
        },
        st.none() | st.integers(0, 3),
        times,
        st.floats(0, 10),
        st.sampled_from(("gs://bucket", "/local", None)),
    ),
    st.builds(
        lambda edge, name, time_s: {"elastic_wait_event_type": name, f"elastic_wait_{edge}_time": time_s},
        st.sampled_from(("start", "end")),
        st.sampled_from(("scale_up", "Scale_Up_2", "slice_down", "lost", None)),
        times,
    ),
    st.builds(lambda start_s: {"type": "job_started", "time_s": start_s}, times | st.just(1e12)),
    st.builds(lambda start_s: {"type": 5, "job_end_time": start_s}, times),
)


@given(st.lists(happenings, max_size=30))
def test_the_compat_api_reads_from_a_log_what_every_other_reader_does(said: list[dict[str, Any]]) -> None:
    entries = [peer(job_start_time=0.0), *(peer(**entry) for entry in said)]
    log, found, unread = read(*entries), JobEvents(), 0
    for entry in entries:
        try:
            found.extend(events_of(entry))
        except NotUnderstoodError:
            unread += 1
    assert list(found) == list(log.jobs["run-1"].events)
    assert unread == log.garbage


OFTEN = ("step_started", "step_completed", "interval_started", "interval_ended")
steps_and_loads = st.lists(
    st.one_of(
        happenings,
        st.builds(
            lambda step, time_s: {"step_count": step, "step_start_time": time_s},
            st.integers(0, 9) | st.sampled_from((None, 5.0, 2**60, "5")),
            times | st.sampled_from((1e12, None)),
        ),
        st.dictionaries(
            st.sampled_from(("data_loading_start_time", "data_loading_end_time", "step_start_time")), times
        ),
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(
                    ("step_started", "step_completed", "interval_started", "interval_ended")
                )
            },
            optional={
                "step": st.integers(0, 9) | st.just(2**60),
                "time_s": times | st.just(1e12),
                "start_s": times,
                "end_s": times,
                "kind": st.sampled_from(("startup", "custom")),
                "writer": st.sampled_from(("a", "b")),
                "job_name": st.sampled_from(("x", "y")),
            },
        ),
    ),
    max_size=20,
)


@given(steps_and_loads)
def test_a_block_of_lines_says_what_its_lines_say_one_by_one(entries: list[dict[str, Any]]) -> None:
    block, lines = read(*entries), read(*({"jsonPayload": entry} for entry in entries))
    assert (block.problems, block.garbage, block.forms) == (lines.problems, lines.garbage, lines.forms)
    assert block.jobs.keys() == lines.jobs.keys()
    for name, job in block.jobs.items():
        assert list(job.events) == list(lines.jobs[name].events)


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


# ---- our own event log ----

seconds = st.floats(0, 4e9)
names = st.text(max_size=20)
own_events = st.one_of(
    st.builds(JobStarted, time_s=seconds, ranks=st.integers(1, 10**6)),
    st.builds(StepStarted, step=st.integers(-5, 2**53), time_s=seconds, writer=names),
    st.builds(
        lambda start_s, took_s, **rest: StepCompleted(start_s=start_s, end_s=start_s + took_s, **rest),
        start_s=seconds,
        took_s=st.floats(0, 1e6),
        step=st.integers(0, 2**53),
    ),
    st.builds(
        IntervalStarted, kind=st.sampled_from(INTERVAL_KINDS), time_s=seconds, name=names, writer=names
    ),
    st.builds(
        OutputCompleted, dataset=st.integers(1, 99), name=names, start_s=st.just(1.0), end_s=st.floats(1, 9)
    ),
)


@given(st.lists(st.tuples(own_events, names), max_size=20))
def test_every_event_of_ours_comes_back_from_its_line(said: list[tuple[GoodputEvent, str]]) -> None:
    lines = []
    for event, job in said:
        lines.append({**json.loads(msgspec.json.encode(event)), **({"job_name": job} if job else {})})
    log = read(*lines)
    assert (log.garbage, log.ignored) == (0, {})
    for job in {job for _, job in said}:
        expected = JobEvents(event for event, name in said if name == job)
        assert list(log.jobs[job].events) == list(expected)


def test_entries_of_another_use_or_a_later_version_are_passed_over_and_losses_are_reported() -> None:
    log = read(
        {"type": "settings_observed", "settings": {}},
        {"type": "invented_later", "time_s": 1.0},
        {"type": "events_lost", "source": "recorder", "count": 12},
        {"type": "step_started", "step": 1, "time_s": 1.0, "a_later_field": True},
    )
    assert (log.garbage, log.lost) == (0, 12)
    assert log.ignored == {"settings_observed": 1, "invented_later": 1, "events_lost": 1}
    assert len(log.jobs[""].events) == 1


# ---- garbage ----


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("no JSON at all", "no JSON object"),
        ('{"type":"step_started","step":1,"time_s":1.', "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ("{}", "an entry of no kind that is known"),
        ({"type": "step_started", "step": 1}, "no whole step_started event: .*time_s"),
        ({"type": "step_completed", "step": 1, "start_s": 2.0, "end_s": 1.0}, "an end before its start"),
        ({"type": "step_started", "step": 1, "time_s": 1e12}, "no epoch seconds"),
        (peer(step_count="three", step_start_time=1.0), "step_count is 'three', no whole number"),
        (peer(step_count=1.5, step_start_time=1.0), "step_count is 1.5, no whole number"),
        (peer(job_start_time="soon"), "job_start_time is 'soon', no epoch seconds"),
        (peer(job_start_time=True), "job_start_time is True, no epoch seconds"),
        (peer(event_type="save", step=1), "save without checkpoint_manager_blocking_start_time"),
        (peer(event_type="job_started"), "job_started without its timestamp"),
        (peer(event_type="job_started", timestamp="noon"), "'noon' is no time"),
        ({"jsonPayload": "text"}, "jsonPayload is no JSON object"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line_and_costs_no_other(line: Any, what: str) -> None:
    log = read("", peer(job_start_time=1.0), line, peer(job_end_time=2.0))
    (problem,) = log.problems
    assert problem.line == 3
    assert what.replace(".*", "") in problem.what or all(part in problem.what for part in what.split(".*"))
    assert log.garbage == 1
    assert list(log.jobs["run-1"].events) == [JobStarted(time_s=1.0), JobEnded(time_s=2.0)]


def test_much_garbage_is_counted_and_a_part_of_it_kept() -> None:
    log = read(*(b"garbage" for _ in range(500)))
    assert (log.garbage, len(log.problems)) == (500, MAX_PROBLEMS)
    assert log.problems[-1] == LogProblem(line=MAX_PROBLEMS, what="no JSON object")


def test_jobs_are_bounded() -> None:
    log = read(*({**peer(job_start_time=1.0), "job_name": str(number)} for number in range(MAX_JOBS + 3)))
    assert (len(log.jobs), log.garbage) == (MAX_JOBS, 3)


def test_lines_go_on_from_one_block_to_the_next() -> None:
    log = Log()
    log.lines(b'{"job_start_time":1}\n\n')
    log.lines(b"garbage\n")
    assert log.problems == [LogProblem(line=3, what="no JSON object")]


def test_what_lies_far_from_the_rest_of_its_job_is_garbage_when_it_is_read_again() -> None:
    lines = [peer(step_count=step, step_start_time=1e9 + step) for step in range(9)]
    lines.insert(4, peer(step_count=0, step_start_time=5.0))
    bulk = bulk_of(read(*lines).jobs.values())
    assert bulk is not None
    assert bulk_of(read(*lines[:4]).jobs.values()) is None
    log = Log({"run-1": bulk})
    log.lines("\n".join(map(json.dumps, lines)).encode())
    assert [problem.line for problem in log.problems] == [5]
    assert "1970-01-01 00:00:05 UTC is more than a year from the bulk" in log.problems[0].what
    assert len(log.jobs["run-1"].events) == 9


def test_an_array_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    log = Log()
    log.array(b'[\n{"job_name":"a","job_start_time":1},\n{"job_name":"a","job_e')
    assert list(log.jobs["a"].events) == [JobStarted(time_s=1.0)]
    assert [problem.line for problem in log.problems] == [3]


VALID = [line for path in (SAMPLE, PRIMER) for line in path.read_bytes().splitlines()] + [
    json.dumps(peer(step_count=1, step_start_time=2.0)).encode(),
    json.dumps({"jsonPayload": peer(event_type="save", step=1)}).encode(),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
KEYS = sorted(
    {key for line in VALID for key in json.loads(line)} | {"jsonPayload", "type", "job_end_time", "count"}
)
entries = st.dictionaries(
    st.sampled_from(KEYS), json_values | st.sampled_from(["save", "job_started", "interval"])
)


@st.composite
def torn(draw: st.DrawFn) -> bytes:
    """A valid line of which some bytes were lost or changed."""
    line = draw(st.sampled_from(VALID))
    at, length = draw(st.integers(0, len(line))), draw(st.integers(0, 20))
    return line[:at] + draw(st.binary(max_size=5)) + line[at + length :]


@given(
    st.lists(
        st.one_of(st.binary(max_size=80), torn(), st.sampled_from(VALID), entries.map(json.dumps)),
        max_size=20,
    )
)
def test_no_line_whatever_it_holds_raises_or_costs_another(lines: list[bytes | str]) -> None:
    text = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    whole = text.split(b"\n")
    log = Log()
    log.lines(text)
    counted = log.garbage + sum(log.forms.values()) + sum(log.ignored.values())
    said = [line for line in whole if line.strip() not in (b"", b"[", b"]", b",")]
    assert counted == len(said)
    log.array(text)
    detect(text)
    for job in log.jobs.values():
        metrics(job.launcher, 1.0)
        job.timeline()


def test_nesting_beyond_all_bounds_is_garbage() -> None:
    deep = b"[" * 100_000
    log = read(b'{"type":' + deep, b'{"job_start_time":' + deep)
    log.array(deep)
    assert log.garbage == 3
