"""What would go wrong in SCR with a set of values: bounds, and parameters that do not go together.

Each rule is a function of all settings (those not given at their compiled defaults), in the table at the end.
The facts behind the rules were tried on a real SCR; `docs/config.md` lists them.
"""

import re
from collections.abc import Callable, Iterator

from ..intents.events import Value, Values
from .parameters import CATALOGUE, TOKEN_LIMIT_BYTES, defaults
from .parse import value_oddities
from .problems import Problem, Severity

FILE_GRAMMAR = "not-for-a-file"
"""Code of the errors that a value has in a config file only: the environment can carry it."""

_NOT_IN_A_FILE = re.compile(r"[\x00-\x20\x7f=$\\]")


def validate(settings: Values) -> tuple[Problem, ...]:
    """Every problem of `settings` as a whole, in order of the parameters. Never raises."""
    problems: list[Problem] = []
    for name, value in sorted(settings.items()):
        problems.extend(_of_one(name, value))
    if not any(problem.severity == "error" and problem.code != FILE_GRAMMAR for problem in problems):
        everything = {**defaults(), **settings}
        for rule in RULES:
            problems.extend(rule(everything))
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


def failures_fit_the_set(settings: Values) -> Iterator[Problem]:
    """SCR_SET_FAILURES within SCR_SET_SIZE (scr_reddesc.c:269)."""
    failures, size = settings["SCR_SET_FAILURES"], settings["SCR_SET_SIZE"]
    if int(failures) > int(size):
        what = f"{failures} losses in a set of {size}: the descriptor is disabled and SCR_Init aborts"
        yield _problem("failures-exceed-set", "SCR_SET_FAILURES", what, f"choose 1 to {size}")


def _poststage_crashes(settings: Values) -> Iterator[Problem]:
    if settings["SCR_FLUSH_POSTSTAGE"] and settings["SCR_FLUSH_ASYNC"]:
        what = "with SCR_FLUSH_ASYNC=1 SCR crashes in the flush (scr_flush_async.c:340)"
        yield _problem("poststage-async", "SCR_FLUSH_POSTSTAGE", what, "set one of the two to 0")


def _async_does_not_overlap(settings: Values) -> Iterator[Problem]:
    if not settings["SCR_FLUSH_ASYNC"]:
        return
    if settings["SCR_CACHE_BYPASS"]:
        what = "nothing is flushed while SCR_CACHE_BYPASS=1 sends files straight to the prefix directory"
        yield _problem("async-bypass", "SCR_FLUSH_ASYNC", what, "set SCR_CACHE_BYPASS=0", "warning")
    elif settings["SCR_FLUSH_TYPE"] == "SYNC":
        what = "with SCR_FLUSH_TYPE=SYNC the copy still blocks the application"
        yield _problem("async-sync", "SCR_FLUSH_ASYNC", what, "set SCR_FLUSH_TYPE=PTHREAD", "warning")


def _copy_type_needs_descriptors(settings: Values) -> Iterator[Problem]:
    if settings["SCR_COPY_TYPE"] == "FILE":
        what = "SCR_Init aborts unless the config file has CKPT lines, one of them with INTERVAL=1"
        yield _problem("needs-ckpt", "SCR_COPY_TYPE", what, "keep the CKPT lines in the file", "warning")


def checkpoints_are_deleted(settings: Values) -> Iterator[Problem]:
    """Whether SCR_Init deletes datasets."""
    deletes = {
        "SCR_CACHE_PURGE": (1, "each SCR_Init deletes the cached datasets, flushed or not"),
        "SCR_PREFIX_PURGE": (1, "each SCR_Init deletes every dataset in the prefix directory"),
        "SCR_DISTRIBUTE": (0, "each SCR_Init deletes the cached datasets"),
    }
    for name, (value, what) in deletes.items():
        if settings[name] == value:
            yield _problem("deletes-datasets", name, what, f"set {name}={1 - value}", "warning")


RULES: tuple[Callable[[Values], Iterator[Problem]], ...] = (
    failures_fit_the_set,
    _poststage_crashes,
    _async_does_not_overlap,
    _copy_type_needs_descriptors,
    checkpoints_are_deleted,
)
"""Parameters that do not go together. A rule may take all parameters with a default as present and valid."""


def _problem(code: str, parameter: str, what: str, remedy: str, severity: Severity = "error") -> Problem:
    return Problem(severity=severity, code=code, parameter=parameter, what=what, remedy=remedy)
