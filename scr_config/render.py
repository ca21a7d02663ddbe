"""Settings as SCR's config file, and as environment: for shells and for Slurm.

What would hang, crash or lose data is refused with RenderError: nothing rendered here makes SCR fail.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from ..intents.events import Values
from .catalogue import CATALOGUE, text_of
from .constraints import fatal, unfit_for_file
from .problems import ConfigProblem

Form = Literal["sh", "csh", "fish", "json", "slurm", "conf"]


class RenderError(ValueError):
    """Settings that SCR fails on, or that the form asked for cannot carry; the text says which and why."""


def rendered_config(settings: Values, comment: str) -> str:
    """Return the text of a config file: `comment` first, then the settings by name.

    Names that SCR does not look for in a file (the ``SCRTUNE_`` levers too) are left out. Raises RenderError
    for settings that are :func:`fatal` or :func:`unfit_for_file`, and for SCR_COPY_TYPE=FILE, which needs
    CKPT lines.
    """
    refuse(fatal(settings) or unfit_for_file(settings))
    if settings.get("SCR_COPY_TYPE") == "FILE":
        raise RenderError(
            "SCR_COPY_TYPE=FILE: SCR_Init aborts without CKPT lines; name a scheme, or keep your own file"
        )
    lines = comment_lines(comment)
    lines += [f"{name}={text_of(settings[name])}" for name in sorted(settings) if CATALOGUE[name].in_files]
    return "\n".join(lines) + "\n"


def refuse(errors: Iterable[ConfigProblem]) -> None:
    """Raise RenderError with all of `errors`, if there are any."""
    if texts := [str(error) for error in errors]:
        raise RenderError("settings that SCR fails on: " + "; ".join(texts))


def comment_lines(comment: str) -> list[str]:
    """Return `comment` as lines of a config file: each begins with ``#``, and none can end early."""
    return [
        "# " + "".join(each if each.isprintable() else " " for each in line).rstrip()
        for line in comment.splitlines()
    ]


def environment_text(settings: Values, form: Form, others: Mapping[str, str] | None = None) -> str:
    """Return every setting as environment, in the form asked for; then `others`, which are no settings.

    The commands for ``sh`` (bash, zsh), ``csh`` (tcsh) and ``fish`` are quoted exactly: the application gets
    the very characters. ``conf`` is a config file (:func:`rendered_config`), without `others`.
    Raises RenderError for settings that are :func:`fatal`, and for values that the form cannot carry.
    """
    if form == "conf":
        return rendered_config(settings, "What scrtune recommends, for SCR's config file")
    refuse(fatal(settings))
    texts = {name: text_of(settings[name]) for name in sorted(settings)}
    return _FORMS[form]({**texts, **(others or {})})


def prolog_lines(variables: Mapping[str, str]) -> str:
    """Return what a Slurm task prolog prints: ``export NAME=value``, the value as it is, without any quoting.

    The value is all up to the end of the line (slurm.conf(5), TaskProlog). Raises RenderError for a value of
    several lines.
    """
    for name, text in variables.items():
        if "\n" in text or "\0" in text:
            raise RenderError(
                f"{name}={text!r}: a Slurm task prolog cannot carry a line end;"
                " choose a value without, or export it in the job script"
            )
    return "".join(f"export {name}={text}\n" for name, text in variables.items())


def _commands(pattern: str, quote: Callable[[str], str]) -> Callable[[Mapping[str, str]], str]:
    """Return a function that makes one command of a shell for each variable."""
    return lambda texts: "".join(f"{pattern.format(name, quote(text))}\n" for name, text in texts.items())


def csh_quote(text: str) -> str:
    """Return `text` as one word of csh, which expands ``!`` and ends lines even within quotes."""
    return "'" + re.sub(r"[!\\']", r"'\\\g<0>'", text).replace("\n", "\\\n") + "'"


def fish_quote(text: str) -> str:
    """Return `text` as one word of fish: within single quotes only quotes and backslashes are special."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_FORMS: dict[Form, Callable[[Mapping[str, str]], str]] = {
    "sh": _commands("export {}={}", shlex.quote),
    "csh": _commands("setenv {} {}", csh_quote),
    "fish": _commands("set -gx {} {}", fish_quote),
    "json": lambda texts: json.dumps(texts, indent=2) + "\n",
    "slurm": prolog_lines,
}
