"""`scrtune record`: a launcher that is a shell script says what happens to its job."""

import sys
import threading
from pathlib import Path

import click

from ...client.launcher_hooks import event_line, launcher_job, launcher_log
from ...goodput.log.line_log import LineLog
from ...goodput.readers.resiliency import KINDS

WRITTEN_WITHIN_S = 5.0
"""For so long a script waits for a file system that does not answer."""


@click.command(short_help="Append an event of a job to its goodput log.")
@click.argument("event", type=click.Choice(KINDS), metavar="EVENT")
@click.option(
    "--step", type=click.IntRange(min=0), help="The step of the checkpoint that was loaded or saved."
)
@click.option("--node-rank", type=click.IntRange(min=0), help="The node whose launcher started or ended.")
@click.option("--job-name", metavar="NAME", help="The job; default: $JOB_IDENTIFIER, else the job's id.")
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The log; default: NAME-goodput.log in $SCRTUNE_GOODPUT_DIR or here.",
)
def record(
    event: str, step: int | None, node_rank: int | None, job_name: str | None, log: Path | None
) -> None:
    """Append EVENT, with the time it is now, to the goodput log of a job.

    EVENT is user_scheduled, job_started, checkpoint_loaded, checkpoint_saved, user_terminated or
    job_terminated, as launchers with the resiliency library log them; `scrtune goodput LOG` reads it.
    """
    name = job_name or launcher_job()
    lines = LineLog(log or launcher_log(name))
    lines.add(event_line(event, name, step=step, node_rank=node_rank))
    writing = threading.Thread(target=lines.write, daemon=True)
    writing.start()
    writing.join(WRITTEN_WITHIN_S)
    if not writing.is_alive():
        lines.close()
    if lines.waiting:
        error = lines.error or "the file system does not answer"
        click.echo(f"scrtune: {lines.path}: {error}; name another file with --log", err=True)
        sys.exit(1)
