"""The node as psutil sees it, with real processes on it, some with a library that looks like SCR's."""

import _ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon.node.machine import Machine
from scrtune.daemon.node.observer import JobNode, NodeObserver
from scrtune.intents.events import ProcessUse, SettingsObserved

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
    assert seen.memory_available_bytes > 0


def test_the_cpus_that_other_threads_are_bound_to_are_seen(wait_until: WaitUntil) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU")
    first, second = cpus[:2]
    code = (
        "import os, sys, threading\n"
        f"def bind():\n os.sched_setaffinity(0, {{{second}}})\n sys.stdin.read()\n"
        "threading.Thread(target=bind, daemon=True).start()\n"
        f"os.sched_setaffinity(0, {{{first}}})\nthreading.Event().wait()"
    )
    node = NodeObserver("n")
    with child(code) as process:

        def use() -> ProcessUse | None:
            return next(iter(node.look([process.pid]).processes), None)

        wait_until(lambda: (seen := use()) and (seen.cpus, seen.thread_cpus) == ((first,), (second,)))


def test_limits_of_the_cgroup_and_the_shape_of_the_machine_are_told(tmp_path: Path) -> None:
    for path, text in {
        "sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0-1",
        "sys/devices/system/node/node0/cpulist": "0-1",
        "sys/class/infiniband/hfi1_0/ports/1/state": "4: ACTIVE",
        "sys/class/infiniband/hfi1_0/ports/1/rate": "100 Gb/sec (4X EDR)",
        "sys/fs/cgroup/cpu.max": "150000 100000",
        "sys/fs/cgroup/memory.max": "4096",
        "sys/fs/cgroup/memory.current": "96",
        "proc/self/cgroup": "0::/",
        "proc/sys/vm/dirty_ratio": "20",
        "proc/sys/vm/dirty_background_ratio": "10",
        "proc/cpuinfo": "flags : fpu hypervisor",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    seen = NodeObserver("n", Machine(tmp_path / "sys", tmp_path / "proc")).look([])
    assert (seen.siblings, seen.numa, seen.core_limit) == (((0, 1),), ((0, 1),), 1.5)
    assert (seen.is_virtual, seen.link_bytes_per_s) == (True, 12.5e9)
    assert (seen.memory_available_bytes, seen.dirty_limit_bytes) == (4000, 600)


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


@pytest.mark.parametrize("cache", ["", "\0", "/" + 300 * "x"])
def test_without_a_cache_there_is_no_room_in_it(cache: str) -> None:
    assert NodeObserver("n").look([], cache).cache_free_bytes == 0


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
    assert JobNode(paths).pids(SettingsObserved(settings={})) == sorted(ranks)


def test_where_the_application_names_them_they_are_taken_as_they_are(paths: JobPaths, start: Start) -> None:
    start(WITHOUT)
    job = SettingsObserved(settings={}, processes=((paths.host, 7), ("another", 8), (paths.host, 9)))
    assert JobNode(paths).pids(job) == [7, 9]


def test_ranks_that_are_neither_named_nor_seen_are_taken_to_be_spread_evenly(paths: JobPaths) -> None:
    job = SettingsObserved(settings={}, ranks=7, nodes=2)
    assert JobNode(paths).ranks(job) == 4
    named = msgspec.structs.replace(job, processes=((paths.host, 7), ("another", 8), (paths.host, 9)))
    assert JobNode(paths).ranks(named) == 2


def test_the_ranks_of_the_next_run_take_the_place_of_those_that_have_gone(
    paths: JobPaths, start: Start, tmp_path: Path
) -> None:
    library = named(tmp_path, "libscr.so")
    ranks, first = JobNode(paths), start(WITH, library)
    assert ranks.pids(SettingsObserved(settings={})) == [first]
    os.kill(first, 9)
    os.waitpid(first, 0)
    second = start(WITH, library)
    assert ranks.pids(SettingsObserved(settings={})) == [second]
