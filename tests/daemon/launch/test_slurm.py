"""`scrtune run` inside an allocation of a real Slurm: two nodes, two ranks on each."""

import contextlib
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from scrtune.client.capture.environment import preload_library
from scrtune.client.libscr.library import libscrtune_path
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.views import ExplainView
from scrtune.intents.declared import Declared, from_text
from scrtune.scr_config.resolution import resolve

from ...support.slurm_cluster import Cluster, Job, running_cluster, until, why_not

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]
if reason := why_not():
    pytestmark.append(pytest.mark.skip(reason=reason))

NODES = ["n1", "n2"]
RANK_HOSTS = ["n1", "n1", "n2", "n2"]
TESTS = Path(__file__).parents[2]
TRAIN = TESTS.parent / "examples" / "train.py"
PYTHON = shlex.quote(sys.executable)
RANK = f"{PYTHON} {TESTS / 'apps' / 'slurm_rank.py'}"
SCRTUNE = f"{PYTHON} -m scrtune"

LIBRARY = [str(path)] if (path := libscrtune_path()) else []
OF_THE_NODE = ("SCRTUNE_DECISION_FILE", "SCRTUNE_EVENTS_FILE")

POOR = """\
SCR_CACHE_BYPASS=0
SCR_COPY_TYPE=XOR
SCR_FLUSH=1
SCR_FLUSH_ASYNC=0
SCR_FILE_BUF_SIZE=4KB
"""
CHECKPOINTS = 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(len(NODES)) as cluster:
        yield cluster


@dataclass(frozen=True)
class Ended:
    """A job that has ended, and what it left."""

    job: Job
    exit_code: int

    @property
    def directory(self) -> Path:
        return self.job.directory

    @property
    def shared(self) -> Path:
        return self.directory / f".scrtune-{os.getuid()}" / self.job.id

    def ranks(self, name: str) -> list[dict[str, Any]]:
        """What each rank of the step that wrote to `name` was given."""
        files = sorted((self.directory / name).iterdir(), key=lambda path: int(path.stem))
        return [json.loads(path.read_text()) for path in files]

    def paths(self, node: str) -> JobPaths:
        return JobPaths.of(self.job.id, host=node, base=self.directory / "r")

    def log(self, node: str) -> str:
        return self.paths(node).log.read_text()


def submit(cluster: Cluster, script: str) -> Job:
    directory = Path(tempfile.mkdtemp(dir=cluster.base))
    (directory / ".scrconf").write_text(POOR)
    environment = {"SCRTUNE_RUN_DIR": str(directory / "r"), "SCRTUNE_ENGINE": "embedded"}
    return cluster.submit(script, directory, environment)


def run_to_its_end(cluster: Cluster, script: str) -> Ended:
    job = submit(cluster, script)
    return Ended(job, job.wait())


def left_running(ended: Ended) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SCRTUNE_RUN_DIR") == str(ended.directory / "r"):
                found.append(process)
    return found


@pytest.fixture(scope="module")
def tuned(cluster: Cluster) -> Ended:
    """The whole story: poor settings, tuned while the job runs."""
    size = "--every 1 --scale 0.0003 --compute-ms 5 --device-ms 5"
    return run_to_its_end(
        cluster,
        f"""
        for node in {" ".join(NODES)}; do
            mkdir -p r/old/$node
            touch -d '40 days ago' r/old/$node/journal r/old/$node/daemon.lock
        done
        chmod 700 r r/old r/old/*
        {SCRTUNE} run --redundancy-floor single --run-length 2h --watch-metric "loss's \\"mean\\"" -- \
            srun --mpi=pmi2 {RANK} given {TRAIN} --steps {CHECKPOINTS} {size}
        code=$?
        {SCRTUNE} explain --job-id $SLURM_JOB_ID --format json >explain.json
        srun --ntasks=2 --ntasks-per-node=1 sh -c 'ls /dev/shm/scrtune-* >left.$(uname -n)'
        exit $code
        """,
    )


