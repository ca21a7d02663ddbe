"""Which processes are ranks: real processes, some with a library that looks like SCR's."""

import _ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon.node import Ranks
from scrtune.intents.events import SettingsObserved

WaitUntil = Callable[[Callable[[], object]], None]
WITH = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(flush=True); sys.stdin.read()"
WITHOUT = "import sys; print(flush=True); sys.stdin.read()"

Start = Callable[..., int]


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return JobPaths.of("j", base=tmp_path)


@pytest.fixture
def start(paths: JobPaths) -> Iterator[Start]:
    """Starts a process of the job; returns its pid when it has loaded what it loads."""
    started = []

    def begin(code: str, library: object = "", **environment: str) -> int:
        own = {"SCRTUNE_JOB_ID": "j", "SCRTUNE_EVENTS_FILE": str(paths.library_events)}
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(library)],
            env={**os.environ, **own, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        return process.pid

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def named(directory: Path, name: str) -> Path:
    """Some library under this name."""
    return Path(shutil.copy(_ctypes.__file__, directory / name))


@pytest.mark.parametrize("name", ["libscr.so.3", "libscrf.so", "libscr_base.so.3.1.0"])
def test_processes_of_the_job_that_have_libscr_are_its_ranks(
    paths: JobPaths, start: Start, tmp_path: Path, name: str
) -> None:
    library = named(tmp_path, name)
    ranks = [start(WITH, library), start(WITH, library)]
    start(WITHOUT)
    start(WITH, named(tmp_path, "libscrtune.so"))
    start(WITH, library, SCRTUNE_JOB_ID="another")
    start(WITH, library, SCRTUNE_EVENTS_FILE="/of/another/run")
    assert Ranks(paths).pids(SettingsObserved(settings={})) == sorted(ranks)


def test_where_the_application_names_them_they_are_taken_as_they_are(paths: JobPaths, start: Start) -> None:
    start(WITHOUT)
    job = SettingsObserved(settings={}, processes=((paths.host, 7), ("another", 8), (paths.host, 9)))
    assert Ranks(paths).pids(job) == [7, 9]


def test_the_ranks_of_the_next_run_take_the_place_of_those_that_have_gone(
    paths: JobPaths, start: Start, tmp_path: Path
) -> None:
    library = named(tmp_path, "libscr.so")
    ranks, first = Ranks(paths), start(WITH, library)
    assert ranks.pids(SettingsObserved(settings={})) == [first]
    os.kill(first, 9)
    os.waitpid(first, 0)
    second = start(WITH, library)
    assert ranks.pids(SettingsObserved(settings={})) == [second]
