"""The events of each of a recorder's calls, and which calls make none."""

import contextlib
import inspect
import time
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.recorder import Recorder, epoch_seconds
from scrtune.goodput.compat.recorder_names import PeerNames
from scrtune.goodput.events import (
    INTERVAL_KINDS,
    AllocationEnded,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobQueued,
    JobStarted,
    SlicesObserved,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.validation import defect

from .recorded import NOON, NOON_S, read

pytestmark = pytest.mark.usefixtures("_no_job_around")


def recorded(recorder: Recorder) -> list[GoodputEvent]:
    assert recorder.flush(60.0)
    return list(read(recorder.log).jobs[recorder.job_name].events) if recorder.log.exists() else []


def started(kind: str, name: str = "") -> IntervalStarted:
    return IntervalStarted(kind=kind, time_s=NOON_S, name=name, writer="rank0")


def ended(kind: str, name: str = "") -> IntervalEnded:
    return IntervalEnded(kind=kind, time_s=NOON_S, name=name, writer="rank0")


PEERS_CALLS: list[tuple[str, tuple[Any, ...], GoodputEvent]] = [
    ("record_job_start_time", (NOON,), JobStarted(time_s=NOON_S, writer="rank0")),
    ("record_job_end_time", (NOON,), JobEnded(time_s=NOON_S, writer="rank0")),
    ("record_step_start_time", (5, NOON), StepStarted(step=5, time_s=NOON_S, writer="rank0")),
    ("record_tpu_init_start_time", (NOON,), started("device_init")),
    ("record_tpu_init_end_time", (NOON,), ended("device_init")),
    ("record_training_preparation_start_time", (NOON,), started("training_prep")),
    ("record_training_preparation_end_time", (NOON,), ended("training_prep")),
    ("record_data_loading_start_time", (NOON,), started("data_loading")),
    ("record_data_loading_end_time", (NOON,), ended("data_loading")),
    ("record_custom_badput_event_start_time", (NOON, "eval_step"), started("custom", "EVAL_STEP")),
    ("record_custom_badput_event_end_time", (NOON, "eval_step"), ended("custom", "EVAL_STEP")),
    ("record_custom_badput_event_start_time", (NOON,), started("custom", "UNKNOWN")),
    (
        "record_checkpoint_save",
        (5, NOON_S - 2, NOON, "gs://bucket"),
        Interval(
            kind="checkpoint_save", start_s=NOON_S - 2, end_s=NOON_S, name="5 persistent", writer="rank0"
        ),
    ),
    (
        "record_checkpoint_restore",
        (5, NOON_S - 1, NOON),
        Interval(kind="checkpoint_restore", start_s=NOON_S - 1, end_s=NOON_S, name="5 local", writer="rank0"),
    ),
    (
        "record_elastic_slice_counts",
        (4, 8, 6, NOON),
        SlicesObserved(time_s=NOON_S, active=4, total=8, available=6),
    ),
    ("record_elastic_wait_start_time", ("scale_up", NOON), started("elastic_scale_up", "scale_up")),
    ("record_elastic_wait_end_time", ("scale_up", NOON), ended("elastic_scale_up", "scale_up")),
    ("record_elastic_wait_start_time", ("slice_down", NOON), started("elastic_slice_down", "slice_down")),
    ("record_elastic_wait_end_time", ("slice_down", NOON), ended("elastic_slice_down", "slice_down")),
    ("record_elastic_reinit_start_time", (NOON,), started("elastic_reinit")),
    ("record_elastic_reinit_end_time", (NOON,), ended("elastic_reinit")),
]


@pytest.mark.parametrize(("name", "arguments", "event"), PEERS_CALLS)
def test_each_call_of_the_peers_recorders_makes_one_event(
    recorder: Recorder, name: str, arguments: tuple[Any, ...], event: GoodputEvent
) -> None:
    getattr(recorder, name)(*arguments)
    assert recorded(recorder) == [event]


def test_the_peers_names_take_the_arguments_that_its_documentation_passes() -> None:
    keywords = {
        "record_step_start_time": ["step", "start_time"],
        "record_custom_badput_event_start_time": ["start_time", "custom_badput_event_type"],
        "record_custom_badput_event_end_time": ["end_time", "custom_badput_event_type"],
        "record_elastic_slice_counts": ["active_slices", "total_slices", "available_slices", "timestamp"],
        "record_elastic_wait_start_time": ["event_type", "start_time"],
        "record_elastic_wait_end_time": ["event_type", "end_time"],
        "record_checkpoint_progress": ["step", "checkpoint_start_time"],
        # as our recorder with the peer's name has them
        "record_checkpoint_save": ["step", "start_time", "end_time", "directory"],
        "record_checkpoint_restore": ["step", "start_time", "end_time", "directory"],
    }
    names = [name for name in dir(PeerNames) if name.startswith("record_")]
    assert set(names) == {name for name, _, _ in PEERS_CALLS} | {"record_checkpoint_progress"}
    for name in names:
        default = ["start_time" if "start" in name else "end_time"]
        taken = [each for each in inspect.signature(getattr(Recorder, name)).parameters if each != "self"]
        assert taken == keywords.get(name, default), name


def test_the_progress_of_a_checkpoint_is_taken_and_makes_no_event(recorder: Recorder) -> None:
    recorder.record_checkpoint_progress(5, NOON)
    recorder.job_ended(at=NOON)
    assert recorded(recorder) == [JobEnded(time_s=NOON_S, writer="rank0")]


@pytest.mark.parametrize(
    ("call", "event"),
    [
        (lambda r: r.job_started(8, 2, NOON), JobStarted(time_s=NOON_S, ranks=8, nodes=2, writer="rank0")),
        (lambda r: r.job_ended(3, NOON), JobEnded(time_s=NOON_S, exit_code=3, writer="rank0")),
        (lambda r: r.job_ended(np.int64(3), NOON), JobEnded(time_s=NOON_S, exit_code=3, writer="rank0")),
        (lambda r: r.job_queued(NOON), JobQueued(time_s=NOON_S)),
        (lambda r: r.allocation_ended(NOON), AllocationEnded(time_s=NOON_S)),
        (lambda r: r.step_started(7, NOON), StepStarted(step=7, time_s=NOON_S, writer="rank0")),
        (
            lambda r: r.step_completed(7, NOON, NOON_S + 2.0),
            StepCompleted(step=7, start_s=NOON_S, end_s=NOON_S + 2.0, writer="rank0"),
        ),
        (lambda r: r.started("recovery", at=NOON), started("recovery")),
        (lambda r: r.ended("queue_wait", at=NOON), ended("queue_wait")),
        (lambda r: r.started("sdc_check", at=NOON), started("custom", "sdc_check")),
        (lambda r: r.slices(4, 8, at=NOON), SlicesObserved(time_s=NOON_S, active=4, total=8)),
        (
            lambda r: r.record(Interval(kind="startup", start_s=NOON_S, end_s=NOON_S + 1.0)),
            Interval(kind="startup", start_s=NOON_S, end_s=NOON_S + 1.0),
        ),
    ],
)
def test_each_call_makes_one_event(
    recorder: Recorder, call: Callable[[Recorder], None], event: GoodputEvent
) -> None:
    call(recorder)
    assert recorded(recorder) == [event]


def test_a_time_is_now_a_datetime_with_a_zone_or_without_one_or_epoch_seconds(recorder: Recorder) -> None:
    before_s = time.time()
    recorder.record_job_start_time()
    after_s = time.time()
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-8)))
    local = NOON.astimezone().replace(tzinfo=None)
    for moment in (elsewhere, local, NOON_S, np.float64(NOON_S)):
        recorder.record_job_start_time(moment)
    started = [event for event in recorded(recorder) if isinstance(event, JobStarted)]
    others = [event for event in started if event.time_s != NOON_S]
    assert [before_s <= event.time_s <= after_s for event in others] == [True]
    assert started.count(JobStarted(time_s=NOON_S, writer="rank0")) == len(started) - 1 == 4