class TestATunedJob:
    """The main job runs."""

    def test_it_ends_well(self, tuned: Ended) -> None:
        assert tuned.exit_code == 0, tuned.job.output

    def test_its_ranks_are_one_world_on_two_nodes(self, tuned: Ended) -> None:
        given = tuned.ranks("given")
        assert [rank["ranks"] for rank in given] == [4] * 4
        assert [rank["host"] for rank in given] == RANK_HOSTS

    def test_each_node_has_one_daemon(self, tuned: Ended) -> None:
        assert tuned.ranks("given")[0]["daemons"] == NODES
        for node in NODES:
            assert tuned.log(node).count("listening") == 1

    def test_all_ranks_have_the_same_settings(self, tuned: Ended) -> None:
        settings = [
            {
                name: value
                for name, value in rank["environment"].items()
                if name.startswith("SCR") and name not in OF_THE_NODE
            }
            for rank in tuned.ranks("given")
        ]
        assert settings[0]["SCR_CONF_FILE"] == str(tuned.shared / "scr.conf")
        assert settings[0]["SCRTUNE_JOB_ID"] == tuned.job.id
        assert settings[0]["SCRTUNE_REDUNDANCY_FLOOR"] == "SINGLE"
        assert settings[0]["SCR_LOG_ENABLE"] == "1"
        said = from_text(settings[0]["SCRTUNE_DECLARED"])
        assert said == Declared(run_s=7200, metric='loss\'s "mean"')
        assert all(each == settings[0] for each in settings)

    def test_each_rank_is_traced_on_its_node(self, tuned: Ended) -> None:
        for rank in tuned.ranks("given"):
            environment = rank["environment"]
            assert environment["LD_PRELOAD"].split(":") == [*LIBRARY, str(preload_library())]
            assert environment["DFTRACER_LOG_FILE"] == str(tuned.paths(rank["host"]).trace_prefix)

    def test_each_daemon_has_seen_its_own_ranks_and_the_one_that_decides_all_of_them(
        self, tuned: Ended
    ) -> None:
        for node, seen in (("n1", NODES), ("n2", ["n2"])):
            pipeline = replay_journal(tuned.paths(node).journal)[0]
            assert pipeline.counters.trace_events > 1000
            assert not pipeline.counters.lost
            assert sorted(host for host, _ in pipeline.observers.workflow.processes) == sorted(2 * seen)
            assert [each.host for each in pipeline.leaders] == ["n1"]

    def test_rank_0s_daemon_has_all_that_rank_0_says(self, tuned: Ended) -> None:
        first, second = (replay_journal(tuned.paths(node).journal)[0] for node in NODES)
        assert first.job is not None
        assert (first.job.ranks, first.job.nodes, first.job.engine) == (4, 2, "embedded")
        assert sorted(host for host, _ in first.job.processes) == RANK_HOSTS
        account = first.account(0.0)
        assert (account.runs, account.steps, account.checkpoints) == (1, CHECKPOINTS, CHECKPOINTS)
        assert second.job is None

    def test_rank_0s_daemon_has_asked_slurm_what_the_allocation_is(self, tuned: Ended) -> None:
        first, second = (replay_journal(tuned.paths(node).journal)[0].observers.allocation for node in NODES)
        assert first is not None
        assert (first.scheduler, first.job, first.hosts) == ("slurm", tuned.job.id, tuple(NODES))
        assert first.end_s == 0.0, "this one has no end"
        assert [each.partition(" ")[2] for each in first.steps] == [Path(sys.executable).name]
        assert second is None, "one of the daemons is enough"

    def test_the_config_file_was_rewritten_for_a_reason(self, tuned: Ended) -> None:
        explained = msgspec.json.decode((tuned.directory / "explain.json").read_bytes(), type=ExplainView)
        assert explained.baseline["SCR_FILE_BUF_SIZE"] == 4096
        assert explained.decisions
        assert all(decision.because and decision.source for decision in explained.decisions)
        advice = replay_journal(tuned.paths("n1").journal)[0].advice
        assert advice.generation > 0
        in_file = resolve({}, (tuned.shared / "scr.conf").read_text()).settings
        assert f"generation {advice.generation}." in (tuned.shared / "scr.conf").read_text()
        for name in ("SCR_COPY_TYPE", "SCR_FILE_BUF_SIZE", "SCR_FLUSH", "SCR_FLUSH_ASYNC"):
            assert in_file[name] == {**explained.baseline, **(advice.kept or {})}[name]

    def test_every_checkpoint_is_complete(self, tuned: Ended) -> None:
        for step in range(CHECKPOINTS):
            files = list((tuned.directory / f"step.{step}").iterdir())
            assert len(files) == 4 * (1 + 44 + 1)
            assert all(path.stat().st_size for path in files)

    def test_each_node_forgets_jobs_of_long_ago(self, tuned: Ended) -> None:
        assert [each.name for each in (tuned.directory / "r").iterdir()] == [tuned.job.id]

    def test_the_users_own_config_is_as_it_was(self, tuned: Ended) -> None:
        assert (tuned.directory / ".scrconf").read_text() == POOR

    def test_the_daemons_end_cleanly_and_nothing_is_left(self, tuned: Ended) -> None:
        for node in NODES:
            assert "ended after" in tuned.log(node)
            assert (tuned.directory / f"left.{node}").read_text() == ""
            assert not tuned.paths(node).environment.exists()
        assert left_running(tuned) == []


@pytest.fixture(scope="module")
def corners(cluster: Cluster) -> Ended:
    """Several steps beside the same daemons, and daemons that are told to end before the application has."""
    return run_to_its_end(
        cluster,
        rf"""
        printf '#!/bin/sh\necho export MINE=$SLURM_PROCID\n' >own_prolog.sh
        chmod +x own_prolog.sh
        export SLURM_TASK_PROLOG=own_prolog.sh SLURM_CPUS_PER_TASK=1
        cat >application.sh <<'end'
            srun --export=NONE --mpi=pmi2 {RANK} bare
            rm r/$SLURM_JOB_ID/n2/environment.sh
            srun --mpi=pmi2 {RANK} without
            ls r/$SLURM_JOB_ID/n1/environment.sh
            step=$(squeue -h -s -j $SLURM_JOB_ID -o '%i %j' | awk '$2 == "scrtune" {{print $1}}')
            scancel --signal=TERM $step
            until ! squeue -h -s -j $SLURM_JOB_ID -o %j | grep -q scrtune; do sleep 0.1; done
            srun --mpi=pmi2 {RANK} after
            exit 7
        end
        LD_PRELOAD=libm.so.6 {SCRTUNE} run -- bash application.sh
        """,
    )


class TestStepsOfOneApplication:
    """An application that is a script with several srun lines."""

    def test_its_exit_code_is_passed_on(self, corners: Ended) -> None:
        assert corners.exit_code == 7, corners.job.output

    def test_tasks_that_inherit_nothing_are_tuned_and_traced_all_the_same(self, corners: Ended) -> None:
        for rank in corners.ranks("bare"):
            environment = rank["environment"]
            assert rank["ranks"] == 4
            assert environment["SCR_CONF_FILE"] == str(corners.shared / "scr.conf")
            assert environment["SCRTUNE_RUN_DIR"] == str(corners.directory / "r")
            assert environment["LD_PRELOAD"].split(":") == [*LIBRARY, str(preload_library())]
            assert environment["DFTRACER_LOG_FILE"] == str(corners.paths(rank["host"]).trace_prefix)

    @pytest.mark.parametrize("step", ["bare", "without", "after"])
    def test_the_users_own_prolog_runs_too(self, corners: Ended, step: str) -> None:
        assert [rank["environment"]["MINE"] for rank in corners.ranks(step)] == ["0", "1", "2", "3"]

    def test_without_its_nodes_variables_a_task_runs_untraced(self, corners: Ended) -> None:
        ranks = corners.ranks("without")
        assert [rank["ranks"] for rank in ranks] == [4] * 4
        traced = [rank["host"] for rank in ranks if "DFTRACER_LOG_FILE" in rank["environment"]]
        assert traced == ["n1", "n1"]
        assert len({rank["environment"]["SCR_CONF_FILE"] for rank in ranks}) == 1

    def test_a_library_that_a_task_preloads_stays(self, corners: Ended) -> None:
        preloaded = [rank["environment"]["LD_PRELOAD"] for rank in corners.ranks("without")]
        traced, untraced = [*LIBRARY, str(preload_library()), "libm.so.6"], [*LIBRARY, "libm.so.6"]
        assert [each.split(":") for each in preloaded] == [traced, traced, untraced, untraced]

    @pytest.mark.skipif(libscrtune_path() is None, reason="libscrtune.so was not built")
    @pytest.mark.parametrize("step", ["bare", "without", "after"])
    def test_all_ranks_have_the_library_whether_their_node_has_a_daemon_or_not(
        self, corners: Ended, step: str
    ) -> None:
        for rank in corners.ranks(step):
            environment, paths = rank["environment"], corners.paths(rank["host"])
            assert environment["LD_PRELOAD"].split(":")[0] == LIBRARY[0]
            assert environment["SCRTUNE_DECISION_FILE"] == str(paths.decision)
            assert environment["SCRTUNE_EVENTS_FILE"] == str(paths.library_events)

    def test_a_step_of_the_daemons_that_is_told_to_end_ends_cleanly(self, corners: Ended) -> None:
        for node in NODES:
            assert "ended after" in corners.log(node)
        assert "starting it again" not in (corners.shared / "daemons.log").read_text()
        assert corners.job.output.count("no node is watched or tuned any more") == 1
        assert left_running(corners) == []

    def test_the_application_goes_on_without_them(self, corners: Ended) -> None:
        ranks = corners.ranks("after")
        assert [rank["ranks"] for rank in ranks] == [4] * 4
        assert all("DFTRACER_LOG_FILE" not in rank["environment"] for rank in ranks)


