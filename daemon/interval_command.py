"""`scrtune goodput --interval` and `--what-if`: their options, and the job that they are about."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..goodput.best_interval import Outlook
from ..goodput.interval import IntervalError
from . import jobs, told, what_if
from .check_command import printable

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def _read_by(read: Callable[[str], _T]) -> Callable[..., _T | None]:
    """A click callback: what `read` makes of the text."""

    def callback(_context: click.Context, _option: click.Parameter, text: str | None) -> _T | None:
        try:
            return None if text is None else read(text)
        except IntervalError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def options(command: _F) -> _F:
    """``--interval``, ``--what-if`` and ``--mtbf-prior``."""
    for add in (
        click.option(
            "--mtbf-prior",
            callback=_read_by(what_if.mtbf_prior),
            metavar="TIME[:FAILURES]",
            help="With these: how often the job fails, by what you know, and how many failures that weighs.",
        ),
        click.option(
            "--what-if",
            "asked",
            callback=_read_by(what_if.question),
            metavar="interval=TIME[,flush=N]",
            help="Show that, and what another interval, or flushing every N-th checkpoint, would bring.",
        ),
        click.option("--interval", is_flag=True, help="Show the best interval between checkpoints instead."),
    ):
        command = add(command)
    return command


def outlook(logs: Sequence[Path], job_id: str | None, form: str, **wanted: Any) -> Outlook:
    """The schedules of the job in `logs`, else of a job of scrtune's; `wanted` are the command's options.

    Raises IntervalError, click.UsageError, and what finding a job or reading logs raises.
    """
    asked, known, job_name = (wanted.pop(name) for name in ("asked", "mtbf_prior", "job_name"))
    if wanted.pop("policy") != "conserving" or form == "csv" or any(wanted.values()):
        raise click.UsageError(
            "--interval and --what-if go with --job-id, --job-name and --format table or json only"
        )
    if logs and job_id is not None:
        raise click.UsageError("--job-id is about a job of scrtune's; of LOG, name one with --job-name")
    if not logs and job_name is not None:
        raise click.UsageError("--job-name is about a job in LOG; of scrtune's, name one with --job-id")
    job = _job_in(logs, job_name) if logs else told.of_job(jobs.find(job_id))
    return what_if.outlook(what_if.inputs(job), known, asked)


def _job_in(logs: Sequence[Path], job_name: str | None) -> told.Told:
    found, read = told.of_logs(logs, job_name)
    for problem in read.problems:
        click.echo(printable(f"scrtune: {problem}"), err=True)
    if len(found) > 1:
        listed = ", ".join(repr(job.name) for job in found)
        raise told.UnknownJobError(f"the logs tell of these jobs: {listed}; name one with --job-name")
    return found[0]
