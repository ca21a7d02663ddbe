"""The command line: what it shows of a job, what shells get, and its exit codes (`docs/cli.md`)."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from scrtune.cli import main as cli
from scrtune.cli.views.replay import ReplayView
from scrtune.client.libscr.native import libscrtune_path
from scrtune.client.paths import JOB_ID_VARIABLES, JobPaths
from scrtune.daemon.journal import Journal
from scrtune.daemon.launch.preload import export_text
from scrtune.daemon.views import ExplainView, GoodputView, StatusView
from scrtune.goodput.events import (
    JobEnded,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    StepCompleted,
)
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event, EventsLost, SettingsObserved, TraceDigest
from scrtune.scr_config.decision import decision_text

from ..support.simulated_job import CACHED, Job

TRACES = Path(__file__).parents[1] / "data" / "traces"
DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
SHOWING = ("status", "explain", "goodput")
KINDS: dict[str, Any] = {"status": StatusView, "explain": ExplainView, "goodput": GoodputView}

BEGUN_S = float(int(time.time()) - 100)  # a daemon does not believe in events of another age
# `declared` is above the scheme in use, so that one change is made at once
JOB: tuple[Event, ...] = (
    JobStarted(time_s=BEGUN_S, ranks=4, nodes=4),
    SettingsObserved(
        settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0},
        sources={"SCR_COPY_TYPE": "user config", "SCR_CACHE_BYPASS": "user config"},
        engine="embedded",
        ranks=4,
        nodes=4,
        floor="XOR",
    ),
    StepCompleted(step=1, start_s=BEGUN_S + 1, end_s=BEGUN_S + 3),
    OutputStarted(dataset=1, name="c1", time_s=BEGUN_S + 3, generation=1),
    OutputCompleted(
        dataset=1, name="c1", start_s=BEGUN_S + 3, end_s=BEGUN_S + 4, generation=1, bytes=2**30, write_s=1.0
    ),
    TraceDigest(lines=12, events=10, dropped={"broken json": 2}),
    EventsLost(source="emit:n1:7: dropped, its queue was full", count=5),
    JobEnded(time_s=BEGUN_S + 5, exit_code=0),
)

Scrtune = Callable[..., Result]


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run directories of this test alone."""
    for name in JOB_ID_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "r"))
    return tmp_path / "r"


@pytest.fixture
def scrtune() -> Scrtune:
    return lambda *arguments: CliRunner().invoke(cli.main, [str(each) for each in arguments])


def run_directory(job_id: str) -> JobPaths:
    paths = JobPaths.of(job_id)
    paths.root.mkdir(parents=True)
    return paths


def ended_job(job_id: str, events: tuple[Event, ...] = JOB) -> JobPaths:
    """A job as it is found when its daemon has gone."""
    paths = run_directory(job_id)
    journal = Journal(paths.journal)
    for event in events:
        journal.append(BEGUN_S + 10, event)
    journal.flush(BEGUN_S)
    journal.close()
    return paths


def view(scrtune: Scrtune, command: str, *options: str) -> Any:
    shown = scrtune(command, "--format", "json", *options)
    assert shown.exit_code == 0, shown.stderr
    return msgspec.json.decode(shown.stdout, type=KINDS[command])


# --- a job that has ended, and one that runs


def test_what_is_shown_of_an_ended_job_comes_from_its_journal(scrtune: Scrtune) -> None:
    ended_job("j")
    status = view(scrtune, "status", "--job-id", "j")
    assert (status.job_id, status.running, status.ranks, status.checkpoints) == ("j", False, 4, 1)
    assert status.counters.dropped == {"broken json": 2}
    assert view(scrtune, "explain").settings["SCR_COPY_TYPE"] == "XOR"
    account = view(scrtune, "goodput").account
    assert account.wall_s == pytest.approx(5.0)
    assert sum(account.buckets.values()) == pytest.approx(5.0)


