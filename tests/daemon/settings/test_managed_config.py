"""The config file that the daemon rewrites: whole, the user's own first, and never ahead of the advice."""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.paths import JobPaths
from scrtune.daemon.options import DaemonOptions
from scrtune.daemon.settings.executor import Executor
from scrtune.goodput.events import JobStarted
from scrtune.intents.effects import Advice
from scrtune.intents.events import SettingsObserved
from scrtune.scr_config.catalogue import CATALOGUE
from scrtune.scr_config.ownership import BACKUP_SUFFIX
from scrtune.scr_config.parse import assumed, parse

WaitUntil = Callable[[Callable[[], object]], None]
PASSWORD = "hunter2"  # noqa: S105
OWN = f"""\
# the project's settings
SCR_COPY_TYPE=SINGLE
SCR_CACHE_BASE=$TMPDIR/cache
SCR_LOG_DB_PASS={PASSWORD}
SCR_FUTURE_PARAMETER=3
STORE=$TMPDIR/ssd COUNT=2
CKPT=0 INTERVAL=1 TYPE=XOR
"""
NOW = 1795262400.0  # 2026-11-21, 12:00:00 UTC
ADVICE = Advice(generation=3, settings={"SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 4}, reason="a test")


def executor(base: Path, own: str | None = None) -> Executor:
    paths = JobPaths.of("j", host="n", base=base)
    paths.root.mkdir(parents=True, exist_ok=True)
    user_conf = None
    if own is not None:
        user_conf = base / "own.conf"
        user_conf.write_bytes(own.encode("utf-8", "surrogateescape"))
    return Executor(DaemonOptions(paths=paths, scr_conf=base / "scr.conf", user_conf=user_conf))


def body(path: Path) -> list[str]:
    """The lines below the header."""
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_the_header_says_who_wrote_it_when_and_for_which_decision(tmp_path: Path) -> None:
    executor(tmp_path).publish(ADVICE, NOW)
    first, second, *tuned, digest = (tmp_path / "scr.conf").read_text().splitlines()[:5]
    assert first == "# Written by scrtune at 2026-11-21T12:00:00Z on n, generation 3. a test"
    assert second.startswith("# Edit what you like: what you write here wins")
    assert tuned == [
        "# scrtune-tuned: SCR_COPY_TYPE: not set -> XOR",
        "# scrtune-tuned: SCR_FLUSH: not set -> 4",
    ]
    assert re.fullmatch("# scrtune-sha256: [0-9a-f]{64}", digest)


def test_it_is_the_users_own_text_but_for_what_is_advised(tmp_path: Path) -> None:
    made = executor(tmp_path, OWN)
    made.publish(ADVICE, NOW)
    header, own = (tmp_path / "scr.conf").read_text().split("\n# the project's settings\n")
    assert header.splitlines()[2:-1] == [
        "# scrtune-tuned: SCR_COPY_TYPE: SINGLE -> XOR",
        "# scrtune-tuned: SCR_FLUSH: not set -> 4",
    ]
    assert (
        own
        == f"""\
SCR_COPY_TYPE=XOR
SCR_CACHE_BASE=$TMPDIR/cache
SCR_LOG_DB_PASS={PASSWORD}
SCR_FUTURE_PARAMETER=3
STORE=$TMPDIR/ssd COUNT=2
CKPT=0 INTERVAL=1 TYPE=XOR

# Added by scrtune:
SCR_FLUSH=4
"""
    )
    made.publish(Advice(generation=4), NOW)
    assert (tmp_path / "scr.conf").read_text().endswith("\n" + OWN), "what is advised no longer is gone"


def test_a_line_that_says_already_what_is_advised_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAST", "/ssd")
    own = "SCR_FILE_BUF_SIZE = 4MB # ours\nSCR_CACHE_BASE=$FAST/cache\nSCRTUNE_FLUSH_THREADS=2\n"
    settings = {"SCR_FILE_BUF_SIZE": 4 * 1024**2, "SCR_CACHE_BASE": "/ssd/cache", "SCRTUNE_FLUSH_THREADS": 8}
    executor(tmp_path, own).publish(Advice(generation=1, settings=settings), NOW)
    assert (tmp_path / "scr.conf").read_text().endswith("\n" + own)


def test_what_scr_would_fail_on_is_a_comment_in_the_rewritten_file(tmp_path: Path) -> None:
    made = executor(tmp_path, "# mine\nSCR_FLUSH 4\nSCR_DEBUG=1\nSCR_DEBUG=2\nSCR_SET_SIZE=ten\n")
    made.publish(ADVICE, NOW)
    text = (tmp_path / "scr.conf").read_text()
    assert body(tmp_path / "scr.conf") == ["SCR_DEBUG=2", "", "SCR_COPY_TYPE=XOR", "SCR_FLUSH=4"]
    for taken_out in ("SCR_FLUSH 4", "SCR_DEBUG=1", "SCR_SET_SIZE=ten"):
        assert re.search(rf"^# scrtune took this out \(.*\): {taken_out}$", text, re.MULTILINE)


def test_levers_and_what_scr_looks_for_in_no_file_are_not_written(tmp_path: Path) -> None:
    assert "user config" not in CATALOGUE["SCR_CONF_FILE"].layers
    settings = {"SCRTUNE_FLUSH_THREADS": 2, "SCR_CONF_FILE": "/etc/scr.conf", "SCR_FLUSH": 3}
    executor(tmp_path, "SCR_DEBUG=0\n").publish(Advice(generation=1, settings=settings), NOW)
    assert body(tmp_path / "scr.conf") == ["SCR_DEBUG=0", "", "SCR_FLUSH=3"]


def test_a_scheme_from_ckpt_lines_is_not_written_into_a_file_without_them(tmp_path: Path) -> None:
    for own, is_refused in ((OWN, False), ("SCR_FLUSH=1\n", True)):
        made = executor(tmp_path, own)
        made.publish(Advice(generation=1, settings={"SCR_COPY_TYPE": "FILE"}), NOW)
        assert bool(made.last_failure) == is_refused
    assert "SCR_Init aborts without CKPT lines" in made.last_failure


def test_generation_0_is_the_users_own_settings_and_nothing_else(tmp_path: Path) -> None:
    made = executor(tmp_path, OWN)
    made.publish(Advice(), NOW)
    assert {pair.split("=")[0] for pair in body(tmp_path / "scr.conf")} == {
        pair.split("=")[0] for pair in OWN.splitlines()[1:]
    }


@given(
    own=st.text() | st.lists(st.sampled_from([*OWN.splitlines(), "SCR_FLUSH=9 X=1", "=", "Y"])).map("\n".join)
)
def test_whatever_the_users_file_holds_scr_can_read_the_rewritten_one(
    tmp_path_factory: pytest.TempPathFactory, own: str
) -> None:
    base = tmp_path_factory.getbasetemp() / "config"
    executor(base, own).publish(ADVICE, NOW)
    text = (base / "scr.conf").read_bytes().decode("utf-8", "surrogateescape")
    file = parse(text, assumed(text, {}))
    assert [problem for problem in file.problems if problem.severity == "error"] == []
    assert file.values["SCR_COPY_TYPE"].value == "XOR"
    assert file.values["SCR_FLUSH"].value == "4"
    keys = [entry.parent.key for entry in file.entries if entry not in file.descriptors]
    assert len(keys) == len(set(keys)), "SCR hangs on a duplicate"


def test_bytes_that_are_no_text_are_carried_over(tmp_path: Path) -> None:
    made = executor(tmp_path, "SCR_GROUP=" + b"n\xe4".decode("utf-8", "surrogateescape"))
    made.publish(ADVICE, NOW)
    assert b"SCR_GROUP=n\xe4\n" in (tmp_path / "scr.conf").read_bytes()


def test_a_value_that_a_file_cannot_carry_stays_where_it_is(tmp_path: Path) -> None:
    made = executor(tmp_path, "SCR_CLUSTER_NAME=$CLUSTER\n")
    spaced = Advice(generation=1, settings={"SCR_CLUSTER_NAME": "my cluster", "SCR_PREFIX": "/my dir"})
    made.publish(spaced, NOW)
    assert body(tmp_path / "scr.conf") == ["SCR_CLUSTER_NAME=$CLUSTER"]
    assert made.advice == spaced


def test_without_a_readable_file_of_the_users_it_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = JobPaths.of("j", host="n", base=tmp_path)
    Executor(DaemonOptions(paths=paths, scr_conf=tmp_path / "scr.conf", user_conf=tmp_path / "gone"))
    assert "gone: cannot be read (No such file or directory)" in caplog.text


def test_a_path_that_cannot_be_written_is_told_once_and_the_advice_stays_that_of_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = executor(tmp_path)
    made.publish(ADVICE, NOW)
    written = (tmp_path / "scr.conf").read_bytes()
    tmp_path.rename(tmp_path.with_name("away"))
    for generation in (4, 5, 6):
        made.publish(Advice(generation=generation), NOW)
    assert made.advice == ADVICE
    assert made.unfinished
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the application goes on with the settings it has" in caplog.text
    tmp_path.with_name("away").rename(tmp_path)
    assert (tmp_path / "scr.conf").read_bytes() == written
    made.publish(Advice(generation=7), NOW)
    assert made.advice.generation == 7
    assert made.last_failure == ""


def test_a_file_that_scrtune_did_not_write_is_kept_once(tmp_path: Path) -> None:
    conf, backup = tmp_path / "scr.conf", tmp_path / f"scr.conf{BACKUP_SUFFIX}"
    theirs = b"# mine\r\nSCR_FLUSH=7\nSCR_GROUP=n\xe4\n"
    conf.write_bytes(theirs)
    conf.chmod(0o644)
    made = executor(tmp_path)
    for generation in range(3):
        made.publish(Advice(generation=generation), NOW)
    assert backup.read_bytes() == theirs
    conf.write_text("SCR_FLUSH=8\n")
    executor(tmp_path).publish(ADVICE, NOW)
    assert backup.read_bytes() == theirs, "the first is the user's, later ones may be ours"
    assert conf.stat().st_mode & 0o777 == 0o644


def test_no_copy_is_made_of_what_the_users_own_file_says_anyway(tmp_path: Path) -> None:
    (tmp_path / "scr.conf").write_text(OWN)
    executor(tmp_path, OWN).publish(ADVICE, NOW)
    assert not (tmp_path / f"scr.conf{BACKUP_SUFFIX}").exists()


def test_without_room_for_the_copy_the_users_file_stays(tmp_path: Path) -> None:
    (tmp_path / "scr.conf").write_text(OWN)
    (tmp_path / f"scr.conf{BACKUP_SUFFIX}").symlink_to(tmp_path / "gone" / "x")
    made = executor(tmp_path)
    made.publish(ADVICE, NOW)
    assert (tmp_path / "scr.conf").read_text() == OWN
    assert f"scr.conf{BACKUP_SUFFIX}: cannot be written (No such file or directory)" in made.last_failure
    assert made.advice == Advice()


# --- in a real daemon

JOB = (
    JobStarted(time_s=float(int(time.time())), ranks=4, nodes=4),
    SettingsObserved(
        settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_LOG_DB_PASS": PASSWORD},
        sources=dict.fromkeys(("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_LOG_DB_PASS"), "user config"),
        ranks=4,
        nodes=4,
        floor="XOR",
    ),
)


def test_an_unwritable_path_holds_up_nothing_but_the_change_and_is_tried_again(
    real_daemon: Any, wait_until: WaitUntil, tmp_path: Path
) -> None:
    conf = tmp_path / "later" / "scr.conf"
    daemon = real_daemon.start("--scr-conf", str(conf))
    daemon.tell(*JOB)
    status = daemon.until_events(len(JOB))
    assert status.generation == 1
    said = f"SCR's config file: {conf}: cannot be written (No such file or directory)"
    assert said in status.config_failure
    assert daemon.view("recommendation") == Advice()
    assert daemon.log().count("cannot be written") == 1
    conf.parent.mkdir()
    wait_until(lambda: daemon.view("recommendation").generation == 1)
    assert "SCR_COPY_TYPE=XOR\n" in conf.read_text()
    assert daemon.view("status").config_failure == ""


def test_a_daemon_that_cannot_write_after_a_restart_answers_what_the_file_says(
    real_daemon: Any, tmp_path: Path
) -> None:
    conf = tmp_path / "c" / "scr.conf"
    conf.parent.mkdir()
    daemon = real_daemon.start("--scr-conf", str(conf))
    daemon.tell(*JOB)
    daemon.until_events(len(JOB))
    given = daemon.view("recommendation")
    assert given.generation == 1
    daemon.end(9)
    conf.parent.rename(tmp_path / "away")
    daemon.start("--scr-conf", str(conf))
    assert daemon.view("recommendation") == given


def test_the_password_is_in_the_users_files_and_nowhere_else(real_daemon: Any, tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    own.write_text(OWN)
    daemon = real_daemon.start("--user-conf", str(own))
    daemon.tell(*JOB)
    daemon.until_events(len(JOB))
    assert f"SCR_LOG_DB_PASS={PASSWORD}\n" in daemon.paths.scr_conf.read_text()
    assert daemon.paths.scr_conf.stat().st_mode & 0o77 == 0
    for running in (True, False):
        if not running:
            daemon.end(15)
        for command in ("env", "explain", "status"):
            shown = subprocess.run(
                [sys.executable, "-m", "scrtune", command, "--job-id", "j", "--format", "json"],
                env={**os.environ, "SCRTUNE_RUN_DIR": str(daemon.paths.base)},
                capture_output=True,
                timeout=60,
                check=True,
            )
            assert b"SCR_" in shown.stdout or command == "status"
            assert PASSWORD.encode() not in shown.stdout + shown.stderr
    begun_with = daemon.paths.scr_conf.with_name("user.conf")
    assert (begun_with.read_text(), begun_with.stat().st_mode & 0o77) == (OWN, 0)
    files = [each for each in daemon.paths.root.iterdir() if each not in (daemon.paths.scr_conf, begun_with)]
    assert {path.name for path in files} >= {"journal", "decision"}
    assert not any(PASSWORD.encode() in path.read_bytes() for path in files)
    assert PASSWORD not in daemon.log()
