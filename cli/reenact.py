"""`scrtune study --reenact`: recorded checkpoints written again on this machine, as runs of the study."""

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ..replay.reading.scan import Progress, read_table
from ..replay.reenact.plan import Plan, ReenactError
from ..replay.reenact.recorded import FilePaths, PlanScope, make_plan
from ..replay.reenact.run import Directories, write_again
from ..replay.study import Run
from ..replay.unseen import unseen_in_table
from ..scr_config.catalogue import coerce
from ..units import bytes_text, count_text, rounded_duration_text
from .errors import CommandError
from .options import option

OWN = "own"
_DIRECTORY = click.Path(path_type=Path, exists=True, file_okay=False, writable=True)
_TEMPORARY = tempfile.gettempdir()


def settings_of(text: str) -> dict[str, str] | None:
    """Return the NAME=VALUE pairs of a text, None for ``own``. Raises ValueError."""
    if text == OWN:
        return None
    pairs = [each.partition("=") for each in shlex.split(text)]
    if wrong := next((name for name, between, _ in pairs if not between), ""):
        raise ValueError(f"{wrong!r} is no setting: write 'SCR_NAME=VALUE ...', or own")
    for name, _, value in pairs:
        coerce(name, value)
    return {name: value for name, _, value in pairs}


@dataclass(frozen=True)
class ReenactOptions:
    """Options of `scrtune study` that have checkpoints written again."""

    reenact: tuple[dict[str, str] | None, ...] = option(
        "--reenact SETTINGS",
        "Also write the recorded checkpoints again on this machine under SETTINGS, as in"
        ' "SCR_COPY_TYPE=XOR SCR_FLUSH=1"; own: those that the file says of the run.',
        parse=settings_of,
    )
    reenact_scale: float = option(
        "--reenact-scale FACTOR",
        "Multiply bytes and pauses by it.",
        click.FloatRange(min=0, min_open=True),
        default=1.0,
    )
    reenact_ranks: int | None = option(
        "--reenact-ranks N",
        "Ranks at most; default: the cores of this machine, two at least.",
        click.IntRange(min=1),
    )
    reenact_checkpoints: int = option(
        "--reenact-checkpoints N",
        "Checkpoints; when fewer are recorded, they are written over again.",
        click.IntRange(min=1),
        default=6,
    )
    reenact_prefix: Path = option(
        "--reenact-prefix DIR",
        "Where their prefix directory is made.",
        _DIRECTORY,
        default=_TEMPORARY,
    )
    reenact_cache: Path = option(
        "--reenact-cache DIR", "Where their cache is made.", _DIRECTORY, default=_TEMPORARY
    )


def written_again(
    options: ReenactOptions,
    recorded: Run,
    traces: Sequence[Path],
    tiers: Mapping[str, str],
    progress: Progress,
) -> Iterator[Run]:
    """Yield a run for each of the settings. Raises CommandError, TraceNotFoundError."""
    if not options.reenact:
        return
    scope = PlanScope(
        ranks=options.reenact_ranks or max(2, os.cpu_count() or 1),
        checkpoints=options.reenact_checkpoints,
        scale=options.reenact_scale,
    )
    places = Directories(prefix=options.reenact_prefix, cache=options.reenact_cache)
    try:
        table = read_table(traces, tiers, places=FilePaths, progress=progress).resolved()
        if unseen := unseen_in_table(table):
            raise CommandError(f"{recorded.name}: nothing to write again: {unseen}")
        plan = make_plan(table, scope)
        for number, given in enumerate(options.reenact, start=1):
            if progress.stop:
                return
            settings = recorded.settings if given is None else given
            click.echo(_announced(recorded.name, plan), err=True)
            name = f"{recorded.name} here"
            yield Run(
                name=name if number == 1 else f"{name} {number}",
                table=write_again(plan, settings, places),
                settings=settings,
                base=name,
                note=_note(recorded.name, plan),
            )
    except KeyboardInterrupt:
        progress.stop = True
    except ReenactError as error:
        raise CommandError(f"{recorded.name}: {error}") from error


def _announced(name: str, plan: Plan) -> str:
    checkpoints = count_text(len(plan.checkpoints), "checkpoint")
    pauses = rounded_duration_text(plan.pause_s)
    return f"scrtune: {name}: writing {checkpoints} again, {bytes_text(plan.bytes)}; pauses take {pauses}"


def _note(name: str, plan: Plan) -> str:
    return (
        f"{name} here: its checkpoints written again on this machine by {plan.ranks} of {plan.recorded_ranks}"
        f" ranks, bytes and pauses times {plan.scale:g}; compare such runs with each other"
    )
