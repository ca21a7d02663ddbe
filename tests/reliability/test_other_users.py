"""Another user of the node, who is a real one here: root drops to a second uid.

They cannot read what a job of ours leaves, cannot speak to its daemon, and are not spoken to.
"""

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrtune.cli.errors import RUN_DIRECTORY

from ..support.phased_job import PhasedJob

OTHER = 54_321
OUTPUTS = 5

LOOK = """
import json, os, socket, sys
told = {}
for path in sys.argv[1:]:
    try:
        if path.endswith(".sock"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
        elif os.path.isdir(path):
            os.listdir(path)
        else:
            open(path, "rb").close()
        told[path] = "open to others"
    except OSError as error:
        told[path] = type(error).__name__
print(json.dumps(told))
"""


def python_of_all() -> str:
    """A Python that the other user may start; skips where there is none, or where we are not root."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for found in filter(None, (sys.executable, shutil.which("python3", path="/usr/bin:/bin"))):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([found, "-c", ""], user=OTHER, group=OTHER, cwd="/", check=True)
            return found
    pytest.skip("the other user can start no Python here (Debian: python3)")


def as_other(python: str, paths: list[Path]) -> dict[str, str]:
    """What becomes of their attempts to open each of `paths`, and to connect to those that are sockets."""
    ran = subprocess.run(
        [python, "-I", "-c", LOOK, *map(str, paths)],
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told: dict[str, str] = json.loads(ran.stdout)
    return told


@pytest.fixture
def common() -> Iterator[Path]:
    """A directory that everybody may look into, as /tmp is; unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="su") as place:
        Path(place).chmod(0o755)
        yield Path(place)


def test_nothing_of_a_job_can_be_read_or_spoken_to(
    common: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = python_of_all()
    monkeypatch.setenv("XDG_STATE_HOME", str(common / "state"))
    (common / "r").mkdir(mode=0o755)  # the user's own, who lets others look into it
    old = os.umask(0)  # and forbids nothing by it
    job = PhasedJob(tmp_path, OUTPUTS, OUTPUTS, SCRTUNE_RUN_DIR=str(common / "r"))
    os.umask(old)
    try:
        job.daemon()
        job.phase(0)
        ours = [job.paths.root, *job.paths.root.rglob("*"), *job.paths.trace_directory.rglob("*")]
        names = {path.name for path in ours}
        assert names >= {"control.sock", "events.sock", "journal", "daemon.log", "scr.conf"}
        told = as_other(python, ours)
        assert set(told) == set(map(str, ours))
        assert set(told.values()) == {"PermissionError"}, told
        control = as_other(python, [common / "r" / "j"])
        assert set(control.values()) == {"PermissionError"}
        assert as_other(python, [common / "r"])[str(common / "r")] == "open to others"  # they did get so far
        job.phase(1)
        job.end()
    finally:
        job.close()
    left = [path for path in (common / "state").rglob("*") if path.is_file()]
    assert left
    assert set(as_other(python, left).values()) == {"PermissionError"}


def test_a_run_directory_of_theirs_is_never_used(common: Path, tmp_path: Path) -> None:
    """They have made the directory beforehand, with sockets in it that they listen at."""
    python_of_all()
    host = socket.gethostname().split(".")[0]
    theirs = common / "r"
    (theirs / "j" / host).mkdir(parents=True)
    listening = []
    for name in ("events.sock", "control.sock"):
        ear = socket.socket(socket.AF_UNIX)
        ear.bind(str(theirs / "j" / host / name))
        ear.listen()
        ear.setblocking(False)
        listening.append(ear)
    for path in (theirs, *theirs.rglob("*")):
        os.chown(path, OTHER, OTHER)
        path.chmod(0o777)
    job = PhasedJob(tmp_path, OUTPUTS, SCRTUNE_RUN_DIR=str(theirs))
    try:
        assert len(job.phase(0).valid) == OUTPUTS
        said = job.end()
    finally:
        job.close()
    assert "belongs to another user" in said
    assert "The application runs without scrtune" in said
    for command in ("status", "off", "env"):
        asked = [sys.executable, "-m", "scrtune", command, "--job-id", "j"]
        environment = {**os.environ, "SCRTUNE_RUN_DIR": str(theirs)}
        ran = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == RUN_DIRECTORY, ran.stderr
        assert ran.stdout == ""
    for ear in listening:
        with pytest.raises(BlockingIOError):
            ear.accept()
        ear.close()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o777 for path in theirs.rglob("*"))
    assert {path.name for path in theirs.rglob("*")} == {"j", host, "events.sock", "control.sock"}
