"""The daemon and the forwarder as processes: forked from the one that started the application.

A fork of a process that has imported them is there at once and costs a few milliseconds, an interpreter of
its own some hundreds. It is safe while this process has one thread and none of the application's preloaded
libraries; otherwise an interpreter is started.
"""

import contextlib
import fcntl
import gc
import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NoReturn

from ..lock import AlreadyRunningError
from ..options import LOST, READY, DaemonOptions
from ..priority import CoreShare, take_cores
from ..signals import FOR_THE_APPLICATION, Parent, Signals, handled
from .environment import trace_tiers

_STOP_LIMIT_S = 10.0
_LOOK_S = 0.2
_FIRST_OWN_FD = 3
_WRITABLE_BY_OTHERS = 0o022


class Child:
    """A process of ours. It ends when its line, the socket that is its standard input, does: with us."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self.ran_s = 0.0
        """How long it ran, once :meth:`poll` has found that it ended."""
        self._began_s = time.monotonic()
        self._line = line
        self._heard = b""

    def poll(self) -> int | None:
        """Return its exit code (-n after signal n), or None while it runs."""
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ran_s = time.monotonic() - self._began_s
                self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code

    def is_ready(self) -> bool:
        """Return whether it has said so."""
        with contextlib.suppress(OSError):
            self._heard += self._line.recv(64, socket.MSG_DONTWAIT)
        return READY in self._heard

    @property
    def lost(self) -> int | None:
        """How many events its journal misses, if it ended and could not leave its last status."""
        said = self._heard.partition(LOST)[2]
        return int(said) if said else None

    def wait_ready(self, limit_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until it says so, has ended or we `give_up`, `limit_s` at most; return whether it has."""
        deadline_s = time.monotonic() + limit_s
        while not self.is_ready() and self.poll() is None and not give_up() and time.monotonic() < deadline_s:
            select.select([self], [], [], _LOOK_S)
        return self.is_ready()

    def fileno(self) -> int:
        """Return a descriptor that is readable when it says something, and when it has ended."""
        return self._line.fileno()

    def send(self, line: bytes) -> None:
        """Write to its standard input, if it still runs."""
        with contextlib.suppress(OSError):
            self._line.sendall(line, socket.MSG_NOSIGNAL)

    def end(self, limit_s: float = _STOP_LIMIT_S) -> bool:
        """End its standard input, and wait for its own end; by force after `limit_s`, then return False."""
        has_closed = True
        if self.poll() is None:
            take_cores(self.pid)
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_WR)
            has_closed = self._has_closed(limit_s)
            if not has_closed:
                os.kill(self.pid, signal.SIGKILL)
            self.exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.is_ready()  # what it has said stays known
        self._line.close()
        return has_closed

    def _has_closed(self, limit_s: float) -> bool:
        """Return whether it has closed its end within `limit_s`: nobody else has that."""
        poller = select.poll()
        poller.register(self._line, select.POLLIN)
        while poller.poll(1000 * limit_s):
            with contextlib.suppress(ConnectionError):
                if part := self._line.recv(64):
                    self._heard += part
                    continue
            return True
        return False


def can_fork() -> bool:
    """Return whether a copy of this process is as good as a new one."""
    return not os.environ.get("LD_PRELOAD") and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208


def spawn(main: Callable[[], int], name: str, environment: Mapping[str, str], log_file: Path) -> Child:
    """Run `main` in a copy of this process, a session of its own, its output in `log_file`. Raises OSError.

    A Ctrl-C at the terminal is ours to handle. What `main` returns is its exit code; `name` is what ps shows.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs, open(log_file, "ab", opener=_private) as output:
            # a signal that came between the fork and its own handlers would be taken in by a copy of ours
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                pid = os.fork()
                if pid == 0:
                    _become(main, name, environment, (theirs.fileno(), output.fileno()), mask)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    except OSError:
        ours.close()
        raise
    return Child(pid, ours)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _become(
    main: Callable[[], int],
    name: str,
    environment: Mapping[str, str],
    fds: tuple[int, int],
    mask: Iterable[int],
) -> NoReturn:
    """Run `main` as if this were no copy; never returns, so that nothing of the parent's is ended twice."""
    code = 1
    try:
        os.setsid()
        _take_over(*fds)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.umask(os.umask(0) | _WRITABLE_BY_OTHERS)
        os.environ.clear()
        os.environ.update(environment)
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text(name, encoding="ascii")
        code = main()
    except BaseException:  # noqa: BLE001  whatever it is, the copy must not go on as its parent
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _take_over(line: int, output: int) -> None:
    """Make the two our standard files, and close all else that the parent has open."""
    line, output = (fcntl.fcntl(fd, fcntl.F_DUPFD, _FIRST_OWN_FD) for fd in (line, output))
    for fd, standard in ((line, 0), (output, 1), (output, 2)):
        os.dup2(fd, standard)
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if fd >= _FIRST_OWN_FD:
            with contextlib.suppress(OSError):  # that of the directory
                os.close(fd)
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", 1, closefd=False, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.stdout = sys.stderr


def new_interpreter(arguments: list[str], environment: Mapping[str, str]) -> Callable[[], int]:
    """Return a `main` that becomes ``scrtune <arguments>``."""
    return partial(os.execve, sys.executable, [sys.executable, "-m", "scrtune", *arguments], environment)


def load() -> None:
    """Import what a copy needs, once for all of them."""
    gc.disable()  # nothing of what is imported goes away again
    try:
        from ...client.capture import forward  # noqa: F401, PLC0415
        from .. import loop  # noqa: F401, PLC0415
    finally:
        gc.freeze()  # nor is it looked at in the copies, or at our end
        gc.enable()


def run_daemon(options: DaemonOptions) -> int:
    """Run a daemon to its end; returns its exit code."""
    from ..loop import Daemon  # noqa: PLC0415 - a command that starts an application first has no use for it yet

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts a thread for each core of the node
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, force=True)
    try:
        Daemon(options).run()
    except (OSError, AlreadyRunningError) as error:
        logging.getLogger("scrtune.daemon").error("%s", error)
        return 1
    return 0


def run_forwarder(log_prefix: Path, endpoint: str, events_file: Path | None, parent: int | None) -> int:
    """Forward until SIGTERM, or the end of the file `parent`; returns its exit code."""
    from ...client.capture.forward import forward  # noqa: PLC0415 - as above

    above, tiers, share = Parent(parent), trace_tiers(None, os.environ), CoreShare()
    with handled(FOR_THE_APPLICATION, signal.SIG_IGN), Signals().watched() as signals:

        def ended(seconds: float, *fds: int) -> bool:
            share.tick()
            return signals.ended(seconds, above, *fds)

        counts = forward(log_prefix, endpoint, ended, tiers=tiers, events_file=events_file)
    sys.stderr.write(f"forwarder ended: {counts}\n")
    return 0
