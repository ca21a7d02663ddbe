"""The job that a command is about: one of scrtune's on this node, or one in logs. Decided here alone."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import click

from ...client.paths import NO_JOB_ID, JobPaths, bases, check_base, default_base, job_id_from_environment
from ..errors import UnknownJobError
from ..format import printable
from . import elsewhere


def find(job_id: str | None, *, no_other: bool = False) -> JobPaths:
    """Return the run directory of `job_id`, else of this environment's job, else of the latest one here.

    With `no_other` the latest one counts only where the environment names no job; without, standard error
    says when the environment names another. A job that another node decides about is asked there, which ends
    this command (:mod:`.elsewhere`). Raises UnknownJobError, CommandError when it cannot be asked, and
    RunDirectoryError when what is found may be somebody else's.
    """
    own = job_id or job_id_from_environment()
    is_named = own != NO_JOB_ID
    for base in bases():
        named = _deciding(JobPaths.of(own, base=base).check()) if is_named else None
        if named is not None and named.root.is_dir():
            return named
    strict = is_named and (job_id is not None or no_other)
    latest = None if strict else next(filter(None, map(latest_in, bases())), None)
    if latest is None:
        elsewhere.ask_slurm(own if is_named else None)
        wanted = f"job {own!r}" if strict else "a job"
        raise UnknownJobError(f"{default_base()}: no trace of {wanted} here; start one with `scrtune run`")
    if is_named:
        text = f"scrtune: there is no trace here of job {own!r}, which the environment names: this is about"
        text += f" the latest one, {latest.job_id!r}; name another one with --job-id"
        click.echo(printable(text), err=True)
    return _deciding(latest)


def find_to_follow(job_id: str | None) -> JobPaths:
    """Return the job `job_id`, else that of this environment, else the one that runs on this host.

    What one changes or exports is of the job at hand: another that has ended must be named. Raises as
    :func:`find`.
    """
    if job_id is not None or job_id_from_environment() != NO_JOB_ID:
        return find(job_id, no_other=True)
    running = [paths for paths in jobs() if is_running(paths)]
    if len(running) > 1:
        names = ", ".join(sorted(paths.job_id for paths in running))
        raise UnknownJobError(f"{default_base()}: several jobs run here ({names}); name one with --job-id")
    if not running:
        elsewhere.ask_slurm(None)
        raise UnknownJobError(
            f"{default_base()}: no job of yours runs here; name one that has ended with --job-id, or"
            " start one with `scrtune run`"
        )
    return _deciding(running[0])


def _deciding(paths: JobPaths) -> JobPaths:
    """Return `paths`, or where another node decides (:func:`.elsewhere.deciding`)."""
    is_alone = is_running(paths) and not paths.environment.exists()
    return paths if is_alone else elsewhere.deciding(paths)


def jobs() -> Iterator[JobPaths]:
    """Yield this user's jobs that left anything on this host; what others put there is passed over."""
    return chain.from_iterable(map(_jobs_in, bases()))


def latest_in(base: Path) -> JobPaths | None:
    """Return the job whose journal was written last, of those below `base`. Raises RunDirectoryError."""
    written: dict[float, JobPaths] = {}
    for paths in _jobs_in(base):
        with suppress(OSError):
            written.setdefault(paths.journal.stat().st_mtime, paths)
    return written[max(written)] if written else None


def _jobs_in(base: Path) -> Iterator[JobPaths]:
    check_base(base)
    names = sorted(each.name for each in base.iterdir()) if base.is_dir() else []
    for name in names:
        paths = JobPaths.of(name, base=base)
        left = (paths.lock, paths.journal, paths.control_socket)
        with suppress(OSError):
            if paths.check().root.is_dir() and any(file.exists() for file in left):
                yield paths


def is_running(paths: JobPaths) -> bool:
    """Return whether the job has a daemon on this node; one that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(paths.control_socket))
        except BlockingIOError:
            return True  # its queue is full
        except OSError:
            return False
    return True


def journal_of(paths: JobPaths) -> Path:
    """Return the journal of a job. Raises UnknownJobError when there is none."""
    if not paths.journal.exists():
        raise UnknownJobError(f"{paths.journal}: no journal; the job's daemon never ran")
    return paths.journal
