"""The events of each of a recorder's calls, in the log and at the daemon."""

import contextlib
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.client.recorder import Recorder, epoch_seconds, program_name
from scrtune.goodput.compat.peer.peer_names import PeerNames
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
from scrtune.goodput.readers.jsonl import Log
from scrtune.goodput.validation import defect

# a noon at which there may have been a job: what a recorder is told of is not years ago
NOON = datetime.now(timezone.utc).replace(hour=12, minute=0, second=0, microsecond=250_000) - timedelta(
    days=1
)
NOON_S = NOON.timestamp()


@pytest.fixture(autouse=True)
def _no_job_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SCRTUNE", "SLURM", "PMI", "OMPI", "FLUX", "SCR_")) or name.endswith("RANK"):
            monkeypatch.delenv(name)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder("j", writer="rank0", log=tmp_path / "log") as made:
        yield made


def read(path: Path) -> Log:
    log = Log()
    log.lines(path.read_bytes())
    assert log.problems == []
    return log


def recorded(recorder: Recorder) -> list[GoodputEvent]:
    assert recorder.flush(60.0)
    return list(read(recorder.log).jobs[recorder.job_name].events) if recorder.log.exists() else []


def started(kind: str, name: str = "") -> IntervalStarted:
    return IntervalStarted(kind=kind, time_s=NOON_S, name=name, writer="rank0")


def ended(kind: str, name: str = "") -> IntervalEnded:
    return IntervalEnded(kind=kind, time_s=NOON_S, name=name, writer="rank0")


# --- plain calls

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


# --- contexts


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


# --- what makes no event


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


# --- names


@pytest.mark.parametrize(
    ("environment", "writer"),
    [
        ({}, ""),
        ({"PMI_RANK": "3"}, "rank3"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "rank0"),
        ({"SLURM_PROCID": "7"}, "rank7"),
        ({"SLURM_PROCID": "1", "PMI_RANK": "5"}, "rank5"),
        ({"SLURM_PROCID": "1", "RANK": "9", "LOCAL_RANK": "1"}, "rank9"),
        ({"RANK": "9"}, ""),
        ({"PMI_RANK": "first"}, ""),
    ],
)
def test_a_writer_is_its_rank(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str], writer: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Recorder("j", log=tmp_path / "log").writer == writer


def test_the_log_is_named_by_the_job_and_lies_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Recorder("a/b c").log == tmp_path / "a_b_c-goodput.jsonl"
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", "/logs")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    unnamed = Recorder()
    assert (unnamed.job_name, unnamed.log) == ("4711", Path("/logs/4711-goodput.jsonl"))


COMMANDS = {
    "train": ["train.py", "--lr", "0.1"],
    "another setting": ["train.py", "--lr", "0.2"],
    "another program": ["evaluate.py"],
    "code": ["-c", "from scrtune.client.recorder import Recorder; Recorder().job_started()"],
    "other code": ["-c", "from scrtune.client.recorder import Recorder; Recorder().job_started(2)"],
}


def test_without_a_name_the_jobs_of_one_directory_do_not_mix_and_go_on_with_their_next_run(
    tmp_path: Path,
) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SCRTUNE")}
    for script in ("train.py", "evaluate.py"):
        (tmp_path / script).write_text(COMMANDS["code"][1])
    for _ in range(2):
        for command in COMMANDS.values():
            subprocess.run([sys.executable, *command], cwd=tmp_path, env=own, check=True, timeout=60)
    logs = [read(path) for path in tmp_path.glob("*-goodput.jsonl")]
    jobs = {name: job for log in logs for name, job in log.jobs.items()}
    assert len(logs) == len(jobs) == len(COMMANDS)
    assert [len(job.events) for job in jobs.values()] == [2] * len(COMMANDS)
    programs = sorted(name.rpartition("-")[0] for name in jobs)
    assert programs == ["evaluate", "python", "python", "train", "train"]


