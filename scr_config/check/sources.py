"""The things that `scrtune check` reads, and the settings in them."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ...intents.events import ValueSource
from ..parse import Pair
from ..resolution import expand
from .job_script import Assignment, assignments, is_job_script, other_language

ENVIRONMENT = "<environment>"
"""The file of a finding about an environment variable; its line and column are 0."""


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


def variables(source: Source) -> Iterator[Pair]:
    """Yield the variables that a job script or an environment gives to the application."""
    if source.kind == "environment":
        for name, text in source.variables.items():
            yield Pair(key=name, raw=text, value=expand(text, source.variables), file=source.file)
    else:
        yield from (entry for entry in source.assignments if entry.exported)
