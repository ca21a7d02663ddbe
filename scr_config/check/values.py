"""Problems of each line and each value by itself, before anything is put together."""

import difflib
import functools
from collections.abc import Iterator

import msgspec

from ..catalogue import CATALOGUE, Layer, Parameter, ParameterError, Status
from ..parse import DESCRIPTORS, SCRIPT_KEYS, Pair
from ..problems import Code, ConfigProblem, Finding, Severity
from ..resolution import consequence, problems_of
from .model import CheckContext, Setting, value_in, version_of
from .sources import Source, read, setting_of, variables, variables_of

_NEAR = 0.8
_LONGEST_NAME = 40
_MOST_SUGGESTIONS = 100  # a file with more unknown names is no config file, and each costs a millisecond
_BYTE_ORDER_MARK = "\ufeff"
_UNIX_LINE_ENDS = "convert the file to Unix line ends"
_NO_PARAMETER = "SCR has no such parameter and ignores it"


def of_config_file(source: Source, context: CheckContext) -> Iterator[Finding]:
    """Yield the problems of a config file, line by line."""
    file = read(source, context)
    problems = tuple(problems_of(file))
    unknown = {problem.parameter for problem in problems if problem.code is Code.UNKNOWN_NAME}
    for problem in problems:
        message, remedy = f"{problem.parameter}: {problem.what}", problem.remedy
        if (invisible := _invisible(problem)) is not None:
            message, remedy = invisible
        elif problem.code is Code.UNKNOWN_NAME and len(unknown) <= _MOST_SUGGESTIONS:
            remedy = _did_you_mean(problem.parameter) or remedy
        yield Finding(
            source.file, problem.line, problem.column, problem.severity, problem.code, message, remedy
        )
    for entry in file.entries:
        for pair in entry.pairs:
            yield from _of_variables_in(pair, context)
        if (parameter := CATALOGUE.get(entry.parent.key)) is None:
            continue
        if source.layer in parameter.layers:
            yield from _of_setting(setting_of(entry.parent, context), parameter, context)
        else:
            which = "a" if source.layer is Layer.USER else "the system's"
            what = f"{parameter.name}: SCR does not look for it in {which} config file"
            yield _warning(entry.parent, Code.WRONG_LAYER, what, "set it in the environment")


def _invisible(problem: ConfigProblem) -> tuple[str, str] | None:
    """Return (message, remedy) of a problem whose cause an editor does not show; None for every other one."""
    key = problem.parameter
    if problem.line == problem.column == 1 and key.startswith(_BYTE_ORDER_MARK):
        what = f"a byte order mark stands before {key[1:]}, and SCR takes it for part of the name"
        return f"{what}: {problem.what}", "save the file as UTF-8 without a byte order mark (BOM)"
    if key == "\r":
        what = "the carriage return of a DOS line end is a name without ="
        return f"{what}: rank 0 crashes, hangs or swallows the next line in SCR_Init", _UNIX_LINE_ENDS
    return None


def of_environment(source: Source, context: CheckContext) -> Iterator[Finding]:
    """Yield the problems of the variables of an environment or a job script."""
    for setting in variables(source):
        name = setting.key
        if (parameter := CATALOGUE.get(name)) is not None:
            yield from _of_setting(setting, parameter, context)
        elif name in DESCRIPTORS:
            what = f"{name}: SCR takes this environment variable for the {name} lines of its files"
            yield _error(setting, Code.DESCRIPTOR_IN_ENVIRONMENT, what, f"unset {name} for the job")
        elif name.startswith("SCR") and (meant := _did_you_mean(name)):
            yield _warning(setting, Code.UNKNOWN_NAME, f"{name}: {_NO_PARAMETER}", meant)
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
    yield from _of_bytes(source, "\r\n", Code.CARRIAGE_RETURN, what, _UNIX_LINE_ENDS)
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
        what = f"{name}: {text[:80]!r} is no value for it: {consequence(parameter, text)}"
        remedy = f"{_nearest_value(parameter, text)}choose {error.allowed}"
        yield Finding(*setting.value_place, Severity.ERROR, Code.BAD_VALUE, what, remedy)


def _nearest_value(parameter: Parameter, text: str) -> str:
    word = text[:_LONGEST_NAME].upper()
    if word in parameter.choices and not parameter.case_sensitive:
        return ""  # it came with a later release
    if parameter.name == "SCR_COPY_TYPE" and word == "LOCAL":
        return "LOCAL is called SINGLE since SCR 1.1.8. "
    near = difflib.get_close_matches(word, parameter.choices, n=1)
    return f"did you mean {near[0]}? " if near else ""


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


def _warning(pair: Pair, code: Code, message: str, remedy: str) -> Finding:
    return Finding(*pair.place, Severity.WARNING, code, message, remedy)


def _error(pair: Pair, code: Code, message: str, remedy: str) -> Finding:
    return Finding(*pair.place, Severity.ERROR, code, message, remedy)


@functools.lru_cache(maxsize=256)
def _did_you_mean(name: str) -> str:
    """Return a suggestion of the known name that was meant; empty when none is near."""
    if len(name) > _LONGEST_NAME:
        return ""
    known = {entry.removeprefix("SCR_"): entry for entry in (*CATALOGUE, *DESCRIPTORS, *SCRIPT_KEYS)}
    bare = name.removeprefix("SCR_")
    near = [entry for entry in known if entry.endswith(f"_{bare}")]  # SCR_DB_NAME is SCR_LOG_DB_NAME today
    near = near or difflib.get_close_matches(bare, known, n=1, cutoff=_NEAR)
    return f"did you mean {known[near[0]]}?" if len(near) == 1 else ""