@given(st.floats())
def test_a_time_is_one_that_the_daemon_takes(time_s: float) -> None:
    try:
        taken = epoch_seconds(time_s)
    except ValueError:
        assert defect(JobQueued(time_s=time_s), time.time()) is not None
    else:
        assert taken == time_s
        assert defect(JobQueued(time_s=time_s), time.time()) is None


@pytest.mark.parametrize("off_s", [-366 * 86_400 + 60, -1, 3540])
def test_a_time_may_be_a_year_ago_or_an_hour_ahead(recorder: Recorder, off_s: int) -> None:
    time_s = float(round(time.time()) + off_s)
    recorder.job_queued(at=time_s)
    assert recorded(recorder) == [JobQueued(time_s=time_s)]
    assert defect(JobQueued(time_s=time_s), time.time()) is None


def test_steps_may_be_of_an_array_library(recorder: Recorder) -> None:
    for step in np.arange(3, 6):
        recorder.record_step_start_time(step, NOON)
    assert recorded(recorder) == [StepStarted(step=step, time_s=NOON_S, writer="rank0") for step in (3, 4, 5)]


@pytest.mark.parametrize(
    ("enter", "kind", "name"),
    [
        (lambda r: r.device_init(), "device_init", ""),
        (lambda r: r.training_prep(), "training_prep", ""),
        (lambda r: r.startup(), "startup", ""),
        (lambda r: r.data_loading(), "data_loading", ""),
        (lambda r: r.data_loading(asynchronous=True), "data_loading_async", ""),
        (lambda r: r.checkpoint_save(500), "checkpoint_save", "500"),
        (lambda r: r.checkpoint_restore("step.5"), "checkpoint_restore", "step.5"),
        (lambda r: r.custom("eval"), "custom", "eval"),
        (lambda r: r.elastic_wait("scale_up"), "elastic_scale_up", "scale_up"),
        (lambda r: r.elastic_wait("slice_down"), "elastic_slice_down", "slice_down"),
        (lambda r: r.elastic_reinit(), "elastic_reinit", ""),
        (lambda r: r.interval("recovery"), "recovery", ""),
    ],
)
def test_a_context_is_an_interval_whatever_ends_it(
    recorder: Recorder, enter: Callable[[Recorder], Any], kind: str, name: str
) -> None:
    with pytest.raises(ZeroDivisionError), enter(recorder):
        1 / 0  # noqa: B018
    begin, end = recorded(recorder)
    assert isinstance(begin, IntervalStarted)
    assert isinstance(end, IntervalEnded)
    assert (begin.kind, begin.name) == (end.kind, end.name) == (kind, name)
    assert kind in INTERVAL_KINDS
    assert begin.time_s <= end.time_s


