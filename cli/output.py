"""How a command prints its view: as tables, or as one JSON object."""

from collections.abc import Callable
from typing import TypeVar

import click
import msgspec
from rich.console import RenderableType

from .text import show

V = TypeVar("V", bound=msgspec.Struct)


def json_text(view: object) -> str:
    """Return `view` as indented JSON, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(view), indent=2).decode() + "\n"


def print_view(view: V, form: str, table: Callable[[V], RenderableType]) -> None:
    """Print `view` on standard output: as JSON if `form` is json, else as what `table` makes of it."""
    if form == "json":
        click.echo(json_text(view), nl=False)
    else:
        show.console().print(table(view))
