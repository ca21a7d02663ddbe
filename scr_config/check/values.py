"""What is wrong with each line and each value by itself, before anything is put together."""

import difflib
import functools
from collections.abc import Iterator

from ..catalogue import CATALOGUE, Parameter, ParameterError
from ..parse import DESCRIPTORS, SCRIPT_KEYS, Pair
from ..problems import Problem
from ..resolution import consequence, problems_of
from .findings import Finding, Place, finding
from .model import Setting, Situation, value_in, version_of
from .sources import Source, assigned, of_script, read, setting_of, variables, variables_of

_NEAR = 0.8
_LONGEST_NAME = 40
_MOST_SUGGESTIONS = 100  # a file with more unknown names is no config file, and each costs a millisecond
_BYTE_ORDER_MARK = "\ufeff"
_UNIX_LINE_ENDS = "convert the file to Unix line ends"
_NO_PARAMETER = "SCR has no such parameter and ignores it"


def of_config_file(source: Source, situation: Situation) -> Iterator[Finding]:
    """What is wrong with a config file, line by line."""
    file = read(source, situation)
    problems = tuple(problems_of(file))
    unknown = {problem.parameter for problem in problems if problem.code == "unknown-name"}
    for problem in problems:
        message, remedy = f"{problem.parameter}: {problem.what}", problem.remedy
        if (invisible := _invisible(problem)) is not None:
            message, remedy = invisible
        elif problem.code == "unknown-name" and len(unknown) <= _MOST_SUGGESTIONS:
            remedy = _did_you_mean(problem.parameter) or remedy
        place = Place(source.file, problem.line, problem.column)
        yield finding(place, problem.severity, problem.code, message, remedy)
    for entry in file.entries:
        for pair in (entry.parent, *entry.children):
            yield from _of_variables_in(source, pair, situation)
        if (parameter := CATALOGUE.get(entry.parent.key)) is None:
            continue
        setting = setting_of(entry.parent, source, situation)
        if source.layer in parameter.layers:
            yield from _of_setting(setting, parameter, situation)
        else:
            which = "a" if source.layer == "user config" else "the system's"
            what = f"{parameter.name}: SCR does not look for it in {which} config file"
            yield finding(setting.place, "warning", "wrong-layer", what, "set it in the environment")


def _invisible(problem: Problem) -> tuple[str, str] | None:
    """(message, remedy) of a problem whose cause an editor does not show; None for every other one."""
    key = problem.parameter
    if problem.line == problem.column == 1 and key.startswith(_BYTE_ORDER_MARK):
        what = f"a byte order mark stands before {key[1:]}, and SCR takes it for part of the name"
        return f"{what}: {problem.what}", "save the file as UTF-8 without a byte order mark (BOM)"
    if key == "\r":
        what = "the carriage return of a DOS line end is a name without ="
        return f"{what}: rank 0 crashes, hangs or swallows the next line in SCR_Init", _UNIX_LINE_ENDS
    return None


def of_environment(source: Source, situation: Situation) -> Iterator[Finding]:
    """What is wrong with the variables of an environment or a job script."""
    for setting in variables(source):
        name, place = setting.name, setting.place
        if (parameter := CATALOGUE.get(name)) is not None:
            yield from _of_setting(setting, parameter, situation)
        elif name in DESCRIPTORS:
            what = f"{name}: SCR takes this environment variable for the {name} lines of its files"
            yield finding(place, "error", "descriptor-in-environment", what, f"unset {name} for the job")
        elif name.startswith("SCR") and (meant := _did_you_mean(name)):
            yield finding(place, "warning", "unknown-name", f"{name}: {_NO_PARAMETER}", meant)
    if source.kind == "job script":
        yield from _of_script(source)


