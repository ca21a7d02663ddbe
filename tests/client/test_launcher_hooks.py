"""The log lines of launchers and training loops, by the hooks of the resiliency library's guide."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from scrtune.cli.main import main
from scrtune.client import launcher_hooks as goodput_event
from scrtune.client import launcher_hooks as goodput_logging
from scrtune.goodput.readers.jsonl import Log
from scrtune.goodput.readers.resiliency import metrics

from .recorded import read

PATIENCE_S = 60.0
JOB = "dev2-goodput-n1"


@pytest.fixture(autouse=True)
def _job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("JOB_IDENTIFIER", JOB)
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))
    yield
    goodput_logging.writer_of(goodput_logging.launcher_log(JOB)).close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{JOB}-goodput.log"


def written(path: Path) -> Log:
    assert goodput_logging.writer_of(path).flush(PATIENCE_S)
    return read(path)


def test_the_lines_are_those_of_the_guide(path: Path) -> None:
    goodput_logging.log_event(event_type=goodput_event.JOB_STARTED, node_rank=0)
    goodput_logging.log_event(goodput_event.CHECKPOINT_LOADED, step=0)
    goodput_logging.log_event(goodput_event.CHECKPOINT_SAVED, step=500)
    goodput_logging.log_event(event_type=goodput_event.JOB_TERMINATED, node_rank=0)
    written(path)
    lines = path.read_bytes().splitlines()
    entries = [msgspec.json.decode(line) for line in lines]
    assert [list(entry) for entry in entries] == [
        ["timestamp", "job_name", "event_type", name] for name in ("node_rank", "step", "step", "node_rank")
    ]
    assert [entry["event_type"] for entry in entries] == [
        "job_started",
        "checkpoint_loaded",
        "checkpoint_saved",
        "job_terminated",
    ]
    for entry in entries:
        assert entry["job_name"] == JOB
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", entry["timestamp"])


def test_the_library_s_metrics_come_out_of_a_log_with_a_restart(path: Path) -> None:
    for first, saved in ((0, range(500, 4001, 500)), (4000, range(4500, 10001, 500))):
        goodput_logging.log_event(goodput_event.JOB_STARTED, node_rank=0)
        goodput_logging.log_event(goodput_event.CHECKPOINT_LOADED, step=first)
        for step in saved:
            goodput_logging.log_event(goodput_event.CHECKPOINT_SAVED, step=np.int64(step))
        goodput_logging.log_event(goodput_event.JOB_TERMINATED, node_rank=0)
    told = metrics(written(path).jobs[JOB].launcher, 0.002569)
    assert (told.total_events, told.job_started_count, told.checkpoints_loaded) == (27, 2, 1)
    assert (told.checkpoints_saved, told.min_loaded_step, told.max_saved_step) == (20, 0, 10000)
    assert told.effective_computation_time_s == pytest.approx(25.69)


def test_a_field_that_no_line_can_hold_stops_no_launcher(path: Path) -> None:
    goodput_logging.log_event(goodput_event.JOB_STARTED, node_rank=None)
    before = goodput_logging.writer_of(path).lost
    goodput_logging.log_event("\ud800")
    goodput_logging.log_event(goodput_event.CHECKPOINT_SAVED, step=3, where=Path("/scratch"))
    events = written(path).jobs[JOB].launcher
    assert [(event.kind, event.step) for event in events] == [("job_started", 0), ("checkpoint_saved", 3)]
    assert goodput_logging.writer_of(path).lost == before + 1


def test_a_launcher_that_ends_or_forks_leaves_its_events(path: Path) -> None:
    code = """
import os, sys
from scrtune.client import launcher_hooks
launcher_hooks.log_event(launcher_hooks.JOB_STARTED, node_rank=0)
if os.fork() == 0:
    launcher_hooks.log_event(launcher_hooks.CHECKPOINT_LOADED, step=7)
    sys.exit()
os.wait()
launcher_hooks.log_event(launcher_hooks.JOB_TERMINATED, node_rank=0)
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert ran.stderr == ""
    assert [event.kind for event in read(path).jobs[JOB].launcher] == [
        "job_started",
        "checkpoint_loaded",
        "job_terminated",
    ]


@pytest.mark.parametrize(
    ("end", "exit_code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os._exit(3)", 3),
        ("raise SystemExit(3)", 3),
    ],
)
def test_a_launcher_that_is_killed_has_said_what_it_said_before(path: Path, end: str, exit_code: int) -> None:
    code = f"""
import os, signal
from scrtune.client import launcher_hooks
launcher_hooks.log_event(launcher_hooks.JOB_STARTED, node_rank=0)
{end}
"""
    for _ in range(5):
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert (ran.returncode, ran.stderr) == (exit_code, b"")
    assert [event.kind for event in read(path).jobs[JOB].launcher] == ["job_started"] * 5


