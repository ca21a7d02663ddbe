"""`scrtune params`: what is known of SCR's parameters."""

import difflib
from dataclasses import dataclass
from typing import Literal

import click
import msgspec

from ...intents.mutability import Mutability
from ...scr_config.catalogue import CATALOGUE, DESCRIPTOR_LINES, Descriptor, Parameter
from ...scr_config.catalogue_page import catalogue_page
from ..options import command, option
from ..output import json_text
from ..text import config, tables

Form = Literal["table", "json", "markdown"]
CLASSES = [each.value for each in Mutability if each is not Mutability.RANK0]
INTENTS = sorted({intent for entry in CATALOGUE.values() for intent in entry.intents})


@dataclass(frozen=True)
class ParamsOptions:
    """Options of `scrtune params`."""

    name: str | None = option("[NAME]")
    intent: str | None = option(
        "--intent",
        "Only those that this intent of scrtune's may set.",
        click.Choice(INTENTS, case_sensitive=False),
    )
    mutability: str | None = option(
        "--class", "Only those that change in this way in a running job.", click.Choice(CLASSES)
    )
    form: Form = option(
        "--format", "Output form; markdown is the page of the whole catalogue.", default="table"
    )

    def selects(self, entry: Parameter | Descriptor) -> bool:
        """Return whether `entry` is among those asked for."""
        return (self.intent is None or self.intent in entry.intents) and (
            self.mutability in (None, entry.mutability)
        )


@command(ParamsOptions)
def params(options: ParamsOptions) -> None:
    """Show what is known of SCR's parameters, or all there is on NAME.

    Type, default, how and when a value counts, and the line of SCR's source where that was read.
    """
    if options.name is not None and (options.intent or options.mutability):
        raise click.UsageError("NAME stands alone: leave out --intent and --class")
    if options.form == "markdown":
        if options.name is not None or options.intent or options.mutability:
            raise click.UsageError("markdown is the page of the whole catalogue: leave out what selects")
        click.echo(catalogue_page(), nl=False)
        return
    entries, lines = _chosen(options)
    if options.form == "json":
        click.echo(json_text([*map(_object, entries), *map(_line_object, lines)]), nl=False)
    elif options.name is None:
        tables.console().print(config.params(entries, lines))
    else:
        for shown in (*map(config.parameter, entries), *map(config.descriptor, lines)):
            tables.console().print(shown)


def _chosen(options: ParamsOptions) -> tuple[list[Parameter], list[Descriptor]]:
    """Return what was asked for, in alphabetical order. Raises click.BadParameter for an unknown name."""
    if options.name is not None:
        wanted = options.name.upper()
        entries = [CATALOGUE[wanted]] if wanted in CATALOGUE else []
        lines = [DESCRIPTOR_LINES[wanted]] if wanted in DESCRIPTOR_LINES else []
        if not entries and not lines:
            raise click.BadParameter(_unknown(options.name), param_hint="NAME")
        return entries, lines
    return (
        [entry for entry in CATALOGUE.values() if options.selects(entry)],
        [line for line in DESCRIPTOR_LINES.values() if options.selects(line)],
    )


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), [*CATALOGUE, *DESCRIPTOR_LINES], n=3)
    advice = f"did you mean {' or '.join(near)}?" if near else "`scrtune params` shows all there are"
    return f"SCR has no parameter {name}; {advice}"


def _object(entry: Parameter) -> dict[str, object]:
    derived = {"allowed": entry.allowed, "ranks": entry.ranks, "versions": entry.versions}
    return {**msgspec.structs.asdict(entry), **derived}


def _line_object(line: Descriptor) -> dict[str, object]:
    return {"scope": "descriptor line", **msgspec.structs.asdict(line)}
