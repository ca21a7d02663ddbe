"""What would go wrong in SCR with a set of values: bounds, and parameters that do not go together.

Bounds are in the catalogue, what does not go together in :mod:`.constraints`; docs/check.md lists the facts.
"""

import re
from collections.abc import Iterator, Mapping

from ..intents.events import Value
from .catalogue import CATALOGUE, TOKEN_LIMIT_BYTES
from .check.model import Configuration, Setting, Situation
from .constraints import CONSTRAINTS
from .parse import value_oddities
from .problems import Problem, Severity
from .settings import Settings

FILE_GRAMMAR = "not-for-a-file"
"""Code of the errors that a value has in a config file only: the environment can carry it."""

_NOT_IN_A_FILE = re.compile(r"[\x00-\x20\x7f=$\\]")


def validate(settings: Mapping[str, Value]) -> tuple[Problem, ...]:
    """Every problem of `settings` as a whole, in order of the parameters. Never raises."""
    problems: list[Problem] = []
    for name, value in sorted(settings.items()):
        problems.extend(_of_one(name, value))
    if not any(problem.severity == "error" and problem.code != FILE_GRAMMAR for problem in problems):
        problems.extend(_together(Settings(settings)))
    return tuple(problems)


def _of_one(name: str, value: Value) -> Iterator[Problem]:
    """What is wrong with one value by itself."""
    parameter = CATALOGUE.get(name)
    if parameter is None:
        yield _problem("unknown-name", name, "SCR has no such parameter and ignores it", "check the spelling")
        return
    if not parameter.accepts(value):
        consequence = f": {parameter.if_wrong}" if parameter.if_wrong else ""
        what = f"{value!r} is not {parameter.allowed}{consequence}"
        yield _problem("bad-value", name, what, f"choose {parameter.allowed}")
        return
    if parameter.status == "inert" and value != parameter.default:
        what = f"SCR reads it and does nothing with it. {parameter.note}"
        yield _problem("inert", name, what, "do not count on it", "warning")
    if isinstance(value, str) and "user config" in parameter.layers and not parameter.is_lever:
        yield from _of_text(name, value)


def _of_text(name: str, value: str) -> Iterator[Problem]:
    """Whether a config file can carry `value`."""
    if not value:
        what = "a config file cannot say it empty: SCR would take whatever is in memory"
        yield _problem(FILE_GRAMMAR, name, what, "leave the parameter out")
    elif _NOT_IN_A_FILE.search(value):
        what = f"a config file cannot carry {value!r}: spaces and = end a value, $ and \\ are expanded"
        yield _problem(FILE_GRAMMAR, name, what, "choose another value, or give it in the environment")
    elif len(value.encode(errors="replace")) > TOKEN_LIMIT_BYTES:
        what = f"SCR reads values of {TOKEN_LIMIT_BYTES} bytes at most from a config file"
        yield _problem(FILE_GRAMMAR, name, what, "shorten it")
    for code, what, remedy in value_oddities(value):
        yield _problem(code, name, what, remedy, "warning")


def _together(settings: Settings) -> Iterator[Problem]:
    """What does not go together; a value that is SCR's default counts as not given."""
    given = {
        name: Setting(name=name, text=text, file="", line=0, column=0, value_column=0)
        for name, text in settings.texts().items()
        if settings[name] != CATALOGUE[name].default
    }
    config = Configuration(given=given, settings=settings, situation=Situation(), fallback="")
    for constraint in CONSTRAINTS:
        for fault in constraint.judge(config):
            yield _problem(fault.code, fault.names[0], fault.what, fault.remedy, fault.severity)


def _problem(code: str, parameter: str, what: str, remedy: str, severity: Severity = "error") -> Problem:
    return Problem(severity=severity, code=code, parameter=parameter, what=what, remedy=remedy)
