"""`scrtune run`: a job with its daemon beside it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from ..client.emit import Emitter
from ..client.paths import JobPaths, temporary_base
from ..goodput.events import JobEnded
from ..scr_config.write import write_config
from .environment import ConfigFiles, JobOptions, config_files, variables
from .process import Signals
from .services import NodeServices
from .slurm import SlurmServices, environment_lines, in_allocation

EXIT_NOT_FOUND = 127
EXIT_NOT_EXECUTABLE = 126
_SIGNAL_BASE = 128
_CHECK_S = 0.2


def job_paths(job_id: str | None) -> JobPaths:
    """The run directory of a new job.

    Its id is the one given, $SLURM_JOB_ID within an allocation, or the time and our pid. Within an
    allocation the base is in the temporary directory unless $SCRTUNE_RUN_DIR says otherwise: a login
    session's $XDG_RUNTIME_DIR is not there on other nodes.
    """
    if in_allocation(os.environ):
        base = None if "SCRTUNE_RUN_DIR" in os.environ else temporary_base()
        return JobPaths.of(job_id or os.environ["SLURM_JOB_ID"], base=base)
    return JobPaths.of(job_id or f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")


def run(command: Sequence[str], paths: JobPaths, options: JobOptions) -> int:
    """Run `command` with daemon and forwarder beside it; returns its exit code (128 + n after signal n).

    Raises OSError and :class:`scrtune.client.dftracer_environment.CaptureUnavailableError` before anything
    was started.
    """
    paths.create()
    services, added = _prepare(paths, options)
    services.start()
    try:
        code = _application(command, {**os.environ, **added}, services)
        emitter = Emitter(paths.events_endpoint)
        emitter.emit(JobEnded(time_s=time.time(), exit_code=code))
        emitter.close()
    finally:
        services.stop()
    return code


def _prepare(paths: JobPaths, options: JobOptions) -> tuple[NodeServices | SlurmServices, dict[str, str]]:
    """The services to start, and what to add to the application's environment."""
    if in_allocation(os.environ):
        shared = Path(os.environ.get("SCR_PREFIX", ".")).absolute() / ".scrtune" / paths.job_id
        files = config_files(shared / "scr.conf", options, os.environ)
        slurm = SlurmServices(paths, shared, node_options(files, options, shared))
        return slurm, {"SLURM_TASK_PROLOG": str(slurm.prolog)}
    files = config_files(paths.scr_conf, options, os.environ)
    added = variables(paths, files, options, os.environ)
    return NodeServices(paths, daemon_options(files), follow=options.trace != "off"), added


def daemon_options(files: ConfigFiles) -> list[str]:
    """The options of `scrtune daemon` that carry on what `scrtune run` was told."""
    given = ["--scr-conf", str(files.scr_conf)]
    if files.user_conf is not None:
        given += ["--user-conf", str(files.user_conf)]
    return given


def node_options(files: ConfigFiles, options: JobOptions, shared: Path) -> list[str]:
    """The options of `scrtune node`, likewise."""
    given = [*daemon_options(files), "--trace", options.trace, "--ready", str(shared)]
    if options.floor:
        given += ["--redundancy-floor", options.floor]
    if options.override:
        given.append("--override")
    return given if options.tuning else [*given, "--no-tune"]


def node(paths: JobPaths, files: ConfigFiles, options: JobOptions, ready: Path) -> None:
    """`scrtune node`: daemon and forwarder of one node of an allocation, until a signal ends them."""
    services = NodeServices(paths, daemon_options(files), follow=options.trace != "off")
    with Signals().watched() as signals:
        services.start()
        text = environment_lines(variables(paths, files, options, os.environ))
        write_config(paths.environment, text)
        (ready / f"ready.{paths.host}").touch()
        while not signals.ending:
            time.sleep(_CHECK_S)
            services.check()
        services.stop()


def _application(
    command: Sequence[str], environment: dict[str, str], services: NodeServices | SlurmServices
) -> int:
    """Run the application in the foreground; its signals are passed on, its end is waited for."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        sys.stderr.write(f"scrtune run: {command[0]}: {error.strerror}\n")
        return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
    with _forwarded(process):
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_CHECK_S)
                return code if code >= 0 else _SIGNAL_BASE - code
            services.check()


@contextlib.contextmanager
def _forwarded(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Pass SIGTERM and SIGHUP on; a Ctrl-C reaches the application from the terminal, and must not end us."""

    def forward(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