def test_a_step_that_raises_was_not_completed(recorder: Recorder) -> None:
    with recorder.step(1):
        pass
    with pytest.raises(KeyError), recorder.step(2):
        raise KeyError
    (only,) = recorded(recorder)
    assert isinstance(only, StepCompleted)
    assert (only.step, only.writer) == (1, "rank0")
    assert only.start_s <= only.end_s


@pytest.mark.parametrize(
    ("error", "exit_code"), [(None, 0), (RuntimeError(), 1), (SystemExit(), 0), (SystemExit(2), 1)]
)
def test_the_end_of_a_job_has_its_exit_code(
    recorder: Recorder, error: BaseException | None, exit_code: int
) -> None:
    with contextlib.suppress(RuntimeError, SystemExit), recorder.job(ranks=8, nodes=2):
        if error is not None:
            raise error
    begin, end = recorded(recorder)
    assert isinstance(begin, JobStarted)
    assert (begin.ranks, begin.nodes) == (8, 2)
    assert isinstance(end, JobEnded)
    assert end.exit_code == exit_code


class Hostile:
    def __int__(self) -> int:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.record_step_start_time("seven"),
        lambda r: r.record_checkpoint_save(Hostile(), NOON),
        lambda r: r.record_checkpoint_restore(5, "noon"),
        lambda r: r.record_step_start_time(None),
        lambda r: r.record_step_start_time(1, "yesterday"),
        lambda r: r.record_step_start_time(1, float("nan")),
        lambda r: r.record_step_start_time(2**80),
        lambda r: r.record_step_start_time(float("inf")),
        lambda r: r.step_started(7, at="2025"),
        lambda r: r.step_started(7, at=b"2025"),
        lambda r: r.step_started(7, at=True),
        lambda r: r.step_started(7, at=2025),
        lambda r: r.step_started(7, at=NOON_S * 1000),
        lambda r: r.step_started(7, at=NOON_S + 10 * 365 * 86_400),
        lambda r: r.step_completed(7, NOON, NOON_S - 1),
        lambda r: r.checkpointed("checkpoint_save", 7, NOON, NOON_S - 1),
        lambda r: r.job_started(ranks="all"),
        lambda r: r.job_ended(exit_code="a"),
        lambda r: r.job_ended(exit_code=2**63),
        lambda r: r.slices(1, 2, 2**54),
        lambda r: r.record(JobEnded(time_s=NOON_S, exit_code="a")),  # type: ignore[arg-type]
        lambda r: r.record(JobEnded(time_s=2025.0)),
        lambda r: r.record(StepStarted(step=2**60, time_s=NOON_S)),
        lambda r: r.record(Interval(kind="startup", start_s=NOON_S, end_s=NOON_S - 1)),
        lambda r: r.started(Hostile()),
        lambda r: r.started("custom", Hostile()),
        lambda r: r.started("custom", "\ud800"),
        lambda r: r.slices(1, None),
        lambda r: r.record(object()),
        lambda r: r.record_elastic_wait_start_time(Hostile()),
    ],
)
def test_bad_arguments_are_counted_and_reported_and_affect_no_other_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: Callable[[Recorder], None]
) -> None:
    with Recorder("j", log=tmp_path / "log") as recorder:
        call(recorder)
        recorder.job_ended(at=NOON)
    log = read(tmp_path / "log")
    assert list(log.jobs["j"].events) == [JobEnded(time_s=NOON_S)]
    assert recorder.lost == log.lost == 1
    assert log.garbage == 0
    told = capsys.readouterr().err
    assert told.startswith(f"scrtune: 1 events are not in {tmp_path / 'log'}: ")


def test_a_recorder_that_is_not_enabled_does_nothing(tmp_path: Path) -> None:
    with Recorder("j", log=tmp_path / "log", enabled=False) as recorder:
        recorder.record_step_start_time(1)
        recorder.record_step_start_time("seven")  # type: ignore[arg-type]
        with recorder.job(), recorder.custom("eval"):
            pass
    assert recorder.lost == 0
    assert list(tmp_path.iterdir()) == []


def test_events_after_the_end_are_counted_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder("j", log=tmp_path / "log")
    recorder.close()
    assert capsys.readouterr().err == ""
    recorder.record_step_start_time(1)
    for _ in range(2):
        recorder.close()
    assert recorder.lost == 1
    assert recorder.flush()
    assert capsys.readouterr().err.count("1 events are not in ") == 1
