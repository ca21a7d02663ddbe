"""The share of busy cores that a process of ours takes (autogroup; sched(7))."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrtune.daemon.launch.processes import Child, spawn
from scrtune.daemon.priority import LEAST_INTERVAL_S, NICE, CoreShare, take_cores

from ..conftest import until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="this kernel does not schedule by session"
)

_TICKS, _TICK_S = 20, 0.02
"""As long as it takes whom the kernel allows one change in 100 ms."""


def nice_of(pid: int) -> int:
    """Return the nice value of the session of `pid`."""
    return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])


@pytest.fixture
def children(tmp_path: Path) -> Iterator[list[Child]]:
    """Sessions of their own that know of no checkpoints, of close ones, of far ones, and of both."""

    def start(number: int, *intervals_s: float) -> Child:
        def main() -> int:
            share = CoreShare()
            for interval_s in intervals_s:
                for _ in range(_TICKS):
                    share.tick(interval_s)
                    time.sleep(_TICK_S)
            (tmp_path / f"ticked{number}").touch()
            return signal.pause() or 0

        return spawn(main, "scrtune-test", os.environ, tmp_path / "log")

    far_s, close_s = LEAST_INTERVAL_S, LEAST_INTERVAL_S / 2
    found = [
        start(0, 0.0),
        start(1, close_s),
        start(2, far_s),
        start(3, far_s, close_s),
    ]
    until(lambda: len(list(tmp_path.glob("ticked*"))) == len(found), "all have ticked")
    yield found
    for child in found:
        os.kill(child.pid, signal.SIGKILL)
        child.end()


def test_a_session_gives_way_unless_checkpoints_are_close(children: list[Child]) -> None:
    assert [nice_of(child.pid) for child in children] == [NICE, 0, NICE, 0]


def test_it_has_its_full_share_again_when_somebody_waits_for_it(children: list[Child]) -> None:
    take_cores(children[2].pid)
    assert nice_of(children[2].pid) == 0


def test_a_session_that_is_anothers_is_left_alone() -> None:
    """A daemon that a shell started shares its session."""
    code = "from scrtune.daemon.priority import CoreShare; CoreShare().tick()"
    shell = ["sh", "-c", '"$0" -c "$1" && cat /proc/self/autogroup', sys.executable, code]
    done = subprocess.run(shell, start_new_session=True, check=True, capture_output=True, text=True)
    assert done.stdout.split()[-2:] == ["nice", "0"]


def test_a_process_that_is_gone_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    take_cores(gone.pid)