@pytest.fixture(scope="module")
def failures(cluster: Cluster) -> Ended:
    """More nodes for the daemons than the job has, then a `scrtune run` that is killed."""
    return run_to_its_end(
        cluster,
        rf"""
        SLURM_JOB_NUM_NODES=3 {SCRTUNE} run -- srun --nodes=2 --mpi=pmi2 {RANK} alone
        echo first $?
        {SCRTUNE} run -- sh -c 'touch up; until [ -e let_go ]; do sleep 0.1; done; touch done' &
        until [ -e up ]; do sleep 0.1; done
        kill -KILL $!
        until ! squeue -h -s -j $SLURM_JOB_ID -o %j | grep -q scrtune; do sleep 0.1; done
        touch let_go
        until [ -e done ]; do sleep 0.1; done
        """,
    )


class TestFailures:
    """What goes wrong with the daemons is no concern of the application."""

    def test_when_the_daemons_cannot_start_the_application_runs_and_its_told(self, failures: Ended) -> None:
        assert "0 of 3 nodes have a daemon" in failures.job.output
        assert str(failures.shared / "daemons.log") in failures.job.output
        assert "first 0" in failures.job.output
        assert "no node is watched" not in failures.job.output, "none ever was"
        assert "srun: error" in (failures.shared / "daemons.log").read_text()
        assert [rank["host"] for rank in failures.ranks("alone")] == RANK_HOSTS
        assert all("DFTRACER_LOG_FILE" not in rank["environment"] for rank in failures.ranks("alone"))

    def test_when_scrtune_run_is_killed_the_daemons_end_and_the_application_goes_on(
        self, failures: Ended
    ) -> None:
        assert failures.exit_code == 0, failures.job.output
        for node in NODES:
            assert "ended after" in failures.log(node)
        assert left_running(failures) == []


def test_a_job_that_is_cancelled_leaves_nothing_behind(cluster: Cluster) -> None:
    job = submit(cluster, f"{SCRTUNE} run -- srun sh -c 'touch up.$SLURM_PROCID; sleep 100'")
    until(lambda: len(list(job.directory.glob("up.*"))) == 4, "four tasks")
    job.cancel()
    ended = Ended(job, 0)
    until(lambda: not left_running(ended), "an end of all that was started")
    for node in NODES:
        assert "ended after" in ended.log(node)
        assert not ended.paths(node).environment.exists()


def test_from_a_login_node_with_salloc(cluster: Cluster, tmp_path: Path) -> None:
    base = tmp_path / "r"
    inside = f"cd {tmp_path}; {SCRTUNE} run --job-id login -- srun --label sh -c 'uname -n; exit 3'; echo $?"
    output = cluster.run(
        ["salloc", "--quiet", "--nodes=2", "--ntasks=2", "sh", "-c", inside], {"SCRTUNE_RUN_DIR": str(base)}
    )
    assert sorted(output.split("\n")) == ["", "0: n1", "1: n2", "3"]
    assert sorted(path.name for path in (base / "login").iterdir()) == NODES
    here = JobPaths.of("login", base=base)
    assert not here.trace_directory.exists()


