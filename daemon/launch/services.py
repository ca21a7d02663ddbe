"""The two processes beside an application on its node: the daemon and the forwarder."""

import contextlib
import logging
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...client.paths import JobPaths
from ...goodput.events import JobEnded
from ..lock import Lock
from ..options import DaemonOptions
from . import processes
from .environment import Job, trace_variables
from .preload import EVENTS_FILE, library_variables
from .processes import Child

log = logging.getLogger("scrtune.run")

_READY_LIMIT_S = 20.0
_LONGEST_PAUSE_S = 60.0
_RAN_WELL_S = 10.0  # started again after that at the most, a daemon costs its node 1 or 2 % of a core

DAEMON, FORWARDER = "daemon", "forwarder"


@dataclass
class Restarts:
    """When what has died may be started again: at once, then ever later, unless it had run well before."""

    next_s: float = 0.0
    _count: int = 0

    def started_again(self, ran_s: float, now_s: float) -> None:
        """Take in a start at `now_s`, on any clock, of what had run for `ran_s` when it died."""
        self._count = 1 if ran_s >= _RAN_WELL_S else self._count + 1
        self.next_s = now_s + min(_LONGEST_PAUSE_S, 2.0**self._count)


class NodeServices:
    """Starts both, restarts one that died, ends both. The application never depends on either.

    The forwarder is a process of its own so that it keeps its place in the files while a daemon is restarted.
    """

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._wanted: dict[str, Callable[[], Child]] = {}
        self._is_ours = False
        self._running: dict[str, Child] = {}
        self._restarts: defaultdict[str, Restarts] = defaultdict(Restarts)

    def create(self) -> Path:
        """Make the run directory; returns where the config file goes unless the user names another place.

        Raises :class:`AlreadyRunningError` when the job has a daemon here, and OSError.
        """
        self._paths.create()  # before anything in it is opened: it may be somebody else's
        check_alone(self._paths)
        self._is_ours = True
        return self._paths.scr_conf

    def prepare(self, job: Job, _give_up: Callable[[], bool]) -> dict[str, str]:
        """As :meth:`prepare_beside`; returns how the application is tuned, too."""
        traced = self.prepare_beside(job)
        preloaded = traced.get("LD_PRELOAD", os.environ.get("LD_PRELOAD", ""))
        return {**traced, **library_variables(self._paths, job.library, preloaded)}

    def prepare_beside(self, job: Job) -> dict[str, str]:
        """Return the variables by which the application is traced on this node. Raises OSError.

        What an earlier run decided is not in force from now on, until a daemon is there that watches what it
        does: that one finds it aside, and publishes it again.
        """
        paths = self._paths
        paths.last_status.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            paths.decision.replace(paths.earlier_decision)
        with contextlib.suppress(OSError):  # a full disk
            paths.unheard.touch(0o600)
        variables = trace_variables(paths, job, os.environ)
        self._wanted = {DAEMON: lambda: self._daemon(job)}
        if variables or job.library:
            self._wanted[FORWARDER] = lambda: self._forwarder(job)
        return variables

    def start(self) -> None:
        """Start both. The application may run already: what it sends waits for them."""
        for name in self._wanted:
            self._spawn(name)

    def ready(self, give_up: Callable[[], bool]) -> bool:
        """Return whether the daemon can be asked; waits until it can or has ended, 20 s at most."""
        daemon = self._running.get(DAEMON)
        return daemon is not None and daemon.wait_ready(_READY_LIMIT_S, give_up)

    def check(self) -> float | None:
        """Restart what has died, ever more slowly if it keeps dying; a daemon goes on from its journal.

        What ended with exit code 0 was asked to. Returns the seconds until it wants to be called again; None:
        when a child has ended.
        """
        now_s = time.monotonic()
        dead = {name: self._restarts[name] for name, child in self._running.items() if child.poll()}
        for name, restarts in dead.items():
            if restarts.next_s <= now_s:
                restarts.started_again(self._running[name].ran_s, now_s)
                self._start_again(name)
        return min((restarts.next_s - now_s for restarts in dead.values()), default=None)

    def _start_again(self, name: str) -> None:
        self._say_how_it_ended(name)
        self._spawn(name)

    def _say_how_it_ended(self, name: str) -> None:
        child = self._running[name]
        if name == DAEMON and not child.is_ready():
            self._paths.unheard.unlink(missing_ok=True)
            log.warning("the daemon did not start; see %s. The application runs untuned.", self._paths.log)
        else:
            log.warning("the %s ended with %d; starting it again", name, child.exit_code)

    def application_ended(self, exit_code: int) -> None:
        """Send the exit code to the daemon, and end the forwarder: it has then sent all there is.

        A daemon that is dead is started once more, to take in what the forwarder holds.
        """
        if daemon := self._running.get(DAEMON):
            if daemon.poll():
                self._start_again(DAEMON)
                daemon = self._running[DAEMON]
            ended = JobEnded(time_s=time.time(), exit_code=exit_code)
            daemon.send(msgspec.json.encode(ended) + b"\n")
            daemon.wait_ready(_READY_LIMIT_S)
        self._end(FORWARDER)

    def stop(self) -> None:
        """End both, in the order of the data: what the forwarder has still reaches the daemon."""
        self._end(FORWARDER)
        self._end(DAEMON)
        if self._is_ours:
            self._paths.unheard.unlink(missing_ok=True)
            directory = self._paths.trace_directory
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):  # the run directory, where there is no tmpfs: it stays
                directory.parent.rmdir()

    def _end(self, name: str) -> None:
        if child := self._running.get(name):
            if not child.end():
                log.warning("the %s did not end, and was killed: what it had not read is in no account", name)
            elif child.exit_code and name == DAEMON and not child.is_ready():
                self._say_how_it_ended(name)
            elif child.lost is not None:
                log.warning(
                    "the daemon had no room for its last status, and could not write %d events to the"
                    " journal; whatever is shown of this job misses them. Free some space in %s",
                    child.lost,
                    self._paths.base,
                )
            del self._running[name]

    def _spawn(self, name: str) -> None:
        """Start one of the two; where that fails the application runs without it."""
        if before := self._running.get(name):
            before.end()
        try:
            self._running[name] = self._wanted[name]()
        except Exception as error:  # noqa: BLE001  whatever it is (an import that fails): the application goes on
            log.warning("the %s cannot be started: %s", name, error)

    def _daemon(self, job: Job) -> Child:
        paths, files = self._paths, job.files
        options = DaemonOptions(
            paths=paths,
            scr_conf=files.scr_conf,
            user_conf=files.user_conf,
            application=job.asked.application,
            monitoring=job.asked.monitoring,
            probe=job.asked.probe,
            cluster=job.cluster,
            parent=0,
        )
        arguments = ["daemon", "--until-eof", "--job-id", paths.job_id, *job.options()]
        return self._child(DAEMON, job, lambda: processes.run_daemon(options), arguments)

    def _forwarder(self, job: Job) -> Child:
        paths = self._paths
        events_file = paths.library_events if job.library else None
        arguments = ["forward", "--until-eof", str(paths.trace_prefix), paths.events_endpoint]
        return self._child(
            FORWARDER,
            job,
            lambda: processes.run_forwarder(paths.trace_prefix, paths.events_endpoint, events_file, 0),
            arguments,
        )

    def _child(self, name: str, job: Job, main: Callable[[], int], arguments: list[str]) -> Child:
        """Start one as a copy of this process, or as the command `arguments`."""
        # the application's preloaded libraries have no business in our processes
        own = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", EVENTS_FILE)}
        said = {EVENTS_FILE: str(self._paths.library_events)} if job.library else {}
        environment = {**own, **job.variables, **said}
        if processes.can_fork():
            processes.load()
        else:
            main = processes.new_interpreter(arguments, environment)
        return processes.spawn(main, f"scrtune-{name}"[:15], environment, self._paths.log)


def check_alone(paths: JobPaths) -> None:
    """Raises :class:`AlreadyRunningError` when the job has a daemon on this node."""
    if paths.lock.exists():
        Lock(paths.lock).close()
