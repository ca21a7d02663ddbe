"""`scrtune params`: what is known of SCR's parameters."""

import difflib
from dataclasses import dataclass
from typing import Literal

import click
import msgspec

from ....intents.mutability import Mutability
from ....scr_config.catalogue import CATALOGUE, DESCRIPTOR_LINES, Descriptor, Parameter
from ...options import command, option
from ...tables import config
from ...tables.catalogue_page import catalogue_page
from ...terminal import print_view

Form = Literal["table", "json", "markdown"]
CLASSES = [each.value for each in Mutability if each is not Mutability.RANK0]
INTENTS = sorted({intent for entry in CATALOGUE.values() for intent in entry.intents})


@dataclass(frozen=True)
class ParamsOptions:
    """Options of `scrtune params`."""

    name: str | None = option("[NAME]")
    intent: str | None = option(
        "--intent INTENT",
        "Only those that this intent of scrtune's may set, as in history.",
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
    if options.form == "markdown" and (options.name is not None or options.intent or options.mutability):
        raise click.UsageError("markdown is the page of the whole catalogue: leave out what selects")
    entries = _chosen(options)
    if options.form == "json":
        print_view([*map(_object, entries)], "json", lambda _: [])
    else:
        table = config.params if options.name is None else config.details
        print_view(entries, options.form, table, lambda _entries: catalogue_page())


def _chosen(options: ParamsOptions) -> list[Parameter | Descriptor]:
    """Return what was asked for, in alphabetical order. Raises click.BadParameter for an unknown name."""
    known: list[Parameter | Descriptor] = [*CATALOGUE.values(), *DESCRIPTOR_LINES.values()]
    if options.name is None:
        return [entry for entry in known if options.selects(entry)]
    named = [entry for entry in known if entry.name == options.name.upper()]
    if not named:
        raise click.BadParameter(_unknown(options.name), param_hint="NAME")
    return named


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), [*CATALOGUE, *DESCRIPTOR_LINES], n=3)
    advice = f"did you mean {' or '.join(near)}?" if near else "`scrtune params` shows all there are"
    return f"SCR has no parameter {name}; {advice}"


def _object(entry: Parameter | Descriptor) -> dict[str, object]:
    if isinstance(entry, Descriptor):
        return {"scope": "descriptor line", **msgspec.structs.asdict(entry)}
    derived = {"allowed": entry.allowed, "ranks": entry.ranks, "versions": entry.versions}
    return {**msgspec.structs.asdict(entry), **derived}