def test_events_of_exit_handlers_are_logged(path: Path) -> None:
    code = """
import atexit
from scrtune.client import launcher_hooks
atexit.register(launcher_hooks.log_event, launcher_hooks.JOB_TERMINATED)
launcher_hooks.log_event(launcher_hooks.JOB_STARTED)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert ran.stderr == ""
    assert [event.kind for event in read(path).jobs[JOB].launcher] == ["job_started", "job_terminated"]


@pytest.fixture
def full_pipe(path: Path) -> Iterator[int]:
    """A log whose every write hangs: a pipe that is full, and that nobody reads."""
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, b"\n" * 4096)
    yield pipe
    os.close(pipe)


@pytest.mark.usefixtures("full_pipe")
def test_a_log_that_hangs_is_waited_for_once_by_a_launcher_and_once_by_its_end(path: Path) -> None:
    # were each of them waited for, it would take ten times our patience
    lines = int(10 * PATIENCE_S / goodput_logging.WRITTEN_WITHIN_S)
    code = f"""
from scrtune.client import launcher_hooks
for step in range({lines}):
    launcher_hooks.log_event(launcher_hooks.CHECKPOINT_SAVED, step=step)
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert ran.stderr == f"scrtune: {lines} events are not in {path}: it does not take them\n"


@pytest.mark.parametrize(
    "fields", [{"step": "a"}, {"step": 2**80}, {"step": True}, {"node_rank": 1.5}, {"timestamp": "noon"}]
)
def test_bad_fields_are_counted_and_reported(
    path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, object]
) -> None:
    goodput_logging.log_event(goodput_event.JOB_STARTED, node_rank=0)
    goodput_logging.log_event(goodput_event.CHECKPOINT_SAVED, **fields)  # type: ignore[arg-type]
    assert [event.kind for event in written(path).jobs[JOB].launcher] == ["job_started"]
    assert goodput_logging.writer_of(path).lost == 1
    goodput_logging.writer_of(path).close()
    assert capsys.readouterr().err.startswith(f"scrtune: 1 events are not in {path}: ")


# --- scrtune record


def test_a_shell_script_records_as_well(path: Path) -> None:
    for arguments in (
        ["job_started", "--node-rank", "1"],
        ["checkpoint_loaded", "--step", "0"],
        ["checkpoint_saved", "--step", "500"],
        ["job_terminated"],
    ):
        ran = CliRunner().invoke(main, ["record", *arguments])
        assert (ran.exit_code, ran.output) == (0, "")
    events = read(path).jobs[JOB].launcher
    assert [(event.kind, event.step, event.node_rank) for event in events] == [
        ("job_started", 0, 1),
        ("checkpoint_loaded", 0, 0),
        ("checkpoint_saved", 500, 0),
        ("job_terminated", 0, 0),
    ]
    assert [event.time_us for event in events] == sorted(event.time_us for event in events)


def test_the_log_and_the_job_can_be_named(tmp_path: Path) -> None:
    log = tmp_path / "mine"
    ran = CliRunner().invoke(main, ["record", "job_started", "--job-name", "x/y", "--log", str(log)])
    assert ran.exit_code == 0
    assert list(read(log).jobs) == ["x/y"]
    assert CliRunner().invoke(main, ["record", "job_started", "--job-name", "x/y"]).exit_code == 0
    assert (tmp_path / "x_y-goodput.log").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["job_started", "--log", "/nowhere/log"], 1, "scrtune: /nowhere/log: No such file or directory; "),
        (["job_started", "--log", "/dev/full"], 1, "scrtune: /dev/full: No space left on device; "),
        (["job_paused"], 2, "'job_paused' is not one of"),
        (["checkpoint_saved", "--step", "-1"], 2, "-1 is not in the range x>=0"),
        ([], 2, "Missing argument 'EVENT'"),
    ],
)
def test_what_cannot_be_recorded_is_said(arguments: list[str], code: int, text: str) -> None:
    ran = CliRunner().invoke(main, ["record", *arguments])
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert text in ran.stderr


def test_a_script_waits_for_a_log_that_hangs_and_then_goes_on(path: Path, full_pipe: int) -> None:
    ran = CliRunner().invoke(main, ["record", "job_started"])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == (f"scrtune: {path}: the file system does not answer; name another file with --log\n")
    os.read(full_pipe, 1 << 20)  # the thread of this process goes on, too


def test_without_a_name_it_is_the_job_s_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JOB_IDENTIFIER")
    for name in ("SCRTUNE_JOB_ID", "SCR_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    assert CliRunner().invoke(main, ["record", "user_scheduled"]).exit_code == 0
    assert list(read(tmp_path / "4711-goodput.log").jobs) == ["4711"]
    assert list(tmp_path.iterdir()) == [tmp_path / "4711-goodput.log"]
