"""`scrtune run`: a job with its daemon beside it."""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from ...client.paths import JobPaths, default_base, temporary_base
from ...scr_config.render import RenderError
from ...scr_config.resolution import expand
from ..lock import AlreadyRunningError
from ..signals import Signals, handled
from .environment import JobOptions, prepare
from .services import NodeServices
from .slurm import SlurmServices, in_allocation

log = logging.getLogger("scrtune.run")

_EXIT_NOT_FOUND = 127
_EXIT_NOT_EXECUTABLE = 126
_SIGNAL_BASE = 128
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FROM_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


def job_paths(job_id: str | None) -> JobPaths:
    """Return the run directory of a new job.

    Its id is the one given, $SLURM_JOB_ID within an allocation, or the time and our pid. Within an
    allocation the base is in the temporary directory unless $SCRTUNE_RUN_DIR says otherwise: a login
    session's $XDG_RUNTIME_DIR is not there on other nodes.
    """
    if in_allocation(os.environ):
        base = default_base() if os.environ.get("SCRTUNE_RUN_DIR") else temporary_base()
        return JobPaths.of(job_id or os.environ["SLURM_JOB_ID"], base=base.absolute())
    job_id = job_id or f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return JobPaths.of(job_id, base=default_base().absolute())


def run_job(command: Sequence[str], paths: JobPaths, options: JobOptions, at_end: Callable[[], None]) -> int:
    """Run `command` with daemon and forwarder beside it; returns its exit code (128 + n after signal n).

    Whatever prevents these from starting is logged, and the application runs without. Where it ran with both,
    `at_end` is called when they have ended: then the daemon's last status is there.
    """
    services: NodeServices | SlurmServices = NodeServices(paths)
    if in_allocation(os.environ):
        prefix = expand(os.environ.get("SCR_PREFIX", ""), os.environ)
        services = SlurmServices(paths, Path(prefix).absolute())
    added: dict[str, str] = {}
    is_tuned = was_started = False
    with Signals(signal.SIGCHLD).watched() as signals:
        foreground = _Foreground(signals)
        with handled((*_PASSED_ON, *_FROM_THE_TERMINAL), foreground.arrived):
            try:
                try:
                    if shutil.which(command[0]):  # else it cannot be started, and leaves nothing behind
                        job = prepare(paths, services.create(), options, os.environ)
                        added = {**job.variables, **services.prepare(job, foreground.ending)}
                        is_tuned = True
                except (OSError, AlreadyRunningError, RenderError) as error:
                    log.warning("%s. The application runs without scrtune.", error)
                # the application first: importing the daemon takes as long as an application's first steps
                code = foreground.start(command, {**os.environ, **added})
                if code is None:
                    was_started = True
                    if is_tuned:
                        services.start()
                    code = foreground.wait(services.check)
                    services.application_ended(code)
            finally:
                services.stop()
    if is_tuned and was_started:  # else the last status may be another run's
        with contextlib.suppress(OSError, ValueError):  # standard error is closed
            at_end()
    return code


class _Foreground:
    """The application in the foreground, its signals passed on.

    What a terminal sends (INT, QUIT) reaches the application by itself and must not end us.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._process: subprocess.Popen[bytes] | None = None
        self._arrived: list[int] = []

    def ending(self) -> bool:
        """Return whether a signal came before the application was started: then it never is."""
        return bool(self._arrived)

    def start(self, command: Sequence[str], environment: dict[str, str]) -> int | None:
        """Start `command`; returns None, or the exit code when it cannot be started, as a shell has it."""
        if self._arrived:
            return _SIGNAL_BASE + self._arrived[-1]
        try:
            self._process = subprocess.Popen(command, env=environment)
        except OSError as error:
            log.error("%s: %s", command[0], error.strerror)
            return _EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else _EXIT_NOT_EXECUTABLE
        for number in self._arrived:  # while the process was being made
            self._pass_on(number)
        return None

    def wait(self, check: Callable[[], float | None]) -> int:
        """Wait for its end, and return its exit code, as a shell has it.

        `check` is called when a child of ours has ended, and after the seconds that it returned.
        """
        assert self._process is not None  # noqa: S101
        while (code := self._process.poll()) is None:
            self._signals.wait(check())
        return code if code >= 0 else _SIGNAL_BASE - code

    def arrived(self, number: int, _frame: FrameType | None) -> None:
        """Take in a signal."""
        if self._process is None:
            self._arrived.append(number)
        else:
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        assert self._process is not None  # noqa: S101
        if number in _PASSED_ON:
            self._process.send_signal(number)
