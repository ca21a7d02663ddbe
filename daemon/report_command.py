"""`scrtune goodput --html` and `--png`: their options, and what of the job they show."""

import importlib.util
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from ..client.paths import JobPaths
from ..goodput.checkpoint_cost import CheckpointCost
from ..goodput.events import GoodputEvent
from ..goodput.formats import HEAD_BYTES, detect
from ..goodput.ledger import Ledger
from ..goodput.sanity import span
from ..intents.pipeline import Pipeline
from . import jobs
from .check_command import printable
from .drive import drive
from .gains import gains
from .goodput_command import UnknownJobError
from .goodput_logs import read_logs
from .journal import JournalReader
from .report_changes import Change, changes

_F = TypeVar("_F", bound=Callable[..., Any])


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one job: `now` is the moment it is looked at."""

    name: str
    events: list[GoodputEvent]
    ledger: Ledger
    costs: Sequence[CheckpointCost]
    changes: tuple[Change, ...] = ()
    now: float


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
    if logs and job_id is not None:
        raise click.UsageError("--job-id is about a job of scrtune's; of LOG, name one with --job-name")
    if not logs and job_name is not None:
        raise click.UsageError("--job-name is about a job in LOG; of scrtune's, name one with --job-id")
    if importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--html and --png need matplotlib: pip install 'scrtune[report]'")
    # numpy and matplotlib: who draws nothing shall not pay for them
    from ..goodput import report as content  # noqa: PLC0415
    from . import report_page, report_svg  # noqa: PLC0415

    told = of_logs(logs, job_name) if logs else of_job(jobs.find(job_id))
    shown = content.report(
        told.name, told.events, told.ledger, told.now, told.costs, reference_step_s=reference_step_s
    )
    if html is not None:
        page = report_page.page(shown, told.changes, version=version("scrtune"))
        html.write_text(page, encoding="utf-8")
    if png is not None:
        title = f"{printable(shown.job_name) or '(no name)'}: goodput {shown.account.goodput:.1%}"
        png.write_bytes(report_svg.png(shown, told.changes, title))


def of_job(paths: JobPaths) -> Told:
    """A job of scrtune's, from its journal, running or not. Raises jobs.UnknownJobError."""
    running = jobs.is_running(paths)
    try:
        told = _of_journal(paths.journal, paths.job_id)
    except FileNotFoundError as error:
        raise jobs.UnknownJobError(f"{paths.journal}: no journal; the job's daemon never ran") from error
    if not told.events:
        raise jobs.UnknownJobError(f"{paths.journal}: the job has said nothing of its time yet")
    return msgspec.structs.replace(told, now=time.time()) if running else told


def _of_journal(path: Path, name: str) -> Told:
    pipeline, events, last_s = Pipeline(), [], 0.0
    for now, event in JournalReader(path):
        drive(pipeline, event, now)
        last_s = now
        if isinstance(event, GoodputEvent):
            events.append(event)
    decisions = tuple(pipeline.decisions)
    return Told(
        name=name,
        events=events,
        ledger=pipeline.ledger,
        costs=pipeline.costs,
        changes=changes(decisions, gains(decisions, pipeline.costs)),
        now=last_s,
    )


def of_logs(paths: Sequence[Path], job_name: str | None) -> Told:
    """The job in the logs; what was tuned is known where a journal is among them.

    Raises :class:`.goodput_command.UnknownJobError` and what reading raises.
    """
    from ..goodput import report as content  # noqa: PLC0415 - numpy, as above

    read = read_logs(paths)
    for problem in read.problems:
        click.echo(printable(f"scrtune: {problem}"), err=True)
    found = {name: log for name, log in read.jobs.items() if log.timeline()}
    names = [job_name] if job_name is not None else list(found)
    if len(names) != 1 or names[0] not in found:
        listed = ", ".join(map(repr, sorted(found))) or "none"
        raise UnknownJobError(f"the logs tell of these jobs: {listed}; a page is about one: --job-name")
    name = names[0]
    events = found[name].timeline()
    journals = [path for path in paths if _is_journal(path) and path.absolute().parent.parent.name == name]
    tuned = [_of_journal(path, name) for path in journals]
    if len(paths) == len(tuned) == 1:
        return tuned[0]
    costs = tuned[0].costs if tuned else content.costs_of(events)
    return Told(
        name=name,
        events=events,
        ledger=content.ledger_of(events, costs),
        costs=costs,
        changes=tuned[0].changes if tuned else (),
        now=max(span(event)[1] for event in events),
    )


def _is_journal(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return detect(file.read(HEAD_BYTES)) == "journal"
