"""Which value a parameter has, and where it comes from: the layers that SCR looks through in SCR_Init.

environment > user config file > SCR_Config > system config file > compiled default (scr_param.c:164-235).
Where the system's file lies is for :mod:`.system_conf` to find out.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ..intents.events import Value, Values
from .catalogue import CATALOGUE, SECRETS, Layer, Parameter, ParameterError, coerce, text_of
from .parse import DESCRIPTORS, ConfigFile, Entry, Pair, parse
from .placement import number
from .problems import Problem

_VARIABLE = re.compile(r"\$\{(?P<braced>[A-Za-z0-9_]*)\}|\$(?P<plain>[A-Za-z0-9_]+)(?![A-Za-z0-9_}])")
LAYERS: tuple[Layer, ...] = ("environment", "user config", "SCR_Config", "system config")
"""Where SCR looks, in this order."""
DEFAULT = "default"
"""The layer below them all: what is compiled into SCR."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one layer says of a parameter, and its place.

    `text` is what the layer holds, its variables expanded; `value` is what it means, None when it is no value
    of the parameter. `file` is as the caller named it, empty when the layer is no file; `line` and `column`
    (of the value) count from 1 and are 0 where there is no file.
    """

    layer: str
    text: str
    value: Value | None
    file: str = ""
    line: int = 0
    column: int = 0


class FoundLines(msgspec.Struct, frozen=True, kw_only=True):
    """The STORE, CKPT or GROUPS lines of one layer."""

    layer: str
    entries: tuple[Entry, ...]
    file: str = ""


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Every parameter that has a value, and where from.

    `sources` has the names of `settings`; its values are the four of LAYERS, and ``default``. `found` has all
    that the layers say of a parameter, the highest first, the compiled default last: the first with a value
    is in force, those behind it are shadowed. `lines` has the same for each kind of descriptor line; SCR
    takes all lines of a kind from the first layer that has any.
    `descriptors` are the STORE, CKPT and GROUPS lines of the user's file alone: whoever rewrites that file
    must carry them over (`render.config_text` takes them).
    """

    settings: Values
    sources: dict[str, str]
    problems: tuple[Problem, ...] = ()
    descriptors: tuple[Entry, ...] = ()
    found: dict[str, tuple[Found, ...]] = {}
    lines: dict[str, tuple[FoundLines, ...]] = {}

    def origin(self, name: str) -> Found:
        """Where the value in force comes from. Raises KeyError for a parameter without one."""
        if name not in self.settings:
            raise KeyError(name)
        return next(each for each in self.found[name] if each.value is not None)

    def shadowed(self, name: str) -> tuple[Found, ...]:
        """What lies below the value in force, the highest first. Raises KeyError, as `origin`."""
        stack = self.found[name]
        return stack[stack.index(self.origin(name)) + 1 :]


class _LayerTexts(msgspec.Struct, frozen=True):
    """One layer as it was given: its parameters by name, and its descriptor lines."""

    layer: Layer
    pairs: Mapping[str, Pair]
    descriptors: tuple[Entry, ...] = ()
    file: str = ""


def resolve(
    environment: Mapping[str, str],
    user_conf: str | None = None,
    programmatic: Mapping[str, Value] | str | None = None,
    system_conf: str | None = None,
    files: Mapping[Layer, str] | None = None,
) -> Resolved:
    """Look through the layers. `user_conf` and `system_conf` are the texts of the files, None for none.

    `programmatic` is what the application gives to SCR_Config, or the text of `.scr/app.conf`, in which SCR
    keeps it of the last run. `files` names the files, for `Found.file`.

    Never raises. A value that is none (SCR would take 0 or the default, or crash) is a problem, and the next
    layer's value stands. Parameters without a compiled default (SCR_PREFIX: the working directory) are absent
    when no layer has them.
    """
    problems: list[Problem] = list(_descriptors_in(environment))
    named = files or {}
    layers = [_LayerTexts("environment", _pairs(environment), _environment_descriptors(environment))]
    for layer, texts in zip(LAYERS[1:], (user_conf, programmatic, system_conf), strict=True):
        if isinstance(texts, str):
            config = parse(texts, environment)
            problems.extend(_from_file(config, layer))
            layers.append(_LayerTexts(layer, config.values, config.descriptors, named.get(layer, "")))
        elif texts:
            problems.extend(_unknown(texts))
            given = _pairs({name: text_of(value) for name, value in texts.items()})
            layers.append(_LayerTexts(layer, given, file=named.get(layer, "")))
    settings: Values = {}
    sources: dict[str, str] = {}
    found: dict[str, tuple[Found, ...]] = {}
    for name, parameter in CATALOGUE.items():
        stack = tuple(_stack(parameter, layers, environment, problems))
        if stack:
            found[name] = stack
        for each in stack:
            if each.value is not None:
                settings[name], sources[name] = each.value, each.layer
                break
    return Resolved(
        settings=settings,
        sources=sources,
        problems=tuple(problems),
        descriptors=next((each.descriptors for each in layers if each.layer == "user config"), ()),
        found=found,
        lines=_lines(layers),
    )