class Elsewhere:
    """A job whose nodes share no run directory, and commands typed on its nodes and on none of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        shared_memory = JobPaths.of("any").shared_memory  # each node has its own
        run_directory = str(shared_memory / f"r{os.getpid()}")
        self._variables = {"SCRTUNE_RUN_DIR": run_directory, "SCRTUNE_ENGINE": "embedded"}
        directory = Path(tempfile.mkdtemp(dir=cluster.base))
        (directory / ".scrconf").write_text(POOR)
        train = f"{TRAIN} --steps 5000 --every 50 --scale 0.0003 --compute-ms 50 --device-ms 50"
        script = f"{SCRTUNE} run --redundancy-floor single -- srun --mpi=pmi2 {PYTHON} {train}"
        self.job = cluster.submit(script, directory, self._variables)
        self.conf = directory / f".scrtune-{os.getuid()}" / self.job.id / "scr.conf"
        until(lambda: self.conf.exists() and "generation" in self.conf.read_text(), "a decision")

    def on(self, node: str, *command: str) -> str:
        """Run `command` on `node`, as somebody would who is logged in there."""
        there = f"--nodelist={node} --nodes=1 --ntasks=1 --jobid={self.job.id}".split()
        return self._cluster.run(["srun", "--overlap", *there, *command], self._variables)

    def scrtune_on(self, node: str, *arguments: str) -> str:
        return self.on(node, sys.executable, "-m", "scrtune", *arguments)

    def scrtune(self, *arguments: str) -> str:
        """On the login node."""
        return self._cluster.run([sys.executable, "-m", "scrtune", *arguments], self._variables)

    def daemon(self, node: str) -> psutil.Process | None:
        """The daemon of `node`, if it has one now."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() == "scrtune-daemon":
                    environment = process.environ()
                    where = environment.get("SLURM_CONF"), environment.get("SLURMD_NODENAME")
                    if where == (self._cluster.environment["SLURM_CONF"], node):
                        return process
        return None


@pytest.fixture(scope="module")
def elsewhere(cluster: Cluster) -> Iterator[Elsewhere]:
    found = Elsewhere(cluster)
    yield found
    found.job.cancel()


class TestFromAnyNode:
    """The daemon of the first node decides; it is found from the others, and from the login node."""

    def test_the_login_node_finds_it(self, elsewhere: Elsewhere) -> None:
        status = json.loads(elsewhere.scrtune("status", "--job-id", elsewhere.job.id, "--format", "json"))
        assert (status["host"], status["engine"], status["running"]) == ("n1", "embedded", True)
        assert json.loads(elsewhere.scrtune("goodput", "--format", "json"))
        explained = json.loads(elsewhere.scrtune("explain", "--format", "json"))
        assert explained["baseline"]["SCR_COPY_TYPE"] == "XOR"

    def test_a_node_that_does_not_decide_asks_the_one_that_does(self, elsewhere: Elsewhere) -> None:
        status = json.loads(elsewhere.scrtune_on("n2", "status", "--format", "json"))
        assert (status["host"], status["engine"]) == ("n1", "embedded")

    @pytest.mark.parametrize("node", [*NODES, ""])
    def test_the_environment_has_settings_wherever_it_is_printed(
        self, elsewhere: Elsewhere, node: str
    ) -> None:
        printed = elsewhere.scrtune_on(node, "env") if node else elsewhere.scrtune("env")
        assert "export SCR_COPY_TYPE=" in printed
        assert f"export SCRTUNE_JOB_ID={elsewhere.job.id}\n" in printed

    def test_the_config_file_names_the_node_that_decides(self, elsewhere: Elsewhere) -> None:
        assert " on n1, generation " in elsewhere.conf.read_text()

    def test_what_is_sent_there_and_is_not_there_says_the_line(self, elsewhere: Elsewhere) -> None:
        with pytest.raises(AssertionError) as raised:
            elsewhere.scrtune("status", "--job-id", "another")
        assert "no trace of job 'another' here" in str(raised.value)
        assert f"--jobid={elsewhere.job.id}" in str(raised.value)

    def test_what_slurm_signals_to_all_steps_is_for_the_application(self, elsewhere: Elsewhere) -> None:
        daemon = elsewhere.daemon("n2")
        assert daemon is not None
        node, shell, *_ = daemon.parents()
        beside = [shell, node, *(each for each in node.children() if each.name().startswith("scrtune-"))]
        assert {each.name() for each in beside} >= {"scrtune-daemon", "scrtune-forward"}
        for each in beside:
            each.send_signal(signal.SIGUSR1)  # sbatch --signal=USR1@300
        assert all(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in beside)

    def test_a_killed_supervisor_is_started_again_with_its_daemon(self, elsewhere: Elsewhere) -> None:
        before = elsewhere.daemon("n2")
        assert before is not None
        supervisor = before.parent()
        assert supervisor is not None
        supervisor.kill()
        until(lambda: (now := elsewhere.daemon("n2")) is not None and now != before, "another daemon")
        said = "scrtune node ended with 137 on n2; starting it again"
        assert said in elsewhere.conf.with_name("daemons.log").read_text()

    def test_off_takes_effect_from_a_node_that_does_not_decide(self, elsewhere: Elsewhere) -> None:
        assert "off" in elsewhere.scrtune_on("n2", "off")
        assert json.loads(elsewhere.scrtune("status", "--format", "json"))["tuning"] is False
