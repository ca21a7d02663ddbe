"""How commands print: a view as a table in one style, as JSON, or in a form of its own."""

import codecs
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import click
import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ...intents.tune.decisions import Verdict
from ..format import VERDICTS, printable
from ..views.table import Bold, Lines, TextTable

V = TypeVar("V")

_WIDTH = 120


def rendered(shown: RenderableType) -> str:
    """Return our texts as they are, without what a terminal would obey or what it has no sign for.

    For a pipe they are $COLUMNS or 120 columns wide, without blanks at the ends.
    """
    is_pipe = not sys.stdout.isatty()
    width = _WIDTH if is_pipe and not os.environ.get("COLUMNS", "").isdigit() else None
    console = Console(markup=False, highlight=False, width=width)
    with console.capture() as captured:
        console.print(Printable(shown))
    encoding = codecs.lookup(sys.stdout.encoding or "utf-8").name
    encoding = "utf-8" if encoding == "ascii" else encoding  # a locale that nobody set up: so click has it
    text = captured.get().encode(encoding, "replace").decode(encoding)
    return re.sub(r" +$", "", text, flags=re.MULTILINE) if is_pipe else text


class Printable:
    """What is shown, in our own styles alone: names and values are from files that anybody may write."""

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments as rich's console wants them."""
        for segment in console.render(self._shown, options):
            yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


def json_text(view: object) -> str:
    """Return `view` as indented JSON, with a newline at its end; other classes are made of pairs."""
    return msgspec.json.format(msgspec.json.encode(view, enc_hook=dict), indent=2).decode() + "\n"


def print_view(
    view: V, form: str, table: Callable[[V], RenderableType | str], other: Callable[[V], str] = json_text
) -> None:
    """Print `view` on standard output: as a `table`, as JSON, or in the `other` form of the command."""
    if form == "table":
        click.echo(rendered(table(view)), nl=False)
    else:
        click.echo(json_text(view) if form == "json" else other(view), nl=False)


def plain_table(
    *columns: str,
    rows: Iterable[Sequence[RenderableType]] = (),
    total: Sequence[str] = (),
    title: str = "",
) -> Table:
    """Return a table in the style of all tables; ``>`` before a heading aligns right."""
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        show_header=any(columns),
    )
    for column in columns:
        is_right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    if total:
        table.add_row(*total, style="bold")
    return table


def text_table(table: TextTable, title: str) -> RenderableType:
    """Return a table that the page shows as well."""
    rows = (tuple(map(_shown, row)) for row in table.rows)
    return plain_table(*table.headings, rows=rows, title=title)


def _shown(cell: str | Lines) -> RenderableType:
    if isinstance(cell, Lines):
        return Group(*map(_shown, cell))
    return Text(cell, style="bold" if isinstance(cell, Bold) else "")


def facts(rows: Mapping[str, str], title: str = "") -> Table:
    """Return a table of names and texts, without the empty ones."""
    shown = ((Text(name, style="bold"), text) for name, text in rows.items() if text)
    return plain_table("", "", rows=shown, title=title)


def verdict_text(verdict: Verdict) -> Text:
    """Return the verdict on a change in a word."""
    return Text(VERDICTS[verdict].word, style=VERDICTS[verdict].colour)
