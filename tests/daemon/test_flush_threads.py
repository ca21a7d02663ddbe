"""Flush threads that run already, bound from outside: and no other thread."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scrtune.daemon.flush_threads import FlushThreads
from scrtune.goodput.events import JobStarted, OutputStarted
from scrtune.intents.events import SettingsObserved, Values

WaitUntil = Callable[[Callable[[], object]], None]

# Each kind of thread says its number in a file of its name, and works until it is killed.
APPLICATION = """
import os, sys, threading, time
directory, early, late = sys.argv[1:]
cache, prefix = os.path.join(directory, "cache"), os.path.join(directory, "prefix")
block = os.urandom(32 * 1024)

def copy(source, target):
    while True:
        os.lseek(source, 0, os.SEEK_SET)
        os.lseek(target, 0, os.SEEK_SET)
        while part := os.read(source, len(block)):
            os.write(target, part)
            time.sleep(0.001)

def write(source, target):
    while True:
        os.pwrite(target, block, 0)
        time.sleep(0.001)

def read(source, target):
    while True:
        os.pread(source, len(block), 0)
        time.sleep(0.001)

def compute(source, target):
    while True:
        time.sleep(0.001)

def named(source, target):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write("mover")
    copy(source, target)

def begin(kind, source, target):
    with open(os.path.join(directory, kind + ".new"), "w") as file:
        file.write(str(threading.get_native_id()))
    os.rename(os.path.join(directory, kind + ".new"), os.path.join(directory, kind))
    globals()[kind](source, target)

def start(kinds):
    for kind in filter(None, kinds.split(",")):
        source = os.open(os.path.join(cache, "f"), os.O_RDONLY)
        target = os.open(os.path.join(prefix, "f"), os.O_WRONLY | os.O_CREAT)
        threading.Thread(target=begin, args=(kind, source, target), daemon=True).start()

