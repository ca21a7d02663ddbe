"""`scrtune goodput --interval` and `--what-if`: their options, and the job that they are about."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Group, RenderableType

from ...goodput.interval.model import IntervalError
from ...goodput.interval.recommend import Outlook
from .. import find_job as chosen_job
from ..text import logs as show_logs
from ..views import what_if

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


class JobOutlook(Outlook, frozen=True, kw_only=True):
    """The schedules of the job of that name."""

    job_name: str


def table(view: JobOutlook) -> RenderableType:
    """The schedules below the job's name."""
    return Group(show_logs.heading(view.job_name), "", what_if.table(view))


def outlook(logs: Sequence[Path], job_id: str | None, form: str, **wanted: Any) -> JobOutlook:
    """The schedules of the job in `logs`, else of a job of scrtune's; `wanted` are the command's options.

    Raises IntervalError, click.UsageError, and what finding a job or reading logs raises.
    """
    asked, known, job_name = (wanted.pop(name) for name in ("asked", "mtbf_prior", "job_name"))
    if wanted.pop("policy") != "conserving" or form == "csv" or any(wanted.values()):
        raise click.UsageError(
            "--interval and --what-if go with --job-id, --job-name and --format table or json only"
        )
    job = chosen_job.the_one(logs, job_id, job_name)
    view = what_if.outlook(what_if.inputs(job), known, asked)
    return JobOutlook(job_name=job.name, **{name: getattr(view, name) for name in view.__struct_fields__})
