"""Processes of ours: copies of the one that starts them, and what both hear of each other."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from scrtune.daemon.launch.processes import Child, can_fork, new_interpreter, spawn
from scrtune.daemon.options import READY
from scrtune.daemon.signals import Signals

PATIENCE_S = 60.0


def show(*what: object) -> None:
    sys.stdout.write(" ".join(map(str, what)) + "\n")


def until_ended(child: Child) -> int:
    with Signals(signal.SIGCHLD).watched() as signals:
        deadline_s = time.monotonic() + PATIENCE_S
        while (code := child.poll()) is None:
            assert time.monotonic() < deadline_s
            signals.wait(0.1, child.fileno())
    child.end()
    return code


def start(main: object, tmp_path: Path, **environment: str) -> Child:
    return spawn(main, "scrtune-test", environment, tmp_path / "log")  # type: ignore[arg-type]


def test_its_exit_code_is_what_it_returns(tmp_path: Path) -> None:
    child = start(lambda: 7, tmp_path)
    assert until_ended(child) == 7
    child.end()
    assert child.exit_code == 7


def test_what_it_raises_is_in_its_log_and_goes_no_further(tmp_path: Path) -> None:
    def main() -> int:
        raise RuntimeError("a bug")

    assert until_ended(start(main, tmp_path)) == 1
    assert "RuntimeError: a bug" in (tmp_path / "log").read_text()


def test_it_has_its_own_session_environment_signals_and_files(tmp_path: Path) -> None:
    with (tmp_path / "ours").open("w") as ours:
        inherited = ours.fileno()

        def main() -> int:
            show(os.getsid(0) == os.getpid(), dict(os.environ), int(signal.getsignal(signal.SIGTERM)))
            try:
                os.fstat(inherited)
            except OSError:
                show("closed")
            return 0

        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            assert until_ended(start(main, tmp_path, MINE="1")) == 0
        finally:
            signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "log").read_text() == "True {'MINE': '1'} 0\nclosed\n"


def test_it_says_that_it_is_ready_and_hears_lines_and_their_end(tmp_path: Path) -> None:
    def main() -> int:
        os.write(0, READY)
        show(sys.stdin.read())
        return 0

    child = start(main, tmp_path)
    with Signals(signal.SIGCHLD).watched() as signals:
        while not child.is_ready():
            signals.wait(PATIENCE_S, child.fileno())
    child.send(b"a line\n")
    assert child.end()
    assert child.exit_code == 0
    assert child.is_ready(), "it stays known"
    child.send(b"nobody is there\n")
    assert (tmp_path / "log").read_text() == "a line\n\n"


def test_one_that_does_not_end_is_ended(tmp_path: Path) -> None:
    child = start(lambda: time.sleep(100) or 0, tmp_path)
    assert not child.end(limit_s=0.1)
    assert child.exit_code == -signal.SIGKILL


def test_a_new_interpreter_has_the_same_line(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "SCRTUNE_RUN_DIR": str(tmp_path / "r")}
    child = start(new_interpreter(["forward", "--until-eof"], environment), tmp_path, **environment)
    child.end()
    assert child.exit_code == 0, (tmp_path / "log").read_text()
    assert "forwarder ended" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(("preloaded", "safe"), [("", True), ("libm.so.6", False)])
def test_a_process_with_preloaded_libraries_is_not_copied(
    monkeypatch: pytest.MonkeyPatch, preloaded: str, safe: bool
) -> None:
    monkeypatch.setenv("LD_PRELOAD", preloaded)
    assert can_fork() in (safe, False), "pytest has threads of its own, now and then"
