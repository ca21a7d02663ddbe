"""Blocks as a page and as a terminal show them: the same texts, nothing taken for markup."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.cli.blocks import DIM, Block, Figure, Lines, Styled, Swatch, facts, table
from scrtune.cli.format import printable
from scrtune.cli.html.blocks import block
from scrtune.cli.terminal import rendered


def words(markup: str) -> list[str]:
    return unescape(re.sub(r"<[^>]*>", " ", markup)).split()


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=5))
def test_a_page_and_a_terminal_say_the_same(rows: list[tuple[str, str]]) -> None:
    shown = table("name", ">value", rows=rows, title="All of it", note="to know", total=("sum", "1"))
    page = block(shown)
    assert page.count("<tr>") == 2 + len(rows)
    expected = " ".join(printable(cell) for row in rows for cell in row).split()
    assert words(page) == [*["All", "of", "it", "to", "know", "name", "value"], *expected, "sum", "1"]
    assert set(re.findall(r"<(/?\w+)", page)) <= {
        f"{end}{tag}"
        for tag in ["section", "h2", "p", "div", "table", "thead", "tbody", "tr", "th", "td", "b", "br"]
        for end in ("", "/")
    }


@pytest.mark.parametrize(
    ("shown", "markup"),
    [
        ("a < b", "<p>a &lt; b</p>"),
        (Styled("bold & so"), "<p><b>bold &amp; so</b></p>"),
        (Styled("kept", "green"), "<p>kept</p>"),
        (Styled("less", DIM), '<p><span class="note">less</span></p>'),
        (table("a", rows=[]), ""),
    ],
)
def test_what_a_line_is_on_a_page(shown: Block, markup: str) -> None:
    assert block(shown) == markup


def test_a_swatch_and_a_figure_are_for_pages() -> None:
    coloured = table("what", rows=[(Swatch("steps", "#123456"),), (Lines(("one", Styled("two"))),)])
    figure = Figure("Over time", "seconds", "<svg></svg>")
    assert rendered([[coloured, figure]]).split() == ["what", "steps", "one", "two"]
    assert "background:#123456" in block(coloured)
    assert "one<br>\n<b>two</b>" in block(coloured)
    assert "<h2>Over time</h2>" in block(figure)


def test_of_very_many_rows_a_page_has_the_first() -> None:
    page = block(table("n", rows=[(str(number),) for number in range(1000)]))
    assert page.count("<td>") == 200
    assert "The first 200 of 1,000." in page


def test_sections_have_an_empty_line_between_them_and_facts_no_empty_row() -> None:
    assert rendered([["one"], [], [facts({"two": "2", "three": ""})], ["four"]]) == "one\n\ntwo  2\n\nfour\n"