def _stack(
    parameter: Parameter, layers: list[_LayerTexts], environment: Mapping[str, str], problems: list[Problem]
) -> Iterator[Found]:
    """What each layer says of `parameter`; a text that is no value is a problem unless it is shadowed."""
    settled = False
    for layer in layers:
        pair = layer.pairs.get(parameter.name)
        if pair is None or layer.layer not in parameter.layers:
            continue
        text = expand(pair.value, environment)
        try:
            value: Value | None = coerce(parameter.name, text)
        except ParameterError as error:
            value = None
            if not settled:
                problems.append(_bad_value(parameter, error, layer.layer, pair))
        settled = settled or value is not None
        yield Found(
            layer=layer.layer,
            text=text,
            value=value,
            file=layer.file,
            line=pair.line,
            column=pair.value_column,
        )
    if parameter.default is not None:
        yield Found(layer=DEFAULT, text=text_of(parameter.default), value=parameter.default)


def _lines(layers: list[_LayerTexts]) -> dict[str, tuple[FoundLines, ...]]:
    """The descriptor lines of each kind that any layer has, the highest layer first."""
    lines: dict[str, tuple[FoundLines, ...]] = {}
    for name in DESCRIPTORS:
        for layer in layers:
            entries = tuple(entry for entry in layer.descriptors if entry.parent.key == name)
            if entries:
                found = FoundLines(layer=layer.layer, entries=entries, file=layer.file)
                lines[name] = (*lines.get(name, ()), found)
    return lines


def _pairs(texts: Mapping[str, str]) -> dict[str, Pair]:
    """The parameters among `texts`, in the form that a parsed file has: SCR looks for names as they are."""
    return {
        name: Pair(key=name, raw=text, value=text, line=0, column=0, value_column=0)
        for name, text in texts.items()
        if name in CATALOGUE or name in DESCRIPTORS
    }


def _environment_descriptors(environment: Mapping[str, str]) -> tuple[Entry, ...]:
    """Environment variables that SCR takes for descriptor lines without keys (scr_param.c:247)."""
    pairs = _pairs(
        {name: expand(environment[name], environment) for name in DESCRIPTORS if name in environment}
    )
    return tuple(Entry(parent=pair) for pair in pairs.values())


def user_conf_path(environment: Mapping[str, str], cwd: Path | None = None) -> Path:
    """Where SCR looks for the user's file: $SCR_CONF_FILE, else .scrconf in $SCR_PREFIX, else in `cwd`.

    `cwd` is the working directory of the application's ranks (default: ours).
    """
    base = cwd or Path.cwd()
    if "SCR_CONF_FILE" in environment:
        return base / expand(environment["SCR_CONF_FILE"], environment)
    return base / expand(environment.get("SCR_PREFIX", ""), environment) / ".scrconf"


def expand(text: str, environment: Mapping[str, str]) -> str:
    """``$NAME`` and ``${NAME}`` in a value of any layer, empty when unset (expand_env of scr_param.c).

    Unlike the config file's own reader this one takes digits in names.
    """
    return _VARIABLE.sub(lambda match: environment.get(match["braced"] or match["plain"] or "", ""), text)


def consequence(parameter: Parameter, text: str) -> str:
    """What SCR makes of a `text` that is no value of `parameter`."""
    if parameter.if_wrong:
        return parameter.if_wrong
    if parameter.type in ("int", "bool"):
        return f"SCR reads it as {number(text)}"
    return "SCR keeps another value without a word"


def problems_of(config: ConfigFile) -> Iterator[Problem]:
    """What the parser found; words behind a password may be the rest of it and are not told."""
    secrets = {entry.parent.line: entry.parent.key for entry in config.entries if entry.parent.key in SECRETS}
    for problem in config.problems:
        name = secrets.get(problem.line, problem.parameter)
        if name == problem.parameter:
            yield problem
        else:
            what = f"what stands behind its value is no part of it ({problem.code})"
            yield msgspec.structs.replace(problem, parameter=name, what=what)


def _from_file(config: ConfigFile, layer: Layer) -> Iterator[Problem]:
    """What the parser found, and parameters that SCR does not look for in a file."""
    for problem in problems_of(config):
        yield msgspec.structs.replace(problem, source=layer)
    for name, pair in config.values.items():
        parameter = CATALOGUE.get(name)
        if parameter is not None and layer not in parameter.layers:
            yield Problem(
                severity="warning",
                code="wrong-layer",
                parameter=name,
                what="SCR does not look for it in a config file",
                remedy="set it in the environment",
                line=pair.line,
                column=pair.column,
                source=layer,
            )


def _bad_value(parameter: Parameter, error: ParameterError, layer: Layer, pair: Pair) -> Problem:
    """The problem of a value that is none."""
    return Problem(
        severity="error",
        code="bad-value",
        parameter=parameter.name,
        what=f"{error.text!r} is not {error.allowed}: {consequence(parameter, error.text)}",
        remedy=f"correct it in the {layer}; scrtune, unlike SCR, goes on with the next layer's value",
        line=pair.line,
        column=pair.value_column,
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
