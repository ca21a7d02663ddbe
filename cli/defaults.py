"""Defaults of options: `scrtune.toml` in the working directory, else in the user's config directory.

A table for each command, with the names of its options: ``[run]`` and ``interval = "auto"``.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click

FILE = "scrtune.toml"
VARIABLE = "SCRTUNE_DEFAULTS"
"""Names a file that is read instead; with that of `/dev/null` nothing is."""
WITHOUT_DEFAULTS = frozenset({"daemon", "forward", "init", "node"})
"""Commands that scrtune itself starts, with all that counts on their command lines, or that make the file."""


def user_file() -> Path:
    """Return the path of the user's own file of defaults, which need not exist."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - no home: no error
    return Path(home) / "scrtune" / FILE


def defaults(name: str, command: click.Command, known: Iterable[str]) -> dict[str, object]:
    """Return the defaults of the command `name`, by click's names, from the first file that is there.

    $SCRTUNE_DEFAULTS names another. `known` are the commands that may have a table. Raises TomlError,
    with file, line and key.
    """
    named = os.environ.get(VARIABLE)
    places = (Path(named),) if named else (Path(FILE), user_file())
    found = next(filter(_is_there, places), None)
    if found is None or not _is_ours(found):
        return {}
    from .user_files import read_toml  # noqa: PLC0415 - only where there is a file

    file = read_toml(found)
    own: dict[str, object] = {}
    for table, content in file.decoded().items():
        if not isinstance(content, dict):
            raise file.error("belongs into the table of a command, as [run]", table)
        if table not in known:
            raise file.error(f"is no command with options to set{_nearest(table, known)}", table)
        own = content if table == name else own
    options = {each.opts[0][2:]: each for each in command.params if isinstance(each, click.Option)}
    context = click.Context(command, info_name=name)
    given: dict[str, object] = {}
    for key, value in own.items():
        if key not in options:
            raise file.error(f"is no option of scrtune {name}{_nearest(key, options)}", name, key)
        option = options[key]
        if problem := _problem(option, value, context):
            raise file.error(problem, name, key)
        given[str(option.name)] = value
    return given


def _problem(option: click.Option, value: object, context: click.Context) -> str:
    """Return why `value` cannot be that of `option`; empty when it can."""
    if option.is_flag and not isinstance(value, bool):
        return "write true or false"
    if option.multiple != isinstance(value, list):
        return "write a list, as in [60, 900]" if option.multiple else "write one value"
    try:
        option.process_value(context, value)
    except click.BadParameter as error:
        return error.message
    return ""


def _is_there(path: Path) -> bool:
    with suppress(OSError):  # in a directory that we may not even search
        return path.is_file()
    return False


def _is_ours(path: Path) -> bool:
    """Return whether the file is the user's or root's; another's is not obeyed, which is said."""
    if path.stat().st_uid in {0, os.getuid()}:
        return True
    from .format import printable  # noqa: PLC0415 - only where something is wrong

    click.echo(printable(f"scrtune: {path.absolute()} belongs to another user, and is not read"), err=True)
    return False


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only where something is wrong

    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