def _of_script(source: Source) -> Iterator[Finding]:
    if source.language:
        what = f"not read: {source.language}. Nothing of what this script sets was checked"
        remedy = "run `scrtune check --env` where it has set its variables"
        yield finding(Place(source.file, 1, 1), "warning", "not-read", what, remedy)
    if "\0" in source.text:
        line = source.text.count("\n", 0, source.text.index("\0")) + 1
        what = "there is a NUL byte: this is no script that a shell could read"
        yield finding(Place(source.file, line, 1), "error", "nul", what, "delete it; is this a text file?")
    if "\r\n" in source.text:
        line = source.text.count("\n", 0, source.text.index("\r\n")) + 1
        what = "a DOS line end: shells take the carriage return for part of the last word"
        yield finding(Place(source.file, line, 1), "error", "carriage-return", what, _UNIX_LINE_ENDS)
    for entry in of_script(source):
        if not entry.exported and entry.name in CATALOGUE:
            what = f"{entry.name}: it is set for the script only; the application never sees it"
            place = assigned(entry, source).place
            yield finding(place, "warning", "not-exported", what, f"export {entry.name}")


def _of_setting(setting: Setting, parameter: Parameter, situation: Situation) -> Iterator[Finding]:
    """What is wrong with one value by itself."""
    name, text = setting.name, setting.text
    if not parameter.is_lever and (why := _inert(parameter, situation.version)):
        yield finding(setting.place, "warning", "inert", f"{name}: {why}", "take it out")
    if text is None:
        return
    try:
        value_in(situation.version, name, text)
    except ParameterError as error:
        what = f"{name}: {text[:80]!r} is no value for it: {consequence(parameter, text)}"
        remedy = f"{_nearest_value(parameter, text)}choose {error.allowed}"
        yield finding(setting.value_place, "error", "bad-value", what, remedy)


def _nearest_value(parameter: Parameter, text: str) -> str:
    word = text[:_LONGEST_NAME].upper()
    if word in parameter.choices and not parameter.case_sensitive:
        return ""  # it came with a later release
    if parameter.name == "SCR_COPY_TYPE" and word == "LOCAL":
        return "LOCAL is called SINGLE since SCR 1.1.8. "
    near = difflib.get_close_matches(word, parameter.choices, n=1)
    return f"did you mean {near[0]}? " if near else ""


def _inert(parameter: Parameter, version: tuple[int, ...]) -> str:
    """Why the parameter does nothing in that version of SCR; empty when it does something."""
    shown = ".".join(map(str, version))
    until, since = version_of(parameter.until), version_of(parameter.since)
    if until and version[: len(until)] > until:
        return f"it did something up to SCR {parameter.until}; {shown} reads it and does nothing with it"
    if not until and parameter.status == "inert":
        return "SCR reads it and does nothing with it"
    if version < since[: len(version)]:
        return f"SCR {shown} does not know it yet: it came with {parameter.since}"
    return ""


def _of_variables_in(source: Source, pair: Pair, situation: Situation) -> Iterator[Finding]:
    """Variables in a value that SCR reads otherwise than a shell, and those that are not set here."""
    for name, digit, offset in variables_of(pair):
        place = Place(source.file, pair.line, pair.value_column + offset)
        if digit:
            what = f"{pair.key}: SCR reads ${name}{digit} as ${name} and a {digit}"
            yield finding(
                place, "error", "variable-digits", what, "use a variable without digits in its name"
            )
        elif name not in situation.environment:
            what = f"{pair.key}: ${name} is not set here; where it is not, SCR drops the value"
            yield finding(place, "warning", "unset-variable", what, f"make sure that the job exports {name}")


@functools.lru_cache(maxsize=256)
def _did_you_mean(name: str) -> str:
    """Which known name was meant; empty when none is near."""
    if len(name) > _LONGEST_NAME:
        return ""
    known = {entry.removeprefix("SCR_"): entry for entry in (*CATALOGUE, *DESCRIPTORS, *SCRIPT_KEYS)}
    bare = name.removeprefix("SCR_")
    near = [entry for entry in known if entry.endswith(f"_{bare}")]  # SCR_DB_NAME is SCR_LOG_DB_NAME today
    near = near or difflib.get_close_matches(bare, known, n=1, cutoff=_NEAR)
    return f"did you mean {known[near[0]]}?" if len(near) == 1 else ""
