"""How commands print: a view as tables in one style, as JSON, or in a form of its own."""

import codecs
import csv
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click
import msgspec
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from .blocks import Cell, Document, Figure, Lines, Styled, Swatch, Table
from .format import printable

V = TypeVar("V")

_WIDTH = 120


def rendered(document: Document) -> str:
    """Return `document` as text, without what a terminal would obey or what it has no sign for.

    For a pipe it is $COLUMNS or 120 columns wide, without blanks at the ends.
    """
    is_pipe = not sys.stdout.isatty()
    width = _WIDTH if is_pipe and not os.environ.get("COLUMNS", "").isdigit() else None
    console = Console(markup=False, highlight=False, width=width)
    with console.capture() as captured:
        console.print(Printable(document))
    encoding = codecs.lookup(sys.stdout.encoding or "utf-8").name
    encoding = "utf-8" if encoding == "ascii" else encoding  # a locale that nobody set up: so click has it
    text = captured.get().encode(encoding, "replace").decode(encoding)
    return re.sub(r" +$", "", text, flags=re.MULTILINE) if is_pipe else text


class Printable:
    """A document in our own styles alone: names and values are from files that anybody may write."""

    def __init__(self, document: Document) -> None:
        sections = [section for section in document if section]
        parts = [part for section in sections for part in ("", *map(_shown, section))]
        self._shown = Group(*parts[1:])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments as rich's console wants them."""
        for segment in console.render(self._shown, options):
            yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


def _shown(cell: Cell | Figure) -> RenderableType:
    match cell:
        case Table():
            return _table(cell)
        case Lines(parts):
            return Group(*map(_shown, parts))
        case Styled(text, style):
            return Text(text, style)
        case Figure():
            return Group()
        case Swatch(text):
            return Text(text)
        case _:
            return Text(cell)


def _table(table: Table) -> RenderableType:
    shown = rich_table.Table(
        title=table.title or None,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        show_header=any(table.headings),
    )
    for heading in table.headings:
        is_right = heading.startswith(">")
        shown.add_column(heading.removeprefix(">"), justify="right" if is_right else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(_shown, row))
    if table.total:
        shown.add_row(*map(Text, table.total), style="bold")
    return Group(shown, Text(table.note, "dim")) if table.note else shown


def json_text(view: object) -> str:
    """Return `view` as indented JSON, with a newline at its end; other classes are made of pairs."""
    return msgspec.json.format(msgspec.json.encode(view, enc_hook=dict), indent=2).decode() + "\n"


def csv_text(headings: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """Return lines of comma-separated values."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return out.getvalue()


def print_view(
    view: V, form: str, document: Callable[[V], Document], other: Callable[[V], str] = json_text
) -> None:
    """Print `view` on standard output: as a `document`, as JSON, or in the `other` form of the command."""
    if form == "table":
        click.echo(rendered(document(view)), nl=False)
    else:
        click.echo(json_text(view) if form == "json" else other(view), nl=False)
