"""A job that another node decides about: it is asked there, through Slurm."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import msgspec

from ...client.paths import JobPaths
from ...client.transport.daemon_client import DaemonUnavailable, ask_daemon
from ...daemon.options import STEP_NAME
from ...scr_config.ownership import written_on
from ..errors import CommandError

_ASKED_FOR = "SCRTUNE_ASKED_FOR"
"""Set where a command runs that was typed elsewhere: the node it was sent to; empty: the job's first one."""
_ANSWER_S = 10.0
_SRUN = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--input=none")


class _Cluster(msgspec.Struct):
    """What is needed here of the view of a job's daemons."""

    leader: str = ""


class _Status(msgspec.Struct):
    """What is needed here of a daemon's status."""

    config: str = ""
    cluster: _Cluster | None = None


def deciding(paths: JobPaths) -> JobPaths:
    """Return `paths`, of this node, if its daemon decides or none is known to; else ask where one does.

    That ends this command with the exit code of the one there. Of a job that has ended in a run directory
    that all nodes share, that node's journal is read. Raises CommandError when it cannot be asked.
    """
    status = _status(paths)
    host = status.cluster.leader if status.cluster else ""
    if not host and _has_decided(paths):
        return paths
    host = host or next((other.host for other in _other_nodes(paths) if _has_decided(other)), "")
    host = host or _author(paths, status.config)
    if host in {"", paths.host}:
        return paths
    there = JobPaths.of(paths.job_id, host, paths.base)
    if there.last_status.exists():  # its daemon has ended
        return there.check()
    if slurm_job := _slurm_job(paths.job_id):
        _ask(slurm_job, host, SCRTUNE_JOB_ID=paths.job_id)
    raise CommandError(f"job {paths.job_id!r} is decided about on node {host}: run this command there")


def ask_slurm(job_id: str | None) -> None:
    """Ask on the first node of the Slurm job that `job_id` names, None: of the one that has daemons of ours.

    That ends this command as :func:`deciding` does. Returns where Slurm knows no such job, or several.
    """
    if _ASKED_FOR not in os.environ and (slurm_job := _slurm_job(job_id)):
        _ask(slurm_job, "")


def _has_decided(paths: JobPaths) -> bool:
    """Return whether settings were published there: the daemon of rank 0's node alone does."""
    return paths.decision.exists() or paths.earlier_decision.exists()


def _other_nodes(paths: JobPaths) -> list[JobPaths]:
    names = sorted(os.listdir(paths.root.parent)) if paths.root.parent.is_dir() else []  # noqa: PTH208
    return [JobPaths.of(paths.job_id, name, paths.base) for name in names if name != paths.host]


def _status(paths: JobPaths) -> _Status:
    """Return what the daemon of this node says, or said at its end; nothing where it does not."""
    try:
        if paths.environment.exists():  # it runs, and is one of several
            status = bytes(ask_daemon(paths.control_endpoint, "status").result)
        else:
            status = paths.last_status.read_bytes()
        return msgspec.json.decode(status, type=_Status)
    except (OSError, DaemonUnavailable, msgspec.MsgspecError):
        return _Status()


def _author(paths: JobPaths, config: str) -> str:
    """Return the host that has written the job's config file, which the daemon of this node knows."""
    if not config or (not paths.environment.exists() and Path(config).parent.name != paths.job_id):
        return ""  # it was not the only job that wrote there
    try:
        return written_on(Path(config).read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return ""


def _slurm_job(job_id: str | None) -> str:
    """Return the running Slurm job of this user's that is scrtune's `job_id`, or the only one, or empty."""
    if shutil.which("squeue") is None or shutil.which("srun") is None:
        return ""
    command = ["squeue", "--steps", "--noheader", f"--user={os.getuid()}", "--format=%i %j"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    steps = [line.split() for line in ran.stdout.splitlines()]
    running = [step[0].rpartition(".")[0] for step in steps if step[1:] == [STEP_NAME]]
    for named in (job_id, os.environ.get("SLURM_JOB_ID")):
        if named in running:
            return named
    return running[0] if len(running) == 1 else ""


def _ask(slurm_job: str, host: str, **variables: str) -> None:
    """Run this command on `host` of a Slurm job, empty: on its first node, and exit as it does there.

    Raises CommandError when it was sent to the deciding node already, and that is another one now.
    """
    node = f"--nodelist={host}" if host else "--relative=0"
    command = [*_SRUN, f"--jobid={slurm_job}", node, sys.executable, "-m", "scrtune", *sys.argv[1:]]
    line = shlex.join(command)
    if os.environ.get(_ASKED_FOR):
        raise CommandError(f"this job is decided about on node {host}: {line}")
    # Slurm's variables of this shell are for other steps; those of users, as SLURM_CONF, stay
    own = {name: text for name, text in os.environ.items() if name == "SLURM_CONF" or name[:6] != "SLURM_"}
    width = {"COLUMNS": str(shutil.get_terminal_size().columns)} if sys.stdout.isatty() else {}
    environment = {**own, **width, **variables, _ASKED_FOR: host}
    code = subprocess.run(command, env=environment, check=False).returncode
    if code:
        click.echo(f"scrtune: the command was: {line}", err=True)
    raise click.exceptions.Exit(code)
