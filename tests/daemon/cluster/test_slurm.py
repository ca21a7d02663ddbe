"""Four nodes of a real Slurm: one decision from all of them; the loss of the node that leads."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scrtune.client.paths import JobPaths

from ...support.slurm_cluster import Cluster, running_cluster, until, why_not

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
if reason := why_not():
    pytestmark.append(pytest.mark.skip(reason=reason))

NODES = ["n1", "n2", "n3", "n4"]
ALLOWED = ("XOR", "PARTNER", "RS")  # by the floor that is declared; the user's own scheme is not
TRAIN = Path(__file__).parents[3] / "examples" / "train.py"
PYTHON = shlex.quote(sys.executable)
SIZE = "--steps 5000 --every 20 --scale 0.0001 --compute-ms 1 --device-ms 20"
# with a node the first step is lost; then the application is started again on those that are left
APPLICATION = f"""\
srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --mpi=pmi2 {PYTHON} {TRAIN} {SIZE}
until [ -e again ]; do sleep 0.1; done
srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --mpi=pmi2 {PYTHON} {TRAIN} {SIZE}
"""


class TunedJob:
    """An allocation of four nodes, made on the login node: none of them is needed by all the others."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.directory = Path(tempfile.mkdtemp(dir=cluster.base))
        (self.directory / ".scrconf").write_text("SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=SINGLE\nSCR_FLUSH=1\n")
        (self.directory / "app.sh").write_text(APPLICATION)
        run_directory = str(JobPaths.of("any").shared_memory / f"r{os.getpid()}")  # each node has its own
        self.variables = {
            "SCRTUNE_RUN_DIR": run_directory,
            "SCRTUNE_ENGINE": "embedded",
            "SCRTUNE_ADDRESS": "127.0.0.1",
        }
        run = [sys.executable, "-m", "scrtune", "run", "--job-id", "j", "--redundancy-floor", "xor", "--"]
        command = ["salloc", "--quiet", "--no-kill", "--nodes=4", "--ntasks-per-node=2", *run, "sh", "app.sh"]
        with (self.directory / "output").open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.directory,
                env={**cluster.environment, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def output(self) -> str:
        logs = self.directory / f".scrtune-{os.getuid()}" / "j" / "daemons.log"
        return (self.directory / "output").read_text() + (logs.read_text() if logs.exists() else "")

    def end(self) -> None:
        """Wait for the end of what was started; by then there is no allocation any more."""
        try:
            self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for each in psutil.pids():  # salloc gives its command a process group of its own
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(each) == self.process.pid:
                    os.kill(each, signal.SIGKILL)

    def ask(self, command: str, node: str = "") -> dict[str, Any]:
        """What a command says that is typed on a node of the job, or on the login node.

        It is typed again when a busy daemon does not answer in time, or a node is asked that is lost.
        """
        answers: list[dict[str, Any]] = []
        refused: list[Exception] = []

        def is_answered() -> bool:
            try:
                answers.append(json.loads(self._typed(command, node)))
            except (AssertionError, subprocess.TimeoutExpired) as error:
                refused.append(error)
            return bool(answers)

        try:
            until(is_answered, f"an answer to {command}")
        except AssertionError as late:
            raise AssertionError(f"{late}: {refused[-1]}") from late
        return answers[0]

    def _typed(self, command: str, node: str) -> str:
        line = [sys.executable, "-m", "scrtune", command, "--job-id", "j", "--format", "json"]
        if node:
            slurm_job = self.cluster.run(["squeue", "-h", "-o", "%A"]).strip()
            there = ["--overlap", f"--nodelist={node}", "--nodes=1", "--ntasks=1", f"--jobid={slurm_job}"]
            line = ["srun", "--no-kill", *there, *line]
        return self.cluster.run(line, self.variables)

    @property
    def author(self) -> tuple[str, int]:
        """The node whose daemon wrote the config file, and of which generation: who leads says so there."""
        conf = self.directory / f".scrtune-{os.getuid()}" / "j" / "scr.conf"
        found = re.search(r" on (n\d), generation (\d+)", conf.read_text()) if conf.exists() else None
        return (found[1], int(found[2])) if found else ("", 0)


@pytest.fixture
def job() -> Iterator[TunedJob]:
    with running_cluster(len(NODES)) as cluster:
        started = TunedJob(cluster)
        try:
            yield started
        finally:
            cluster.cancel_jobs()
            started.end()


def test_a_decision_of_all_nodes_survives_the_loss_of_the_one_that_leads(job: TunedJob) -> None:
    def nodes() -> list[dict[str, object]]:
        return list(job.ask("explain")["nodes"])

    def led_by(node: str) -> tuple[str, set[str]]:
        """Who leads and who is there, as `scrtune status` says it that is typed on `node`."""
        said = job.ask("status", node)["cluster"]
        return said["leader"], {each["host"] for each in said["members"] if not each["is_lost"]}

    until(lambda: job.author[0] == "n1", f"a decision:\n{job.output()}")
    until(lambda: all(each["cores"] for each in nodes()) and len(nodes()) == 4, f"four:\n{job.output()}")
    before = job.ask("explain")
    assert [each["host"] for each in before["nodes"]] == NODES
    assert before["settings"]["SCR_COPY_TYPE"] in ALLOWED
    (cores,) = [each for each in before["intents"] if each["name"] == "core affinity"]
    assert cores["source"] == "psutil on each of 4 nodes"

    for node in (*NODES, ""):
        until(lambda: led_by(node) == ("n1", {"n2", "n3", "n4"}), f"three more:\n{job.output()}")  # noqa: B023

    job.cluster.lose("n1")
    until(lambda: job.author[0] == "n2", f"another leader:\n{job.output()}")
    for node in ("n4", ""):
        until(lambda: led_by(node) == ("n2", {"n3", "n4"}), f"all to follow it:\n{job.output()}")  # noqa: B023
    first, second = job.ask("status")["leaders"][-2:]
    assert (first["host"], second["host"], second["why"]) == ("n1", "n2", "node n1, which led, is lost")

    generation = job.author[1]
    (job.directory / "again").touch()
    until(lambda: job.author[1] > generation, f"a decision on n2:\n{job.output()}")
    again = job.ask("explain")
    assert again["settings"]["SCR_COPY_TYPE"] in ALLOWED
    decided = [each["time_s"] for each in before["decisions"]]
    assert [each["time_s"] for each in again["decisions"]][: len(decided)] == decided, "n1 had decided that"
    assert [each["host"] for each in again["leaders"]][-3:] == ["n1", "n2", "n2"]
