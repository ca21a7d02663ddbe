"""The two processes beside an application on its node: the daemon and the forwarder."""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ..client.advice import DaemonUnavailable, ask_daemon
from ..client.emit import Emitter
from ..client.paths import JobPaths
from ..goodput.events import JobEnded
from .environment import ConfigFiles, Trace, trace_variables

log = logging.getLogger("scrtune.run")

READY_LIMIT_S = 20.0
_ASK_LIMIT_S = 0.2
_STOP_LIMIT_S = 10.0
_POLL_S = 0.05
_LONGEST_PAUSE_S = 60.0

DAEMON, FORWARDER = "daemon", "forwarder"


class NodeServices:
    """Starts both, restarts one that died, ends both. The application never depends on either.

    The forwarder is a process of its own so that it keeps its place in the files while a daemon is restarted.
    """

    def __init__(self, paths: JobPaths, files: ConfigFiles, trace: Trace) -> None:
        self._paths = paths
        self._files = files
        self._trace = trace
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts = 0
        self._next_restart_s = 0.0

    def start(self, give_up: Callable[[], bool] = lambda: False) -> dict[str, str]:
        """Start both, and return the variables by which the application is traced.

        Returns when the daemon answers, when it cannot (then the application runs untuned), or when
        `give_up()` is true. Raises OSError when a process cannot be started.
        """
        self._paths.create()
        variables = trace_variables(self._paths, self._files.user_conf, self._trace, os.environ)
        self._spawn(DAEMON)
        if variables:
            self._spawn(FORWARDER)
        deadline_s = time.monotonic() + READY_LIMIT_S
        while not give_up() and not self.ready():
            if self._running[DAEMON].poll() is not None or time.monotonic() >= deadline_s:
                log.warning(
                    "the daemon did not start; see %s. The application runs untuned.", self._paths.log
                )
                break
            time.sleep(_POLL_S)
        return variables

    def ready(self) -> bool:
        """Whether the daemon answers."""
        try:
            ask_daemon(self._paths.control_endpoint, "status", limit_s=_ASK_LIMIT_S)
        except DaemonUnavailable:
            return False
        return True

    def check(self) -> None:
        """Restart what has died, ever more slowly if it keeps dying; a daemon goes on from its journal.

        What ended with 0 was told to.
        """
        now_s = time.monotonic()
        for name, process in list(self._running.items()):
            if not process.poll() or now_s < self._next_restart_s:
                continue
            log.warning("the %s ended with %d; starting it again", name, process.returncode)
            self._restarts += 1
            self._next_restart_s = now_s + min(_LONGEST_PAUSE_S, 2.0**self._restarts)
            try:
                self._spawn(name)
            except OSError as error:
                log.warning("the %s cannot be started: %s", name, error)

    def stop(self, exit_code: int | None = None) -> None:
        """Tell the daemon the application's `exit_code` (None: unknown) and end both.

        In the order of the data: what the forwarder has still reaches the daemon.
        """
        if exit_code is not None and DAEMON in self._running:
            emitter = Emitter(self._paths.events_endpoint)
            emitter.emit(JobEnded(time_s=time.time(), exit_code=exit_code))
            emitter.close()
        for name in (FORWARDER, DAEMON):
            if process := self._running.pop(name, None):
                _end(process)
        self._remove_trace()

    def _remove_trace(self) -> None:
        directory = self._paths.trace_directory
        shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # the run directory, where there is no tmpfs: it stays
            directory.parent.rmdir()

    def _spawn(self, name: str) -> None:
        """Start one of our commands, in a session of its own: a Ctrl-C at the terminal is ours to handle."""
        arguments = {
            DAEMON: ["daemon", "--job-id", self._paths.job_id, *self._files.options()],
            FORWARDER: ["forward", str(self._paths.trace_prefix), self._paths.events_endpoint],
        }
        with self._paths.log.open("ab") as output:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "scrtune.daemon", *arguments[name]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "SCRTUNE_RUN_DIR": str(self._paths.base)},
                start_new_session=True,
            )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
