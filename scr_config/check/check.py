"""Check SCR's config files, a job script and an environment: every fault with its place.

Pure: the caller reads the files and measures the caches (cli/commands/check.py).
"""

from collections.abc import Iterable, Mapping, Sequence

from ...intents.events import Values, ValueSource
from ..catalogue import CATALOGUE, ParameterError, defaults
from ..constraints import CONSTRAINTS
from ..parse import Entry, Pair
from ..problems import ConfigProblem, Finding
from ..settings import Settings
from .lines import LINE_RULES
from .model import CheckContext, Configuration, Fault, value_in, version_of
from .sources import ENVIRONMENT, Source, in_job, read, variables
from .values import of_config_file, of_environment


def check(sources: Sequence[Source], context: CheckContext) -> tuple[Finding, ...]:
    """Return every fault of `sources`, by file and line. Never raises.

    Job scripts and the environment are taken together, the later over the earlier, over each config file:
    every config file stands for a job of its own. SCR's system file is the layer beneath each of them.
    """
    found: list[Finding] = []
    for source in sources:
        judge = of_environment if source.layer is ValueSource.ENVIRONMENT else of_config_file
        found += (_located(problem, source.file) for problem in judge(source, context))
    for config in configurations(sources, context):
        for rule in (*CONSTRAINTS, *LINE_RULES):
            if config.knows(rule.needs):
                found += (_finding(config, fault) for fault in rule.judge(config))
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
    system = next((source for source in sources if source.kind == "system file"), None)
    files: list[Source | None] = [source for source in sources if source.kind == "config file"]
    fallback = sources[0].file if sources else ENVIRONMENT
    return tuple(_configuration(environment, user, system, context, fallback) for user in files or [None])


def cache_paths(sources: Sequence[Source], context: CheckContext) -> frozenset[str]:
    """Return the directories that datasets would be kept in."""
    return frozenset(
        line.store
        for config in configurations(sources, context)
        for line in config.checkpoints
        if not line.bypass
    )


def _configuration(
    environment: Mapping[str, Pair],
    user: Source | None,
    system: Source | None,
    context: CheckContext,
    fallback: str,
) -> Configuration:
    """Return the layers over each other; faults in no line belong to the user's file, else to `fallback`."""
    given: dict[str, Pair] = {}
    lines: dict[str, tuple[Entry, ...]] = {}
    for source in (system, user):
        if source is not None:
            file = read(source, context)
            for name, pair in file.values.items():
                if name in CATALOGUE and source.layer in CATALOGUE[name].layers:
                    given[name] = in_job(pair, context)
            lines |= _by_kind(file.descriptors)
    given |= environment
    return Configuration(
        given=given,
        settings=_active(given, context),
        context=context,
        fallback=user.file if user is not None else fallback,
        config_file=user.file if user is not None else None,
        system_file=system.file if system is not None else None,
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


def _active(given: Mapping[str, Pair], context: CheckContext) -> Settings:
    settings: Values = defaults()
    if context.version < version_of(CATALOGUE["SCR_CACHE_BYPASS"].since):
        settings["SCR_CACHE_BYPASS"] = 0  # there was no bypass yet
    for name, setting in given.items():
        try:
            if setting.is_known:
                settings[name] = value_in(context.version, name, setting.value)
        except ParameterError:
            if name == "SCR_COPY_TYPE":
                settings[name] = "FILE"  # SCR takes any other word for it
    return Settings(settings)


def _located(problem: ConfigProblem, file: str) -> Finding:
    message = f"{problem.parameter}: {problem.what}" if problem.parameter else problem.what
    return Finding(
        file, problem.line, problem.column, problem.severity, problem.code, message, problem.remedy
    )


def _finding(config: Configuration, fault: Fault) -> Finding:
    """Return the fault at its pair, at the value of the first name that was given, or in the file.

    What the user gave comes before what the system's file gives: that is theirs to correct.
    """
    if isinstance(fault.at, Pair):
        pair, column, about = fault.at, fault.at.column, f"{fault.at.key}={fault.at.raw[:80]}"
    else:
        given = [config.given[name] for name in fault.at if name in config.given]
        theirs = [setting for setting in given if config.is_the_users(setting.key)]
        start = 0 if config.config_file is None else 1
        nowhere = Pair(key="", raw="", value="", file=config.fallback, line=start, value_column=start)
        pair = next(iter(theirs or given), nowhere)
        column, about = pair.value_column, fault.at[0]
    message = f"{about}: {fault.what}"
    return Finding(pair.file, pair.line, column, fault.severity, fault.code, message, fault.remedy)
