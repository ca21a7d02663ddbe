"""A run directory on a full file system: the job runs, and is told how much its account misses."""

import os
import re
import subprocess
import sys
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


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a file system to fill up")
def test_the_application_goes_on_and_the_closing_line_says_what_is_missing(tmp_path: Path) -> None:
    base = tmp_path / "r"
    base.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", base], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    try:
        ran = scrtune("run", "--job-id", "j", "--", sys.executable, "-c", APPLICATION, base=base)
        assert (ran.returncode, (tmp_path / "done").exists()) == (0, True), ran.stderr
        assert "Traceback" not in ran.stderr
        said = re.search(r"(\d+) events could not be written to the journal", ran.stderr)
        assert said is not None, ran.stderr
        # the last it wrote had room: how many they were
        assert f"{said[1]} journal" in scrtune("status", "--job-id", "j", base=base).stdout
    finally:
        subprocess.run(["umount", base], check=True)
