"""`scrtune jobs`: what runs and ran here."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from rich.console import RenderableType
from rich.text import Text

from ...client.paths import JobPaths
from ...client.transport.daemon_client import DaemonUnavailable
from ...daemon.views import StatusView
from ...units import count_text, rounded_duration_text
from .. import find_job, job_state
from ..options import Form, command, option
from ..text.tables import plain_table, print_view
from ..views.summary import cost_text


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job on this host: its daemon's status while it runs, else the last one, if it left any.

    `heard_s` is when its daemon last wrote anything down (epoch seconds), 0 if never.
    """

    job_id: str
    directory: str
    running: bool
    heard_s: float = 0.0
    status: StatusView | None = None


@dataclass(frozen=True)
class JobsOptions:
    """Options of `scrtune jobs`."""

    form: Form = option("--format", "Output form.", default="table")


@command(JobsOptions)
def jobs(options: JobsOptions) -> None:
    """List the jobs of yours that run and ran on this host, the latest first."""
    rows = sorted(map(_row, find_job.jobs()), key=lambda each: (each.running, each.heard_s), reverse=True)
    print_view(rows, options.form, _table)


def _row(paths: JobPaths) -> JobRow:
    is_running, status, heard_s = find_job.is_running(paths), None, 0.0
    with suppress(OSError):
        heard_s = paths.journal.stat().st_mtime
    with suppress(OSError, msgspec.MsgspecError, DaemonUnavailable):
        if is_running:
            status = job_state.ask(paths, "status", StatusView)
        else:
            status = msgspec.json.decode(paths.last_status.read_bytes(), type=StatusView)
    return JobRow(
        job_id=paths.job_id, directory=str(paths.root), running=is_running, heard_s=heard_s, status=status
    )


def _table(rows: Sequence[JobRow]) -> RenderableType:
    if not rows:
        return Text("No job of yours runs or ran here; start one with `scrtune run`.")
    headings = ("job", "state", ">last heard of", "ranks", ">checkpoints", ">each", ">goodput")
    return plain_table(*headings, rows=(_cells(each, time.time()) for each in rows))


def _cells(row: JobRow, now_s: float) -> tuple[str, ...]:
    ago = f"{rounded_duration_text(max(0.0, now_s - row.heard_s))} ago" if row.heard_s else "-"
    state = "runs" if row.running else "has ended"
    if (seen := row.status) is None:  # as of a daemon that was killed
        return row.job_id, state, ago, "-", "-", "-", "-"
    return (
        row.job_id,
        state,
        ago,
        f"{count_text(seen.ranks, 'rank')}, {seen.engine}" if seen.engine else "-",
        str(seen.checkpoints),
        cost_text(seen.checkpoint_cost_s),
        f"{seen.goodput:.1%}",
    )
