"""Problems of each line and each value by itself, before anything is put together."""

from collections.abc import Iterator

import msgspec

from ..catalogue import CATALOGUE, Parameter, ParameterError, Status, suggestion
from ..parse import DESCRIPTORS, Pair, problem_at, unknown_name
from ..problems import Code, ConfigProblem, Severity
from ..resolution import bad_value, descriptor_in_environment, problems_in
from .model import CheckContext, value_in, version_of
from .sources import Source, in_job, read, variables, variables_of


def of_config_file(source: Source, context: CheckContext) -> Iterator[ConfigProblem]:
    """Yield the problems of a config file, line by line."""
    file = read(source, context)
    yield from problems_in(file, source.layer)
    for entry in file.entries:
        for pair in entry.pairs:
            yield from _of_variables_in(pair, context)
        parameter = CATALOGUE.get(entry.parent.key)
        if parameter is not None and source.layer in parameter.layers:
            yield from _of_setting(in_job(entry.parent, context), parameter, context)


def of_environment(source: Source, context: CheckContext) -> Iterator[ConfigProblem]:
    """Yield the problems of the variables of an environment or a job script."""
    for setting in variables(source):
        name = setting.key
        if (parameter := CATALOGUE.get(name)) is not None:
            yield from _of_setting(setting, parameter, context)
        elif name in DESCRIPTORS:
            yield descriptor_in_environment(setting)
        elif name.startswith("SCR") and suggestion(name):
            yield unknown_name(setting)
    if source.kind == "job script":
        yield from _of_script(source)


def _of_script(source: Source) -> Iterator[ConfigProblem]:
    if source.language:
        what = f"not read: {source.language}. Nothing of what this script sets was checked"
        remedy = "run `scrtune check --env` where it has set its variables"
        yield ConfigProblem(Severity.WARNING, Code.NOT_READ, "", what, remedy, 1, 1)
    what = "there is a NUL byte: this is no script that a shell could read"
    yield from _of_bytes(source, "\0", Code.NUL, what, "delete it; is this a text file?")
    what = "a DOS line end: shells take the carriage return for part of the last word"
    yield from _of_bytes(source, "\r\n", Code.CARRIAGE_RETURN, what, "convert the file to Unix line ends")
    for entry in source.assignments:
        if not entry.exported and entry.key in CATALOGUE:
            what = "it is set for the script only; the application never sees it"
            yield problem_at(entry, Code.NOT_EXPORTED, what, f"export {entry.key}")


def _of_bytes(source: Source, found: str, code: Code, what: str, remedy: str) -> Iterator[ConfigProblem]:
    """Yield a problem for the first `found` in a script."""
    if found in source.text:
        line = source.text.count("\n", 0, source.text.index(found)) + 1
        yield ConfigProblem(Severity.ERROR, code, "", what, remedy, line, 1)


def _of_setting(setting: Pair, parameter: Parameter, context: CheckContext) -> Iterator[ConfigProblem]:
    """Yield the problems of one value by itself."""
    if not parameter.is_lever and (why := _inert(parameter, context.version)):
        yield problem_at(setting, Code.INERT, why, "take it out")
    if not setting.is_known:
        return
    try:
        value_in(context.version, setting.key, setting.value)
    except ParameterError as error:
        yield bad_value(setting, error)


def _inert(parameter: Parameter, version: tuple[int, ...]) -> str:
    """Return why the parameter does nothing in that version of SCR; empty when it does something."""
    shown = ".".join(map(str, version))
    until, since = version_of(parameter.until), version_of(parameter.since)
    if until and version[: len(until)] > until:
        return f"it did something up to SCR {parameter.until}; {shown} reads it and does nothing with it"
    if not until and parameter.status is Status.INERT:
        return "SCR reads it and does nothing with it"
    if version < since[: len(version)]:
        return f"SCR {shown} does not know it yet: it came with {parameter.since}"
    return ""


def _of_variables_in(pair: Pair, context: CheckContext) -> Iterator[ConfigProblem]:
    """Yield the variables that SCR reads otherwise than a shell, and those that are not set here."""
    for name, digit, offset in variables_of(pair):
        at = msgspec.structs.replace(pair, column=pair.value_column + offset)
        if digit:
            what = f"SCR reads ${name}{digit} as ${name} and a {digit}"
            remedy = "use a variable without digits in its name"
            yield problem_at(at, Code.VARIABLE_DIGITS, what, remedy, Severity.ERROR)
        elif name not in context.environment:
            what = f"${name} is not set here; where it is not, SCR drops the value"
            yield problem_at(at, Code.UNSET_VARIABLE, what, f"make sure that the job exports {name}")
