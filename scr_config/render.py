"""Settings as SCR's config file, and as environment for a shell.

What would hang, crash or lose data is refused with ValueError: nothing rendered here makes SCR fail.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from ..intents.events import Settings
from .parameters import CATALOGUE, text_of
from .parse import Entry
from .problems import Problem
from .validate import FILE_GRAMMAR, validate

Shell = Literal["sh", "csh", "json"]
_CSH_SPECIAL = re.compile(r"[!\\'\n]")
# each closes the quotes, says itself and opens them again; a newline counts within quotes only
_CSH_QUOTED = {"!": "'\\!'", "\\": "'\\\\'", "'": "'\\''", "\n": "''\\\n''"}


def config_text(settings: Settings, comment: str, descriptors: Iterable[Entry] = ()) -> str:
    """The text of a config file: `comment` first, then `descriptors` as they were, then the settings by name.

    Names that SCR does not look for in a file (the ``SCRTUNE_`` levers too) are left out. Raises ValueError
    for settings that :func:`validate` calls an error, and for SCR_COPY_TYPE=FILE without a CKPT descriptor.
    """
    _refuse([problem for problem in validate(settings) if problem.severity == "error"])
    entries = tuple(descriptors)
    if settings.get("SCR_COPY_TYPE") == "FILE" and not any(entry.parent.key == "CKPT" for entry in entries):
        raise ValueError(
            "SCR_COPY_TYPE=FILE: SCR_Init aborts without CKPT lines; pass those of the user's file"
        )
    lines = [f"# {_printable(line)}".rstrip() for line in comment.splitlines()]
    lines += [_descriptor_line(entry) for entry in entries]
    lines += [f"{name}={text_of(settings[name])}" for name in sorted(settings) if _belongs_in_a_file(name)]
    return "\n".join(lines) + "\n"


def environment_text(settings: Settings, shell: Shell) -> str:
    """Commands that export every setting: for ``sh`` (and bash, zsh), ``csh`` (and tcsh), or one JSON object.

    In JSON every value is the text that the environment would hold. The quoting is exact: the shell gives the
    application the very characters. Raises ValueError for settings that :func:`validate` calls an error, but
    for values that only a config file could not carry.
    """
    problems = validate(settings)
    _refuse([entry for entry in problems if entry.severity == "error" and entry.code != FILE_GRAMMAR])
    texts = {name: text_of(settings[name]) for name in sorted(settings)}
    return _SHELLS[shell](texts)


def _sh(texts: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(text)}\n" for name, text in texts.items())


def _csh(texts: Mapping[str, str]) -> str:
    return "".join(f"setenv {name} {_csh_quote(text)}\n" for name, text in texts.items())


def _json(texts: Mapping[str, str]) -> str:
    return json.dumps(texts, indent=2) + "\n"


_SHELLS: dict[Shell, Callable[[Mapping[str, str]], str]] = {"sh": _sh, "csh": _csh, "json": _json}


def _csh_quote(text: str) -> str:
    """`text` as one word of csh, which expands ``!`` and ends lines even within quotes."""
    return "'" + _CSH_SPECIAL.sub(lambda match: _CSH_QUOTED[match[0]], text) + "'"


def _descriptor_line(entry: Entry) -> str:
    return " ".join(f"{pair.key}={pair.raw}" for pair in (entry.parent, *entry.children))


def _belongs_in_a_file(name: str) -> bool:
    parameter = CATALOGUE[name]
    return "user config" in parameter.layers and not parameter.is_lever


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line)


def _refuse(errors: list[Problem]) -> None:
    if errors:
        raise ValueError("settings that SCR fails on: " + "; ".join(str(error) for error in errors))
