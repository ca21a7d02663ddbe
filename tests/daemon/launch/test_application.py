"""The application runs as it would without `scrtune run`: its options, exit code and signals."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scrtune.daemon.journal.records import JournalReader
from scrtune.goodput.events import JobEnded

from ...conftest import until
from .place import HOLD, SHOW_ENVIRONMENT, Place


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


@pytest.mark.parametrize("command", ["./no-such-program", "/"])
def test_a_command_that_cannot_be_started_leaves_no_run_behind(place: Place, command: str) -> None:
    said = place.run(command).stderr
    assert command in said
    assert not list(place.base.glob("*"))


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


def test_no_signal_is_lost_while_the_application_is_being_started(place: Place) -> None:
    script = "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; touch up; while :; do sleep 0.05; done"
    code = """
import os, pathlib, signal, subprocess, sys, time
class Slow(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        while not pathlib.Path("up").exists():
            time.sleep(0.01)
        for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
            os.kill(os.getpid(), number)
subprocess.Popen = Slow
from scrtune.cli.main import main
sys.exit(main(["run", "--trace", "off", "--", "sh", "-c", sys.argv[1]]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, script],
        cwd=place.directory,
        env={**os.environ, "SCRTUNE_RUN_DIR": str(place.base)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (ended.returncode, ended.stdout.split()) == (5, ["usr1", "term"]), ended.stderr


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
