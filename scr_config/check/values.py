"""Problems of each line and each value by itself, before anything is put together."""

from collections.abc import Iterator

import msgspec

from ..catalogue import CATALOGUE, Parameter, ParameterError, Status, suggestion
from ..parse import DESCRIPTORS, Pair
from ..problems import Code, ConfigProblem, Finding, Severity
from ..resolution import bad_value, problems_in
from .model import CheckContext, Setting, value_in, version_of
from .sources import Source, read, setting_of, variables, variables_of


def of_config_file(source: Source, context: CheckContext) -> Iterator[Finding]:
    """Yield the problems of a config file, line by line."""
    file = read(source, context)
    for problem in problems_in(file, source.layer):
        yield _located(problem, source.file)
    for entry in file.entries:
        for pair in entry.pairs:
            yield from _of_variables_in(pair, context)
        parameter = CATALOGUE.get(entry.parent.key)
        if parameter is not None and source.layer in parameter.layers:
            yield from _of_setting(setting_of(entry.parent, context), parameter, context)


def of_environment(source: Source, context: CheckContext) -> Iterator[Finding]:
    """Yield the problems of the variables of an environment or a job script."""
    for setting in variables(source):
        name = setting.key
        if (parameter := CATALOGUE.get(name)) is not None:
            yield from _of_setting(setting, parameter, context)
        elif name in DESCRIPTORS:
            what = f"{name}: SCR takes this environment variable for the {name} lines of its files"
            yield _error(setting, Code.DESCRIPTOR_IN_ENVIRONMENT, what, f"unset {name} for the job")
        elif name.startswith("SCR") and (meant := suggestion(name)):
            yield _warning(
                setting, Code.UNKNOWN_NAME, f"{name}: SCR has no such parameter and ignores it", meant
            )
    if source.kind == "job script":
        yield from _of_script(source)


def _of_script(source: Source) -> Iterator[Finding]:
    if source.language:
        what = f"not read: {source.language}. Nothing of what this script sets was checked"
        remedy = "run `scrtune check --env` where it has set its variables"
        yield Finding(source.file, 1, 1, Severity.WARNING, Code.NOT_READ, what, remedy)
    what = "there is a NUL byte: this is no script that a shell could read"
    yield from _of_bytes(source, "\0", Code.NUL, what, "delete it; is this a text file?")
    what = "a DOS line end: shells take the carriage return for part of the last word"
    yield from _of_bytes(source, "\r\n", Code.CARRIAGE_RETURN, what, "convert the file to Unix line ends")
    for entry in source.assignments:
        if not entry.exported and entry.key in CATALOGUE:
            what = f"{entry.key}: it is set for the script only; the application never sees it"
            yield _warning(entry, Code.NOT_EXPORTED, what, f"export {entry.key}")


def _of_bytes(source: Source, what: str, code: Code, message: str, remedy: str) -> Iterator[Finding]:
    """Yield a finding for the first `what` in a script."""
    before, found, _ = source.text.partition(what)
    if found:
        yield Finding(source.file, before.count("\n") + 1, 1, Severity.ERROR, code, message, remedy)


def _of_setting(setting: Setting, parameter: Parameter, context: CheckContext) -> Iterator[Finding]:
    """Yield the problems of one value by itself."""
    name, text = setting.key, setting.value
    if not parameter.is_lever and (why := _inert(parameter, context.version)):
        yield _warning(setting, Code.INERT, f"{name}: {why}", "take it out")
    if not setting.known:
        return
    try:
        value_in(context.version, name, text)
    except ParameterError as error:
        yield _located(bad_value(setting, error), setting.file)


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


def _of_variables_in(pair: Pair, context: CheckContext) -> Iterator[Finding]:
    """Yield the variables that SCR reads otherwise than a shell, and those that are not set here."""
    for name, digit, offset in variables_of(pair):
        at = msgspec.structs.replace(pair, column=pair.value_column + offset)
        if digit:
            what = f"{pair.key}: SCR reads ${name}{digit} as ${name} and a {digit}"
            yield _error(at, Code.VARIABLE_DIGITS, what, "use a variable without digits in its name")
        elif name not in context.environment:
            what = f"{pair.key}: ${name} is not set here; where it is not, SCR drops the value"
            yield _warning(at, Code.UNSET_VARIABLE, what, f"make sure that the job exports {name}")


def _located(problem: ConfigProblem, file: str) -> Finding:
    message = f"{problem.parameter}: {problem.what}"
    return Finding(
        file, problem.line, problem.column, problem.severity, problem.code, message, problem.remedy
    )


def _warning(pair: Pair, code: Code, message: str, remedy: str) -> Finding:
    return Finding(*pair.place, Severity.WARNING, code, message, remedy)


def _error(pair: Pair, code: Code, message: str, remedy: str) -> Finding:
    return Finding(*pair.place, Severity.ERROR, code, message, remedy)
