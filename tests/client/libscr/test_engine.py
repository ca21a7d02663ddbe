"""A real libscr under Python: tuned and reported by libscrtune.so, as an application in C is.

That settings change on all ranks or on none, and how, is in tests/native/scr, for C and for Python.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from scrtune.client.libscr.library import WHY_NOT, libscrtune_path
from scrtune.client.scr_log.library_events import LibraryEvents
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
from scrtune.intents.events import ApplyRefused, Event, SettingsObserved, Value

from ...conftest import RealScr
from ...support.native_build import ROOT, decision

pytestmark = pytest.mark.mpi

APPS = Path(__file__).parents[2] / "apps"
MPIEXEC = Path(sys.executable).parent / "mpiexec"
BYTES = 500_000
IN_CACHE = {"SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "0", "SCR_CACHE_SIZE": "2", "SCR_LOG_ENABLE": "1"}

T = TypeVar("T")


class Job:
    """Two ranks with a decision file and an events file, as `scrtune run` gives them."""

    def __init__(self, scr: RealScr, base: Path) -> None:
        self.scr, self.base = scr, base
        self.events = base / "events"
        self.stderr = ""
        (base / "results").mkdir()

    def variables(self, **more: str) -> dict[str, str]:
        return {
            **IN_CACHE,
            "SCRTUNE_ENGINE": "libscr",
            "SCRTUNE_DECISION_FILE": str(self.base / "decision"),
            "SCRTUNE_EVENTS_FILE": str(self.events),
            "DECISIONS": str(self.base),
            **more,
        }

    def run(
        self,
        commands: list[str],
        decisions: dict[int, dict[str, Value]] | None = None,
        nodes: int = 0,
        **variables: str,
    ) -> list[Event]:
        """Run the drop-in, with `decisions` before the output of their number. Returns what is reported."""
        for number, values in (decisions or {}).items():
            (self.base / str(number)).write_text(decision(number, **values))
        self.events.unlink(missing_ok=True)
        drop_in = (sys.executable, str(APPS / "mpi_scr_drop_in.py"), str(self.base / "results"), *commands)
        at_home = ("sh", "-c", f'cd {self.base}/prefix && exec "$@"', "sh")
        ran = self.scr.mpiexec(self.base, 2, *at_home, *drop_in, nodes=nodes, **self.variables(**variables))
        assert ran.returncode == 0, ran.stdout + ran.stderr
        self.stderr = ran.stderr
        return self.reported()

    def reported(self) -> list[Event]:
        """What the forwarder would send, from the events file and SCR's log."""
        reader = LibraryEvents(self.events, self.scr.environment(self.base))
        events: list[Event] = []
        while new := reader.take():
            events += new
        reader.close()
        return events

    def results(self, rank: int = 0) -> list[object]:
        found: list[object] = json.loads((self.base / "results" / str(rank)).read_text())
        return found


@pytest.fixture
def job(libscr: RealScr, tmp_path: Path) -> Job:
    if libscrtune_path() is None:
        pytest.skip(WHY_NOT)
    return Job(libscr, tmp_path)


