"""The command line in general: help, exit codes, and what `docs/cli.md` says of them."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from scrtune.cli import errors
from scrtune.cli.main import COMMANDS, load

from ..support.ended_job import ended_job

Scrtune = Callable[..., Result]
DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_module_is_the_command() -> None:
    for command in ([sys.executable, "-m", "scrtune"], [Path(sys.executable).parent / "scrtune"]):
        ran = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=True)
        assert re.fullmatch(r"scrtune, version \d+\.\d+\.\d+.*\n|.*version \d+\.\d+\.\d+.*\n", ran.stdout)


def options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_commands_help_says_what_it_does_and_what_each_option_does(scrtune: Scrtune, name: str) -> None:
    command = load(name)
    shown = scrtune(name, "--help")
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert command.help
    first = " ".join(command.help.split("\n\n")[0].split())
    assert first[0].isupper()
    assert first.endswith(".")
    if COMMANDS[name]:
        assert all(option.help for option in options_of(command)), name


@pytest.mark.parametrize("name", sorted(name for name, text in COMMANDS.items() if text))
def test_the_page_names_every_command_and_option(name: str) -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    _, _, section = page.partition(f"\n## scrtune {name}\n")
    section = section.partition("\n## ")[0]
    assert section, f"docs/cli.md has no section on {name}"
    documented = set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE))
    assert documented == {option.opts[0] for option in options_of(load(name))}


def test_the_page_names_every_exit_code() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    codes = {value for name, value in vars(errors).items() if name.isupper()}
    documented = set(re.findall(r"^\| (\d+)[^|]*\|", page, re.MULTILINE))
    assert {str(code) for code in codes} <= documented


@pytest.mark.parametrize(
    ("command", "spared"),
    [
        (["--help"], {"rich", "zmq", "scrtune.daemon", "scrtune.intents"}),
        (["status", "--help"], {"numpy", "scrtune.daemon.loop", "scrtune.daemon.launch"}),
        (["record", "--help"], {"numpy", "scrtune.daemon.loop", "scrtune.replay"}),
        (["goodput", "--help"], {"numpy", "scipy", "matplotlib", "scrtune.daemon.loop"}),
    ],
)
def test_a_command_loads_only_what_it_needs(command: list[str], spared: set[str]) -> None:
    code = (
        f"import sys; from scrtune.cli.main import main\ntry: main({command})\nfinally: print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert spared.isdisjoint(ran.stdout.split())


def completed(*words: str) -> set[str]:
    """What bash is offered for the last of `words`."""
    environment = {
        **os.environ,
        "_SCRTUNE_COMPLETE": "bash_complete",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    program = Path(sys.executable).parent / "scrtune"
    ran = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60, check=True)
    return {line.partition(",")[2] for line in ran.stdout.splitlines()}


def test_a_shell_completes_commands_options_choices_and_jobs(base: Path) -> None:
    assert completed("scrtune", "sta") == {"status"}
    assert completed("scrtune", "status", "--") >= {"--job-id", "--format", "--watch"}
    assert completed("scrtune", "run", "--interval", "") == {"own", "auto"}
    for name in ("one", "other"):
        ended_job(name)
    assert completed("scrtune", "explain", "--job-id", "o") == {"one", "other"}


def test_a_misspelt_command_is_answered_with_the_nearest(scrtune: Scrtune) -> None:
    ran = scrtune("stauts")
    assert ran.exit_code == 2
    assert "No such command 'stauts'" in ran.stderr
