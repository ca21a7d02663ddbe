"""Which job `scrtune goodput` and its kin are about: one of scrtune's, or one that logs tell of."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from ..client.paths import NO_JOB_ID, JobPaths, job_id_from_environment
from ..units import count_text
from . import job_record as told
from . import jobs
from .format import printable


def find(job_id: str | None) -> JobPaths:
    """A job of scrtune's, as :func:`.jobs.find`; standard error says if the environment names another one."""
    found = jobs.find(job_id)
    own = job_id_from_environment()
    if job_id is None and own != NO_JOB_ID and found.job_id != JobPaths.of(own).job_id:
        click.echo(
            printable(
                f"scrtune: there is no trace here of job {own!r}, which the environment names: this is about"
                f" the latest one, {found.job_id!r}; name another one with --job-id"
            ),
            err=True,
        )
    return found


def refuse_misnamed(logs: Sequence[Path], job_id: str | None, job_name: str | None) -> None:
    """A job in LOG has a name, one of scrtune's an id. Raises click.UsageError."""
    if logs and job_id is not None:
        raise click.UsageError("--job-id is about a job of scrtune's; of LOG, name one with --job-name")
    if not logs and job_name is not None:
        raise click.UsageError("--job-name is about a job in LOG; of scrtune's, name one with --job-id")


def the_one(logs: Sequence[Path], job_id: str | None, job_name: str | None) -> told.Told:
    """What is known of one job, of those in `logs`, else of scrtune's.

    Raises what finding a job or reading logs raises.
    """
    if not logs:
        return told.of_job(find(job_id))
    found, read = told.of_logs(logs, job_name)
    say_unread(read.problems, repeated=read.repeated, lost=read.lost)
    if len(found) > 1:
        listed = ", ".join(repr(job.name) for job in found)
        raise told.UnknownJobError(f"the logs tell of these jobs: {listed}; name one with --job-name")
    return found[0]


def say_unread(problems: Iterable[str], *, repeated: int, lost: int) -> None:
    """What of logs could not be read, came more than once, or was lost, on standard error."""
    for problem in problems:
        click.echo(printable(f"scrtune: {problem}"), err=True)
    if repeated:
        count = "count" if repeated > 1 else "counts"
        click.echo(f"scrtune: {count_text(repeated, 'event')} came more than once and {count} once", err=True)
    if lost:
        click.echo(f"scrtune: {count_text(lost, 'event')} were lost before they were logged", err=True)