def of(kind: type[T], events: list[Event]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def outputs(count: int) -> list[str]:
    return ["init", f"bytes {BYTES}", f"loop {count} 1 5", "finalize"]


@pytest.mark.parametrize("preloaded", [False, True])
def test_the_life_of_the_job_is_reported_in_order_and_once(job: Job, preloaded: bool) -> None:
    preload = str(libscrtune_path()) if preloaded else ""
    events = job.run(outputs(2), SCR_FLUSH="1", LD_PRELOAD=preload)
    assert [type(event) for event in events if not isinstance(event, FlushCompleted)] == [
        JobStarted,
        SettingsObserved,
        *[StepCompleted, OutputStarted, OutputCompleted] * 2,
        JobEnded,
    ]
    assert [flush.dataset for flush in of(FlushCompleted, events)] == [1, 2]


def test_it_is_reported_what_the_job_runs_under_and_what_of_it_can_change(job: Job) -> None:
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
    changes = [observed.mutability[name] for name in (*names, "SCR_PREFIX", "SCR_FLUSH_WIDTH")]
    assert changes == ["re-init", "live", "live", "live", "re-init", "launch", "inert"]


def test_the_blocking_time_is_split_by_what_scr_says(job: Job) -> None:
    (output,) = of(OutputCompleted, job.run(outputs(1), SCR_FLUSH="1"))
    assert output.bytes == 2 * (2 * BYTES + 1)
    assert output.files == 4
    assert output.flush_due
    parts = (output.write_s, output.encode_s, output.flush_s)
    assert all(part > 0 for part in parts)
    assert sum(parts) <= output.blocking_s


def test_without_scrs_log_only_the_times_of_the_calls_are_known(job: Job) -> None:
    (output,) = of(OutputCompleted, job.run(outputs(1), SCR_LOG_ENABLE="0"))
    assert (output.valid, output.bytes, output.encode_s, output.flush_due) == (True, 0, 0.0, False)
    assert output.blocking_s >= output.write_s > 0


def test_settings_come_into_force_at_the_next_output(job: Job) -> None:
    decisions: dict[int, dict[str, Value]] = {number: {"SCR_FLUSH": number - 1} for number in (2, 3)}
    events = job.run(outputs(4), {**decisions, 4: {"SCR_FLUSH": 0}})
    seen = [(each.generation, each.flush_due) for each in of(OutputCompleted, events)]
    assert seen == [(0, False), (2, True), (3, False), (4, False)], "the 3rd checkpoint is no 2nd one"
    assert [flush.generation for flush in of(FlushCompleted, events)] == [2]


def test_what_scr_reads_only_in_init_comes_into_force_too_and_its_log_goes_on(job: Job) -> None:
    asynchronous = {"SCR_FLUSH": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_FLUSH_ASYNC": 1, "SCR_CACHE_SIZE": 3}
    events = job.run(outputs(4), {2: asynchronous})
    seen = of(OutputCompleted, events)
    assert [each.valid for each in seen] == [True] * 4
    assert [each.generation for each in seen] == [0, 2, 2, 2]
    assert [each.flush_due for each in seen] == [False, True, True, True]
    assert seen[1].apply_s > max(seen[2].apply_s, seen[3].apply_s)
    assert seen[1].apply_s < seen[1].blocking_s
    flushes = {flush.dataset: flush for flush in of(FlushCompleted, events)}
    assert all(flushes[each.dataset].asynchronous for each in seen[1:])
    assert {flushes[each.dataset].source for each in seen[1:]} == {"libscrtune"}
    assert all(flush.valid for flush in flushes.values())
    for step in range(1, 4):
        for rank in range(2):
            assert (job.base / "prefix" / f"step_{step}.{rank}.0").stat().st_size == BYTES + rank


def test_a_decision_that_scr_would_fail_on_is_refused_on_all_ranks_and_said_once(job: Job) -> None:
    events = job.run(outputs(3), {2: {"SCR_CACHE_SIZE": 10**14}})
    assert [each.generation for each in of(OutputCompleted, events)] == [0, 0, 0]
    (refused,) = of(ApplyRefused, events)
    assert "SCR_CACHE_SIZE" in refused.why
    assert job.stderr.count("SCR_CACHE_SIZE") == 1


@pytest.mark.parametrize(("lost", "source"), [(False, "cache"), (True, "prefix")])
def test_a_restart_is_reported_with_where_it_came_from(job: Job, lost: bool, source: str) -> None:
    job.run(["init", f"bytes {BYTES}", "save a", "finalize"], SCR_FLUSH="1")
    if lost:
        shutil.rmtree(job.base / "cache")
    events = job.run(["init", f"bytes {BYTES}", "restart", "save b", "finalize"])
    (restart,) = of(RestartCompleted, events)
    assert (restart.name, restart.dataset, restart.source, restart.valid) == ("a", 1, source, True)
    # the steps go on behind the checkpoint that was read: what had been computed since is lost
    assert [step.step >> 20 for step in of(StepCompleted, events)] == [1]


def test_files_that_take_each_others_place_in_scrs_cache_are_no_checkpoint(job: Job) -> None:
    job.run(["init", "save a", "clash x", "finalize"], SCR_FLUSH="1")
    assert job.results() == [None, [None, True], False, None]
    assert job.stderr.count("several files have the base name of") == 1
    job.run(["init", "clash x", "finalize"], SCR_CACHE_BYPASS="1")
    assert job.results(1) == [None, True, None]
    assert [(job.base / "prefix" / str(rank) / "x").read_text() for rank in range(2)] == ["0", "1"]


def test_nodes_have_caches_of_their_own(job: Job) -> None:
    job.run(["init", "clash x", "finalize"], nodes=2, SCR_FLUSH="1", SCR_COPY_TYPE="XOR")
    assert job.results(1) == [None, True, None]
    assert [(job.base / "prefix" / str(rank) / "x").read_text() for rank in range(2)] == ["0", "1"]


def maps(job: Job, **variables: str) -> str:
    """The libraries in a rank's process once SCR is initialized."""
    code = (
        "from mpi4py import MPI; from scrtune.client import scr; scr.init(); "
        "print(open('/proc/self/maps').read()); scr.finalize()"
    )
    ran = job.scr.mpiexec(job.base, 1, sys.executable, "-c", code, **variables)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_outside_of_scrtune_nothing_but_scr_is_loaded(job: Job) -> None:
    assert "libscr.so" in maps(job, SCRTUNE_ENGINE="libscr")
    assert "libscrtune" not in maps(job, SCRTUNE_ENGINE="libscr")
    assert "libscrtune" in maps(job, **job.variables())


def without_library(base: Path) -> Path:
    """Where to import a scrtune from that was installed without a C compiler."""
    package = base / "installed" / "scrtune"
    for directory in (ROOT, ROOT / "client", ROOT / "client" / "libscr"):
        place = package / directory.relative_to(ROOT)
        place.mkdir(parents=True)
        for each in directory.iterdir():
            if each not in (ROOT / "client", ROOT / "client" / "libscr") and each.suffix != ".so":
                (place / each.name).symlink_to(each)
    return package.parent


def test_without_the_library_the_job_runs_untuned(job: Job) -> None:
    installed = str(without_library(job.base))
    assert job.run(outputs(3), {2: {"SCR_FLUSH": 1}}, PYTHONPATH=installed) == []
    assert job.results() == [None, None, 0, None]
    assert not list((job.base / "prefix").glob("step_*")), "SCR_FLUSH is 0 still"


STEPS = """
from mpi4py import MPI
from scrtune.client.session import Session
with Session(MPI.COMM_WORLD) as session:
    for number in range(3):
        with session.step(number):
            pass
        session.need_checkpoint()
    session.start_output("a")
    session.complete_output()
"""


def test_an_application_that_reports_its_steps_has_no_others(job: Job) -> None:
    ran = job.scr.mpiexec(job.base, 2, sys.executable, "-c", STEPS, **job.variables())
    assert ran.returncode == 0, ran.stderr
    events = job.reported()
    assert [(step.step, step.writer) for step in of(StepCompleted, events)] == [
        (number, "rank0") for number in range(3)
    ]
    assert len(of(OutputCompleted, events)) == 1


def test_a_session_runs_on_the_library_too(job: Job) -> None:
    train = APPS.parents[1] / "examples" / "train.py"
    options = ("--steps", "2", "--every", "1", "--scale", "0.0001", "--compute-ms", "1", "--device-ms", "1")
    variables = {"SCRTUNE_ENGINE": "libscr", **IN_CACHE, "SCR_FLUSH": "1"}
    ran = job.scr.mpiexec(job.base, 2, sys.executable, str(train), *options, **variables)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "embedded" not in ran.stderr
    assert (job.base / "prefix" / "step.1" / "optimizer-1.pt").is_file()


POOR = "SCR_CACHE_BYPASS=0\nSCR_CACHE_SIZE=2\nSCR_FLUSH=1\nSCR_FILE_BUF_SIZE=4096\n"


def test_scrtune_run_tunes_a_python_application_on_a_real_scr(job: Job) -> None:
    base = job.base
    (base / "poor.conf").write_text(POOR)
    (base / "prefix").mkdir()
    # not below base: the path of a socket must be short
    with tempfile.TemporaryDirectory(prefix="sr") as place:
        own = {"SCR_CONF_FILE": str(base / "poor.conf"), "SCRTUNE_RUN_DIR": f"{place}/r"}
        environment = job.scr.environment(base, **own)
        scrtune = [sys.executable, "-m", "scrtune"]
        commands = ["init", "bytes 2000000", "loop 60 1 50", "finalize"]
        application = [sys.executable, APPS / "mpi_scr_drop_in.py", base / "results", *commands]
        ran = subprocess.run(
            [*scrtune, "run", "--job-id", base.name, "--", MPIEXEC, "-n", "2", *application],
            env=environment,
            cwd=base / "prefix",
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "embedded" not in ran.stderr
        explained = subprocess.run(
            [*scrtune, "explain", "--job-id", base.name, "--format", "json"],
            env=environment,
            capture_output=True,
            timeout=60,
            check=True,
        )
    view = msgspec.json.decode(explained.stdout, type=ExplainView)
    assert view.baseline["SCR_FILE_BUF_SIZE"] == 4096
    assert view.sources["SCR_FILE_BUF_SIZE"] == "user config"
    # what helps is this machine's affair, as is whether it stays as fast as it was: after a change of that
    # the cost of the user's own settings is unknown; that it is measured, and each lever judged by it, is not
    assert view.checkpoint_cost_s > 0
    judged = {each.name for each in view.levers if each.why != "no checkpoint was measured yet"}
    assert {"SCR_FILE_BUF_SIZE", "SCR_FLUSH_ASYNC", "SCR_CACHE_BYPASS"} <= judged