@pytest.mark.parametrize("option", ["--local_rank={}", "--local-rank={}", "--node_rank={}"])
def test_without_a_name_the_ranks_that_a_launcher_numbers_are_one_job(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    names = set()
    for rank in range(3):
        monkeypatch.setattr(sys, "argv", ["train.py", option.format(rank), "--lr", "0.1"])
        names.add(program_name())
    assert len(names) == 1


def test_a_program_without_a_name_or_a_directory_can_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    for argv in ([], [""], ["bytes \udcff"]):
        monkeypatch.setattr(sys, "argv", argv)
        assert program_name()


def test_every_line_names_its_job_whatever_it_is_called(tmp_path: Path) -> None:
    for name in ('with "quotes"', "caf\u00e9", "bytes \udcff"):
        with Recorder(name, log=tmp_path / "log") as recorder:
            recorder.job_ended(at=NOON)
    assert list(read(tmp_path / "log").jobs) == ['with "quotes"', "caf\u00e9", "bytes ?"]


# --- order

YESTERDAY_S = int(NOON_S)
CALLS: list[Callable[[Recorder, int], None]] = [
    lambda r, n: r.step_started(n, YESTERDAY_S + n),
    lambda r, n: r.started("data_loading", at=YESTERDAY_S + n),
    lambda r, n: r.ended("custom", "eval", YESTERDAY_S + n),
    lambda r, n: r.slices(n, n, n, YESTERDAY_S + n),
]


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from(CALLS), max_size=300), min_size=1, max_size=4), st.booleans())
def test_all_that_threads_record_arrives_once_and_in_each_threads_order(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[Callable[[Recorder, int], None]]], pause: bool
) -> None:
    path = tmp_path_factory.mktemp("threads") / "log"
    with Recorder("j", log=path) as recorder:

        def run(thread: int) -> None:
            for place, call in enumerate(calls[thread]):
                call(recorder, thread * 1000 + place)
                if pause and place % 50 == 0:
                    recorder.flush()

        threads = [threading.Thread(target=run, args=(thread,)) for thread in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = list(read(path).jobs["j"].events) if any(calls) else []
    times = [event.time_s - YESTERDAY_S for event in events]  # type: ignore[union-attr]
    for number, made in enumerate(calls):
        mine = [t for t in times if t // 1000 == number]
        assert mine == [number * 1000 + place for place in range(len(made))]
    assert recorder.lost == 0


# --- the daemon


def test_the_daemon_gets_the_same_events_as_the_log(
    real_daemon: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real_daemon.start()
    monkeypatch.setenv("SCRTUNE_JOB_ID", "j")
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(real_daemon.paths.base))
    now_s = time.time()
    with Recorder(writer="rank0", log=tmp_path / "log") as recorder:
        recorder.job_started(at=now_s - 10.0)
        for step in range(5):
            recorder.step_completed(step, now_s - 10.0 + step, now_s - 9.0 + step)
        recorder.job_ended(at=now_s - 5.0)
    assert real_daemon.until_events(7).counters.events == 7
    account = real_daemon.view("goodput").account
    assert (account.wall_s, account.buckets["productive"], account.steps) == pytest.approx((5.0, 5.0, 5))
    assert len(read(tmp_path / "log").jobs["j"].events) == 7


def test_a_metric_goes_to_the_daemon_whatever_its_value_is(
    real_daemon: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real_daemon.start()
    monkeypatch.setenv("SCRTUNE_JOB_ID", "j")
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(real_daemon.paths.base))
    with Recorder(writer="rank0", log=tmp_path / "log") as recorder:
        recorder.job_started()
        for step, value in enumerate([2.5, np.float32(2.25), 3, -1e300, "2.0"]):
            recorder.record_metric("loss", value, step)  # type: ignore[arg-type]
        recorder.record_metric("n" * 1000, 1.0, 5)
        for value in (float("nan"), np.inf):
            recorder.record_metric("loss", value, np.int64(6))  # type: ignore[arg-type]
        recorder.record_metric("loss", None, 7)  # type: ignore[arg-type]
        recorder.record_metric("loss", 1.0, "seven")  # type: ignore[arg-type]
        assert recorder.lost == 2, "what is no number, and a step that is none"
    real_daemon.until_events(9)
    (seen,) = (each for each in real_daemon.view("explain").intents if each.name == "divergence")
    assert seen.count == 7
    assert "loss is no finite number" in seen.sentence
    assert "loss is no finite number" in real_daemon.view("status").divergence
    told = read(tmp_path / "log")
    assert told.ignored["metric_observed"] == 8, "the log has them; goodput is not made of them"


def test_without_its_daemon_the_log_is_complete_and_the_loss_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCRTUNE_JOB_ID", "gone")
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / ("x" * 120)))
    with Recorder(log=tmp_path / "log") as recorder:
        recorder.job_ended(at=NOON)
    assert list(read(tmp_path / "log").jobs["gone"].events) == [JobEnded(time_s=NOON_S)]
    assert capsys.readouterr().err == "scrtune: 1 events did not reach the daemon\n"
