"""Check SCR's config files, a job script and an environment: every fault with its place.

Pure: the caller reads the files and measures the caches (cli/commands/config/check.py).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

import msgspec

from ...intents.events import TextEnum, Values, ValueSource
from ..catalogue import CATALOGUE, Parameter, ParameterError, Status, compiled_defaults, suggestion
from ..parse import DESCRIPTORS, ConfigFile, Entry, Pair, assumed, parse, problem_at, unknown_name
from ..problems import Code, ConfigProblem, Finding, Severity
from ..resolution import bad_value, descriptor_in_environment, expand, problems_in
from .job_script import Assignment, assignments, is_job_script, other_language
from .model import CheckContext, Configuration, value_in, version_of
from .rules import faults

ENVIRONMENT = "<environment>"
"""The file of a finding about an environment variable; its line and column are 0."""

_VARIABLE = re.compile(r"\\[\s\S]|\$(?P<name>[A-Za-z_]+)(?P<digit>[0-9]?)")
_SETTING = re.compile(rf"^[ \t]*(?:SCR_\w+|{'|'.join(DESCRIPTORS)})[ \t]*=", re.MULTILINE | re.IGNORECASE)
_FEW_LINES = 5
_NEITHER = "neither a config file of SCR's nor a job script"
_NO_TEXT = "there is a NUL byte: this is no script that a shell could read"
_DOS = "a DOS line end: shells take the carriage return for part of the last word"
_UNREADABLE = {
    Code.NUL: ("\0", _NO_TEXT, "delete it; is this a text file?"),
    Code.CARRIAGE_RETURN: ("\r\n", _DOS, "convert the file to Unix line ends"),
}
"""What a job script cannot have."""


class SourceKind(TextEnum):
    """What a source is."""

    CONFIG_FILE = "config file"
    SYSTEM_FILE = "system file"
    JOB_SCRIPT = "job script"
    ENVIRONMENT = "environment"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to check: the text of a config file or a job script, or the variables of an environment.

    A script of another `language` than sh's is not read.
    """

    file: str
    kind: SourceKind
    text: str = ""
    variables: Mapping[str, str] = {}
    language: str = ""

    @property
    def layer(self) -> ValueSource:
        """Return the layer of SCR's that it is."""
        files = {
            SourceKind.CONFIG_FILE: ValueSource.USER_CONFIG,
            SourceKind.SYSTEM_FILE: ValueSource.SYSTEM_CONFIG,
        }
        return files.get(self.kind, ValueSource.ENVIRONMENT)

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """Return the variables that a job script sets; none of one that is not read."""
        return () if self.language else assignments(self.text, self.file)


def source_of(file: str, text: str) -> Source:
    """Return a file as what its contents are: a job script, a config file, or neither (`language`)."""
    language = other_language(file, text)
    is_script = bool(language) or is_job_script(text)
    if not is_script and not _may_be_config(text):
        language, is_script = _NEITHER, True
    kind = SourceKind.JOB_SCRIPT if is_script else SourceKind.CONFIG_FILE
    return Source(file=file, kind=kind, text=text, language=language)


def _may_be_config(text: str) -> bool:
    """Return whether `text` sets a parameter of SCR's, or is short, or has a ``=`` in every second line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    pairs = sum("=" in line for line in lines)
    return len(lines) < _FEW_LINES or 2 * pairs >= len(lines) or _SETTING.search(text) is not None


def environment_source(variables: Mapping[str, str]) -> Source:
    """Return the variables of a process as a source."""
    return Source(file=ENVIRONMENT, kind=SourceKind.ENVIRONMENT, variables=variables)


def variables(source: Source) -> Iterator[Pair]:
    """Yield the variables that a job script or an environment gives to the application."""
    if source.kind is SourceKind.ENVIRONMENT:
        for name, text in source.variables.items():
            yield Pair(key=name, raw=text, value=expand(text, source.variables), file=source.file)
    else:
        yield from (entry for entry in source.assignments if entry.exported)


def check_sources(sources: Sequence[Source], context: CheckContext) -> tuple[Finding, ...]:
    """Return every fault of `sources`, by file and line. Never raises.

    Job scripts and the environment are taken together, the later over the earlier, over each config file:
    every config file stands for a job of its own. SCR's system file is the layer beneath each of them.
    """
    found: list[Finding] = []
    for source in sources:
        judge = _of_environment if source.layer is ValueSource.ENVIRONMENT else _of_config_file
        found += (_located(problem, source.file) for problem in judge(source, context))
    for config in configurations(sources, context):
        found += (_located(fault, fault.file) for fault in faults(config))
    order = {source.file: index for index, source in enumerate(sources)}
    unique = dict.fromkeys((order.get(one.file, 0), one.line, one.column, one.code, one) for one in found)
    return tuple(key[-1] for key in sorted(unique, key=lambda key: key[:4]))


def configurations(sources: Sequence[Source], context: CheckContext) -> tuple[Configuration, ...]:
    """Return what each job would run with: one for every config file of the user's, or one without any."""
    environment = {
        setting.key: setting
        for source in sources
        if source.layer is ValueSource.ENVIRONMENT
        for setting in variables(source)
        if setting.key in CATALOGUE
    }
    system = [source for source in sources if source.kind is SourceKind.SYSTEM_FILE][:1]
    users = [[source] for source in sources if source.kind is SourceKind.CONFIG_FILE]
    fallback = sources[0].file if sources else ENVIRONMENT
    jobs: list[dict[str, Source]] = [{each.kind: each for each in system + user} for user in users or [[]]]
    return tuple(_configuration(environment, files, context, fallback) for files in jobs)


