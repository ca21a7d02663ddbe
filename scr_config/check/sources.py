"""The things that `scrtune check` reads, and the settings in them."""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ..catalogue import Layer
from ..parse import ConfigFile, Entry, Pair, assumed, parse
from ..resolution import expand
from .findings import ENVIRONMENT
from .job_script import Assignment, assignments, is_job_script, other_language
from .model import Setting, Situation, SystemPair

_VARIABLE = re.compile(r"\\[\s\S]|\$(?P<name>[A-Za-z_]+)(?P<digit>[0-9]?)")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to check: the text of a config file or a job script, or the variables of an environment.

    A config file is the user's; SCR's system config file is a ``system file``. A script of another `language`
    than a shell's is not read.
    """

    file: str
    kind: Literal["config file", "system file", "job script", "environment"]
    text: str = ""
    variables: Mapping[str, str] = {}
    language: str = ""

    @property
    def layer(self) -> Layer:
        """Which of SCR's layers it is."""
        layers: dict[str, Layer] = {"config file": "user config", "system file": "system config"}
        return layers.get(self.kind, "environment")


def source_of(file: str, text: str) -> Source:
    """A file as what it is: a job script or a config file, by its contents."""
    language = other_language(file, text)
    is_script = bool(language) or is_job_script(text)
    return Source(file=file, kind="job script" if is_script else "config file", text=text, language=language)


def environment_source(variables: Mapping[str, str]) -> Source:
    """The variables of a process."""
    return Source(file=ENVIRONMENT, kind="environment", variables=variables)


def read(source: Source, situation: Situation) -> ConfigFile:
    """A config file as SCR reads it; variables that are not set here stand for themselves."""
    return parse(source.text, assumed(source.text, situation.environment))


def lines_of_system(file: ConfigFile) -> tuple[Entry, ...]:
    """The STORE, CKPT and GROUPS lines of SCR's system config file."""
    return tuple(
        Entry(parent=_of_system(entry.parent), children=tuple(map(_of_system, entry.children)))
        for entry in file.descriptors
    )


def _of_system(pair: Pair) -> SystemPair:
    return SystemPair(**msgspec.structs.asdict(pair))


def setting_of(pair: Pair, source: Source, situation: Situation) -> Setting:
    """One pair of a config file; its value is not known when a variable of it is not set here.

    The carriage return of a DOS line end is told by itself; here the value is what was meant.
    """
    known = not any(name not in situation.environment for name, _, _ in variables_of(pair))
    return Setting(
        name=pair.key,
        text=expand(pair.value, situation.environment).removesuffix("\r") if known else None,
        file=source.file,
        line=pair.line,
        column=pair.column,
        value_column=pair.value_column,
    )


def variables(source: Source) -> Iterator[Setting]:
    """The variables that a job script or an environment hands to the application."""
    if source.kind == "environment":
        for name, value in source.variables.items():
            text = expand(value, source.variables)
            yield Setting(name=name, text=text, file=source.file, line=0, column=0, value_column=0)
    else:
        yield from (assigned(entry, source) for entry in of_script(source) if entry.exported)


def of_script(source: Source) -> tuple[Assignment, ...]:
    """The variables that a job script sets; none of one that is not read."""
    return () if source.language else assignments(source.text)


def assigned(entry: Assignment, source: Source) -> Setting:
    """One variable of a job script."""
    return Setting(
        name=entry.name,
        text=entry.text,
        file=source.file,
        line=entry.line,
        column=entry.column,
        value_column=entry.value_column,
    )


def variables_of(pair: Pair) -> tuple[tuple[str, str, int], ...]:
    """(name, digit that follows it, offset in the raw value) of each variable."""
    return tuple(
        (match["name"], match["digit"], match.start())
        for match in _VARIABLE.finditer(pair.raw)
        if match["name"]
    )
