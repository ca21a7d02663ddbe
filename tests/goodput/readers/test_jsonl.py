"""Our own event log, logs of mixed entries, and what cannot be read."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import (
    INTERVAL_KINDS,
    GoodputEvent,
    IntervalStarted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.readers.detect import detect
from scrtune.goodput.readers.jsonl import MAX_JOBS, MAX_PROBLEMS, Log, LogProblem, bulk_of
from scrtune.goodput.readers.resiliency import metrics

from ...support.read_logs import PRIMER, SAMPLE, happenings, peer, read, times

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
