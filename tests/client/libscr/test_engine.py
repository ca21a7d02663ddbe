"""A real libscr under the daemon: applied at the next output, and told as it was, by SCR's own log."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from scrtune.client.libscr.decision import Decision, parse_decision
from scrtune.client.libscr.engine import _Decisions
from scrtune.client.libscr.native import WHY_NOT, libscrtune_path
from scrtune.client.paths import JobPaths
from scrtune.client.transport.wire import Answer
from scrtune.daemon.views import ExplainView
from scrtune.goodput.events import (
    FlushCompleted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    RestartCompleted,
    StepCompleted,
)
from scrtune.intents.effects import Advice
from scrtune.intents.events import ApplyRefused, Event, SettingsObserved, Value

from ...conftest import RealScr, simulated_nodes
from ..test_session import daemon

MPIEXEC = Path(sys.executable).parent / "mpiexec"
APPLICATION = Path(__file__).parents[2] / "apps" / "mpi_scr_drop_in.py"
BYTES = 500_000
IN_CACHE = {"SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "0", "SCR_CACHE_SIZE": "2", "SCR_LOG_ENABLE": "1"}

T = TypeVar("T")


class Job:
    """Two ranks under a daemon that answers as it was told."""

    def __init__(self, scr: RealScr, base: Path) -> None:
        self.scr, self.base = scr, base
        self.paths = JobPaths.of("engine", base=base / "r").create()
        self.stderr = ""

    def run(
        self, commands: list[str], *advice: dict[str, Value], nodes: int = 0, **variables: str
    ) -> list[Event]:
        """Run the application; before each output but the first the next of `advice` is a new decision."""
        (self.base / "results").mkdir(exist_ok=True)
        (self.base / "prefix").mkdir(exist_ok=True)
        host = "n0" if nodes else None
        paths = JobPaths.of("engine", host=host, base=self.paths.base).create()

        def answer(asked: int) -> bytes:
            generation = min(asked - 1, len(advice))
            settings = advice[generation - 1] if generation else {}
            told = msgspec.json.encode(Advice(generation=generation, settings=settings))
            return msgspec.json.encode(Answer(result=msgspec.Raw(told)))

        environment = self.scr.environment(
            self.base,
            SCRTUNE_JOB_ID="engine",
            SCRTUNE_RUN_DIR=str(self.paths.base),
            SCRTUNE_ENGINE="libscr",
            **{**IN_CACHE, **variables},
        )
        on_nodes = simulated_nodes(self.base, 2, nodes) if nodes else ()
        application = (sys.executable, APPLICATION, self.base / "results")
        command = [MPIEXEC, "-n", "2", *on_nodes, *application, *commands]
        with daemon(paths, answer) as events:
            ran = subprocess.run(
                command,
                env=environment,
                cwd=self.base / "prefix",
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        self.stderr = ran.stderr
        return events


@pytest.fixture
def job(libscr: RealScr, tmp_path: Path) -> Iterator[Job]:
    job = Job(libscr, tmp_path)
    yield job
    shutil.rmtree(job.paths.trace_directory.parent, ignore_errors=True)


def of(kind: type[T], events: list[Event]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def outputs(count: int) -> list[str]:
    return ["init", f"bytes {BYTES}", f"loop {count} 1 5", "finalize"]


def test_what_is_no_longer_advised_is_the_users_own_again() -> None:
    decisions = _Decisions({"SCR_FLUSH": 3, "SCR_COPY_TYPE": "XOR"})
    assert decisions.text(None) is None
    assert decisions.text(Advice()) is None, "generation 0 is what the job started with"
    texts = [
        decisions.text(Advice(generation=generation, settings=settings))
        for generation, settings in ((1, {"SCR_FLUSH": 1}), (1, {"SCR_FLUSH": 1}), (2, {}), (0, {}))
    ]
    assert [text and parse_decision(text) for text in texts] == [
        Decision(1, {"SCR_FLUSH": "1"}),
        None,
        Decision(2, {"SCR_FLUSH": "3"}),
        Decision(0, {"SCR_FLUSH": "3"}),
    ]


def test_advice_that_no_decision_can_carry_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert _Decisions({}).text(Advice(generation=1, settings={"SCR_GROUP": "A\nB"})) is None
    assert "settings are refused" in capsys.readouterr().err


@pytest.mark.mpi
def test_the_daemon_hears_the_life_of_the_job_in_order(job: Job) -> None:
    events = job.run(outputs(2), SCR_FLUSH="1")
    one_output = [StepCompleted, OutputStarted, FlushCompleted, OutputCompleted]
    expected = [JobStarted, SettingsObserved, *one_output * 2, JobEnded]
    assert [type(event) for event in events] == expected
    times = [output.start_s for output in of(OutputCompleted, events)]
    assert times == sorted(times)


@pytest.mark.mpi
def test_the_daemon_hears_what_the_job_runs_under_and_what_of_it_can_change(job: Job) -> None:
    own = job.base / "own.conf"
    own.write_text("SCR_PREFIX_SIZE=5\nSCR_FLUSH=7\n")
    commands = ["config SCR_MPI_BUF_SIZE=65536", "config SCR_PREFIX_SIZE=9", "init", "finalize"]
    (observed,) = of(SettingsObserved, job.run(commands, SCR_CONF_FILE=str(own)))
    names = ("SCR_CACHE_BYPASS", "SCR_FLUSH", "SCR_PREFIX_SIZE", "SCR_MPI_BUF_SIZE", "SCR_COPY_TYPE")
    assert [(observed.settings[name], observed.sources[name]) for name in names] == [
        (0, "environment"),
        (0, "environment"),
        (5, "user config"),
        (65536, "SCR_Config"),
        ("XOR", "default"),
    ]
    assert observed.engine.startswith("libscr v")
    assert (observed.ranks, observed.nodes) == (2, 1)
    assert observed.prefix == str(job.base / "prefix")
    assert observed.cache == str(job.base / "cache" / "tester" / "scr.defjobid")
    assert len({pid for _, pid in observed.processes}) == 2
    changes = [observed.mutability[name] for name in (*names, "SCR_PREFIX", "SCR_FLUSH_WIDTH")]
    assert changes == ["re-init", "live", "live", "live", "re-init", "launch", "inert"]


@pytest.mark.mpi
def test_the_blocking_time_is_split_by_what_scr_says(job: Job) -> None:
    output = of(OutputCompleted, job.run(outputs(1), SCR_FLUSH="1"))[0]
    assert output.bytes == 2 * (2 * BYTES + 1)
    assert output.files == 4
    assert output.flush_due
    parts = (output.write_s, output.encode_s, output.flush_s)
    assert all(part > 0 for part in parts)
    assert sum(parts) <= output.blocking_s


@pytest.mark.mpi
def test_without_scrs_log_only_the_times_of_the_calls_are_known(job: Job) -> None:
    events = job.run(outputs(1), SCR_LOG_ENABLE="0")
    (output,) = of(OutputCompleted, events)
    assert (output.valid, output.bytes, output.encode_s, output.flush_due) == (True, 0, 0.0, False)
    assert output.blocking_s >= output.write_s > 0


@pytest.mark.mpi
def test_settings_come_into_force_at_the_next_output(job: Job) -> None:
    events = job.run(outputs(4), {"SCR_FLUSH": 1}, {"SCR_FLUSH": 2}, {})
    seen = [(each.generation, each.flush_due) for each in of(OutputCompleted, events)]
    # the 3rd checkpoint is no 2nd one, and what is no longer advised is the user's own again
    assert seen == [(0, False), (1, True), (2, False), (3, False)]
    assert [flush.generation for flush in of(FlushCompleted, events)] == [1]


@pytest.mark.mpi
def test_what_scr_reads_only_in_init_comes_into_force_too_and_its_log_goes_on(job: Job) -> None:
    asynchronous = {"SCR_FLUSH": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_FLUSH_ASYNC": 1, "SCR_CACHE_SIZE": 3}
    events = job.run(outputs(4), asynchronous)
    seen = of(OutputCompleted, events)
    assert [each.valid for each in seen] == [True] * 4
    assert [each.generation for each in seen] == [0, 1, 1, 1]
    assert [each.flush_due for each in seen] == [False, True, True, True]
    assert [each.apply_s > 0 for each in seen] == [False, True, False, False]
    assert seen[1].apply_s < seen[1].blocking_s
    flushes = {flush.dataset: flush for flush in of(FlushCompleted, events)}
    assert all(flushes[each.dataset].asynchronous for each in seen[1:])
    assert all(flush.valid for flush in flushes.values())
    for step in range(1, 4):
        for rank in range(2):
            assert (job.base / "prefix" / f"step_{step}.{rank}.0").stat().st_size == BYTES + rank


@pytest.mark.mpi
def test_a_decision_that_scr_would_fail_on_is_refused_on_all_ranks_and_told_once(job: Job) -> None:
    events = job.run(outputs(3), {"SCR_CACHE_SIZE": 10**14})
    assert [each.generation for each in of(OutputCompleted, events)] == [0, 0, 0]
    (refused,) = of(ApplyRefused, events)
    assert refused.generation == 1
    assert "SCR_CACHE_SIZE" in refused.why
    assert job.stderr.count("SCR_CACHE_SIZE") == 1


@pytest.mark.mpi
@pytest.mark.parametrize(("lost", "source"), [(False, "cache"), (True, "prefix")])
def test_a_restart_is_told_with_where_it_came_from(job: Job, lost: bool, source: str) -> None:
    job.run(["init", f"bytes {BYTES}", "save a", "finalize"], SCR_FLUSH="1")
    if lost:
        shutil.rmtree(job.base / "cache")
    commands = ["init", f"bytes {BYTES}", "restart", "save b", "finalize"]
    events = job.run(commands)
    (restart,) = of(RestartCompleted, events)
    assert (restart.name, restart.dataset, restart.source, restart.valid) == ("a", 1, source, True)
    # the steps go on behind the checkpoint that was read: what had been computed since is lost
    assert [step.step >> 20 for step in of(StepCompleted, events)] == [1]


@pytest.mark.mpi
def test_files_that_take_each_others_place_in_scrs_cache_are_no_checkpoint(job: Job) -> None:
    job.run(["init", "save a", "clash x", "finalize"], SCR_FLUSH="1")
    assert json.loads((job.base / "results" / "0").read_text()) == [None, [None, True], False, None]
    assert job.stderr.count("several files have the base name of") == 1
    job.run(["init", "clash x", "finalize"], SCR_CACHE_BYPASS="1")
    assert json.loads((job.base / "results" / "1").read_text()) == [None, True, None]
    assert [(job.base / "prefix" / str(rank) / "x").read_text() for rank in range(2)] == ["0", "1"]


@pytest.mark.mpi
def test_nodes_have_caches_of_their_own(libscr: RealScr, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    application = f"{sys.executable} {APPLICATION} {tmp_path}/results init 'clash x' finalize"
    command = ("sh", "-c", f"cd {tmp_path}/prefix && exec {application}")
    variables = {**IN_CACHE, "SCRTUNE_ENGINE": "libscr", "SCR_FLUSH": "1", "SCR_COPY_TYPE": "XOR"}
    ran = libscr.mpiexec(tmp_path, 2, *command, nodes=2, **variables)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads((tmp_path / "results" / "1").read_text()) == [None, True, None]
    assert [(tmp_path / "prefix" / str(rank) / "x").read_text() for rank in range(2)] == ["0", "1"]


CACHED: dict[str, Value] = {"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 1}


@pytest.mark.mpi
def test_an_output_of_another_kind_brings_the_bypass_back(job: Job) -> None:
    """SCR would end the job: two nodes write one file through the cache."""
    commands = ["init", "save a", "save b", "share c output", "save d", "finalize"]
    advice = [CACHED, CACHED, {**CACHED, "SCR_FLUSH": 2}]
    events = job.run(commands, *advice, nodes=2, SCR_CACHE_BYPASS="1", SCR_FLUSH="1")
    results = json.loads((job.base / "results" / "0").read_text())
    assert results == [None, [None, True], [None, True], True, [None, True], None]
    outputs = of(OutputCompleted, events)
    assert [each.shared_files for each in outputs] == [False, False, True, False]
    assert [(each.generation, each.in_force) for each in of(ApplyRefused, events)] == [
        (2, {"SCR_CACHE_BYPASS": 1}),
        (3, {}),
    ]
    assert (job.base / "prefix" / "c.shared").read_text() == "c"


@pytest.mark.mpi
@pytest.mark.parametrize("first", ["clash x", "share x"])
def test_the_cache_is_refused_to_who_has_files_that_would_meet_there(job: Job, first: str) -> None:
    nodes = 2 if "share" in first else 0
    events = job.run(["init", first, "save b", "finalize"], CACHED, nodes=nodes, SCR_CACHE_BYPASS="1")
    (refused,) = of(ApplyRefused, events)
    assert "SCR_CACHE_BYPASS=0: files of several ranks would meet" in refused.why
    assert [each.shared_files for each in of(OutputCompleted, events)] == [True, False]


@pytest.mark.mpi
def test_an_output_that_is_suddenly_shared_fails_and_the_job_goes_on(job: Job) -> None:
    preload = libscrtune_path()
    if preload is None:
        pytest.skip(WHY_NOT)
    commands = ["init", "save a", "save b", "share c", "save d", "finalize"]
    job.run(
        commands, CACHED, nodes=2, SCR_CACHE_BYPASS="1", SCRTUNE_DECISION_FILE="", LD_PRELOAD=str(preload)
    )
    results = json.loads((job.base / "results" / "1").read_text())
    assert results == [None, [None, True], [None, True], False, [None, True], None]


@pytest.mark.mpi
def test_a_session_runs_on_the_library_too(job: Job) -> None:
    variables = {"SCRTUNE_ENGINE": "libscr", **IN_CACHE, "SCR_FLUSH": "1"}
    train = Path(__file__).parents[3] / "examples" / "train.py"
    options = ("--steps", "2", "--every", "1", "--scale", "0.0001", "--compute-ms", "1", "--device-ms", "1")
    ran = job.scr.mpiexec(job.base, 2, sys.executable, str(train), *options, **variables)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "embedded" not in ran.stderr
    assert (job.base / "prefix" / "step.1" / "optimizer-1.pt").is_file()


POOR = "SCR_CACHE_BYPASS=0\nSCR_CACHE_SIZE=2\nSCR_FLUSH=1\nSCR_FILE_BUF_SIZE=4096\n"


@pytest.mark.mpi
def test_scrtune_run_tunes_a_python_application_on_a_real_scr(libscr: RealScr, tmp_path: Path) -> None:
    conf = tmp_path / "poor.conf"
    conf.write_text(POOR)
    (tmp_path / "results").mkdir()
    # not in tmp_path: the path of a socket must be short
    with tempfile.TemporaryDirectory(prefix="sr") as base:
        environment = libscr.environment(tmp_path, SCR_CONF_FILE=str(conf), SCRTUNE_RUN_DIR=f"{base}/r")
        scrtune = [sys.executable, "-m", "scrtune"]
        commands = ["init", "bytes 2000000", "loop 16 1 20", "finalize"]
        application = [sys.executable, APPLICATION, tmp_path / "results", *commands]
        ran = subprocess.run(
            [*scrtune, "run", "--job-id", tmp_path.name, "--", MPIEXEC, "-n", "2", *application],
            env=environment,
            cwd=tmp_path / "prefix",
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "embedded" not in ran.stderr
        told = subprocess.run(
            [*scrtune, "explain", "--job-id", tmp_path.name, "--format", "json"],
            env=environment,
            capture_output=True,
            timeout=60,
            check=True,
        )
    explained = msgspec.json.decode(told.stdout, type=ExplainView)
    assert explained.baseline["SCR_FILE_BUF_SIZE"] == 4096
    assert explained.sources["SCR_FILE_BUF_SIZE"] == "user config"
    # whether it helps is this machine's affair; that it was tried and measured is not
    first = explained.decisions[0]
    assert first.changes.keys() & {"SCR_FILE_BUF_SIZE", "SCR_FLUSH_ASYNC", "SCR_FLUSH"}
    assert explained.baseline_cost_s > 0
