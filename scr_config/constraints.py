"""Settings that SCR fails on: values out of bounds, and parameters that do not go together.

Bounds are in the catalogue, what does not go together in `check/rules.py`: advice and rendered settings are
held to the rules of `scrtune check`.
"""

import re
from collections.abc import Iterator, Mapping

from ..intents.events import Value
from .catalogue import CATALOGUE, TOKEN_LIMIT_BYTES, compiled_defaults
from .check.model import CheckContext, Configuration
from .check.rules import faults
from .problems import Code, ConfigProblem, Severity

_NOT_IN_A_FILE = re.compile(r"[\x00-\x20\x7f=$\\]")


def fatal(settings: Mapping[str, Value]) -> tuple[ConfigProblem, ...]:
    """Return the errors of `settings` wherever they are given, in order of the parameters. Never raises."""
    return tuple(_by_themselves(settings)) or tuple(_together(settings))


def unfit_for_file(settings: Mapping[str, Value]) -> tuple[ConfigProblem, ...]:
    """Return the errors of the values that a config file cannot carry; the environment can."""
    return tuple(
        ConfigProblem(Severity.ERROR, Code.NOT_FOR_A_FILE, name, *misfit)
        for name, value in sorted(settings.items())
        if isinstance(value, str) and CATALOGUE[name].in_files and (misfit := _misfit(value))
    )


def _by_themselves(settings: Mapping[str, Value]) -> Iterator[ConfigProblem]:
    for name, value in sorted(settings.items()):
        parameter = CATALOGUE.get(name)
        if parameter is None:
            what = "SCR has no such parameter and ignores it"
            yield ConfigProblem(Severity.ERROR, Code.UNKNOWN_NAME, name, what, "check the spelling")
        elif not parameter.accepts(value):
            consequence = f": {parameter.if_wrong}" if parameter.if_wrong else ""
            what = f"{value!r} is not {parameter.allowed}{consequence}"
            yield ConfigProblem(Severity.ERROR, Code.BAD_VALUE, name, what, f"choose {parameter.allowed}")


def _together(settings: Mapping[str, Value]) -> Iterator[ConfigProblem]:
    config = Configuration(given={}, settings={**compiled_defaults(), **settings}, context=CheckContext())
    yield from (fault for fault in faults(config) if fault.severity is Severity.ERROR)


def _misfit(value: str) -> tuple[str, str] | None:
    """Return why a config file cannot carry `value`, and the remedy; None when it can."""
    if not value:
        what = "a config file cannot hold an empty value: SCR would take whatever is in memory"
        return what, "leave the parameter out"
    if _NOT_IN_A_FILE.search(value):
        what = f"a config file cannot carry {value!r}: spaces and = end a value, $ and \\ are expanded"
        return what, "choose another value, or give it in the environment"
    if len(value.encode(errors="replace")) > TOKEN_LIMIT_BYTES:
        return f"SCR reads values of {TOKEN_LIMIT_BYTES} bytes at most from a config file", "shorten it"
    return None
