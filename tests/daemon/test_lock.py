"""One daemon a node, and signals that wake it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scrtune.daemon.lock import AlreadyRunningError, Lock

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
