"""The command line in general: help, exit codes, and what `docs/cli.md` says of them."""

import contextlib
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
from scrtune.cli.main import COMMANDS, load_command

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
    command = load_command(name)
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
    assert documented == {option.opts[0] for option in options_of(load_command(name))}


def test_the_page_names_every_exit_code() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    codes = {value for value in vars(errors).values() if isinstance(value, int)}
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


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = os.openpty()
    with open(ours, "rb", buffering=0) as screen:  # noqa: PTH123
        command = [sys.executable, "-m", "scrtune", *arguments]
        with subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**os.environ, **variables}):
            os.close(theirs)
            text = b""
            with contextlib.suppress(OSError):  # it ends with an error, where the terminal is closed
                while part := screen.read(65_536):
                    text += part
    return text.decode("utf-8", "replace")


def test_what_a_file_has_for_terminals_does_not_reach_them(tmp_path: Path) -> None:
    conf = tmp_path / "\x1b]0;title\x07"
    conf.write_bytes(
        b"SCR_PREFIX=/tmp/\x1b[2J\x1b]0;title\x07\xff\nSCR_\x1b[2JFLUSH=1\nSCR_COPY_TYPE=\x1b[2JX\n"
    )
    for command in (("env", "--resolved"), ("check", str(conf))):
        shown = on_a_terminal(*command, SCR_CONF_FILE=str(conf))
        assert "SCR_COPY_TYPE" in shown
        assert not re.search("\x1b(?!\\[[0-9;]*m)", shown), "styles alone"
    said = on_a_terminal("goodput", str(conf))
    assert "no goodput log" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("command", [("--help",), ("--version",), ("params",), ("params", "SCR_FLUSH")])
def test_standard_output_that_is_full_is_said_in_a_line(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "scrtune", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == errors.FAILURE
    assert re.fullmatch("scrtune: .*No space left on device; write to where there is room\n", ran.stderr)


def test_what_standard_output_has_no_sign_for_is_a_question_mark() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1:strict", "SCR_PREFIX": "/data/\udcff"}
    command = [sys.executable, "-m", "scrtune", "env", "--resolved"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "/data/?" in ran.stdout
