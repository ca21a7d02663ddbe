"""`scrtune run` on one machine: whatever happens to the tuner, the application runs as it would without."""

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.cli.jobs import state as job_state
from scrtune.client.capture.environment import preload_library
from scrtune.client.libscr.library import libscrtune_path
from scrtune.client.paths import JobPaths, RunDirectoryError
from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.launch import preload
from scrtune.daemon.launch.environment import ConfigFiles, Job, JobOptions, config_files, log_variables
from scrtune.daemon.launch.run import job_paths
from scrtune.daemon.launch.services import NodeServices, Restarts
from scrtune.daemon.launch.slurm import SlurmServices, in_allocation, prolog_text
from scrtune.daemon.memory import Memory, kind_of, memory_directory
from scrtune.goodput.events import JobEnded
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event, KnowledgeRecalled, SettingsObserved
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.tune.knowledge import Knowledge
from scrtune.scr_config.decision import decision_text

PATIENCE_S = 30.0
POLL_S = 0.02
TRAIN = Path(__file__).parents[3] / "examples" / "train.py"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
SHOW_ENVIRONMENT = (sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))")
LIBRARY = [str(path)] if (path := libscrtune_path()) else []
needs_library = pytest.mark.skipif(not LIBRARY, reason="libscrtune.so was not built")
HOLD = "until [ -e let_go ]; do sleep 0.05; done"

