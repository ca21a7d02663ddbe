"""What is wrong with SCR's config files, a job script, an environment: every fault with its place.

Pure: the caller reads the files and measures the caches (cli/commands/check.py).
"""

from collections.abc import Iterable, Mapping, Sequence

from ...intents.events import Values
from ..catalogue import CATALOGUE, ParameterError, defaults
from ..constraints import CONSTRAINTS
from ..parse import DESCRIPTORS, ConfigFile, Entry
from ..settings import Settings
from .findings import ENVIRONMENT, Finding, Place, finding
from .lines import LINE_RULES
from .model import Configuration, Fault, Setting, Situation, SystemPair, value_in, version_of
from .sources import Source, lines_of_system, read, setting_of, variables
from .values import of_config_file, of_environment


def check(sources: Sequence[Source], situation: Situation) -> tuple[Finding, ...]:
    """Every fault of `sources`, by file and line. Never raises.

    Job scripts and the environment are taken together, the later over the earlier, over each config file:
    every config file stands for a job of its own. SCR's system file is the layer beneath each of them.
    """
    found: list[Finding] = []
    for source in sources:
        if source.layer == "environment":
            found += of_environment(source, situation)
        else:
            found += of_config_file(source, situation)
    for config in configurations(sources, situation):
        for rule in (*CONSTRAINTS, *LINE_RULES):
            if config.knows(rule.needs):
                found += (_finding(config, fault) for fault in rule.judge(config))
    order = {source.file: index for index, source in enumerate(sources)}
    unique = dict.fromkeys((order.get(one.file, 0), one.line, one.column, one.code, one) for one in found)
    return tuple(key[-1] for key in sorted(unique, key=lambda key: key[:4]))


def configurations(sources: Sequence[Source], situation: Situation) -> tuple[Configuration, ...]:
    """What each job would run with: one for every config file, or one without a config file of the user's."""
    surrounding = [
        setting for source in sources if source.layer == "environment" for setting in variables(source)
    ]
    environment = {setting.name: setting for setting in surrounding if setting.name in CATALOGUE}
    system = next((source for source in sources if source.kind == "system file"), None)
    files: list[Source | None] = [source for source in sources if source.kind == "config file"]
    fallback = sources[0].file if sources else ENVIRONMENT
    return tuple(_configuration(environment, user, system, situation, fallback) for user in files or [None])


def cache_paths(sources: Sequence[Source], situation: Situation) -> frozenset[str]:
    """The directories that datasets would be kept in."""
    return frozenset(
        line.store
        for config in configurations(sources, situation)
        for line in config.checkpoints
        if not line.bypass
    )


def _configuration(
    environment: Mapping[str, Setting],
    user: Source | None,
    system: Source | None,
    situation: Situation,
    fallback: str,
) -> Configuration:
    """The layers over each other; faults that lie nowhere lie in the user's file, else in `fallback`."""
    given: dict[str, Setting] = {}
    lines: dict[str, tuple[Entry, ...]] = {}
    for source in (system, user):
        if source is not None:
            file = read(source, situation)
            given |= _given(file, source, situation)
            lines |= _by_kind(lines_of_system(file) if source is system else file.entries)
    given |= environment
    return Configuration(
        given=given,
        settings=_in_force(given, situation),
        situation=situation,
        fallback=user.file if user is not None else fallback,
        config_file=user.file if user is not None else None,
        system_file=system.file if system is not None else None,
        entries=tuple(entry for entries in lines.values() for entry in entries),
    )


def _given(file: ConfigFile, source: Source, situation: Situation) -> dict[str, Setting]:
    return {
        name: setting_of(pair, source, situation)
        for name, pair in file.values.items()
        if name in CATALOGUE and source.layer in CATALOGUE[name].layers
    }


def _by_kind(entries: Iterable[Entry]) -> dict[str, tuple[Entry, ...]]:
    """The STORE, CKPT and GROUPS lines, of which SCR takes each kind from one file.

    Lines that begin alike are one, with the keys of them all (scr_config.c:236).
    """
    found: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        if entry.parent.key in DESCRIPTORS:
            found.setdefault(entry.parent.key, {}).setdefault(entry.parent.value, []).append(entry)
    return {kind: tuple(map(_as_one, alike.values())) for kind, alike in found.items()}


def _as_one(entries: list[Entry]) -> Entry:
    return Entry(
        parent=entries[0].parent, children=tuple(pair for entry in entries for pair in entry.children)
    )


def _in_force(given: Mapping[str, Setting], situation: Situation) -> Settings:
    settings: Values = defaults()
    if situation.version < version_of(CATALOGUE["SCR_CACHE_BYPASS"].since):
        settings["SCR_CACHE_BYPASS"] = 0  # there was no bypass yet
    for name, setting in given.items():
        try:
            settings[name] = value_in(situation.version, name, setting.text or "")
        except ParameterError:
            if name == "SCR_COPY_TYPE" and setting.text is not None:
                settings[name] = "FILE"  # which SCR takes any other word for
    return Settings(settings)


def _finding(config: Configuration, fault: Fault) -> Finding:
    """The fault where it lies: at its pair, at the value of the first name that was given, or in the file.

    What the user gave comes before what the system's file gives: that is theirs to mend.
    """
    if (pair := fault.pair) is not None:
        system = config.system_file if isinstance(pair, SystemPair) else None
        place = Place(system or config.fallback, pair.line, pair.column)
        about = f"{pair.key}={pair.raw[:80]}"
    else:
        given = [config.given[name] for name in fault.names if name in config.given]
        theirs = [setting for setting in given if config.is_the_users(setting.name)]
        line = 0 if config.config_file is None else 1
        nowhere = Place(config.fallback, line, line)
        place = (theirs or given)[0].value_place if given else nowhere
        about = fault.names[0]
    return finding(place, fault.severity, fault.code, f"{about}: {fault.what}", fault.remedy)
