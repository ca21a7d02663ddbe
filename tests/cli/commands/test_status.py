"""`scrtune status`, `explain` and `goodput` of a job: from its daemon, and from its journal."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from scrtune.cli.tables.job import sparkline
from scrtune.daemon.views import ExplainView, GoodputView, StatusView
from scrtune.intents.events import EventsLost

from ...support.ended_job import JOB, ended_job, run_directory

pytestmark = pytest.mark.usefixtures("base")

Scrtune = Callable[..., Result]
SHOWING = ("status", "explain", "goodput")
KINDS: dict[str, Any] = {"status": StatusView, "explain": ExplainView, "goodput": GoodputView}


def view(scrtune: Scrtune, command: str, *options: str) -> Any:
    shown = scrtune(command, "--format", "json", *options)
    assert shown.exit_code == 0, shown.stderr
    return msgspec.json.decode(shown.stdout, type=KINDS[command])


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
    assert not ended[1].running
    ended[1] = msgspec.structs.replace(ended[1], running=True)
    of_the_process = {"running": False, "config": "", "rewrites": 0, "rejected": {}, "monitors": ()}
    assert ended == [msgspec.structs.replace(running[0], **of_the_process), *running[1:]]


def test_a_daemon_that_does_not_answer_has_not_ended(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*JOB)
    daemon.until_events(len(JOB))
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        shown = scrtune("status", "--job-id", "j").stdout
        assert view(scrtune, "explain", "--job-id", "j").running
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert "runs, but does not answer (read from its journal)" in shown


def watching(**streams: Any) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "scrtune", "status", "--watch", "--job-id", "j"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "60"}
    return subprocess.Popen(command, env=environment, **streams)


def test_a_job_is_watched_until_it_has_ended(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*JOB)
    daemon.until_events(len(JOB))
    process = watching(stdout=subprocess.PIPE)
    daemon.end(15)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert not re.search(rb" \n", shown)
    table = " ".join(shown.decode().split())
    for said in ("daemon has ended", "goodput 40.0%", "Cost of the last 1 checkpoint, each █ 1.00 s"):
        assert said in table
    assert table.count("goodput") == 1  # into a pipe there is one frame


def test_a_watched_job_is_drawn_anew_as_it_changes_until_ctrl_c(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*JOB[:2])
    daemon.until_events(2)
    terminal, end = pty.openpty()
    process = watching(stdout=end, stdin=end, stderr=end)
    os.close(end)
    shown = until_shown(terminal, b"none measured yet")
    daemon.tell(*JOB[2:])
    shown += until_shown(terminal, b"Cost of the last 1 checkpoint")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    os.close(terminal)
    assert b"Traceback" not in shown
    assert daemon.answers()


def test_escapes_in_what_was_told_do_not_reach_the_terminal_of_who_watches(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*JOB[:-1], EventsLost(source="\x1b]0;title\x07rank", count=3))
    daemon.until_events(len(JOB))
    terminal, end = pty.openpty()
    process = watching(stdout=end, stdin=end, stderr=end)
    os.close(end)
    shown = until_shown(terminal, b"rank")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    os.close(terminal)
    assert b"\x1b]0;" not in shown
    assert b"\x07" not in shown


def until_shown(terminal: int, text: bytes) -> bytes:
    shown = b""
    while text not in shown:
        shown += os.read(terminal, 65_536)  # fails once nobody writes any more
    return shown


def test_bars_are_as_high_as_what_they_stand_for() -> None:
    assert sparkline([8.0, 0.0, 4.0, -1.0, 1.0]) == "█▁▅▁▂"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""


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


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    ended_job("j")
    process = subprocess.Popen(
        [sys.executable, "-m", "scrtune", "explain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors
