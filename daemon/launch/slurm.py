"""Inside a Slurm allocation: one daemon a node beside the application, and its environment by task prolog.

The daemons run in a step of their own, with ``--overlap`` (else one of the steps would wait for the other)
and an explicit ``-n`` (else the inherited SLURM_NTASKS starts several a node). srun is the line to the nodes:
each prints its state, and ends when its standard input does, so nothing stays when `scrtune run` is killed.
"""

import contextlib
import logging
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, cast

import msgspec

from ...client.paths import JobPaths, private_directory
from ...scr_config.files import write_atomic
from ...scr_config.render import prolog_lines
from ..options import STEP_NAME, ClusterOptions
from ..signals import ENDING_SIGNALS, Signals
from .environment import Job
from .services import NodeServices, check_alone

log = logging.getLogger("scrtune.run")

_READY_LIMIT_S = 30.0
_STOP_LIMIT_S = 20.0
_KILL_LIMIT_S = 10.0
_CHECK_S = 0.2
# The supervisor of a node has one, too: killed by a signal it is started again, when its daemon has ended.
_ANEW = """\
trap 'over=1' TERM INT HUP
trap '' USR1 USR2  # so do all that it starts
pause=2
while "$@"; code=$?; [ $code -gt 128 ] && [ -z "$over" ]; do
    echo "scrtune node ended with $code on $(uname -n); starting it again in $pause s" >&2
    sleep $pause
    pause=$((pause < 8 ? 2 * pause : 8))
done
exit $code
"""
_NO_STEP = {"", "4294967291", "4294967290"}  # none, SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP

READY, NO_DAEMON, NO_PROLOG = b"ready", b"no daemon", b"no prolog"
"""The state of a node, which it prints on a line of its own."""

# Nothing here waits or fails: a prolog that fails kills its task.
# The task's own LD_PRELOAD stays, and the user's own prolog has the last word.
_PROLOG = """#!/bin/sh
# Written by scrtune: the job's variables and those of this task's node (slurm.conf(5), TaskProlog).
cat <<'end of variables'
{variables}end of variables
directory={base}/{job_id}/$(uname -n | cut -d. -f1)
preload=$LD_PRELOAD
if [ -r "$directory/environment.sh" ]; then
    while IFS= read -r line; do
        case $line in
        'export LD_PRELOAD='*) preload=${{line#export LD_PRELOAD=}}${{preload:+:$preload}} ;;
        *) printf '%s\\n' "$line" ;;
        esac
    done <"$directory/environment.sh"
fi
{library}if [ "$preload" != "$LD_PRELOAD" ]; then
    printf 'export LD_PRELOAD=%s\\n' "$preload"
fi
{last}
"""

# On every node, whether it has a daemon or not: the ranks agree on settings by it.
_PROLOG_LIBRARY = """\
preload={library}${{preload:+:$preload}}
printf 'export SCRTUNE_DECISION_FILE=%s\\n' "$directory/{decision}"
printf 'export SCRTUNE_EVENTS_FILE=%s\\n' "$directory/{events}"
"""


def in_allocation(environment: Mapping[str, str]) -> bool:
    """Return whether this is a Slurm allocation but no step of it: a batch script, or a shell of salloc."""
    return "SLURM_JOB_ID" in environment and environment.get("SLURM_STEP_ID", "") in _NO_STEP


class SlurmServices:
    """`scrtune node` on every node of the allocation, as one step that overlaps with the application's."""

    def __init__(self, paths: JobPaths, prefix: Path) -> None:
        """`prefix` is a directory that all nodes see."""
        self._local = paths
        self._shared = prefix / f".scrtune-{os.getuid()}" / paths.job_id  # others may use the prefix, too
        self._log = self._shared / "daemons.log"
        self._cluster = self._shared / "cluster"
        self._step: subprocess.Popen[bytes] | None = None
        self._has_said_so = False

    def create(self) -> Path:
        """Make the shared directory; returns where the config file goes unless the user names another place.

        Raises :class:`AlreadyRunningError` when the job has a daemon on this node, and OSError.
        """
        check_alone(self._local.check())
        self._local.last_status.unlink(missing_ok=True)  # an earlier run's, should no daemon start here
        for directory in (self._shared.parent, self._shared):
            private_directory(directory, "SCR_PREFIX")
        shutil.rmtree(self._cluster, ignore_errors=True)  # an earlier run's keys and nodes
        return self._shared / "scr.conf"

    def prepare(self, job: Job, give_up: Callable[[], bool]) -> dict[str, str]:
        """Start the daemons and wait for the state of every node, 30 s at most.

        Returns the variable that makes srun run our prolog before each task, or none, with a warning, when
        there is a node that does not see it: its tasks would be killed. Raises OSError.
        """
        prolog = _write_script(self._shared / "task_prolog.sh", prolog_text(job, os.environ))
        nodes = int(os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or 1)
        if nodes > 1:
            job = msgspec.structs.replace(job, cluster=ClusterOptions(self._cluster))
        self._step = self._srun(job, nodes, prolog)
        said = _answers(self._step, nodes, give_up)
        if give_up():
            return {}
        if (ready := said.count(READY)) < nodes:
            text = "%d of %d nodes have a daemon; see %s. The application runs all the same."
            log.warning(text, ready, nodes, self._log)
            self._has_said_so = ready == 0  # none that could end
        if len(said) < nodes or NO_PROLOG in said:
            log.warning("not every node has seen %s: the application's tasks are not traced.", prolog)
            return {}
        return {"SLURM_TASK_PROLOG": str(prolog)}

    def start(self) -> None:
        """Do nothing: before the first task runs its node must have said what there is."""

    def check(self) -> None:
        """Say when the daemons' step ended before the application; `scrtune node` looks after its node."""
        if self._step is not None and self._step.poll() is not None and not self._has_said_so:
            self._has_said_so = True
            log.warning(
                "the daemons' step ended with %s: no node is watched or tuned any more; see %s. The"
                " application goes on with the settings it has.",
                self._step.returncode,
                self._log,
            )

    def application_ended(self, exit_code: int) -> None:
        """Send the exit code to every node."""
        if self._step is not None:
            with contextlib.suppress(OSError):  # the step has ended already
                os.write(cast("IO[bytes]", self._step.stdin).fileno(), b"%d\n" % exit_code)

    def stop(self) -> None:
        """End the daemons of all nodes."""
        if self._step is None:
            return
        try:
            self._step.communicate(timeout=_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            log.warning("the daemons did not end within %.0f s; see %s", _STOP_LIMIT_S, self._log)
            self._step.terminate()  # srun kills the step then
            try:
                self._step.communicate(timeout=_KILL_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._step.kill()
                self._step.communicate()

    def _srun(self, job: Job, nodes: int, prolog: Path) -> "subprocess.Popen[bytes]":
        command = ["srun", "--overlap", "--mpi=none", f"--nodes={nodes}", f"--ntasks={nodes}"]
        command += ["--ntasks-per-node=1", "--distribution=block", "--cpu-bind=none", "--export=ALL"]
        command += ["--kill-on-bad-exit=0", "--wait=0", "--no-kill", "--input=all", f"--job-name={STEP_NAME}"]
        command += ["sh", "-c", _ANEW, "scrtune", sys.executable, "-m", "scrtune", "node"]
        command += ["--prolog", str(prolog), "--trace", job.asked.trace, "--keep", f"{job.asked.keep_s:f}"]
        command += job.options()
        command += ["--library", str(job.library)] if job.library else []
        inherited = {name: value for name, value in os.environ.items() if name not in _OF_THE_USERS_STEPS}
        with self._log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**inherited, **job.variables},
                start_new_session=True,
            )


def prolog_text(job: Job, inherited: Mapping[str, str]) -> str:
    """Return the task prolog of a job: a script that prints its variables and those of the task's node.

    Raises RenderError for a value that no prolog can carry.
    """
    own = inherited.get("SLURM_TASK_PROLOG", "")
    paths = JobPaths.of("any")
    names = {"decision": paths.decision.name, "events": paths.library_events.name}
    return _PROLOG.format(
        variables=prolog_lines(job.variables),
        base=shlex.quote(job.variables["SCRTUNE_RUN_DIR"]),
        job_id=shlex.quote(job.variables["SCRTUNE_JOB_ID"]),
        library=_PROLOG_LIBRARY.format(library=shlex.quote(str(job.library)), **names) if job.library else "",
        last=f"exec {shlex.quote(str(Path(own).absolute()))}" if own else "exit 0",
    )


_OF_THE_USERS_STEPS = {
    *("LD_PRELOAD", "SLURM_CPUS_PER_TASK", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_HOSTFILE"),
    *("SLURM_LABELIO", "SLURM_MULTI_PROG", "SLURM_TIMELIMIT"),
    *("SLURM_EPILOG", "SLURM_PROLOG", "SLURM_TASK_EPILOG", "SLURM_TASK_PROLOG"),
    *("SLURM_STDERRMODE", "SLURM_STDINMODE", "SLURM_STDOUTMODE"),
}
"""Variables of the environment that are for the application's step, and not for that of the daemons."""


def _answers(step: "subprocess.Popen[bytes]", nodes: int, give_up: Callable[[], bool]) -> list[bytes]:
    """Return the states of the nodes until all have printed theirs, the step has ended, or time is over."""
    output = cast("IO[bytes]", step.stdout).fileno()
    deadline_s = time.monotonic() + _READY_LIMIT_S
    text = b""
    while text.count(b"\n") < nodes and time.monotonic() < deadline_s and not give_up():
        if select.select([output], [], [], _CHECK_S)[0]:
            part = os.read(output, 65536)
            if not part:
                break
            text += part
    return text.splitlines()


def serve_node(paths: JobPaths, job: Job, prolog: Path) -> None:
    """`scrtune node`: daemon and forwarder of one node, until standard input or a signal ends them.

    Raises OSError and :class:`AlreadyRunningError` when they cannot be started; the node has said so then.
    """
    services = NodeServices(paths)
    with Signals(*ENDING_SIGNALS, signal.SIGCHLD).watched() as signals:
        try:
            state = NO_DAEMON
            try:
                _start(services, job, paths.environment)
                if services.ready(lambda: signals.ending):
                    state = READY
            finally:
                _say(state if os.access(prolog, os.R_OK | os.X_OK) else NO_PROLOG)
            _wait(services, signals)
        finally:
            services.stop()
            paths.environment.unlink(missing_ok=True)


def _start(services: NodeServices, job: Job, environment: Path) -> None:
    services.create()
    _write_script(environment, prolog_lines(services.prepare_beside(job)))
    services.start()


def _say(state: bytes) -> None:
    with contextlib.suppress(OSError):  # srun has ended: then standard input ends too
        os.write(sys.stdout.fileno(), state + b"\n")


def _wait(services: NodeServices, signals: Signals) -> None:
    """Look after the services until the end. A line of standard input is the application's exit code."""
    stdin = sys.stdin.fileno()
    text = b""
    while not signals.ending:
        if signals.wait(services.check(), stdin):
            part = os.read(stdin, 64)
            if not part:
                break
            text += part
            if text.endswith(b"\n") and text.strip().isdigit():
                services.application_ended(int(text))
                text = b""


def _write_script(script: Path, text: str) -> Path:
    write_atomic(script, text.encode("utf-8", "surrogateescape"), durable=False, mode=0o700)
    return script
