"""`scrtune record`: an event for the goodput log, from a launcher that is a shell script."""

import threading
from pathlib import Path
from typing import Annotated

import click
import msgspec

from ...client.launcher_hooks import event_line, launcher_job, launcher_log
from ...goodput.log.line_log import LineLog
from ...goodput.readers.resiliency import KINDS
from ..errors import CommandError
from ..options import command

WRITTEN_WITHIN_S = 5.0
"""A script waits no longer for a file system that does not answer."""


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `scrtune record`."""

    event: Annotated[str, click.argument("event", type=click.Choice(KINDS), metavar="EVENT")]
    step: Annotated[
        int | None,
        click.option(
            "--step", type=click.IntRange(min=0), help="The step of the checkpoint that was loaded or saved."
        ),
    ]
    node_rank: Annotated[
        int | None,
        click.option(
            "--node-rank", type=click.IntRange(min=0), help="The node whose launcher started or ended."
        ),
    ]
    job_name: Annotated[
        str | None,
        click.option(
            "--job-name", metavar="NAME", help="The job; default: $JOB_IDENTIFIER, else the job's id."
        ),
    ]
    log: Annotated[
        Path | None,
        click.option(
            "--log",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The log; default: NAME-goodput.log in $SCRTUNE_GOODPUT_DIR or here.",
        ),
    ]


@command(RecordOptions)
def record(options: RecordOptions) -> None:
    """Append EVENT, with the time it is now, to the goodput log of a job.

    EVENT is user_scheduled, job_started, checkpoint_loaded, checkpoint_saved, user_terminated or
    job_terminated, as launchers with the resiliency library log them; `scrtune goodput LOG` reads it.
    """
    name = options.job_name or launcher_job()
    lines = LineLog(options.log or launcher_log(name))
    lines.add(event_line(options.event, name, step=options.step, node_rank=options.node_rank))
    writing = threading.Thread(target=lines.write, daemon=True)
    writing.start()
    writing.join(WRITTEN_WITHIN_S)
    if not writing.is_alive():
        lines.close()
    if lines.waiting:
        error = lines.error or "the file system does not answer"
        raise CommandError(f"{lines.path}: {error}; name another file with --log")
