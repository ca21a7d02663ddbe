"""`scrtune clean`: what jobs that have ended left behind on this host."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click
from rich.console import Group, RenderableType
from rich.text import Text

from ...replay.cache import user_cache
from ...units import bytes_text, count_text, parse_duration_s, rounded_duration_text
from ..ended_jobs import EndedJob, ended_jobs
from ..options import OneJob, command, option
from ..text.tables import plain_table, rendered


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
    checkpoint that is nowhere else stays. And it is what `scrtune study` remembers of traces, unless a job
    is named. Without a terminal nothing goes unless with --yes.
    """
    now_s = time.time()
    found = [
        job
        for job in ended_jobs(now_s - (options.keep_s or 0.0))
        if options.job_id in (None, job.paths.job_id)
    ]
    click.echo(rendered(_table(found, now_s)), nl=False)
    tables = user_cache()
    tables_bytes = 0 if options.job_id else sum(size for _, size, _ in tables.files())
    if tables_bytes:
        click.echo(f"{tables.directory}: {bytes_text(tables_bytes)} of tables of traces (scrtune study)")
    is_clean = not found and not tables_bytes
    if is_clean or not (options.yes or (sys.stdin.isatty() and click.confirm("Remove all of it?"))):
        return
    if tables_bytes:
        tables.prune(0)
    removed = [job.remove() for job in found]
    again = removed.count(False)
    click.echo(
        f"removed {count_text(removed.count(True), 'job')}"
        + (f"; {count_text(again, 'job')} run again, and stay" if again else "")
    )


def _table(found: Sequence[EndedJob], now_s: float) -> RenderableType:
    if not found:
        return Text("No job that has ended left anything here.")
    rows = (
        (
            job.paths.job_id,
            f"{rounded_duration_text(max(0.0, now_s - job.ended_s))} ago",
            bytes_text(job.run_bytes),
            bytes_text(job.cache_bytes) if job.cache else "-",
            str(job.paths.root),
        )
        for job in found
    )
    kept = [job.cache.cache for job in found if job.cache and job.cache.is_needed]
    table = plain_table("job", ">ended", ">size", ">cache", "run directory", rows=rows)
    return Group(
        table, *(Text(f"{cache}: its newest checkpoint is nowhere else, and stays") for cache in kept)
    )
