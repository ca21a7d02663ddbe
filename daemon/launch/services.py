"""The two processes beside an application on its node: the daemon and the forwarder."""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ...client.paths import JobPaths
from ...client.transport.daemon_client import DaemonUnavailable, ask_daemon
from ...client.transport.sender import Emitter
from ...goodput.events import JobEnded
from ..lock import Lock
from .environment import Job, trace_variables
from .preload import EVENTS_FILE, library_variables

log = logging.getLogger("scrtune.run")

_READY_LIMIT_S = 20.0
_ASK_LIMIT_S = 0.2
_STOP_LIMIT_S = 10.0
_POLL_S = 0.05
_LONGEST_PAUSE_S = 60.0

DAEMON, FORWARDER = "daemon", "forwarder"


class NodeServices:
    """Starts both, restarts one that died, ends both. The application never depends on either.

    The forwarder is a process of its own so that it keeps its place in the files while a daemon is restarted.
    """

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._commands: dict[str, list[str]] = {}
        self._environment: dict[str, str] = {}
        self._is_ours = False
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts = 0
        self._next_restart_s = 0.0

    def create(self) -> Path:
        """Make the run directory; returns where the config file goes unless the user names another place.

        Raises :class:`AlreadyRunningError` when the job has a daemon here, and OSError.
        """
        self._paths.create()  # before anything in it is opened: it may be somebody else's
        check_alone(self._paths)
        self._is_ours = True
        return self._paths.scr_conf

    def start(self, job: Job, give_up: Callable[[], bool]) -> dict[str, str]:
        """As :meth:`start_beside`; returns how the application is tuned, too."""
        traced = self.start_beside(job, give_up)
        preloaded = traced.get("LD_PRELOAD", os.environ.get("LD_PRELOAD", ""))
        return {**traced, **library_variables(self._paths, job.library, preloaded)}

    def start_beside(self, job: Job, give_up: Callable[[], bool]) -> dict[str, str]:
        """Start both, and return the variables by which the application is traced on this node.

        Returns when the daemon answers, when it cannot (then the application runs untuned), or when
        `give_up()` is true. Raises OSError when a process cannot be started.
        """
        paths = self._paths
        variables = trace_variables(paths, job, os.environ)
        # the application's preloaded libraries have no business in our processes
        own = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", EVENTS_FILE)}
        said = {EVENTS_FILE: str(paths.library_events)} if job.library else {}
        self._environment = {**own, **job.variables, **said}
        self._commands = {
            DAEMON: ["daemon", "--until-eof", "--job-id", paths.job_id, *job.options()],
            FORWARDER: ["forward", "--until-eof", str(paths.trace_prefix), paths.events_endpoint],
        }
        self._spawn(DAEMON)
        if variables or said:
            self._spawn(FORWARDER)
        deadline_s = time.monotonic() + _READY_LIMIT_S
        while not give_up() and not self.ready():
            if self._running[DAEMON].poll() is not None or time.monotonic() >= deadline_s:
                log.warning("the daemon did not start; see %s. The application runs untuned.", paths.log)
                with contextlib.suppress(OSError):  # nobody would watch what an earlier run's decision does
                    paths.decision.unlink(missing_ok=True)
                break
            time.sleep(_POLL_S)
        return variables

    def ready(self) -> bool:
        """Return whether the daemon answers."""
        try:
            ask_daemon(self._paths.control_endpoint, "status", limit_s=_ASK_LIMIT_S)
        except DaemonUnavailable:
            return False
        return True

    def check(self) -> None:
        """Restart what has died, ever more slowly if it keeps dying; a daemon goes on from its journal.

        What ended with exit code 0 was asked to.
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

    def application_ended(self, exit_code: int) -> None:
        """Send the exit code to the daemon, and end the forwarder: it has then sent all there is."""
        if DAEMON in self._running:
            emitter = Emitter(self._paths.events_endpoint)
            emitter.emit(JobEnded(time_s=time.time(), exit_code=exit_code))
            emitter.close()
        self._end(FORWARDER)

    def stop(self) -> None:
        """End both, in the order of the data: what the forwarder has still reaches the daemon."""
        self._end(FORWARDER)
        self._end(DAEMON)
        if self._is_ours:
            directory = self._paths.trace_directory
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):  # the run directory, where there is no tmpfs: it stays
                directory.parent.rmdir()

    def _end(self, name: str) -> None:
        if process := self._running.pop(name, None):
            end(process)

    def _spawn(self, name: str) -> None:
        """Start one of our commands, in a session of its own: a Ctrl-C at the terminal is ours to handle.

        It reads from a pipe of ours, and ends with us even if we are killed.
        """
        if (before := self._running.get(name)) and before.stdin:
            before.stdin.close()
        with self._paths.log.open("ab") as output:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "scrtune", *self._commands[name]],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
            )


def check_alone(paths: JobPaths) -> None:
    """Raises :class:`AlreadyRunningError` when the job has a daemon on this node."""
    if paths.lock.exists():
        Lock(paths.lock).close()


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process of ours, by force if it takes longer than 10 s."""
    process.terminate()
    try:
        process.communicate(timeout=_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
