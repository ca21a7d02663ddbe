"""`scrtune jobs` and `scrtune clean`: what runs and ran here, and what it left."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import click
import msgspec

from ...client.paths import JobPaths
from ...client.transport.daemon_client import DaemonUnavailable
from ...daemon.views import StatusView
from ...replay.reading.cache import user_cache
from ...units import bytes_text, count_text, parse_duration_s, rounded_duration_text
from ..blocks import Document, table
from ..errors import UnknownJobError
from ..jobs import find as find_job
from ..jobs import state as job_state
from ..jobs.ended import EndedJob, ended_jobs
from ..options import Form, OneJob, command, option
from ..tables.summary import cost_text
from ..terminal import print_view, rendered


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job on this host: its daemon's status while it runs, else the last one, if it left any.

    `heard_s` is when its daemon last wrote anything down (epoch seconds), 0 if never.
    """

    job_id: str
    directory: str
    running: bool
    heard_s: float = 0.0
    status: StatusView | None = None


@dataclass(frozen=True)
class JobsOptions:
    """Options of `scrtune jobs`."""

    form: Form = option("--format", "Output form.", default="table")


@command(JobsOptions)
def jobs(options: JobsOptions) -> None:
    """List the jobs of yours that run and ran on this host, the latest first."""
    rows = sorted(map(_row, find_job.jobs()), key=lambda each: (each.running, each.heard_s), reverse=True)
    print_view(rows, options.form, _jobs_table)


def _row(paths: JobPaths) -> JobRow:
    is_running, status, heard_s = find_job.is_running(paths), None, 0.0
    with suppress(OSError):
        heard_s = paths.journal.stat().st_mtime
    with suppress(OSError, msgspec.MsgspecError, DaemonUnavailable):
        if is_running:
            status = job_state.ask(paths, "status", StatusView)
        else:
            status = msgspec.json.decode(paths.last_status.read_bytes(), type=StatusView)
    return JobRow(
        job_id=paths.job_id, directory=str(paths.root), running=is_running, heard_s=heard_s, status=status
    )


def _jobs_table(rows: Sequence[JobRow]) -> Document:
    if not rows:
        return [["No job of yours runs or ran here; start one with `scrtune run`."]]
    headings = ("job", "state", ">last heard of", "ranks", ">checkpoints", ">believed cost", ">goodput")
    return [[table(*headings, rows=map(_cells, rows))]]


def _cells(row: JobRow) -> tuple[str, ...]:
    state = "runs" if row.running else "has ended"
    cells = (row.job_id, state, _ago(row.heard_s) if row.heard_s else "-")
    if (seen := row.status) is None:  # as of a daemon that was killed
        return *cells, "-", "-", "-", "-"
    ranks = f"{count_text(seen.ranks, 'rank')}, {seen.engine}" if seen.engine else "-"
    return *cells, ranks, str(seen.checkpoints), cost_text(seen.checkpoint_cost_s), f"{seen.goodput:.1%}"


def _ago(then_s: float) -> str:
    return f"{rounded_duration_text(max(0.0, time.time() - then_s))} ago"


@dataclass(frozen=True)
class CleanOptions(OneJob):
    """Options of `scrtune clean`."""

    job_id: str | None = option("--job-id ID", "This job alone; default: all that have ended.")
    keep_s: float | None = option(
        "--keep TIME", "Leave the jobs of the last 12h, 7d or the like.", parse=parse_duration_s
    )
    yes: bool = option("--yes", "Remove it without asking.")


@command(CleanOptions)
def clean(options: CleanOptions) -> None:
    """Show what jobs that have ended left on this host, and remove it when you say so.

    That is their run directories, from which `explain` and `goodput` show them, and in the cache of the
    embedded engine what is on the prefix directory, too, or older than a checkpoint that is there. A
    checkpoint that is nowhere else, and newer than all on the prefix directory, stays. And it is what
    `scrtune study` remembers of traces, unless a job is named. Without a terminal nothing goes unless with
    --yes.
    """
    left = ended_jobs(time.time() - (options.keep_s or 0.0))
    found = [job for job in left if options.job_id in (None, job.paths.job_id)]
    if options.job_id and not found:
        known = any(paths.job_id == options.job_id for paths in find_job.jobs())
        why = (
            "runs, or was heard of too recently"
            if known
            else "left nothing here; `scrtune jobs` has those that did"
        )
        raise UnknownJobError(f"job {options.job_id!r} {why}")
    click.echo(rendered(_left_table(found)), nl=False)
    tables = user_cache()
    tables_bytes = 0 if options.job_id else sum(size for _, size, _ in tables.files())
    if tables_bytes:
        click.echo(f"{tables.directory}: {bytes_text(tables_bytes)} of tables of traces (scrtune study)")
    if not found and not tables_bytes:
        return
    if not options.yes and not sys.stdin.isatty():
        click.echo("Nothing was removed: without a terminal that takes --yes.")
        return
    if not options.yes and not click.confirm("Remove all of it?"):
        return
    if tables_bytes:
        tables.prune(0)
    removed = [job.remove() for job in found]
    again = removed.count(False)
    stay = f"; {count_text(again, 'job')} run again, and stay" if again else ""
    click.echo(f"removed {count_text(removed.count(True), 'job')}{stay}")


def _left_table(found: Sequence[EndedJob]) -> Document:
    if not found:
        return [["No job that has ended left anything here."]]
    rows = (
        (
            *(job.paths.job_id, _ago(job.ended_s), bytes_text(job.run_bytes)),
            *(bytes_text(job.cache_bytes) if job.cache else "-", str(job.paths.root)),
        )
        for job in found
    )
    kept = [job.cache.cache for job in found if job.cache and job.cache.is_needed]
    found_table = table("job", ">ended", ">size", ">cache", "run directory", rows=rows)
    return [[found_table, *(f"{cache}: its newest checkpoint is nowhere else, and stays" for cache in kept)]]
