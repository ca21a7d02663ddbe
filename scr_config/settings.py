"""Which value a parameter has, and where it comes from: the layers that SCR looks through in SCR_Init.

environment > user config file > SCR_Config > compiled default (scr_param.c:164-235). SCR's system file
(/etc/scr.conf unless compiled otherwise) is not read yet.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ..intents.events import Settings, Value
from .parameters import CATALOGUE, Layer, Parameter, ParameterError, coerce, text_of
from .parse import DESCRIPTORS, ConfigFile, Entry, Pair, parse
from .problems import Problem

_VARIABLE = re.compile(r"\$\{(?P<braced>[A-Za-z0-9_]*)\}|\$(?P<plain>[A-Za-z0-9_]+)(?![A-Za-z0-9_}])")


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Every parameter that has a value, and where from.

    `sources` has the names of `settings`; its values are ``environment``, ``user config``, ``SCR_Config`` and
    ``default``. `descriptors` are the STORE, CKPT and GROUPS lines of the user's file: whoever rewrites that
    file must carry them over (`render.config_text` takes them).
    """

    settings: Settings
    sources: dict[str, str]
    problems: tuple[Problem, ...] = ()
    descriptors: tuple[Entry, ...] = ()


def resolve(
    environment: Mapping[str, str],
    user_conf: str | None = None,
    programmatic: Mapping[str, Value] | None = None,
) -> Resolved:
    """Look through the layers. `user_conf` is the text of the user's config file, None when there is none.

    Never raises. A value that is none (SCR would take 0 or the default, or crash) is a problem, and the next
    layer's value stands. Parameters without a compiled default (SCR_PREFIX: the working directory) are absent
    when no layer has them.
    """
    config = parse(user_conf or "", environment)
    in_file = config.values
    settings: Settings = {}
    sources: dict[str, str] = {}
    problems = [*_descriptors_in(environment), *_from_file(config)]
    layers: tuple[tuple[Layer, Mapping[str, str]], ...] = (
        ("environment", environment),
        ("user config", {name: pair.value for name, pair in in_file.items()}),
        ("SCR_Config", {name: text_of(value) for name, value in (programmatic or {}).items()}),
    )
    for name, parameter in CATALOGUE.items():
        for layer, texts in layers:
            if layer not in parameter.layers or name not in texts:
                continue
            try:
                settings[name] = coerce(name, expand(texts[name], environment))
            except ParameterError as error:
                problems.append(_bad_value(parameter, error, layer, in_file.get(name)))
            else:
                sources[name] = layer
                break
        else:
            if parameter.default is not None:
                settings[name], sources[name] = parameter.default, "default"
    problems.extend(_unknown(programmatic or {}))
    return Resolved(
        settings=settings, sources=sources, problems=tuple(problems), descriptors=config.descriptors
    )


def user_conf_path(environment: Mapping[str, str], cwd: Path | None = None) -> Path:
    """Where SCR looks for the user's file: $SCR_CONF_FILE, else .scrconf in $SCR_PREFIX, else in `cwd`.

    `cwd` is the working directory of the application's ranks (default: ours).
    """
    base = cwd or Path.cwd()
    if "SCR_CONF_FILE" in environment:
        return base / expand(environment["SCR_CONF_FILE"], environment)
    return base / expand(environment.get("SCR_PREFIX", ""), environment) / ".scrconf"


def difference(old: Settings, new: Settings) -> dict[str, tuple[Value | None, Value | None]]:
    """(old, new) value of each parameter that differs, by name; None where it is absent."""
    names = sorted(old.keys() | new.keys())
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def expand(text: str, environment: Mapping[str, str]) -> str:
    """``$NAME`` and ``${NAME}`` in a value of any layer, empty when unset (expand_env of scr_param.c).

    Unlike the config file's own reader this one takes digits in names.
    """
    return _VARIABLE.sub(lambda match: environment.get(match["braced"] or match["plain"] or "", ""), text)


def _from_file(config: ConfigFile) -> Iterator[Problem]:
    """What the parser found, and parameters that SCR does not look for in a file."""
    for problem in config.problems:
        yield msgspec.structs.replace(problem, source="user config")
    for name, pair in config.values.items():
        parameter = CATALOGUE.get(name)
        if parameter is not None and "user config" not in parameter.layers:
            yield Problem(
                severity="warning",
                code="wrong-layer",
                parameter=name,
                what="SCR does not look for it in a config file",
                remedy="set it in the environment",
                line=pair.line,
                column=pair.column,
                source="user config",
            )


def _bad_value(parameter: Parameter, error: ParameterError, layer: Layer, pair: Pair | None) -> Problem:
    """The problem of a value that is none. The place is known in the file only."""
    consequence = f" ({parameter.if_wrong})" if parameter.if_wrong else ""
    in_file = pair if layer == "user config" else None
    return Problem(
        severity="error",
        code="bad-value",
        parameter=parameter.name,
        what=f"{error.text!r} is not {error.allowed}{consequence}",
        remedy=f"correct it in the {layer}; until then the next layer's value is taken",
        line=in_file.line if in_file else 0,
        column=in_file.value_column if in_file else 0,
        source=layer,
    )


def _descriptors_in(environment: Mapping[str, str]) -> Iterator[Problem]:
    for name in DESCRIPTORS:
        if name in environment:
            yield Problem(
                severity="error",
                code="descriptor-in-environment",
                parameter=name,
                what=f"SCR reads the environment variable {name} in place of the {name} lines of its files",
                remedy=f"unset {name} for the application",
                source="environment",
            )


def _unknown(programmatic: Mapping[str, Value]) -> Iterator[Problem]:
    for name in programmatic:
        if name not in CATALOGUE and name not in DESCRIPTORS:
            yield Problem(
                severity="warning",
                code="unknown-name",
                parameter=name,
                what="SCR has no such parameter and ignores it",
                remedy="check the spelling",
                source="SCR_Config",
            )
