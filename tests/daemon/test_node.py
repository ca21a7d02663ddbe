"""The node as psutil sees it, with real processes on it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from scrtune.daemon.node import NodeObserver

WaitUntil = Callable[[Callable[[], object]], None]
BUSY = "while True: pass"
IDLE = "import sys; sys.stdin.read()"


@contextmanager
def child(code: str, cpus: set[int] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        if cpus:
            os.sched_setaffinity(process.pid, cpus)
        try:
            yield process
        finally:
            process.kill()


def test_masks_and_use_are_those_of_the_processes(wait_until: WaitUntil) -> None:
    one = min(os.sched_getaffinity(0))
    node = NodeObserver("n")
    with child(BUSY, {one}) as busy, child(IDLE) as idle:
        node.look([busy.pid, idle.pid])
        cpu_s = psutil.Process(busy.pid).cpu_times
        begun_s = cpu_s().user
        wait_until(lambda: cpu_s().user > begun_s + 0.1)
        seen = node.look([busy.pid, idle.pid])
    use = {process.pid: process for process in seen.processes}
    assert use[busy.pid].cpus == (one,)
    assert set(use[idle.pid].cpus) == os.sched_getaffinity(0)
    assert 0 < use[busy.pid].cores_used < 2
    assert use[idle.pid].cores_used < use[busy.pid].cores_used
    assert set(seen.cpus) == os.sched_getaffinity(0)
    assert 0 <= seen.cores_busy <= psutil.cpu_count()
    assert seen.memory_available_bytes > 0


def test_a_process_is_seen_from_its_second_look_until_it_has_gone() -> None:
    node = NodeObserver("n")
    with child(IDLE) as process:
        assert node.look([process.pid]).processes == ()
        assert [use.pid for use in node.look([process.pid]).processes] == [process.pid]
        process.kill()
        process.wait()
        assert node.look([process.pid]).processes == ()
        assert node.look([process.pid]).processes == ()


def test_a_pid_that_another_process_has_now_is_a_new_process() -> None:
    node = NodeObserver("n")
    with child(IDLE) as process:
        node.look([process.pid])
        node._processes[process.pid]._create_time = 1.0
        node._processes[process.pid]._ident = (process.pid, 1.0)
        assert node.look([process.pid]).processes == ()
        assert len(node.look([process.pid]).processes) == 1


def test_numbers_that_are_no_pids_are_nobody() -> None:
    node = NodeObserver("n")
    for _ in range(2):
        seen = node.look([-1, 0, 2**22 + 1, 2**31, 2**52, os.getpid()])
    assert [use.pid for use in seen.processes] == [os.getpid()]


def test_a_job_with_absurdly_many_processes_is_looked_at_in_part() -> None:
    node = NodeObserver("n")
    node.look(range(10**6, 2 * 10**6))
    assert len(node._processes) <= 1024


@pytest.mark.parametrize("below", ["", "not/there/yet"])
def test_room_in_the_cache_is_known_before_the_cache_is_made(tmp_path: Path, below: str) -> None:
    free = NodeObserver("n").look([], str(tmp_path / below)).cache_free_bytes
    assert free == pytest.approx(psutil.disk_usage(str(tmp_path)).free, rel=0.2)


def test_without_a_cache_there_is_no_room_in_it() -> None:
    assert NodeObserver("n").look([]).cache_free_bytes == 0
