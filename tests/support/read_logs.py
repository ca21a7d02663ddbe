"""Logs of a job's time, read line by line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from scrtune.goodput.events import GoodputEvent
from scrtune.goodput.ledger.ledger import Account, Ledger
from scrtune.goodput.readers.jsonl import Log
from scrtune.goodput.validation import span

DATA = Path(__file__).parents[1] / "data"
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


def peer(**keys: Any) -> dict[str, Any]:
    return {"job_name": "run-1", **keys}


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
