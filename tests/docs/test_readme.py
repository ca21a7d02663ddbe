"""What README and docs promise: commands that exist, links that lead somewhere, a result as it prints."""

import re
import shlex
from pathlib import Path

import click
import pytest

from scrtune.cli.main import load_command
from scrtune.cli.tables.demo import ROWS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

_SHELL_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_SCRTUNE = re.compile(r"scrtune ((?:[a-z]+)(?: [^#\n\"`|)]*)?)")
_LINK = re.compile(r"\[[^]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def shell_lines(text: str) -> list[str]:
    return [line for block in _SHELL_BLOCK.findall(text) for line in block.splitlines() if line.strip()]


def scrtune_commands() -> list[str]:
    return sorted({match[1].strip() for line in shell_lines(README) for match in _SCRTUNE.finditer(line)})


@pytest.mark.parametrize("line", scrtune_commands())
def test_every_command_in_the_readme_is_one_with_these_options(line: str) -> None:
    name, *arguments = shlex.split(line)
    command = load_command(name)
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]
        assert name == "run"
    known = {option for parameter in command.params for option in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("-")} <= known
    assert isinstance(command, click.Command)


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in shell_lines(README) if line.startswith("make ")}
    assert targets == {"demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    links = [link for link in _LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]
    missing = [link for link in links if not (document.parent / link).exists()]
    assert missing == []


def test_every_page_of_the_documentation_is_reachable_from_the_readme() -> None:
    linked = {Path(link).name for link in _LINK.findall(README) if link.startswith("docs/")}
    assert {path.name for path in ROOT.glob("docs/*.md")} <= linked


def test_the_result_shown_has_the_rows_that_the_demo_prints() -> None:
    assert [row for row in (*ROWS, "observation") if row not in README] == []
