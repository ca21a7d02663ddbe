"""Signals and the parent of a process, as descriptors that wake who waits."""

import select
import signal
import subprocess
import sys

import pytest

from scrtune.daemon.signals import Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_wakes_who_waits_and_is_remembered(number: signal.Signals) -> None:
    runners = signal.signal(number, signal.SIG_DFL)  # a shell lets background jobs ignore SIGINT
    try:
        with Signals().watched() as signals:
            assert not signals.ending
            signal.raise_signal(number)
            assert signals.ending
            assert select.select([signals.fd], [], [], 10)[0]
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, runners)


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals().watched() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert not signals.ending
    finally:
        signal.signal(signal.SIGHUP, before)


WAITING = """
from scrtune.daemon.signals import Parent, Signals

with Signals().watched() as signals:
    print("up", flush=True)
    while not signals.ended(60.0, Parent(0)):
        pass
    print("ended", signals.ending, flush=True)
"""


def test_the_end_of_a_file_ends_a_process_as_a_signal_does() -> None:
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.stdin.write("anything")
        process.stdin.flush()
        assert process.poll() is None
        process.stdin.close()
        assert process.stdout.readline() == "ended True\n"
    assert process.returncode == 0
