"""What is wrong with SCR's config files, a job script, an environment: every fault with its place.

Pure: the caller reads the files and measures the caches (daemon/check_command.py).
"""

from collections.abc import Mapping, Sequence

from ..intents.events import Values
from .check_lines import LINE_RULES
from .check_model import Configuration, Fault, Setting, Situation, version_of
from .check_sources import Source, read, setting_of, variables
from .check_values import of_config_file, of_environment
from .constraints import CONSTRAINTS
from .findings import ENVIRONMENT, Finding, Place, finding
from .parameters import CATALOGUE, ParameterError, coerce, defaults
from .parse import ConfigFile
from .settings import Settings


def check(sources: Sequence[Source], situation: Situation) -> tuple[Finding, ...]:
    """Every fault of `sources`, by file and line. Never raises.

    Job scripts and the environment are taken together, the later over the earlier, over each config file:
    every config file stands for a job of its own.
    """
    found: list[Finding] = []
    for source in sources:
        if source.kind == "config file":
            found += of_config_file(source, situation)
        else:
            found += of_environment(source, situation)
    for config in configurations(sources, situation):
        for rule in (*CONSTRAINTS, *LINE_RULES):
            if config.knows(rule.needs):
                found += (_finding(config, fault) for fault in rule.judge(config))
    order = {source.file: index for index, source in enumerate(sources)}
    unique = dict.fromkeys((order.get(one.file, 0), one.line, one.column, one.code, one) for one in found)
    return tuple(key[-1] for key in sorted(unique, key=lambda key: key[:4]))


def configurations(sources: Sequence[Source], situation: Situation) -> tuple[Configuration, ...]:
    """What each job would run with: one for every config file, or one of the environment alone."""
    surrounding = [
        setting for source in sources if source.kind != "config file" for setting in variables(source)
    ]
    environment = {setting.name: setting for setting in surrounding if setting.name in CATALOGUE}
    files = [source for source in sources if source.kind == "config file"]
    if not files:
        fallback = sources[0].file if sources else ENVIRONMENT
        return (_configuration(environment, situation, fallback),)
    return tuple(_with_file(environment, situation, source) for source in files)


def cache_paths(sources: Sequence[Source], situation: Situation) -> frozenset[str]:
    """The directories that datasets would be kept in."""
    return frozenset(
        line.store
        for config in configurations(sources, situation)
        for line in config.checkpoints
        if not line.bypass
    )


def _configuration(
    given: Mapping[str, Setting], situation: Situation, fallback: str, file: ConfigFile | None = None
) -> Configuration:
    settings: Values = defaults()
    if situation.version < version_of(CATALOGUE["SCR_CACHE_BYPASS"].since):
        settings["SCR_CACHE_BYPASS"] = 0  # there was no bypass yet
    for name, setting in given.items():
        try:
            settings[name] = coerce(name, setting.text or "")
        except ParameterError:
            if name == "SCR_COPY_TYPE" and setting.text is not None:
                settings[name] = "FILE"  # which SCR takes any other word for
    return Configuration(
        given=given,
        settings=Settings(settings),
        situation=situation,
        fallback=fallback,
        config_file=fallback if file is not None else None,
        entries=file.entries if file is not None else (),
    )


def _with_file(environment: Mapping[str, Setting], situation: Situation, source: Source) -> Configuration:
    file = read(source, situation)
    given = {
        name: setting_of(pair, source, situation)
        for name, pair in file.values.items()
        if name in CATALOGUE and "user config" in CATALOGUE[name].layers
    }
    return _configuration({**given, **environment}, situation, source.file, file)


def _finding(config: Configuration, fault: Fault) -> Finding:
    """The fault where it lies: at its pair, at the value of the first name that was given, or in the file."""
    if (pair := fault.pair) is not None:
        place = Place(config.fallback, pair.line, pair.column)
        about = f"{pair.key}={pair.raw[:80]}"
    else:
        given = next((config.given[name] for name in fault.names if name in config.given), None)
        line = 0 if config.config_file is None else 1
        place = given.value_place if given else Place(config.fallback, line, line)
        about = fault.names[0]
    return finding(place, fault.severity, fault.code, f"{about}: {fault.what}", fault.remedy)
