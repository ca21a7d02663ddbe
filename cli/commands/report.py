"""`scrtune goodput --html` and `--png`: their options, and what of the job they show."""

import importlib.util
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click

from .. import find_job as chosen_job
from ..html.changes import changes
from ..text.show import printable

_F = TypeVar("_F", bound=Callable[..., Any])


def options(command: _F) -> _F:
    """``--html`` and ``--png``."""
    for name, what in (
        ("--png", "Draw the figures of that page as a picture instead."),
        ("--html", "Write a page with figures and tables instead; it needs no other file."),
    ):
        path = click.Path(path_type=Path, dir_okay=False)
        command = click.option(name, type=path, metavar="FILE", help=what)(command)
    return command


def write(
    logs: Sequence[Path], job_id: str | None, form: str, *, html: Path | None, png: Path | None, **wanted: Any
) -> None:
    """Write what is asked for of the job in `logs`, else of a job of scrtune's; `wanted` are other options.

    Raises click.UsageError, OSError, and what finding a job or reading logs raises.
    """
    job_name, reference_step_s = wanted.pop("job_name"), wanted.pop("reference_step_time_s")
    if wanted.pop("policy") != "conserving" or form != "table" or any(wanted.values()):
        raise click.UsageError("--html and --png go with --job-id, --job-name and --reference-step-time only")
    if importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--html and --png need matplotlib: pip install 'scrtune[report]'")
    # matplotlib: who draws nothing shall not pay for it
    from ...goodput import report as content  # noqa: PLC0415
    from ..html import page as report_page  # noqa: PLC0415
    from ..html import svg as report_svg  # noqa: PLC0415

    job = chosen_job.the_one(logs, job_id, job_name)
    costs, made = job.tuning.costs, changes(job.tuning.decisions, job.gains)
    shown = content.report(
        job.name, job.events, job.ledger, job.now, costs, reference_step_s=reference_step_s, read=job.read
    )
    if html is not None:
        page = report_page.page(shown, made, version=version("scrtune"))
        html.write_text(page, encoding="utf-8")
    if png is not None:
        title = f"{printable(shown.job_name) or '(no name)'}: goodput {shown.account.goodput:.1%}"
        png.write_bytes(report_svg.png(shown, made, title))
