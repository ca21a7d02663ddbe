"""`scrtune record`: an event for the goodput log, from a launcher that is a shell script."""

from dataclasses import dataclass
from pathlib import Path

import click

from ...client.launcher_hooks import event_line, launcher_job, launcher_log
from ...goodput.log.line_writer import LineWriter
from ...goodput.readers.resiliency import KINDS
from ..errors import CommandError
from ..options import FILE, command, option

WRITTEN_WITHIN_S = 5.0
"""A script waits no longer for a file system that does not answer."""


@dataclass(frozen=True)
class RecordOptions:
    """Options of `scrtune record`."""

    event: str = option("EVENT", kind=click.Choice(KINDS))
    step: int | None = option(
        "--step", "The step of the checkpoint that was loaded or saved.", click.IntRange(min=0)
    )
    node_rank: int | None = option(
        "--node-rank", "The node whose launcher started or ended.", click.IntRange(min=0)
    )
    job_name: str | None = option("--job-name NAME", "The job; default: $JOB_IDENTIFIER, else the job's id.")
    log: Path | None = option(
        "--log", "The log; default: NAME-goodput.log in $SCRTUNE_GOODPUT_DIR or here.", FILE
    )


@command(RecordOptions)
def record(options: RecordOptions) -> None:
    """Append EVENT, with the time it is now, to the goodput log of a job.

    EVENT is user_scheduled, job_started, checkpoint_loaded, checkpoint_saved, user_terminated or
    job_terminated, as launchers with the resiliency library log them; `scrtune goodput LOG` reads it.
    """
    name = options.job_name or launcher_job()
    writer = LineWriter(options.log or launcher_log(name), gather_s=0.0)
    writer.put(event_line(options.event, name, step=options.step, node_rank=options.node_rank))
    writer.close(WRITTEN_WITHIN_S)
    if writer.lost:
        error = writer.error or "the file system does not answer"
        raise CommandError(f"{writer.path}: {error}; name another file with --log")
