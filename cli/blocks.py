"""What is shown, before it is known where: tables and lines of text that the terminal and a page both render.

A command makes a view (the numbers, which JSON has), a module of `cli/tables` makes a document of it, and
`cli/terminal.py` or `cli/html` renders that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

DIM = "dim"


class Styled(NamedTuple):
    """A text in a style, as rich has them; a page keeps of that what is bold or dim, not colours."""

    text: str
    style: str = "bold"


class Swatch(NamedTuple):
    """A text beside a patch of a colour, `width` ems wide, that a terminal leaves out."""

    text: str
    colour: str
    width: float = 0.75


class Figure(NamedTuple):
    """A picture with its title and what it shows, as an element of SVG; a terminal leaves it out."""

    title: str
    note: str
    svg: str


class Lines(NamedTuple):
    """A cell of several parts, one below the other."""

    parts: tuple["Cell", ...]


class Table(NamedTuple):
    """A table: ``>`` before a heading aligns right; `total` is the last row, `note` what to know of it all.

    `kind` is its class on a page.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence["Cell"]]
    title: str = ""
    note: str = ""
    total: Sequence[str] = ()
    kind: str = ""


Cell: TypeAlias = str | Styled | Swatch | Lines | Table
Block: TypeAlias = str | Styled | Table | Figure
Section: TypeAlias = Sequence[Block]
Document: TypeAlias = Sequence[Section]
"""Sections with an empty line between them; empty ones are left out."""


def table(
    *headings: str,
    rows: Iterable[Sequence[Cell]],
    title: str = "",
    note: str = "",
    total: Sequence[str] = (),
    kind: str = "",
) -> Table:
    """Return a table of `rows`."""
    return Table(headings, list(rows), title, note, total, kind)


def facts(rows: Mapping[str, str], title: str = "") -> Table:
    """Return a table of names and texts, without the empty ones."""
    return table("", "", rows=[(Styled(name), text) for name, text in rows.items() if text], title=title)