def test_tables_say_it_for_people(scrtune: Scrtune) -> None:
    ended_job("j")
    status, explained, goodput = (" ".join(scrtune(command).stdout.split()) for command in SHOWING)
    assert "has ended (read from its journal)" in status
    assert "dropped lines 2 broken json" in status
    assert "lost 5 emit:n1:7: dropped, its queue was full" in status
    assert "SCR_COPY_TYPE SINGLE -> XOR" in explained
    assert "keep the redundancy floor" in explained
    assert re.search(r"productive 2\.000 40\.0%", goodput)


def test_a_running_job_shows_what_its_journal_will_show(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*JOB)
    daemon.until_events(len(JOB))
    running = [view(scrtune, command, "--job-id", "j") for command in SHOWING]
    assert running[0].running
    daemon.end(15)
    ended = [view(scrtune, command, "--job-id", "j") for command in SHOWING]
    of_the_process = {"running": False, "config": "", "rewrites": 0, "rejected": {}, "monitors": ()}
    assert ended == [msgspec.structs.replace(running[0], **of_the_process), *running[1:]]


def test_each_change_says_what_it_saved_or_cost_whether_its_job_runs_or_not(
    scrtune: Scrtune, real_daemon: Any
) -> None:
    """The first job's steps lose 0.1 s beside a flush that took 4 s before; the second one's lose 6 s."""
    for job_id, slowed_s, verdict, words in (
        ("j", 0.1, "kept", r"saves 3\.900 s of 5\.000 s a checkpoint \(-?\d\.\d\d\d to"),
        ("lost", 6.0, "taken back", r"costs 2\.000 s more than 5\.000 s a checkpoint \(-?\d\.\d\d\d to"),
    ):
        paths = run_directory(job_id)
        journal = Journal(paths.journal)
        for now, event in Job(CACHED, noise=0).checkpoints(20, slowed_s=slowed_s).journal:
            journal.append(now, event)
        journal.flush(BEGUN_S)
        journal.close()
        shown = " ".join(scrtune("explain", "--job-id", job_id).stdout.split())
        assert verdict in shown
        assert re.search(words + r" \d\.\d\d\d s with 90 %, in \d pairs?\)", shown), shown
        explained = view(scrtune, "explain", "--job-id", job_id)
        assert explained.gains
        assert explained.gains == view(scrtune, "goodput", "--job-id", job_id).gains
    ended = view(scrtune, "explain", "--job-id", "j")
    daemon = real_daemon.start()
    assert daemon.view("explain").gains == ()
    assert view(scrtune, "explain", "--job-id", "j").gains == ended.gains


@pytest.mark.parametrize("command", [*SHOWING, "env"])
def test_a_job_that_never_was_is_exit_code_3_and_nothing_on_standard_output(
    scrtune: Scrtune, command: str
) -> None:
    for arguments in ([], ["--job-id", "nobody"]):
        ran = scrtune(command, *arguments)
        assert (ran.exit_code, ran.stdout) == (3, "")
        assert ran.stderr.startswith("scrtune: ")
        assert "start one with `scrtune run`" in ran.stderr
    run_directory("nobody")
    ran = scrtune(command, "--job-id", "nobody")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert "no journal; the job's daemon never ran" in ran.stderr


@pytest.mark.parametrize("command", SHOWING)
def test_a_file_that_is_no_journal_is_exit_code_5(scrtune: Scrtune, command: str) -> None:
    run_directory("j").journal.write_text("a shopping list")
    ran = scrtune(command)
    assert (ran.exit_code, ran.stdout) == (5, "")
    assert "not a journal of this version; move it away" in ran.stderr


def test_the_job_is_the_one_named_or_of_the_environment_or_the_latest(
    scrtune: Scrtune, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("first", "second")):
        os.utime(ended_job(name).journal, (0, 100 + number))
    assert view(scrtune, "status").job_id == "second"
    monkeypatch.setenv("SLURM_JOB_ID", "first")
    assert view(scrtune, "status").job_id == "first"
    assert view(scrtune, "status", "--job-id", "second").job_id == "second"
    monkeypatch.setenv("SLURM_JOB_ID", "untuned")
    assert view(scrtune, "status").job_id == "second"