def cache_paths(sources: Sequence[Source], context: CheckContext) -> frozenset[str]:
    """Return the directories that datasets would be kept in."""
    return frozenset(
        line.store
        for config in configurations(sources, context)
        for line in config.checkpoints
        if not line.bypass
    )


def _configuration(
    environment: Mapping[str, Pair], files: Mapping[str, Source], context: CheckContext, fallback: str
) -> Configuration:
    """Return the layers over each other; faults in no line belong to the user's file, else to `fallback`."""
    given: dict[str, Pair] = {}
    lines: dict[str, tuple[Entry, ...]] = {}
    for source in files.values():
        file = _read(source, context)
        for name, pair in file.values.items():
            if name in CATALOGUE and source.layer in CATALOGUE[name].layers:
                given[name] = _in_job(pair, context)
        lines |= _by_kind(file.descriptors)
    given |= environment
    names = {kind: source.file for kind, source in files.items()}
    return Configuration(
        given=given,
        settings=_active(given, context),
        context=context,
        fallback=names.get("config file", fallback),
        config_file=names.get("config file"),
        system_file=names.get("system file"),
        entries=tuple(entry for entries in lines.values() for entry in entries),
    )


def _by_kind(entries: Iterable[Entry]) -> dict[str, tuple[Entry, ...]]:
    """Return STORE, CKPT and GROUPS lines by kind: SCR takes each kind from one file.

    Lines that begin alike are one, with the keys of them all (scr_config.c:236).
    """
    found: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        alike = found.setdefault(entry.parent.key, {})
        first = alike.get(entry.parent.value, Entry(parent=entry.parent))
        alike[entry.parent.value] = Entry(parent=first.parent, children=(*first.children, *entry.children))
    return {kind: tuple(alike.values()) for kind, alike in found.items()}


def _active(given: Mapping[str, Pair], context: CheckContext) -> Values:
    settings = compiled_defaults()
    if context.version < version_of(CATALOGUE["SCR_CACHE_BYPASS"].since):
        settings["SCR_CACHE_BYPASS"] = 0  # there was no bypass yet
    for name, setting in given.items():
        try:
            if setting.is_known:
                settings[name] = value_in(context.version, name, setting.value)
        except ParameterError:
            if name == "SCR_COPY_TYPE":
                settings[name] = "FILE"  # SCR takes any other word for it
    return settings


def _located(problem: ConfigProblem, file: str) -> Finding:
    message = f"{problem.parameter}: {problem.what}" if problem.parameter else problem.what
    return Finding(
        file, problem.line, problem.column, problem.severity, problem.code, message, problem.remedy
    )


def _read(source: Source, context: CheckContext) -> ConfigFile:
    """Return a config file as SCR reads it; variables that are not set here stand for themselves."""
    return parse(source.text, assumed(source.text, context.environment), source.file)


def _in_job(pair: Pair, context: CheckContext) -> Pair:
    """Return one pair of a config file with its variables expanded as far as they are set here.

    The carriage return of a DOS line end is a problem of its own; here the value is what was meant.
    """
    value = expand(pair.value, context.environment, keep_unset=True).removesuffix("\r")
    return msgspec.structs.replace(pair, value=value)


def _of_config_file(source: Source, context: CheckContext) -> Iterator[ConfigProblem]:
    """Yield the problems of a config file, line by line."""
    file = _read(source, context)
    yield from problems_in(file, source.layer)
    for entry in file.entries:
        for pair in entry.pairs:
            yield from _of_variables_in(pair, context)
        parameter = CATALOGUE.get(entry.parent.key)
        if parameter is not None and source.layer in parameter.layers:
            yield from _of_setting(_in_job(entry.parent, context), parameter, context)


def _of_environment(source: Source, context: CheckContext) -> Iterator[ConfigProblem]:
    """Yield the problems of the variables of an environment or a job script."""
    for setting in variables(source):
        name = setting.key
        if (parameter := CATALOGUE.get(name)) is not None:
            yield from _of_setting(setting, parameter, context)
        elif name in DESCRIPTORS:
            yield descriptor_in_environment(setting)
        elif name.startswith("SCR") and suggestion(name):
            yield unknown_name(setting)
    if source.kind is SourceKind.JOB_SCRIPT:
        yield from _of_script(source)


def _of_script(source: Source) -> Iterator[ConfigProblem]:
    if source.language:
        what = f"not read: {source.language}. Nothing of what this script sets was checked"
        remedy = "run `scrtune check --env` where it has set its variables"
        if source.language == _NEITHER:
            what, remedy = f"not read: this is {_NEITHER}", "name one of these"
        yield ConfigProblem(Severity.WARNING, Code.NOT_READ, "", what, remedy, 1, 1)
    for code, (text, what, remedy) in _UNREADABLE.items():
        if text in source.text:
            line = source.text.count("\n", 0, source.text.index(text)) + 1
            yield ConfigProblem(Severity.ERROR, code, "", what, remedy, line, 1)
    for entry in source.assignments:
        if not entry.exported and entry.key in CATALOGUE:
            what = "it is set for the script only; the application never sees it"
            yield problem_at(entry, Code.NOT_EXPORTED, what, f"export {entry.key}")


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
    for match in filter(itemgetter("name"), _VARIABLE.finditer(pair.raw)):
        name, digit = match["name"], match["digit"]
        at = msgspec.structs.replace(pair, column=pair.value_column + match.start())
        if digit:
            what = f"SCR reads ${name}{digit} as ${name} and a {digit}"
            remedy = "use a variable without digits in its name"
            yield problem_at(at, Code.VARIABLE_DIGITS, what, remedy, Severity.ERROR)
        elif name not in context.environment:
            what = f"${name} is not set here; where it is not, SCR drops the value"
            yield problem_at(at, Code.UNSET_VARIABLE, what, f"make sure that the job exports {name}")
