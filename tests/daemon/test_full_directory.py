"""A run directory on a full file system: the job runs, and is told how much its account misses."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

APPLICATION = """
import time
from pathlib import Path

from scrtune.cli.jobs import state as job_state
from scrtune.cli.errors import UnknownJobError
from scrtune.client.paths import JobPaths
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import JobStarted, StepCompleted

paths, now = JobPaths.of(), time.time()
emitter = Emitter(paths.events_endpoint)
emitter.emit(JobStarted(time_s=now))
deadline_s = time.monotonic() + 60

def events():
    try:
        return job_state.status(paths).counters.events
    except UnknownJobError:
        return 0  # its daemon has not begun

while not events() and time.monotonic() < deadline_s:
    time.sleep(0.01)
with (paths.base / "ballast").open("wb", buffering=0) as ballast:
    try:
        while ballast.write(bytes(4096)):
            pass
    except OSError:
        pass
step = 0
while not job_state.status(paths).journal_lost and time.monotonic() < deadline_s:
    for step in range(step, step + 100):
        emitter.emit(StepCompleted(step=step, start_s=now, end_s=now + 1))
emitter.close()
Path("done").touch()
"""


SENT = 20
SENDER = f"""
import time
from pathlib import Path

from scrtune.client.paths import JobPaths
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import StepCompleted

emitter, now = Emitter(JobPaths.of().events_endpoint), time.time()
for step in range({SENT}):
    emitter.emit(StepCompleted(step=step, start_s=now, end_s=now))
emitter.close(linger_s=20)
Path("done").touch()
"""


def scrtune(*arguments: str, base: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "scrtune", *arguments],
        cwd=base.parent,
        env={**os.environ, "SCRTUNE_RUN_DIR": str(base), "SCRTUNE_JOB_ID": "j"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yield a run directory with room for 1 MiB."""
    base = tmp_path / "r"
    base.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", base], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    yield base
    subprocess.run(["umount", base], check=True)


def test_the_application_goes_on_and_the_closing_line_says_what_is_missing(small: Path) -> None:
    ran = scrtune("run", "--job-id", "j", "--", sys.executable, "-c", APPLICATION, base=small)
    assert (ran.returncode, (small.parent / "done").exists()) == (0, True), ran.stderr
    assert "Traceback" not in ran.stderr
    said = re.search(r"(\d+) events could not be written to the journal", ran.stderr)
    assert said is not None, ran.stderr
    # the last it wrote had room: how many they were
    assert f"{said[1]} journal" in scrtune("status", "--job-id", "j", base=small).stdout


def test_without_any_room_from_the_start_on_nothing_false_is_said(small: Path) -> None:
    room = os.statvfs(small)
    with (small / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_bsize)
    ran = scrtune("run", "--job-id", "j", "--", sys.executable, "-c", SENDER, base=small)
    assert (ran.returncode, (small.parent / "done").exists()) == (0, True), ran.stderr
    said = re.search(r"could not write (\d+) events to the journal", ran.stderr)
    assert said is not None, ran.stderr
    assert int(said[1]) >= SENT
    assert "what became of it is not known: nothing was recorded" in ran.stderr
    assert "no checkpoint was seen" not in ran.stderr
