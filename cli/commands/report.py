"""`scrtune goodput --html` and `--png`: a report on one job, as a page and as a picture."""

from importlib.metadata import version
from pathlib import Path

import click

from ..format import printable
from ..job_record import JobRecord
from ..views.tuner_changes import tuner_changes


def write_report(
    job: JobRecord, reference_step_s: float | None, *, html: Path | None, png: Path | None
) -> None:
    """Write the report on `job` to `html` and its figures to `png`. Raises click.UsageError and OSError."""
    try:  # here, because drawing takes 0.4 s to load
        from ...goodput.report import report  # noqa: PLC0415
        from ..html.page import page, picture  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"--html and --png need {error.name}: pip install 'scrtune[report]'"
        ) from error
    costs, changes = job.tuning.costs, tuner_changes(job.tuning.decisions, job.gains)
    shown = report(
        job.name, job.events, job.ledger, job.now, costs, reference_step_s=reference_step_s, read=job.read
    )
    if html is not None:
        html.write_text(page(shown, changes, version=version("scrtune")), encoding="utf-8")
    if png is not None:
        title = f"{printable(shown.job_name) or '(no name)'}: goodput {shown.account.goodput:.1%}"
        png.write_bytes(picture(shown, changes, title))