# --- the environment


def published(settings: dict[str, Any]) -> JobPaths:
    paths = ended_job("j")
    paths.decision.write_text(decision_text(Advice(generation=1, settings=settings)))
    return paths


NASTY = {
    "SCR_CACHE_SIZE": 3,
    "SCR_COPY_TYPE": "XOR",
    "SCR_CLUSTER_NAME": 'it\'s "quoted" $HOME `id` $(id) \\ ; & | ! * ? [a] {b} ~ # %s \t end',
    "SCR_CURRENT": "/a dir/with spaces",
    "SCRTUNE_FLUSH_CPUS": "",
}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_real_shell_gets_exactly_the_settings(shell: str) -> None:
    published(NASTY)
    before = shell_environment(shell, ":")
    after = shell_environment(shell, f'eval "$({sys.executable} -m scrtune env --job-id j)"')
    assert after == {**before, **{name: str(value) for name, value in NASTY.items()}}


def shell_environment(shell: str, command: str) -> dict[str, str]:
    """What a program has in its environment when `shell` starts it after `command`."""
    script = [shell, "-c", f"{command} && env -0"]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    return dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)


def test_the_same_as_json(scrtune: Scrtune) -> None:
    published(NASTY)
    assert msgspec.json.decode(scrtune("env", "--job-id", "j", "--format", "json").stdout) == {
        name: str(value) for name, value in NASTY.items()
    }


