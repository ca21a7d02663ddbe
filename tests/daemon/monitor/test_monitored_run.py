"""`scrtune run` with somebody who watches: a whole job, and the end that watching must not delay."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scrtune.cli import main as cli
from scrtune.client.paths import JOB_ID_VARIABLES, JobPaths
from scrtune.daemon.launch.environment import ConfigFiles, Job, JobOptions
from scrtune.daemon.options import Monitoring

APPLICATION = """
import re, sys, time, urllib.request
from scrtune.client.recorder import Recorder

def scraped(log):
    with open(log) as file:
        (url,) = re.findall(r"metrics at (http://\\S+)", file.read())
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()

def steps():
    for step in range(20):
        recorder.step_started(step)
        time.sleep(0.05)

recorder = Recorder(job_name="watched")
with recorder.job():
    with recorder.custom("warm up"):
        time.sleep(0.1)
    steps()
    if len(sys.argv) > 1:
        while "scrtune_goodput_ratio" not in (answer := scraped(sys.argv[1])):
            time.sleep(0.1)
        print(answer)
sys.exit(3)
"""


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a job with these options; the application exits with 3."""
    for name in JOB_ID_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "r"))
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))
    (tmp_path / "app.py").write_text(APPLICATION)

    def run(*options: str, arguments: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        command = ["run", "--job-id", "w", "--trace", "off", *options, "--"]
        return subprocess.run(
            [sys.executable, "-m", "scrtune", *command, sys.executable, "app.py", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_job_is_scraped_while_it_runs_and_written_down_when_it_ends(watched: Any, tmp_path: Path) -> None:
    log = JobPaths.of("w", base=tmp_path / "r").log
    options = ("--metrics", "0", "--csv", "g.csv", "--tensorboard", "tb")
    ran = watched(*options, arguments=(str(log),))
    assert ran.returncode == 3, ran.stderr
    assert re.search(r'^scrtune_time_seconds\{bucket="custom:warm up"\} 0\.\d', ran.stdout, re.MULTILINE)
    with (tmp_path / "g.csv").open(newline="") as file:
        last = [row for row in csv.DictReader(file) if not row["window_s"]][-1]
    assert (last["job_id"], last["runs"], last["last_step"]) == ("w", "1", "19")
    assert float(last["custom_s"]) >= 0.1
    assert float(last["productive_s"]) >= 19 * 0.05
    assert list((tmp_path / "tb").glob("*tfevents*"))


def test_a_job_ends_although_nothing_can_be_written(watched: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = watched("--csv", "pipe", "--tensorboard", "app.py/tb", "--metrics", "192.0.2.1:0")
    assert ran.returncode == 3, ran.stderr
    log = (JobPaths.of("w", base=tmp_path / "r").log).read_text()
    assert "metrics at 192.0.2.1:0: " in log
    assert "the last update is not done in time and is given up" in log
    assert "Traceback" not in log
    assert (tmp_path / "app.py").read_text() == APPLICATION


def test_what_fails_is_told_at_the_end_also_of_a_job_without_a_checkpoint(
    watched: Any, tmp_path: Path
) -> None:
    ran = watched("--csv", "app.py")
    assert ran.returncode == 3, ran.stderr
    assert "no checkpoint was seen" in ran.stderr
    failure = "its first line names no column time_s"
    assert f"scrtune: rows in {tmp_path}/app.py: {failure}" in ran.stderr
    assert (tmp_path / "app.py").read_text() == APPLICATION


def test_the_daemon_of_every_node_of_an_allocation_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitoring = Monitoring(metrics="9464", tensorboard=Path("/d/tb"), every_s=5.0, windows_s=(60,))
    asked = JobOptions(trace="off", monitoring=monitoring)
    job = Job(files=ConfigFiles(scr_conf=tmp_path / "scr.conf"), asked=asked)
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "r"))  # where what is old is forgotten
    served: list[Job] = []
    monkeypatch.setattr(
        "scrtune.cli.commands.services.serve_node", lambda _paths, job, _prolog: served.append(job)
    )
    arguments = ["node", "--prolog", "p", "--trace", asked.trace, *job.options()]
    assert CliRunner().invoke(cli.main, arguments, catch_exceptions=False).exit_code == 0
    assert served == [job]
