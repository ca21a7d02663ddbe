"""The pages of the documentation as they are rendered."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_is_torn_apart(page: Path) -> None:
    """A row without a head above it is text with bars in it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = table.splitlines()
        assert re.fullmatch(r"\|(?: *:?-+:? *\|)+", rows[1] if len(rows) > 1 else ""), rows[0]
        columns = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        assert len(columns) == 1, f"rows of {sorted(columns)} bars below {rows[0]}"
