"""Blocks (`cli/blocks.py`) as elements of a page; nothing of their texts is taken for markup."""

from markupsafe import Markup, escape

from ..blocks import DIM, Block, Cell, Figure, Lines, Styled, Swatch, Table
from ..format import printable

_MOST_ROWS = 200
_LONG = 12
"""Rows: with more a table may be parted on paper."""


def block(each: Block) -> Markup:
    """Return a section with a table or a figure, or a paragraph."""
    if isinstance(each, Figure):
        note = Markup('<p class="note">{}</p>').format(cell(each.note)) if each.note else ""
        return Markup("<section><h2>{}</h2>{}<figure>{}</figure></section>").format(
            each.title, note, each.svg
        )
    if not isinstance(each, Table):
        return Markup("<p>{}</p>").format(cell(each))
    if not (each.rows or each.total):
        return Markup()
    kind = f"{each.kind} long".strip() if len(each.rows) > _LONG else each.kind
    left_out = f"The first {_MOST_ROWS} of {len(each.rows):,}." if len(each.rows) > _MOST_ROWS else ""
    note = " ".join(filter(None, (each.note, left_out)))
    if each.kind == "folded":
        return Markup("<details><summary>{}</summary>{}</details>").format(cell(each.title), _grid(each))
    return Markup('<section class="{}">{}{}<div class="scroll">{}</div></section>').format(
        kind,
        Markup("<h2>{}</h2>").format(cell(each.title)) if each.title else "",
        Markup('<p class="note">{}</p>').format(cell(note)) if note else "",
        _grid(each),
    )


def _grid(table: Table) -> Markup:
    right = Markup(' class="right"')
    sides = [right if heading.startswith(">") else "" for heading in table.headings]
    names = [heading.removeprefix(">") for heading in table.headings]
    head = Markup().join(map(Markup('<th scope="col"{}>{}</th>').format, sides, map(cell, names)))
    rows = [*table.rows[:_MOST_ROWS], *([[Styled(text) for text in table.total]] if table.total else [])]
    body = (Markup().join(map(Markup("<td{}>{}</td>").format, sides, map(cell, row))) for row in rows)
    head = Markup("<thead><tr>{}</tr></thead>\n").format(head) if any(names) else Markup()
    lines = Markup("\n").join(map(Markup("<tr>{}</tr>").format, body))
    return Markup("<table>{}<tbody>\n{}\n</tbody></table>").format(head, lines)


def cell(each: Cell) -> Markup:
    """Return what stands in a cell."""
    match each:
        case Table():
            return _grid(each)
        case Lines(parts):
            return Markup("<br>\n").join(map(cell, parts))
        case Styled(text, style):
            if style == DIM:
                return Markup('<span class="note">{}</span>').format(cell(text))
            return Markup("<b>{}</b>").format(cell(text)) if style.startswith("bold") else cell(text)
        case Swatch(text, colour, width):
            patch = Markup('<span class="swatch" style="width: {:.2f}em; background:{}"></span>{}')
            return patch.format(width, colour, cell(text))
        case _:
            return Markup("<br>\n").join(escape(printable(line)) for line in each.split("\n"))
