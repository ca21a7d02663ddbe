"""Whose events they are: a recorder's job, its log and writer; what threads record; what the daemon gets."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.client.recorder import Recorder, program_name
from scrtune.goodput.events import (
    JobEnded,
)

from .recorded import NOON, NOON_S, read

pytestmark = pytest.mark.usefixtures("_no_job_around")


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
