"""What a thread ran and waited for a core: Linux's own figures."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scrtune.client.core_time import CoreTime, CoreTimer

pytestmark = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="this Linux has no schedstat"
)


def spin(until: Callable[[], bool]) -> None:
    while not until():
        pass


def spin_s(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    spin(lambda: time.thread_time() > end_s)


def test_it_is_what_the_thread_ran_since() -> None:
    timer = CoreTimer()
    spin_s(0.05)
    before_s = time.thread_time()
    timer.begin()
    spin_s(0.1)
    time.sleep(0.05)
    took = timer.end()
    assert 0.1 <= took.cpu_s <= time.thread_time() - before_s
    assert timer.end() == CoreTime(), "it is told once"


def test_a_thread_that_shares_its_core_waits_for_it() -> None:
    """Two that spin on one core: each has about half of it, and wants all."""
    own = os.sched_getaffinity(0)
    one = {min(own)}
    over = threading.Event()

    def measured() -> CoreTime:
        os.sched_setaffinity(0, one)
        timer = CoreTimer()
        timer.begin()
        spin_s(0.1)
        over.set()
        return timer.end()

    def other() -> None:
        os.sched_setaffinity(0, one)
        # a process: a thread of this one would wait for Python, not for a core
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "while :; do :; done"], os.environ)
        over.wait(30)
        os.kill(pid, 9)
        os.waitpid(pid, 0)

    with ThreadPoolExecutor(2) as pool:
        beside = pool.submit(other)
        took = pool.submit(measured).result()
        beside.result()
    assert took.run_delay_s > 0.01


def test_of_another_thread_than_began_nothing_is_known() -> None:
    timer = CoreTimer()
    timer.begin()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(timer.end).result() == CoreTime()


def test_without_schedstat_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> int:
        raise FileNotFoundError

    timer = CoreTimer()
    timer.begin()
    monkeypatch.setattr(os, "open", missing)
    assert timer.end() == CoreTime()
    timer.begin()
    assert timer.end() == CoreTime()


def test_where_linux_does_not_count_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with delay accounting that is off says 0, as if nobody ever waited."""
    monkeypatch.setattr("scrtune.client.core_time.os.read", lambda *_: b"0 0 0\n")
    timer = CoreTimer()
    timer.begin()
    spin_s(0.01)
    assert timer.end() == CoreTime()
