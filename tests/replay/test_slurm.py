"""Traces read by jobs of a real Slurm: two nodes, a worker of Dask on each."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from scrtune.cli.main import main
from scrtune.examples.study_traces import CACHE, PREFIX, RUNS, write_run

from ..support.slurm_cluster import Cluster, running_cluster, why_not

pytest.importorskip("dask_jobqueue")
pytestmark = [pytest.mark.slurm]
if reason := why_not():
    pytestmark.append(pytest.mark.skip(reason=reason))

NODES = ["n1", "n2"]
JOBS = {
    "cores": 1,
    "memory": "500MB",
    "interface": "lo",
    "job-cpu": 4,  # a node for each
    "log-directory": "logs",
    "job-script-prologue": ["uname -n"],
    "scheduler-options": {"dashboard_address": "127.0.0.1:0"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(len(NODES)) as cluster:
        yield cluster


def study(
    cluster: Cluster, directory: Path, *arguments: str, **jobs: object
) -> "subprocess.CompletedProcess[str]":
    """Run `scrtune study` with the jobs of this Slurm as its workers."""
    (directory / "jobqueue.yaml").write_text(json.dumps({"jobqueue": {"slurm": JOBS | jobs}}))  # JSON is YAML
    return subprocess.run(
        [sys.executable, "-m", "scrtune", "study", *arguments],
        cwd=directory,
        env={
            **cluster.environment,
            "DASK_CONFIG": str(directory),
            "XDG_CACHE_HOME": str(directory / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_two_jobs_of_slurm_give_the_answer_of_one_machine(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("base", "scr_pfs_one"):
        write_run(tmp_path / name, RUNS[name], 4)
    runs = [f"{name}={tmp_path / name}" for name in ("base", "scr_pfs_one")]
    asked = [*runs, "--prefix", PREFIX, "--cache", CACHE, "--reread", "--format", "json"]
    there = study(cluster, tmp_path, *asked, "--scheduler", "slurm:2")
    assert there.returncode == 0, there.stderr
    assert there.stdout == CliRunner().invoke(main, ["study", *asked]).stdout
    logs = sorted((tmp_path / "logs").glob("*.out"))
    assert sorted(log.read_text().partition("\n")[0] for log in logs) == NODES
    assert cluster.run(["squeue", "-h"]) == "", "the jobs have ended with the study"


def test_jobs_that_stay_in_the_queue_are_waited_for_as_long_as_is_said(
    cluster: Cluster, tmp_path: Path
) -> None:
    write_run(tmp_path / "base", RUNS["base"], 4, ranks=2)
    asked = (f"base={tmp_path / 'base'}", "--scheduler", "slurm:2", "--scheduler-wait", "4s")
    ended = study(cluster, tmp_path, *asked, **{"job-extra-directives": ["--begin=now+1hour"]})
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "scrtune: waiting for a worker of slurm:2, 4.00 s at most" in ended.stderr
    assert "scrtune: no worker of slurm:2 has come in 4.00 s: squeue --me says" in ended.stderr
    assert cluster.run(["squeue", "-h"]) == "", "no job is left in the queue"
