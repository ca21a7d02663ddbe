"""The things that `scrtune check` reads, and the settings in them."""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ...intents.events import ValueSource
from ..parse import ConfigFile, Pair, assumed, parse
from ..resolution import expand
from .job_script import Assignment, assignments, is_job_script, other_language
from .model import CheckContext

ENVIRONMENT = "<environment>"
"""The file of a finding about an environment variable; its line and column are 0."""

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
    def layer(self) -> ValueSource:
        """Return the layer of SCR's that it is."""
        layers = {"config file": ValueSource.USER_CONFIG, "system file": ValueSource.SYSTEM_CONFIG}
        return layers.get(self.kind, ValueSource.ENVIRONMENT)

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """Return the variables that a job script sets; none of one that is not read."""
        return () if self.language else assignments(self.text, self.file)


def source_of(file: str, text: str) -> Source:
    """Return a file as what it is by its contents: a job script or a config file."""
    language = other_language(file, text)
    is_script = bool(language) or is_job_script(text)
    return Source(file=file, kind="job script" if is_script else "config file", text=text, language=language)


def environment_source(variables: Mapping[str, str]) -> Source:
    """Return the variables of a process as a source."""
    return Source(file=ENVIRONMENT, kind="environment", variables=variables)


def read(source: Source, context: CheckContext) -> ConfigFile:
    """Return a config file as SCR reads it; variables that are not set here stand for themselves."""
    return parse(source.text, assumed(source.text, context.environment), source.file)


def in_job(pair: Pair, context: CheckContext) -> Pair:
    """Return one pair of a config file with its variables expanded as far as they are set here.

    The carriage return of a DOS line end is a problem of its own; here the value is what was meant.
    """
    value = expand(pair.value, context.environment, keep_unset=True).removesuffix("\r")
    return msgspec.structs.replace(pair, value=value)


def variables(source: Source) -> Iterator[Pair]:
    """Yield the variables that a job script or an environment gives to the application."""
    if source.kind == "environment":
        for name, text in source.variables.items():
            yield Pair(key=name, raw=text, value=expand(text, source.variables), file=source.file)
    else:
        yield from (entry for entry in source.assignments if entry.exported)


def variables_of(pair: Pair) -> tuple[tuple[str, str, int], ...]:
    """Return (name, digit that follows it, offset in the raw value) of each variable."""
    return tuple(
        (match["name"], match["digit"], match.start())
        for match in _VARIABLE.finditer(pair.raw)
        if match["name"]
    )