def test_a_running_job_is_asked(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    by_hand = f"export SCRTUNE_JOB_ID=j\nexport SCRTUNE_RUN_DIR={daemon.paths.base}\n"
    by_hand += "export SCR_LOG_ENABLE=1\nexport SCR_LOG_SYSLOG_ENABLE=0\n"
    assert scrtune("env", "--preload", "never").stdout == by_hand, "nothing is known yet"
    daemon.tell(*JOB[:2])
    daemon.until_events(2)
    tuned = "export SCR_CACHE_BYPASS=0\nexport SCR_COPY_TYPE=XOR\n"
    assert scrtune("env", "--preload", "never").stdout == tuned + by_hand
    daemon.end(9)
    assert scrtune("env", "--job-id", "j").stdout == tuned, "there is nobody to be tuned by"
    ran = scrtune("env")
    assert (ran.exit_code, ran.stdout) == (3, ""), "it has ended"
    assert "name one that has ended with --job-id" in ran.stderr


def test_of_several_running_jobs_one_must_be_named(
    scrtune: Scrtune, real_daemon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = real_daemon.start()
    other = run_directory("other")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(other.control_socket))
        listening.listen()
        ran = scrtune("env")
        assert (ran.exit_code, ran.stdout) == (3, "")
        assert "several jobs run here (j, other); name one with --job-id" in ran.stderr
        monkeypatch.setenv("SCRTUNE_JOB_ID", "j")
        assert "export SCRTUNE_JOB_ID=j\n" in scrtune("env").stdout
        assert daemon.paths.control_socket.exists()


def test_where_a_job_is_and_what_it_is_called_is_nobody_elses(scrtune: Scrtune) -> None:
    places = {
        "SCR_CACHE_BASE": "/ssd/old",
        "SCR_CNTL_BASE": "/dev/shm/old",  # noqa: S108
        "SCR_CONF_FILE": "/run/old/scr.conf",
        "SCR_JOB_ID": "old",
        "SCR_JOB_NAME": "old",
        "SCR_PREFIX": "/pfs/old",
        "SCR_USER_NAME": "old",
    }
    published({**places, "SCR_FLUSH": 4})
    assert scrtune("env", "--job-id", "j").stdout == "export SCR_FLUSH=4\n"


def test_what_the_jobs_own_settings_say_of_scrs_log_stands(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    own = SettingsObserved(settings={"SCR_LOG_ENABLE": 0}, sources={"SCR_LOG_ENABLE": "user config"})
    daemon.tell(JOB[0], own)
    daemon.until_events(2)
    lines = scrtune("env", "--preload", "never").stdout.splitlines()
    assert [line for line in lines if "SCR_LOG_ENABLE" in line] == ["export SCR_LOG_ENABLE=0"]


LIBRARY = "/opt/it's/libscrtune.so"
SHELLS = {"sh": "sh", "bash": "sh", "csh": "csh", "tcsh": "csh", "fish": "fish"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("own", "merged"),
    [
        (None, LIBRARY),
        ("", LIBRARY),
        ("/a.so", f"{LIBRARY}:/a.so"),
        ("/a.so:/b.so", f"{LIBRARY}:/a.so:/b.so"),
        (f"/a.so:{LIBRARY}", f"/a.so:{LIBRARY}"),
    ],
)
def test_in_a_real_shell_its_own_preloaded_libraries_stay_behind_ours_which_is_there_once(
    shell: str, own: str | None, merged: str, tmp_path: Path
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    text = export_text({"SCR_FLUSH": 3}, {"LD_PRELOAD": LIBRARY, "OTHER": "o"}, SHELLS[shell], "/not/this.so")
    script = tmp_path / "script"
    # under another name: the programs of this test shall not try to preload anything
    script.write_text(text.replace("LD_PRELOAD", "PRELOADED"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {} if own is None else {"PRELOADED": own}
    source = "." if SHELLS[shell] == "sh" else "source"
    ran = subprocess.run(
        [program, "-c", f"{source} {script}; {source} {script}; env -0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    after = dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)
    assert ran.stderr == ""
    assert (after["PRELOADED"], after["SCR_FLUSH"], after["OTHER"]) == (merged, "3", "o")


def test_forms_that_no_shell_reads_have_the_whole_value() -> None:
    variables = {"LD_PRELOAD": LIBRARY}
    merged = f"{LIBRARY}:/a.so:/b.so"
    own = "/a.so /b.so"
    assert msgspec.json.decode(export_text({}, variables, "json", own)) == {"LD_PRELOAD": merged}
    assert export_text({}, variables, "slurm", own) == f"export LD_PRELOAD={merged}\n"
    assert export_text({}, variables, "flux", own) == f"--env=LD_PRELOAD={merged}\n"
    assert export_text({}, variables, "slurm", merged) == f"export LD_PRELOAD={merged}\n"


@pytest.mark.skipif(libscrtune_path() is None, reason="libscrtune.so was not built")
def test_an_application_that_is_started_by_hand_gets_the_library(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    for preload in ("auto", "always"):
        variables = msgspec.json.decode(scrtune("env", "--format", "json", "--preload", preload).stdout)
        assert variables["LD_PRELOAD"].split(":")[0] == str(libscrtune_path())
        assert variables["SCRTUNE_DECISION_FILE"] == str(daemon.paths.decision)
        assert variables["SCRTUNE_EVENTS_FILE"] == str(daemon.paths.library_events)


def test_an_environment_gets_nothing_of_another_job(
    scrtune: Scrtune, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(NASTY)
    monkeypatch.setenv("SLURM_JOB_ID", "untuned")
    ran = scrtune("env")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert "no trace of job 'untuned'" in ran.stderr


# --- replay


def test_replay_prints_what_traces_recommend(scrtune: Scrtune) -> None:
    traces = TRACES / "gen4-broken-strings"
    shown = scrtune("replay", traces, "--cores", 4, "--format", "json")
    replayed = msgspec.json.decode(shown.stdout, type=ReplayView)
    assert (replayed.files, replayed.checkpoints, replayed.counters.dropped) == (1, 3, {"broken json": 2})
    table = " ".join(scrtune("replay", traces, "--cores", 4).stdout.split())
    assert "dropped 2 lines: 2 broken json" in table


def test_replay_takes_the_config_in_any_encoding(scrtune: Scrtune, tmp_path: Path) -> None:
    conf = tmp_path / "scr.conf"
    conf.write_bytes(b"SCR_GROUP=n\xe4\nSCR_COPY_TYPE=PARTNER\n")
    shown = scrtune("replay", TRACES / "gen4-preload", "--conf", conf)
    assert shown.exit_code == 0
    assert "PARTNER" in shown.stdout


def test_replay_says_what_is_wrong_in_both_config_files(scrtune: Scrtune, tmp_path: Path) -> None:
    user, system = tmp_path / "user.conf", tmp_path / "system.conf"
    user.write_text("SCR_FLUSH=ten\nSCR_CACHE_BASE=$SSD/cache\n")
    system.write_text("SCR_COPY_TYPE=PARTNER\nSCR_FLUHS=1\x1b[2J\n")
    shown = scrtune("replay", TRACES / "gen4-preload", "--conf", user, "--system-conf", system)
    assert shown.exit_code == 0
    assert "PARTNER" in shown.stdout
    told = shown.stderr.splitlines()
    assert [line.partition(" error: ")[0].partition(" warning: ")[0] for line in told] == [
        f"scrtune: {user}: line 2, column 16:",
        f"scrtune: {system}: line 2, column 1:",
        f"scrtune: {user}: line 1, column 11:",
    ]
    assert "the job's environment is not known here: this value is left out" in told[0]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["/nowhere"], 1, "scrtune: /nowhere: not there; name .pfw or .pfw.gz files"),
        ([], 2, "Missing argument 'TRACE...'"),
        (["x", "--cores", "-1"], 2, "-1 is not in the range x>=0"),
        (["x", "--conf", "/nowhere"], 2, "File '/nowhere' does not exist"),
        (["x", "--system-conf", "/nowhere"], 2, "File '/nowhere' does not exist"),
        (["x", "--redundancy-floor", "leaning"], 2, "'leaning' is not one of"),
    ],
)
def test_what_replay_cannot_do_is_said(scrtune: Scrtune, arguments: list[str], code: int, text: str) -> None:
    ran = scrtune("replay", *arguments)
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert text in ran.stderr


# --- in general


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    ended_job("j")
    process = subprocess.Popen(
        [sys.executable, "-m", "scrtune", "explain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors


def test_the_module_is_the_command() -> None:
    for command in ([sys.executable, "-m", "scrtune"], [Path(sys.executable).parent / "scrtune"]):
        ran = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=True)
        assert re.fullmatch(r"scrtune, version \d+\.\d+\.\d+.*\n|.*version \d+\.\d+\.\d+.*\n", ran.stdout)


def options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


@pytest.mark.parametrize("name", sorted(cli.main.commands))
def test_every_commands_help_says_what_it_does_and_what_each_option_does(scrtune: Scrtune, name: str) -> None:
    command = cli.main.commands[name]
    shown = scrtune(name, "--help")
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert command.help
    first = " ".join(command.help.split("\n\n")[0].split())
    assert first[0].isupper()
    assert first.endswith(".")
    if not command.hidden:
        assert all(option.help for option in options_of(command)), name


@pytest.mark.parametrize("name", sorted(name for name, each in cli.main.commands.items() if not each.hidden))
def test_the_page_names_every_command_and_option(name: str) -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    _, _, section = page.partition(f"\n## scrtune {name}\n")
    section = section.partition("\n## ")[0]
    assert section, f"docs/cli.md has no section on {name}"
    documented = set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE))
    assert documented == {option.opts[0] for option in options_of(cli.main.commands[name])}


def test_the_page_names_every_exit_code() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    codes = {value for name, value in vars(cli).items() if name.startswith("EXIT_")}
    documented = set(re.findall(r"^\| (\d+)[^|]*\|", page, re.MULTILINE))
    assert {str(code) for code in codes} <= documented