start(early)
sys.stdin.readline()
start(late)
sys.stdin.read()
"""

BUFFER_BYTES = 32 * 1024


def settings(cpus: set[int]) -> Values:
    return {"SCR_FILE_BUF_SIZE": BUFFER_BYTES, "SCRTUNE_FLUSH_CPUS": ",".join(map(str, cpus))}


def counts(threads: FlushThreads) -> tuple[int, ...]:
    """Bound, given back, refused."""
    return tuple(threads.counts.values())


class Application:
    def __init__(self, directory: Path, early: str, late: str) -> None:
        self.directory = directory
        for name in ("cache", "prefix"):
            (directory / name).mkdir()
        (directory / "cache" / "f").write_bytes(b"x" * 100_000)
        self.late = late
        self.process = subprocess.Popen(
            [sys.executable, "-c", APPLICATION, str(directory), early, late], stdin=subprocess.PIPE, text=True
        )

    def start_late(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def tid(self, kind: str) -> int:
        return int((self.directory / kind).read_text())

    def moved_bytes(self, kind: str) -> int:
        if not (self.directory / kind).exists():
            return 0
        io = Path(f"/proc/{self.process.pid}/task/{self.tid(kind)}/io").read_text().split()
        return max(int(io[1]), int(io[3]))

    def look(self, threads: FlushThreads, cpus: set[int]) -> None:
        threads.look(
            [self.process.pid],
            settings(cpus),
            cache=str(self.directory / "cache"),
            prefix=str(self.directory / "prefix"),
        )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str, str], Application]]:
    started = []

    def make(early: str, late: str) -> Application:
        started.append(Application(tmp_path, early, late))
        return started[-1]

    yield make
    for each in started:
        each.process.kill()
        each.process.communicate()


Start = Callable[[str, str], Application]

two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU only")
ALL = os.sched_getaffinity(0)
ONE = {max(ALL)}


def copying(application: Application, wait_until: WaitUntil, *kinds: str) -> FlushThreads:
    """Threads that have all done their work for a while, the late ones after the first look."""
    threads = FlushThreads()
    early = set(kinds) - set(application.late.split(","))
    wait_until(lambda: all((application.directory / kind).exists() for kind in early))
    application.look(threads, set())
    application.start_late()
    wait_until(lambda: all((application.directory / kind).exists() for kind in kinds))
    wait_until(lambda: all(application.moved_bytes(kind) > 300_000 for kind in kinds if kind != "compute"))
    return threads


@two_cpus
def test_a_thread_that_copies_from_the_cache_to_the_prefix_directory_is_bound_and_given_back(
    start: Start, wait_until: WaitUntil
) -> None:
    application = start("", "copy")
    threads = copying(application, wait_until, "copy")
    application.look(threads, ONE)
    assert os.sched_getaffinity(application.tid("copy")) == ONE
    assert os.sched_getaffinity(application.process.pid) == ALL
    application.look(threads, ONE)
    assert counts(threads) == (1, 0, 0), "once"
    application.look(threads, set())
    assert os.sched_getaffinity(application.tid("copy")) == ALL
    assert counts(threads) == (1, 1, 0)


@two_cpus
def test_no_other_thread_is_touched(start: Start, wait_until: WaitUntil) -> None:
    kinds = ("write", "read", "compute", "named")
    application = start("", ",".join(kinds))
    threads = copying(application, wait_until, *kinds)
    application.look(threads, ONE)
    masks = {kind: os.sched_getaffinity(application.tid(kind)) for kind in kinds}
    assert masks == dict.fromkeys(kinds, ALL)
    assert counts(threads) == (0, 0, 0)


@two_cpus
def test_a_thread_that_was_there_from_the_first_is_not_touched(start: Start, wait_until: WaitUntil) -> None:
    application = start("copy", "")
    threads = copying(application, wait_until, "copy")
    application.look(threads, ONE)
    assert os.sched_getaffinity(application.tid("copy")) == ALL


@two_cpus
def test_where_no_cache_is_known_or_it_is_another_nothing_is_touched(
    start: Start, wait_until: WaitUntil
) -> None:
    application = start("", "copy")
    threads = copying(application, wait_until, "copy")
    prefix = str(application.directory / "prefix")
    for cache in ("", str(application.directory / "other")):
        threads.look([application.process.pid], settings(ONE), cache=cache, prefix=prefix)
    assert os.sched_getaffinity(application.tid("copy")) == ALL


@two_cpus
def test_a_mask_that_somebody_else_has_set_since_stays(start: Start, wait_until: WaitUntil) -> None:
    application = start("", "copy")
    threads = copying(application, wait_until, "copy")
    application.look(threads, ONE)
    os.sched_setaffinity(application.tid("copy"), {min(ALL)})
    application.look(threads, set())
    assert os.sched_getaffinity(application.tid("copy")) == {min(ALL)}
    assert counts(threads) == (1, 0, 0)


@two_cpus
def test_other_cpus_are_bound_to_instead(start: Start, wait_until: WaitUntil) -> None:
    application = start("", "copy")
    threads = copying(application, wait_until, "copy")
    application.look(threads, ONE)
    application.look(threads, {min(ALL)})
    assert os.sched_getaffinity(application.tid("copy")) == {min(ALL)}
    application.look(threads, set())
    assert os.sched_getaffinity(application.tid("copy")) == ALL


def test_cpus_that_there_are_none_of_are_refused_and_counted(start: Start, wait_until: WaitUntil) -> None:
    application = start("", "copy")
    threads = copying(application, wait_until, "copy")
    application.look(threads, {1000})
    assert os.sched_getaffinity(application.tid("copy")) == ALL
    assert counts(threads) == (0, 0, 1)


def test_what_is_no_list_of_cpus_binds_nothing(start: Start) -> None:
    application = start("", "")
    threads = FlushThreads()
    for value in ("1-", "x", 1.5, -1, 10**400, "1" * 10_000):
        threads.look([application.process.pid], {"SCRTUNE_FLUSH_CPUS": value}, cache="/a", prefix="/b")
    assert counts(threads) == (0, 0, 0)


def test_processes_that_have_gone_and_numbers_that_are_none_are_nobody(start: Start) -> None:
    application = start("", "")
    application.process.kill()
    application.process.wait()
    threads = FlushThreads()
    pids = [application.process.pid, 0, -1, 2**40, 1 if os.getuid() else 2**40]
    threads.look(pids, settings(ONE), cache="/a", prefix="/b")
    assert counts(threads) == (0, 0, 0)


@two_cpus
def test_the_daemon_binds_once_an_output_ran_under_the_settings_that_say_so_and_tells_in_status(
    start: Start, wait_until: WaitUntil, real_daemon: Any
) -> None:
    application = start("", "copy")
    daemon = real_daemon.start()
    cpu = f"{max(ALL)}"
    own = SettingsObserved(
        settings={"SCRTUNE_FLUSH_CPUS": cpu},
        sources={"SCRTUNE_FLUSH_CPUS": "user config"},
        cache=str(application.directory / "cache"),
        prefix=str(application.directory / "prefix"),
        processes=((daemon.paths.host, application.process.pid),),
    )
    daemon.tell(JobStarted(time_s=time.time()), own)
    daemon.until_events(4)  # it has looked at the process: one look is an event from the second on
    application.start_late()
    wait_until(lambda: application.moved_bytes("copy") > 300_000)
    assert os.sched_getaffinity(application.tid("copy")) == ALL, "nothing has run under these settings yet"
    daemon.tell(OutputStarted(dataset=1, name="c", time_s=time.time()))
    wait_until(lambda: daemon.view("status").flush_threads == {"bound": 1})
    assert os.sched_getaffinity(application.tid("copy")) == ONE
    daemon.tell(OutputStarted(dataset=2, name="d", time_s=time.time(), generation=7))
    wait_until(lambda: daemon.view("status").flush_threads == {"bound": 1, "given back": 1})
    assert os.sched_getaffinity(application.tid("copy")) == ALL