POOR = """\
SCR_CACHE_BYPASS=0
SCR_COPY_TYPE=XOR
SCR_FLUSH=1
SCR_FLUSH_ASYNC=0
SCR_FILE_BUF_SIZE=4KB
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} within {PATIENCE_S:.0f} s"
        time.sleep(POLL_S)


@dataclass
class Place:
    """A working directory, a run directory of its own, and one job that runs there."""

    directory: Path
    base: Path
    job_id: str
    environment: dict[str, str] = field(default_factory=dict)
    started: "list[subprocess.Popen[str]]" = field(default_factory=list)

    @property
    def paths(self) -> JobPaths:
        return JobPaths.of(self.job_id, base=self.base)

    def start(self, *command: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """`scrtune run` in the background."""
        process = subprocess.Popen(
            [sys.executable, "-m", "scrtune", "run", "--job-id", self.job_id, *options, "--", *command],
            cwd=self.directory,
            env={**os.environ, "SCRTUNE_RUN_DIR": str(self.base), **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(
        self, *command: str, options: tuple[str, ...] = ("--trace", "off")
    ) -> "subprocess.CompletedProcess[str]":
        """`scrtune run` to its end, which must leave nothing behind."""
        return self.finish(self.start(*command, options=options))

    def finish(self, process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
        with process:
            output, errors = process.communicate(timeout=100)
        assert self.processes() == []
        assert not self.paths.trace_directory.exists()
        assert not self.paths.trace_directory.parent.exists()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def clean_up(self) -> None:
        """After a test that failed: end what it started."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=100)
        for process in self.processes():
            process.kill()

    def processes(self, name: str = "") -> list[psutil.Process]:
        """What runs with this run directory: daemon, forwarder, application."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_here = process.environ().get("SCRTUNE_RUN_DIR") == str(self.base)
                names = (f"scrtune-{name}"[:15], *process.cmdline()[3:4])  # a copy of `run`, or the command
                is_named = not name or name == names[-1] or process.name() == names[0]
                if is_here and process.status() != psutil.STATUS_ZOMBIE and is_named:
                    found.append(process)
        return found if name else [each for each in found if each.pid != os.getpid()]

    def replayed(self) -> Pipeline:
        return replay_journal(self.paths.journal)[0]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    # not in tmp_path: the path of a socket must be short
    with tempfile.TemporaryDirectory(prefix="sr") as base:
        place = Place(tmp_path, Path(base) / "r", f"{tmp_path.name}-{os.getpid()}")
        yield place
        place.clean_up()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "exit 0"), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
        (("./no-such-program",), 127),
        (("/",), 126),
    ],
)
def test_the_exit_code_is_the_applications_as_a_shell_has_it(
    place: Place, command: tuple[str, ...], code: int
) -> None:
    assert place.run(*command).returncode == code


@pytest.mark.parametrize("preloaded", ["", "libm.so.6"], ids=["copies", "interpreters"])
def test_the_daemon_hears_the_exit_code_of_the_shortest_application(place: Place, preloaded: str) -> None:
    place.environment = {"LD_PRELOAD": preloaded}
    began_s = time.time()
    assert place.run("sh", "-c", "exit 7").returncode == 7
    (ended,) = (event for _, event in JournalReader(place.paths.journal) if isinstance(event, JobEnded))
    assert ended.exit_code == 7
    assert began_s <= ended.time_s <= time.time()


@pytest.mark.parametrize("output", ["/dev/full", "a reader that has gone"])
def test_the_exit_code_is_the_applications_though_nothing_we_print_can_be_written(
    place: Place, output: str
) -> None:
    arguments = ["--job-id", place.job_id, "--trace", "off", "--", "sh", "-c", "exit 7"]
    if output == "/dev/full":
        written = os.open(output, os.O_WRONLY)
    else:
        reader, written = os.pipe()
        os.close(reader)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "scrtune", "run", *arguments],
            cwd=place.directory,
            env={**os.environ, "SCRTUNE_RUN_DIR": str(place.base)},
            stdout=written,
            stderr=written,
            check=False,
            timeout=100,
        )
    finally:
        os.close(written)
    assert ran.returncode == 7


def test_an_option_that_is_misspelled_is_said_and_nothing_is_run(place: Place) -> None:
    ran = place.run("touch", "ran", options=("--no-tun",))
    assert ran.returncode == 2
    assert "--no-tune" in ran.stderr
    assert not (place.directory / "ran").exists()


def test_no_tune_is_the_mode_recommend_and_no_other(place: Place) -> None:
    seen = json.loads(place.run(*SHOW_ENVIRONMENT, options=("--no-tune",)).stdout)
    assert seen["SCRTUNE_MODE"] == "recommend"
    assert "SCRTUNE_DURABILITY" not in seen
    ran = place.run("touch", "ran", options=("--no-tune", "--mode", "auto"))
    assert (ran.returncode, "--no-tune is --mode recommend" in ran.stderr) == (2, True)
    assert not (place.directory / "ran").exists()


def test_options_after_the_command_are_the_commands(place: Place) -> None:
    ran = place.run("--no-tune", "-c", options=("--trace", "off", "echo"))
    assert ran.stdout == "-- --no-tune -c\n"


@pytest.mark.parametrize("linked", ["", "job", "host"])
def test_a_lock_is_not_looked_for_where_a_link_leads(place: Place, linked: str) -> None:
    elsewhere = place.directory / "elsewhere"
    directory = {"": place.base, "job": place.paths.root.parent, "host": place.paths.root}[linked]
    victim_root = elsewhere / place.paths.root.relative_to(directory)
    victim_root.mkdir(parents=True)
    victim = victim_root / "daemon.lock"
    victim.write_text("precious")
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.symlink_to(elsewhere)
    for services in (NodeServices(place.paths), SlurmServices(place.paths, place.directory)):
        with pytest.raises(RunDirectoryError, match="is a link or belongs to another user"):
            services.create()
    assert victim.read_text() == "precious"


def test_nothing_is_removed_below_a_directory_that_was_refused(place: Place) -> None:
    theirs = place.directory / "elsewhere" / "trace" / "file"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    place.paths.root.parent.mkdir(parents=True)
    place.paths.root.symlink_to(theirs.parent.parent)
    services = NodeServices(replace(place.paths, shared_memory=place.directory / "none"))
    with pytest.raises(RunDirectoryError):
        services.create()
    services.stop()
    assert theirs.exists()


def test_what_all_nodes_share_is_the_users_alone(place: Place) -> None:
    shared = SlurmServices(place.paths, place.directory / "prefix").create().parent
    for directory in (shared, shared.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("level", [0, 1])
def test_what_all_nodes_share_is_not_where_a_link_leads(place: Place, level: int) -> None:
    services = SlurmServices(place.paths, place.directory)
    shared = place.directory / f".scrtune-{os.getuid()}" / place.job_id
    link = (shared.parent, shared)[level]
    link.parent.mkdir(exist_ok=True)
    (place.directory / "elsewhere").mkdir()
    link.symlink_to(place.directory / "elsewhere")
    with pytest.raises(RunDirectoryError, match="is a link or belongs to another user; set SCR_PREFIX"):
        services.create()


def test_signals_are_the_applications_to_answer(place: Place) -> None:
    script = "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; touch up; while :; do sleep 0.05; done"
    process = place.start("sh", "-c", script, options=("--trace", "off"))
    until((place.directory / "up").exists, "an application")
    process.send_signal(signal.SIGINT)  # a terminal sends it to the application too: not ours to pass on
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    ended = place.finish(process)
    assert ended.returncode == 5
    assert ended.stdout.split() == ["usr1", "term"]


def test_a_signal_while_the_daemon_starts_is_the_applications(place: Place) -> None:
    process = place.start("sh", "-c", "trap 'exit 5' TERM; touch up; while :; do sleep 0.05; done")
    until((place.directory / "up").exists, "an application")
    process.send_signal(signal.SIGTERM)
    assert place.finish(process).returncode == 5


def test_nohup_holds_for_the_application(place: Place) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert place.run(sys.executable, "-c", code).stdout.strip() == "True"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_users_preload_library_and_config_stay_theirs(place: Place) -> None:
    own = "SCR_FLUSH=3  # mine\nSTORE=/ssd COUNT=2\n# caf\xe9\n".encode("latin-1")
    (place.directory / ".scrconf").write_bytes(own)
    place.environment = {"LD_PRELOAD": "libm.so.6", "DFTRACER_DATA_DIR": "/mine"}
    declared = (
        "--redundancy-floor",
        "node",
        "--durability",
        "strict",
        "--mode",
        "observe",
        "--interval",
        "auto",
    )
    seen = json.loads(place.run(*SHOW_ENVIRONMENT, options=declared).stdout)
    assert seen["LD_PRELOAD"].split(":") == [*LIBRARY, str(preload_library()), "libm.so.6"]
    assert seen["DFTRACER_DATA_DIR"].split(":")[-1] == "/mine"
    assert seen["SCRTUNE_JOB_ID"] == place.job_id
    assert seen["SCRTUNE_REDUNDANCY_FLOOR"] == "NODE"
    assert (seen["SCRTUNE_DURABILITY"], seen["SCRTUNE_MODE"]) == ("strict", "observe")
    assert seen["SCRTUNE_INTERVAL"] == "auto"
    assert Path(seen["SCR_CONF_FILE"]).read_bytes() == own
    assert (place.directory / ".scrconf").read_bytes() == own


def test_with_both_off_what_is_preloaded_is_left_alone(place: Place) -> None:
    place.environment = {"LD_PRELOAD": "libm.so.6", "SCRTUNE_EVENTS_FILE": "/mine"}
    seen = json.loads(place.run(*SHOW_ENVIRONMENT, options=("--trace", "off", "--preload", "never")).stdout)
    assert seen["LD_PRELOAD"] == "libm.so.6"
    assert seen["SCRTUNE_EVENTS_FILE"] == "/mine"
    assert not [name for name in seen if name.startswith(("DFTRACER", "SCRTUNE_DECISION"))]


@needs_library
@pytest.mark.parametrize("preload", ["auto", "always"])
def test_the_library_is_preloaded_where_it_was_built_and_the_forwarder_follows_it(
    place: Place, preload: str
) -> None:
    place.environment = {"LD_PRELOAD": "libm.so.6"}
    process = place.start(
        "sh", "-c", f"env >seen; touch up; {HOLD}", options=("--trace", "off", "--preload", preload)
    )
    until((place.directory / "up").exists, "an application")
    seen = dict(line.split("=", 1) for line in _text(place.directory / "seen").splitlines())
    assert seen["LD_PRELOAD"].split(":") == [*LIBRARY, "libm.so.6"]
    assert seen["SCRTUNE_DECISION_FILE"] == str(place.paths.decision)
    assert seen["SCRTUNE_EVENTS_FILE"] == str(place.paths.library_events)
    until(place.paths.control_socket.exists, "a daemon, which comes after the application")
    begun_s = time.time()
    shape = {"type": "started", "time_s": begun_s, "ranks": 3, "cwd": str(place.directory), "prefix": "."}
    place.paths.library_events.write_text(json.dumps(shape) + "\n")
    until(lambda: job_state.status(place.paths).ranks == 3, "what the library has said")
    until(lambda: place.processes("forward"), "a forwarder")
    (forwarder,) = place.processes("forward")
    forwarder.kill()
    until(lambda: [each for each in place.processes("forward") if each != forwarder], "another forwarder")
    times = {"entered_s": begun_s, "opened_s": begun_s, "closing_s": begun_s, "closed_s": begun_s + 0.01}
    with place.paths.library_events.open("a") as file:
        file.write(json.dumps({"type": "output", "dataset": 1, "name": "c", **times}) + "\n")
    until(lambda: job_state.status(place.paths).checkpoints == 1, "a checkpoint")
    assert job_state.goodput(place.paths).account.runs == 1, "what was said before is not heard twice"
    assert job_state.status(place.paths).counters.dropped == {}
    (place.directory / "let_go").touch()
    assert place.finish(process).returncode == 0


def test_a_library_that_cannot_be_preloaded_costs_only_the_library(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert preload.library("never", lambda: None) is None
    assert caplog.text == ""
    for wanted in ("auto", "always"):
        caplog.clear()
        assert preload.library(wanted, lambda: None) is None
        assert "runs untuned" in caplog.text
        assert "make a C compiler available" in caplog.text
    assert preload.library("auto", lambda: tmp_path / "a dir" / "libscrtune.so") is None
    assert "LD_PRELOAD takes no path with a space" in caplog.text


@pytest.mark.parametrize(
    ("own", "environment", "logs"),
    [
        ("", {}, {"SCR_LOG_ENABLE": "1", "SCR_LOG_SYSLOG_ENABLE": "0"}),
        ("SCR_LOG_SYSLOG_ENABLE=1\n", {}, {"SCR_LOG_ENABLE": "1"}),
        ("SCR_LOG_ENABLE=0\n", {}, {}),
        ("", {"SCR_LOG_ENABLE": "0"}, {"SCR_LOG_ENABLE": "0"}),
        ("SCR_LOG_TXT_ENABLE=0\n", {}, {}),
    ],
)
def test_scr_logs_to_its_own_file_unless_the_user_has_said_anything_about_it(
    place: Place, own: str, environment: dict[str, str], logs: dict[str, str]
) -> None:
    (place.directory / ".scrconf").write_text(own)
    place.environment = environment
    seen = json.loads(place.run(*SHOW_ENVIRONMENT).stdout)
    assert {name: value for name, value in seen.items() if name.startswith("SCR_LOG")} == logs


def test_what_the_application_said_of_its_log_in_its_last_run_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p" / ".scr").mkdir(parents=True)
    (tmp_path / "p" / ".scr" / "app.conf").write_text("SCR_LOG_ENABLE=0\n")
    assert log_variables(None, {"PATH": ""}) == {"SCR_LOG_ENABLE": "1", "SCR_LOG_SYSLOG_ENABLE": "0"}
    assert log_variables(None, {"PATH": "", "SCR_PREFIX": "p"}) == {}


def test_without_dftracer_the_job_is_tuned_but_not_traced(place: Place, tmp_path: Path) -> None:
    (tmp_path / "lib" / "dftracer").mkdir(parents=True)
    (tmp_path / "lib" / "dftracer" / "__init__.py").touch()
    place.environment = {"PYTHONPATH": f"{tmp_path / 'lib'}:{os.environ.get('PYTHONPATH', '')}"}
    ran = place.run(*SHOW_ENVIRONMENT, options=())
    assert ran.returncode == 0
    assert "The application runs without being traced" in ran.stderr
    seen = json.loads(ran.stdout)
    assert "dftracer" not in seen.get("LD_PRELOAD", "")
    assert seen["SCRTUNE_JOB_ID"] == place.job_id


def test_what_died_is_started_again(place: Place) -> None:
    process = place.start("sh", "-c", HOLD)
    until(lambda: place.processes("daemon") and place.processes("forward"), "both services")
    for name in ("forward", "daemon"):
        (first,) = place.processes(name)
        first.kill()
        until(lambda: [each for each in place.processes(name) if each != first], f"another {name}")  # noqa: B023
    (place.directory / "let_go").touch()
    assert place.finish(process).returncode == 0


def test_it_is_started_again_ever_later_unless_it_had_run_well() -> None:
    restarts = Restarts()
    pauses = []
    for ran_s in (0.1, 0.1, 0.1, 3600.0, 9.0, *(0.1,) * 10):
        restarts.started_again(ran_s, now_s=100.0)
        pauses.append(restarts.next_s - 100.0)
    assert pauses[:5] == [2.0, 4.0, 8.0, 2.0, 4.0]
    assert pauses[-1] == 60.0


@needs_library
def test_what_the_forwarder_holds_when_the_job_ends_is_in_the_account_though_the_daemon_is_dead(
    place: Place,
) -> None:
    process = place.start("sh", "-c", HOLD, options=("--trace", "off"))
    until(lambda: place.paths.control_socket.exists() and place.processes("forward"), "both services")
    (first,) = place.processes("daemon")
    first.kill()
    until(lambda: [each for each in place.processes("daemon") if each != first], "another daemon")
    for daemon in place.processes("daemon"):
        daemon.kill()  # the one after it has to wait, unless all of this was slow
    until(lambda: not place.processes("daemon"), "its end")
    begun_s = time.time()
    lines: list[dict[str, object]] = [
        {"type": "started", "time_s": begun_s, "cwd": str(place.directory), "prefix": "."}
    ]
    for number in range(1, 91):
        at_s = begun_s + number / 1000
        times = {"entered_s": at_s, "opened_s": at_s, "closing_s": at_s, "closed_s": at_s}
        lines.append({"type": "output", "dataset": number, "name": f"c{number}", **times})
    place.paths.library_events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place.directory / "let_go").touch()
    ended = place.finish(process)
    assert ended.returncode == 0
    assert place.replayed().account(time.time()).runs == 1
    assert re.search(f"job {place.job_id}: 90 checkpoints", ended.stderr), ended.stderr


def test_what_became_of_a_job_is_said_though_no_daemon_came_to_its_end(place: Place) -> None:
    def said_after(command: str) -> str:
        process = place.start("sh", "-c", command, options=("--trace", "off", "--preload", "never"))
        until(lambda: process.poll() is not None or place.processes("daemon"), "a daemon")
        while process.poll() is None:
            for daemon in place.processes("daemon"):
                with contextlib.suppress(psutil.Error):
                    daemon.kill()
        return place.finish(process).stderr

    assert place.run(sys.executable, "-c", APPLICATION).returncode == 0
    assert f"job {place.job_id}: 1 checkpoint," in said_after("sleep 0.5"), "as its journal has it"
    place.paths.journal.unlink()
    place.paths.journal.mkdir()
    assert "what became of it is not known" in said_after("true")


def test_a_daemon_that_was_told_to_end_is_not_started_again(place: Place) -> None:
    process = place.start("sh", "-c", HOLD)
    until(lambda: place.paths.control_socket.exists() and place.processes("forward"), "both services")
    (daemon,), (forwarder,) = place.processes("daemon"), place.processes("forward")
    daemon.terminate()
    until(lambda: not place.processes("daemon"), "its end")
    forwarder.kill()  # what has died is looked for in one go: when this one is back, the other stays away
    until(lambda: [each for each in place.processes("forward") if each != forwarder], "another forwarder")
    assert not place.processes("daemon")
    (place.directory / "let_go").touch()
    assert place.finish(process).returncode == 0


def test_nothing_of_ours_outlives_a_run_that_is_killed(place: Place) -> None:
    process = place.start("sh", "-c", f"touch up; {HOLD}; touch done")
    until((place.directory / "up").exists, "an application")
    until(place.paths.control_socket.exists, "a daemon")
    until(lambda: len(place.processes("daemon")) == len(place.processes("forward")) == 1, "both services")
    process.kill()
    until(lambda: not place.processes("daemon") and not place.processes("forward"), "their end")
    assert "ended after" in _text(place.paths.log)
    (place.directory / "let_go").touch()
    until((place.directory / "done").exists, "an application that goes on")
    process.communicate(timeout=100)
    assert place.run("true").stderr.count("already runs") == 0, "the job can be run again"


APPLICATION = """
import time
from scrtune.client.transport.sender import Emitter
from scrtune.client.paths import JobPaths
from scrtune.goodput.events import JobStarted, OutputCompleted, OutputStarted, StepCompleted

