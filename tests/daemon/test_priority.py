"""The share of busy cores that a process of ours takes (autogroup; sched(7))."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrtune.daemon.launch.processes import Child, spawn
from scrtune.daemon.priority import AFTER_S, LEAST_INTERVAL_S, NICE, CoreShare, take_cores

from ..conftest import until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="this kernel does not schedule by session"
)


def nice_of(pid: int) -> int:
    """Return the nice value of the session of `pid`."""
    return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])


@pytest.fixture
def children(tmp_path: Path) -> Iterator[list[Child]]:
    """Sessions of their own: one too young to give way, one of a job in a hurry, one whose time has come."""

    def start(number: int, after_s: float, interval_s: float) -> Child:
        def main() -> int:
            CoreShare(after_s).tick(interval_s)
            (tmp_path / f"ticked{number}").touch()
            return signal.pause() or 0

        return spawn(main, "scrtune-test", os.environ, tmp_path / "log")

    found = [start(0, AFTER_S, 0.0), start(1, 0.0, LEAST_INTERVAL_S / 2), start(2, 0.0, LEAST_INTERVAL_S)]
    until(lambda: len(list(tmp_path.glob("ticked*"))) == len(found), "all have ticked")
    yield found
    for child in found:
        os.kill(child.pid, signal.SIGKILL)
        child.end()


def test_a_session_gives_way_when_it_is_time(children: list[Child]) -> None:
    assert [nice_of(child.pid) for child in children] == [0, 0, NICE]


def test_it_has_its_full_share_again_when_somebody_waits_for_it(children: list[Child]) -> None:
    take_cores(children[2].pid)
    assert nice_of(children[2].pid) == 0


def test_a_session_that_is_anothers_is_left_alone() -> None:
    """A daemon that a shell started shares its session."""
    here = nice_of(os.getpid())
    code = "from scrtune.daemon.priority import CoreShare; CoreShare(0.0).tick()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert nice_of(os.getpid()) == here


def test_a_process_that_is_gone_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    take_cores(gone.pid)
