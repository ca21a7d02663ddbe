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


def test_two_jobs_of_slurm_give_the_answer_of_one_machine(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "jobqueue.yaml").write_text(json.dumps({"jobqueue": {"slurm": JOBS}}))  # JSON is YAML
    for name in ("base", "scr_pfs_one"):
        write_run(tmp_path / name, RUNS[name], 4)
    runs = [f"{name}={tmp_path / name}" for name in ("base", "scr_pfs_one")]
    study = ["study", *runs, "--prefix", PREFIX, "--cache", CACHE, "--reread", "--format", "json"]
    there = subprocess.run(
        [sys.executable, "-m", "scrtune", *study, "--scheduler", "slurm:2"],
        cwd=tmp_path,
        env={**cluster.environment, "DASK_CONFIG": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout == CliRunner().invoke(main, study).stdout
    logs = sorted((tmp_path / "logs").glob("*.out"))
    assert sorted(log.read_text().partition("\n")[0] for log in logs) == NODES
    assert cluster.run(["squeue", "-h"]) == "", "the jobs have ended with the study"
