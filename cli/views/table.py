"""A table that both the terminal and the page show: its cells are texts, made once."""

from typing import NamedTuple


class Bold(str):
    """A text of a cell that is set in bold."""

    __slots__ = ()


class Lines(tuple[str, ...]):
    """A cell of several lines."""

    __slots__ = ()


class TextTable(NamedTuple):
    """Columns, where ``>`` before a heading aligns right, and the cells of each row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str | Lines, ...], ...]
