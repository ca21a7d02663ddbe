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


def test_every_file_that_a_document_names_is_there() -> None:
    root = Path(__file__).parents[2]
    for page in [*PAGES, root / "README.md", root / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        paths = set(re.findall(r"(?<![\w/.$>*{-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|c|h|json))\b", text))
        ours = {path for path in paths if (root / path.partition("/")[0]).is_dir()}
        assert not [path for path in ours if not (root / path).is_file()], page.name


def test_every_module_that_the_map_names_is_there() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_0-9]+\.(?:py|c|h|json))`", text):
        assert next(root.glob(f"[!.b]*/**/{name}"), None) or (root / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_import_that_a_page_shows_is_possible(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in re.findall(r"^(?:from|import) scrtune.*", block, re.MULTILINE):
            exec(line)  # noqa: S102 - a line of our own
