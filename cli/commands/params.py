"""The commands that are about SCR's configuration alone: no job and no daemon is needed."""

import difflib
import os
from pathlib import Path

import click
import msgspec

from ...scr_config.catalogue import CATALOGUE, Parameter
from ...scr_config.catalogue_page import page
from ...scr_config.descriptor_lines import DESCRIPTOR_LINES, Descriptor
from ..text import config as show_config
from ..text import tables as show
from ..views.config import resolved_view

INTENTS = sorted({intent for entry in CATALOGUE.values() for intent in entry.intents})


@click.command()
@click.argument("name", required=False)
@click.option(
    "--intent",
    type=click.Choice(INTENTS, case_sensitive=False),
    help="Only those that this intent of scrtune's may set.",
)
@click.option(
    "--class",
    "mutability",
    type=click.Choice(["live", "re-init", "launch", "none"]),
    help="Only those that change in this way in a running job.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "markdown"]),
    default="table",
    show_default=True,
    help="Output form; markdown is the page of the whole catalogue.",
)
def params(name: str | None, intent: str | None, mutability: str | None, form: str) -> None:
    """Show what is known of SCR's parameters, or all there is on NAME.

    Type, default, how and when a value counts, and the line of SCR's source where that was read.
    """
    if name is not None and (intent or mutability):
        raise click.UsageError("NAME stands alone: leave out --intent and --class")
    if form == "markdown":
        if name is not None or intent or mutability:
            raise click.UsageError("markdown is the page of the whole catalogue: leave out what selects")
        click.echo(page(), nl=False)
        return
    entries, lines = _chosen(name, intent, mutability)
    if form == "json":
        click.echo(_json([*map(_object, entries), *map(_line_object, lines)]))
    elif name is None:
        show.console().print(show_config.params(entries, lines))
    else:
        for each in entries:
            show.console().print(show_config.parameter(each))
        for line in lines:
            show.console().print(show_config.descriptor(line))


def show_resolved(
    form: str, *, resolved: bool, conf: Path | None = None, system_conf: Path | None = None
) -> None:
    """`scrtune env --resolved`: a JSON object when `form` is json, else a table. Raises OSError.

    Raises click.UsageError for options of `env` that do not go together.
    """
    if not resolved:
        raise click.UsageError("--conf and --system-conf are for --resolved")
    if form not in ("sh", "json"):  # sh is what stands when --format is not given
        raise click.UsageError("--resolved shows a table, or JSON with --format json")
    view = resolved_view(os.environ, Path.cwd(), conf, system_conf)
    if form == "json":
        click.echo(_json(view))
    else:
        show.console().print(show_config.resolved(view))


def _chosen(
    name: str | None, intent: str | None, mutability: str | None
) -> tuple[list[Parameter], list[Descriptor]]:
    """What was asked for, in alphabetical order. Raises click.BadParameter for a name that there is not."""
    if name is not None:
        wanted = name.upper()
        if wanted in CATALOGUE:
            return [CATALOGUE[wanted]], []
        if wanted in DESCRIPTOR_LINES:
            return [], [DESCRIPTOR_LINES[wanted]]
        raise click.BadParameter(_unknown(name), param_hint="NAME")
    return (
        [entry for entry in CATALOGUE.values() if _matches(entry, intent, mutability)],
        [line for line in DESCRIPTOR_LINES.values() if _matches(line, intent, mutability)],
    )


def _matches(entry: Parameter | Descriptor, intent: str | None, mutability: str | None) -> bool:
    return (intent is None or intent in entry.intents) and mutability in (None, entry.mutability)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), [*CATALOGUE, *DESCRIPTOR_LINES], n=3)
    advice = f"did you mean {' or '.join(near)}?" if near else "`scrtune params` shows all there are"
    return f"SCR has no parameter {name}; {advice}"


def _object(entry: Parameter) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(entry),
        "allowed": entry.allowed,
        "ranks": entry.ranks,
        "versions": entry.versions,
    }


def _line_object(line: Descriptor) -> dict[str, object]:
    return {"scope": "descriptor line", **msgspec.structs.asdict(line)}


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
