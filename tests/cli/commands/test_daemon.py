"""`scrtune daemon` started by hand, beside an application that somebody else starts."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

APPLICATION = Path(__file__).parents[2] / "apps" / "mpi_session.py"


def test_an_application_that_is_given_the_file_to_rewrite_runs_under_the_users_own_settings(
    real_daemon: Any, tmp_path: Path
) -> None:
    own, file = tmp_path / "own.conf", tmp_path / "new.conf"
    own.write_text("SCR_FLUSH=3 # mine\nSCR_CACHE_BYPASS=0\n")
    real_daemon.start("--user-conf", str(own), "--scr-conf", str(file))
    assert file.read_text() == own.read_text(), "before any decision"
    assert f"SCR_CONF_FILE={file}" in real_daemon.log()
    environment = {**os.environ, "SCRTUNE_RUN_DIR": str(real_daemon.paths.base), "SCRTUNE_JOB_ID": "j"}
    environment |= {"SCR_CONF_FILE": str(file), "SCR_PREFIX": str(tmp_path), "SCRTUNE_ENGINE": "embedded"}
    subprocess.run([sys.executable, APPLICATION, "2"], env=environment, check=True, timeout=60)
    real_daemon.until_events(2)
    view = real_daemon.view("explain")
    assert (view.baseline["SCR_FLUSH"], view.sources["SCR_FLUSH"]) == (3, "user config")
    assert view.baseline["SCR_CACHE_BYPASS"] == 0


def test_a_daemon_that_is_started_again_keeps_what_is_in_the_file(real_daemon: Any, tmp_path: Path) -> None:
    own, file = tmp_path / "own.conf", tmp_path / "new.conf"
    own.write_text("SCR_FLUSH=3\n")
    options = ("--user-conf", str(own), "--scr-conf", str(file))
    real_daemon.start(*options).end(9)
    file.write_text("SCR_FLUSH=5\n")
    real_daemon.start(*options)
    assert file.read_text() == "SCR_FLUSH=5\n"
    second = subprocess.run(
        [sys.executable, "-m", "scrtune", "daemon", "--job-id", "j", "--user-conf", "other.conf"],
        env={**os.environ, "SCRTUNE_RUN_DIR": str(real_daemon.paths.base)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 4, "the file is the running daemon's"


def test_the_users_own_file_may_be_the_one_that_is_rewritten(real_daemon: Any, tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    own.write_text("SCR_FLUSH=3\n")
    real_daemon.start("--user-conf", str(own), "--scr-conf", str(own))
    assert (own.read_text(), sorted(tmp_path.glob("own.conf*"))) == ("SCR_FLUSH=3\n", [own])
