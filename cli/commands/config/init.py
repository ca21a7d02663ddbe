"""`scrtune init`: a file of defaults to edit, made from the options of all commands."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

import click

from ...defaults import FILE, user_file
from ...errors import CommandError
from ...main import configurable, load_command
from ...options import command, option

_WIDTH = 100
_JOB = "job-id"
"""One job's name is no default."""


@dataclass(frozen=True)
class InitOptions:
    """Options of `scrtune init`."""

    user: bool = option("--user", "Write it to your config directory, for every working directory.")


@command(InitOptions)
def init(options: InitOptions) -> None:
    """Write scrtune.toml, in which defaults of options can be set; every line is a comment so far.

    The file in the working directory counts, else the one in your config directory. What a command line
    says counts more. An existing file is left alone.
    """
    path = user_file() if options.user else Path(FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(lines()) + "\n")
    except FileExistsError:
        raise CommandError(f"{path}: is there already, and is left alone; edit it, or move it away") from None
    click.echo(f"{path}: written; take away the # of a table and of what you want to set in it")


def lines() -> Iterator[str]:
    """Yield the lines of a file that says what can be set, and sets nothing."""
    yield from _comment(
        "Defaults of scrtune's options. Each table is a command, each name an option of it. In capitals: what"
        " you put there instead; everything else is what counts without this file. `scrtune COMMAND --help`"
        " says it all."
    )
    for name in configurable():
        described = [each for each in map(_described, load_command(name).params) if each]
        if described:
            yield from ("", f"# [{name}]")
        for key, value, text in described:
            yield from _comment(f"  {text}")
            yield f"# {key} = {value}"


def _comment(text: str) -> Iterator[str]:
    indent = text[: len(text) - len(text.lstrip())]
    yield from wrap(text.strip(), _WIDTH, initial_indent=f"# {indent}", subsequent_indent=f"# {indent}")


def _described(option: click.Parameter) -> tuple[str, str, str] | None:
    """Return the key, the value without this file (or a placeholder), and the help of an option."""
    if not isinstance(option, click.Option) or option.opts[0] == f"--{_JOB}":
        return None
    key = option.opts[0].removeprefix("--")
    value = option.default
    if value is None or option.multiple:
        choices = option.type.choices if isinstance(option.type, click.Choice) else ()
        value = "|".join(map(str, choices)).upper() or option.metavar or key.upper()
        value = [value] if option.multiple else value
    return key, json.dumps(value), option.help or ""
