"""`scrtune goodput --html` and `--png`: a report on one job as a page or a picture."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click

from .. import find_job
from ..format import printable
from ..views.tuner_changes import tuner_changes

_F = TypeVar("_F", bound=Callable[..., Any])


def options(command: _F) -> _F:
    """Add ``--html`` and ``--png`` to a command."""
    for name, what in (
        ("--png", "Draw the figures of that page as a picture instead."),
        ("--html", "Write a page with figures and tables instead; it needs no other file."),
    ):
        path = click.Path(path_type=Path, dir_okay=False)
        command = click.option(name, type=path, metavar="FILE", help=what)(command)
    return command


def write(  # noqa: PLR0913 - the options of a command
    logs: Sequence[Path],
    job_id: str | None,
    job_name: str | None,
    *,
    reference_step_s: float | None,
    html: Path | None,
    png: Path | None,
) -> None:
    """Write the report on the job in `logs`, or on a job of scrtune if there are none, to `html` and `png`.

    Raises click.UsageError, OSError, and the errors of finding a job and reading logs.
    """
    try:  # here, because drawing takes 0.4 s to load
        from ...goodput.report import report  # noqa: PLC0415
        from ..html.page import page, picture  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"--html and --png need {error.name}: pip install 'scrtune[report]'"
        ) from error
    job = find_job.the_one(logs, job_id, job_name)
    changes = tuner_changes(job.tuning.decisions, job.gains)
    shown = report(
        job.name,
        job.events,
        job.ledger,
        job.now,
        job.tuning.costs,
        reference_step_s=reference_step_s,
        read=job.read,
    )
    if html is not None:
        html.write_text(page(shown, changes, version=version("scrtune")), encoding="utf-8")
    if png is not None:
        title = f"{printable(shown.job_name) or '(no name)'}: goodput {shown.account.goodput:.1%}"
        png.write_bytes(picture(shown, changes, title))
