"""One daemon a node, and signals that wake it."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scrtune.daemon.lock import AlreadyRunningError, Lock, Signals

HOLDER = "import sys, pathlib; from scrtune.daemon.lock import Lock; lock = Lock(pathlib.Path(sys.argv[1]));"
HOLDER += "print('held', flush=True); sys.stdin.read()"


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    with pytest.raises(AlreadyRunningError, match=rf"already runs on this node \(pid {os.getpid()}\)"):
        Lock(tmp_path / "lock")
    lock.close()
    Lock(tmp_path / "lock").close()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        Lock(tmp_path / "lock")
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_holder_that_is_killed_gives_the_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunningError, match=rf"\(pid {holder.pid}\)"):
            Lock(path)
        holder.kill()
        holder.wait()
    lock = Lock(path)
    assert path.read_text() == f"{os.getpid()}\n"
    lock.close()


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
import select
from scrtune.daemon.lock import Signals, end_at_eof

with Signals().watched() as signals:
    end_at_eof(0)
    print("up", flush=True)
    select.select([signals.fd], [], [])
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