emitter, now = Emitter(JobPaths.of().events_endpoint), time.time()
emitter.emit(JobStarted(time_s=now - 0.2, ranks=1, nodes=1))
emitter.emit(StepCompleted(step=1, start_s=now - 0.2, end_s=now - 0.1))
emitter.emit(OutputStarted(dataset=1, name="c1", time_s=now - 0.1, generation=0))
emitter.emit(
    OutputCompleted(
        dataset=1, name="c1", start_s=now - 0.1, end_s=now, generation=0, bytes=1024, write_s=0.1
    )
)
emitter.close(10.0)
"""


@pytest.mark.parametrize("trace", ["off", "preload"])
def test_what_is_told_at_the_end_is_what_is_told_afterwards(place: Place, trace: str) -> None:
    ran = place.run(sys.executable, "-c", APPLICATION, options=("--trace", trace))
    assert ran.returncode == 0, ran.stderr
    told = re.search(r"1 checkpoints?, .* goodput (\S+)", ran.stderr)
    assert told is not None, ran.stderr
    assert told[1] == f"{job_state.status(place.paths).goodput:.1%}"


def test_run_directories_of_long_ago_go_at_a_jobs_end(place: Place) -> None:
    for job_id, ago_s in (("old", 3 * 86_400), ("young", 86_400)):
        paths = JobPaths.of(job_id, base=place.base)
        paths.root.mkdir(parents=True)
        for file in (paths.journal, paths.lock):
            file.touch()
            os.utime(file, (0, time.time() - ago_s))
    assert place.run("true").returncode == 0
    assert {each.name for each in place.base.iterdir()} == {place.paths.job_id, "old", "young"}
    assert place.run("true", options=("--keep", "2d", "--trace", "off")).returncode == 0
    assert {each.name for each in place.base.iterdir()} == {place.paths.job_id, "young"}
    assert place.run("true", options=("--keep", "1s", "--trace", "off")).returncode == 0
    assert [each.name for each in place.base.iterdir()] == [place.paths.job_id]


def test_what_an_earlier_run_decided_is_not_in_force_where_no_daemon_can_start(place: Place) -> None:
    paths = place.paths.create()
    paths.journal.mkdir()
    paths.decision.write_text(decision_text(Advice(generation=3, settings={"SCR_FLUSH": 7})))
    ran = place.run("sh", "-c", "true")
    assert ran.returncode == 0
    assert "the daemon did not start" in ran.stderr
    assert not paths.decision.exists()


def test_what_an_earlier_run_decided_comes_back_with_its_daemon(place: Place) -> None:
    """In between it lies aside: the application may have begun."""
    assert place.run(sys.executable, "-c", APPLICATION).returncode == 0
    job = SettingsObserved(engine="embedded", ranks=1, nodes=1, settings={}, sources={})
    with_settings = APPLICATION.replace("emitter.close", f"emitter.emit({job!r})\nemitter.close")
    imports = (
        "from scrtune.intents.declared import Declared\nfrom scrtune.intents.events import SettingsObserved\n"
    )
    place.run(sys.executable, "-c", imports + with_settings)
    published = place.paths.decision.read_bytes()
    process = place.start("sh", "-c", f"[ ! -e {place.paths.decision} ] && echo aside; {HOLD}")
    until(place.paths.decision.exists, "a decision that is published again")
    assert place.paths.decision.read_bytes() == published
    (place.directory / "let_go").touch()
    assert place.finish(process).stdout == "aside\n"


@pytest.mark.mpi
def test_a_daemon_that_is_killed_costs_nothing_and_goes_on_from_its_journal(place: Place) -> None:
    (place.directory / ".scrconf").write_text(POOR)
    place.environment = {
        "SCR_PREFIX": str(place.directory),
        "SCR_CACHE_BASE": str(place.directory / "cache"),
        "SCRTUNE_EMBEDDED_NODES": "2",
    }
    steps = 30
    train = (sys.executable, str(TRAIN), "--steps", str(steps), "--every", "1")
    size = ("--scale", "0.0002", "--compute-ms", "5", "--device-ms", "5")
    floor = ("--redundancy-floor", "single")
    process = place.start(str(MPIEXEC), "-n", "2", *train, *size, options=floor)
    until(lambda: re.search("generation [1-9]", _text(place.paths.scr_conf)), "a first change")
    (daemon,) = place.processes("daemon")
    daemon.kill()
    killed_s = time.time()
    ended = place.finish(process)
    assert ended.returncode == 0, ended.stderr
    for step in range(steps):
        written = {path.name: path.stat().st_size for path in (place.directory / f"step.{step}").iterdir()}
        files = ["model", "optimizer", *(f"layer-{number}" for number in range(44))]
        assert set(written) == {f"{name}-{rank}.pt" for name in files for rank in (0, 1)}
        assert all(written.values())
    assert "of them from the journal" in _text(place.paths.log)
    pipeline = place.replayed()
    assert pipeline.account(time.time()).runs == 1
    assert [each for each in pipeline.decisions if each.time_s < killed_s], "what was decided is remembered"
    assert [each for each in pipeline.decisions if each.time_s > killed_s], "and more is decided"
    assert f"generation {pipeline.advice.generation}" in _text(place.paths.scr_conf)


@pytest.mark.mpi
def test_a_job_that_asks_when_to_checkpoint_gets_the_interval_that_failures_make_worth_it(
    place: Place,
) -> None:
    """With nothing set the embedded engine says at each question that one is due."""
    place.environment = {
        "SCRTUNE_ENGINE": "embedded",
        "SCR_PREFIX": str(place.directory),
        "SCR_CACHE_BASE": str(place.directory / "cache"),
        "SCR_CACHE_BYPASS": "1",
    }
    train = (str(MPIEXEC), "-n", "2", sys.executable, str(TRAIN), "--steps", "100", "--every", "0")
    size = ("--scale", "0.0002", "--compute-ms", "2", "--device-ms", "8")
    ended = place.run(*train, *size, options=("--trace", "off", "--interval", "auto"))
    assert ended.returncode == 0, ended.stderr
    made = place.replayed().decisions
    assert {each.rule for each in made} == {"checkpoint as often as failures make it pay"}
    assert made[0].previous == {"SCR_CHECKPOINT_SECONDS": 0}
    assert f"SCR_CHECKPOINT_SECONDS={made[-1].changes['SCR_CHECKPOINT_SECONDS']}" in ended.stderr
    taken = [step for step in range(100) if (place.directory / f"step.{step}").exists()]
    assert taken[:3] == [0, 1, 2]
    assert len(taken) < 80, "a second has room for many steps"
    place.job_id += "x"
    assert place.run(*train, *size).returncode == 0
    assert (place.directory / "step.99").exists(), "without the option the interval is the user's"


@pytest.mark.mpi
def test_the_next_run_of_an_application_is_told_what_was_learnt_unless_it_is_not_to_remember(
    place: Place,
) -> None:
    """What a run taught is put where its daemon would keep it; the daemon of the next one finds it there."""
    place.environment = {"SCR_PREFIX": str(place.directory), "SCR_CACHE_BASE": str(place.directory / "cache")}
    train = (str(MPIEXEC), "-n", "2", sys.executable, str(TRAIN), "--steps", "2", "--every", "1")
    size = ("--scale", "0.0002", "--compute-ms", "5")
    known = Knowledge(jobs=1, checkpoints=2, baseline_s=0.5, cost_s=0.5)

    def journaled(*options: str) -> list[Event]:
        place.job_id += "x"  # and it has another argument
        assert (
            place.run(*train, *size, "--device-ms", str(len(place.job_id)), options=options).returncode == 0
        )
        return [event for _, event in JournalReader(place.paths.journal)]

    first = journaled()
    (seen,) = (event for event in first if isinstance(event, SettingsObserved))
    assert not [event for event in first if isinstance(event, KnowledgeRecalled)]
    name = f"{Path(sys.executable).name} train.py"
    kind = kind_of(seen, name, place.paths.host, os.environ)
    Memory(memory_directory(os.environ)).keep(kind, known)
    told = [event for event in journaled() if isinstance(event, KnowledgeRecalled | SettingsObserved)]
    assert told == [KnowledgeRecalled(knowledge=known), told[1]]
    assert not [event for event in journaled("--no-memory") if isinstance(event, KnowledgeRecalled)]


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_run_directory_that_cannot_be_used_costs_only_the_tuning(place: Place) -> None:
    place.base.write_text("a file")
    ran = place.run("sh", "-c", "echo ran; exit 3")
    assert (ran.stdout, ran.returncode) == ("ran\n", 3)
    assert "The application runs without scrtune" in ran.stderr


@pytest.mark.parametrize("variable", ["SCRTUNE_RUN_DIR", "TMPDIR"])
@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_a_directory_whose_name_is_not_utf_8_costs_only_the_tuning(
    place: Place, variable: str, locale: dict[str, str]
) -> None:
    place.environment = {"SCRTUNE_RUN_DIR": "", "XDG_RUNTIME_DIR": "", **locale}
    place.environment[variable] = os.fsdecode(os.fsencode(place.base) + b"\xff")
    Path(place.environment[variable]).mkdir()
    ran = place.run("sh", "-c", "echo ran; exit 3")
    assert (ran.stdout, ran.returncode) == ("ran\n", 3)
    assert re.search("is not UTF-8.*The application runs without scrtune", ran.stderr), ran.stderr


def test_whatever_the_umask_is_others_write_to_nothing_of_ours(place: Place) -> None:
    before = os.umask(0)
    try:
        process = place.start("sh", "-c", HOLD)
        until(lambda: place.paths.control_socket.exists() and place.paths.log.exists(), "a daemon")
        made = [place.base, *place.base.rglob("*"), place.paths.trace_directory]
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made}
        (place.directory / "let_go").touch()
        assert place.finish(process).returncode == 0
    finally:
        os.umask(before)
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o022} == {}
    assert modes[place.paths.log] == 0o600


def test_a_config_path_that_cannot_be_written_costs_only_the_tuning(place: Place) -> None:
    target = place.directory / "file" / "scr.conf"
    target.parent.write_text("no directory")
    ran = place.run("sh", "-c", "echo ran $SCR_CONF_FILE", options=("--scr-conf", str(target)))
    assert (ran.stdout, ran.returncode) == ("ran\n", 0)
    assert str(target.parent) in ran.stderr


def test_two_runs_of_one_job_at_a_time_share_no_daemon(place: Place) -> None:
    first = place.start("sh", "-c", HOLD, options=("--trace", "off"))
    until(place.paths.control_socket.exists, "a daemon that listens")
    with place.start(*SHOW_ENVIRONMENT) as second:
        output, errors = second.communicate(timeout=100)
    assert second.returncode == 0
    assert "SCRTUNE_JOB_ID" not in json.loads(output)
    assert "already runs" in errors
    assert "checkpoint" not in errors, "what became of the first run is not the second's to say"
    (place.directory / "let_go").touch()
    assert place.finish(first).returncode == 0


class TestWithASrunOfOurOwn:
    """What the nodes say, and what becomes of it; `tests/daemon/launch/test_slurm.py` has the real one."""

    def run(self, place: Place, srun: str | None) -> "subprocess.CompletedProcess[str]":
        programs = place.directory / "bin"
        programs.mkdir()
        for name in ("sh", "echo", "cat"):
            (programs / name).symlink_to(f"/bin/{name}")
        if srun is not None:
            (programs / "srun").write_text(f"#!/bin/sh\n{srun}\n")
            (programs / "srun").chmod(0o755)
        place.environment = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "2", "PATH": str(programs)}
        return place.run("sh", "-c", "echo ran $SLURM_TASK_PROLOG; exit 4")

    @pytest.mark.parametrize(
        ("srun", "warning"),
        [
            (None, "No such file or directory: 'srun'"),
            ("echo 'srun: error: out of order' >&2; exit 1", "0 of 2 nodes have a daemon"),
            ("echo ready; exit 1", "1 of 2 nodes have a daemon"),
            ("echo ready; echo no prolog; cat", "not every node has seen"),
        ],
    )
    def test_unless_every_node_sees_the_prolog_it_is_not_used(
        self, place: Place, srun: str | None, warning: str
    ) -> None:
        ran = self.run(place, srun)
        assert (ran.stdout, ran.returncode) == ("ran\n", 4)
        assert warning in ran.stderr

    def test_a_signal_while_the_nodes_start_ends_the_start(self, place: Place) -> None:
        place.environment = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "2"}
        (place.directory / "srun").write_text("#!/bin/sh\ntouch asked\ncat\n")
        (place.directory / "srun").chmod(0o755)
        place.environment["PATH"] = f"{place.directory}:{os.environ['PATH']}"
        process = place.start("touch", "ran", options=("--trace", "off"))
        until((place.directory / "asked").exists, "a step")
        process.send_signal(signal.SIGTERM)
        assert place.finish(process).returncode == 128 + signal.SIGTERM
        assert not (place.directory / "ran").exists()

    @pytest.mark.parametrize(
        ("answers", "warned"), [("echo ready; echo ready", False), ("echo ready; echo no daemon", True)]
    )
    def test_a_node_without_a_daemon_costs_the_others_nothing(
        self, place: Place, answers: str, warned: bool
    ) -> None:
        ran = self.run(place, f"{answers}; cat >told")
        assert ran.stdout == f"ran {place.directory}/.scrtune-{os.getuid()}/{place.job_id}/task_prolog.sh\n"
        assert ran.returncode == 4
        assert ("1 of 2 nodes have a daemon" in ran.stderr) == warned
        assert (place.directory / "told").read_text() == "4\n", "the exit code goes to the nodes"


@pytest.mark.parametrize(
    ("environment", "inside"),
    [
        ({}, False),
        ({"SLURM_JOB_ID": "1"}, True),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "4294967291"}, True),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "4294967290"}, True),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, False),
    ],
)
def test_a_batch_script_is_in_the_allocation_a_task_is_in_its_step(
    environment: dict[str, str], inside: bool
) -> None:
    assert in_allocation(environment) == inside


def test_a_job_of_slurm_has_slurms_id_and_a_run_directory_that_every_node_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    monkeypatch.delenv("SCRTUNE_RUN_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert job_paths(None).job_id == "42"
    assert job_paths(None).base == Path(tempfile.gettempdir()) / f"scrtune-{os.getuid()}"
    assert job_paths("mine").job_id == "mine"


def test_a_run_directory_given_from_here_is_the_same_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", "run")
    assert job_paths("mine").base == Path.cwd() / "run"


_VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=30)


def slurm_job(variables: dict[str, str], library: Path | None = None) -> Job:
    return Job(files=ConfigFiles(scr_conf=Path("/c")), variables=variables, library=library)


@settings(max_examples=30)
@given(
    value=_VALUES,
    of_the_node=_VALUES,
    preloaded=st.sampled_from(["", "a.so", "a.so:/b c/d.so"]),
    library=st.sampled_from([None, Path("/it's/lib.so")]),
)
def test_a_task_prolog_prints_every_value_as_it_is(
    value: str, of_the_node: str, preloaded: str, library: Path | None
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run_dir = Path(directory, "it's $HOME")
        paths = JobPaths.of("17", base=run_dir)
        paths.root.mkdir(parents=True)
        lines = f"export DFTRACER_DATA_DIR={of_the_node}\nexport LD_PRELOAD=ours.so\n"
        paths.environment.write_text(lines, encoding="utf-8")
        variables = {"SCRTUNE_JOB_ID": "17", "SCRTUNE_RUN_DIR": str(run_dir), "SCR_CONF_FILE": value}
        ran = subprocess.run(
            ["sh", "-c", prolog_text(slurm_job(variables, library), {})],
            env={"LD_PRELOAD": preloaded, "PATH": os.environ["PATH"]},
            capture_output=True,
            check=True,
        )
    files = {"SCRTUNE_DECISION_FILE": str(paths.decision), "SCRTUNE_EVENTS_FILE": str(paths.library_events)}
    merged = ":".join([*([str(library)] if library else []), "ours.so", *([preloaded] if preloaded else [])])
    expected = {
        **variables,
        "DFTRACER_DATA_DIR": of_the_node,
        **(files if library else {}),
        "LD_PRELOAD": merged,
    }
    assert ran.stdout.decode() == "".join(f"export {name}={text}\n" for name, text in expected.items())


def test_a_task_prolog_whose_node_has_no_daemon_prints_the_jobs_variables_at_once(tmp_path: Path) -> None:
    variables = {"SCRTUNE_JOB_ID": "17", "SCRTUNE_RUN_DIR": str(tmp_path / "gone")}
    script = prolog_text(slurm_job(variables), {})
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [f"export {name}={value}" for name, value in variables.items()]


def test_a_node_without_a_daemon_has_the_library_too_for_the_ranks_agree_by_it(tmp_path: Path) -> None:
    variables = {"SCRTUNE_JOB_ID": "17", "SCRTUNE_RUN_DIR": str(tmp_path / "gone")}
    script = prolog_text(slurm_job(variables, Path("/lib.so")), {})
    ran = subprocess.run(
        ["sh", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "export LD_PRELOAD=/lib.so"
    assert f"export SCRTUNE_DECISION_FILE={JobPaths.of('17', base=tmp_path / 'gone').decision}" in ran.stdout


class TestConfigFiles:
    """What the file to rewrite holds when a run of the job begins."""

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".scrconf").write_text("SCR_FLUSH=2\n")

    @pytest.fixture
    def default(self, tmp_path: Path) -> Path:
        (tmp_path / "job").mkdir()
        return tmp_path / "job" / "scr.conf"

    @pytest.fixture(params=["", "elsewhere/scr.conf"])
    def options(self, request: pytest.FixtureRequest) -> JobOptions:
        return JobOptions(scr_conf=Path(request.param) if request.param else None)

    def test_first_the_users_own(self, default: Path, options: JobOptions, tmp_path: Path) -> None:
        files = config_files(default, options, {})
        assert files.user_conf == tmp_path / ".scrconf"
        assert files.scr_conf == (tmp_path / options.scr_conf if options.scr_conf else default)
        assert files.scr_conf.read_text() == "SCR_FLUSH=2\n"

    def test_in_a_later_run_what_was_tuned_in_an_earlier_one(
        self, default: Path, options: JobOptions
    ) -> None:
        config_files(default, options, {}).scr_conf.write_text("SCR_FLUSH=5\n")
        assert config_files(default, options, {}).scr_conf.read_text() == "SCR_FLUSH=5\n"

    def test_the_users_own_again_when_they_have_changed_it(self, default: Path, options: JobOptions) -> None:
        config_files(default, options, {}).scr_conf.write_text("SCR_FLUSH=5\n")
        Path("other.conf").write_text("SCR_FLUSH=3\n")
        files = config_files(default, options, {"SCR_CONF_FILE": "other.conf"})
        assert files.scr_conf.read_text() == "SCR_FLUSH=3\n"

    def test_another_jobs_tuning_is_not_taken_over(self, default: Path, tmp_path: Path) -> None:
        options = JobOptions(scr_conf=tmp_path / "scr.conf")
        config_files(default, options, {}).scr_conf.write_text("SCR_FLUSH=5\n")
        (tmp_path / "other").mkdir()
        files = config_files(tmp_path / "other" / "scr.conf", options, {})
        assert files.scr_conf.read_text() == "SCR_FLUSH=2\n"

    def test_the_users_own_file_may_be_the_one_that_is_rewritten(self, tmp_path: Path) -> None:
        own = tmp_path / ".scrconf"
        files = config_files(tmp_path / "scr.conf", JobOptions(scr_conf=Path(".scrconf")), {})
        assert (files.scr_conf, own.read_text()) == (own, "SCR_FLUSH=2\n")

    def test_none_is_none(self, tmp_path: Path) -> None:
        files = config_files(tmp_path / "scr.conf", JobOptions(), {"SCR_CONF_FILE": "elsewhere"})
        assert (files.user_conf, files.scr_conf.read_text()) == (None, "")
