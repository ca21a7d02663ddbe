"""How a command prints its view: as tables, as one JSON object, or as CSV."""

from collections.abc import Callable
from typing import TypeVar

import click
import msgspec
from rich.console import RenderableType

from .text import tables

V = TypeVar("V", bound=msgspec.Struct)


def json_text(view: object) -> str:
    """Return `view` as indented JSON, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(view), indent=2).decode() + "\n"


def print_view(
    view: V, form: str, table: Callable[[V], RenderableType], csv: Callable[[V], str] = json_text
) -> None:
    """Print `view` on standard output: as `form` says, by `table`, as JSON, or by `csv`."""
    if form == "table":
        tables.console().print(table(view))
    else:
        click.echo(csv(view) if form == "csv" else json_text(view), nl=False)
