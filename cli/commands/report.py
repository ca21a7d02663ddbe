"""`scrtune goodput --html` and `--png`: a page with figures about one job."""

import importlib.util
from pathlib import Path

import click

from ... import __version__
from ..html.changes import changes
from ..job_record import JobRecord
from ..text.show import printable


def write_report(
    job: JobRecord, reference_step_s: float | None, *, html: Path | None, png: Path | None
) -> None:
    """Write the page of `job`, or its figures as a picture, or both. Raises click.UsageError and OSError."""
    if importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--html and --png need matplotlib: pip install 'scrtune[report]'")
    # matplotlib is large: only these options load it
    from ...goodput import report as content  # noqa: PLC0415
    from ..html import page as report_page  # noqa: PLC0415
    from ..html import svg as report_svg  # noqa: PLC0415

    costs, made = job.tuning.costs, changes(job.tuning.decisions, job.gains)
    shown = content.report(
        job.name, job.events, job.ledger, job.now, costs, reference_step_s=reference_step_s, read=job.read
    )
    if html is not None:
        page = report_page.page(shown, made, version=__version__)
        html.write_text(page, encoding="utf-8")
    if png is not None:
        title = f"{printable(shown.job_name) or '(no name)'}: goodput {shown.account.goodput:.1%}"
        png.write_bytes(report_svg.png(shown, made, title))
