"""The value that each parameter has, and its source: the layers that SCR looks through in SCR_Init.

environment > user config file > SCR_Config > system config file > compiled default (scr_param.c:164-235).
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from ..intents.events import Value, Values, ValueSource
from .catalogue import (
    CATALOGUE,
    LAYERS,
    SECRETS,
    Parameter,
    ParameterError,
    ValueType,
    atoi,
    coerce,
    nearest_choice,
    text_of,
)
from .parse import DESCRIPTORS, ConfigFile, Entry, Pair, parse, problem_at, unknown_name
from .problems import Code, ConfigProblem, Severity

_VARIABLE = re.compile(r"\$\{(?P<braced>[A-Za-z0-9_]*)\}|\$(?P<plain>[A-Za-z0-9_]+)(?![A-Za-z0-9_}])")
DEFAULT = ValueSource.DEFAULT
_NAMES = frozenset({*CATALOGUE, *DESCRIPTORS})


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a parameter in one layer, and its place.

    `text` is what the layer holds, its variables expanded; `value` is what it means, None when it is no value
    of the parameter. `file` is as the caller named it; `line` and `column` (of the value) count from 1.
    """

    layer: ValueSource
    text: str
    value: Value | None
    file: str = ""
    line: int = 0
    column: int = 0


class FoundLines(msgspec.Struct, frozen=True):
    """The STORE, CKPT or GROUPS lines of one layer."""

    layer: ValueSource
    entries: tuple[Entry, ...]


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Every parameter that has a value, and the layer of that value.

    `found` has the values of all layers for a parameter, the highest first, the compiled default last: the
    first with a value is active, those behind it are shadowed. `lines` has the same for each kind of
    descriptor line; SCR takes all lines of a kind from the first layer that has any.
    """

    settings: Values
    sources: dict[str, str]
    problems: tuple[ConfigProblem, ...] = ()
    found: dict[str, tuple[Found, ...]] = {}
    lines: dict[str, tuple[FoundLines, ...]] = {}

    def origin(self, name: str) -> Found:
        """Return the active value and its place. Raises KeyError for a parameter without a value."""
        if name not in self.settings:
            raise KeyError(name)
        return next(each for each in self.found[name] if each.value is not None)

    def shadowed(self, name: str) -> tuple[Found, ...]:
        """Return the values below the active one, the highest first. Raises KeyError, as `origin`."""
        stack = self.found[name]
        return stack[stack.index(self.origin(name)) + 1 :]


class _LayerTexts(msgspec.Struct, frozen=True):
    """One layer as it was given: its parameters by name, and its descriptor lines."""

    layer: ValueSource
    pairs: Mapping[str, Pair]
    descriptors: tuple[Entry, ...] = ()


def resolve(
    environment: Mapping[str, str],
    user_conf: str | None = None,
    programmatic: Mapping[str, Value] | str | None = None,
    system_conf: str | None = None,
    files: Mapping[ValueSource, str] | None = None,
) -> Resolved:
    """Look through the layers. `user_conf` and `system_conf` are the texts of the files, None for none.

    `programmatic` is what the application gives to SCR_Config, or the text of `.scr/app.conf`, in which SCR
    keeps it of the last run. `files` names the files, for `Found.file`.

    Never raises. A value that is none (SCR would take 0 or the default, or crash) is a problem, and the next
    layer's value counts.
    """
    pairs = _pairs(environment)
    lines = [pairs[name] for name in DESCRIPTORS if name in pairs]
    problems = [_in_layer(descriptor_in_environment(pair), ValueSource.ENVIRONMENT) for pair in lines]
    entries = (msgspec.structs.replace(pair, value=expand(pair.value, environment)) for pair in lines)
    layers = [_LayerTexts(ValueSource.ENVIRONMENT, pairs, tuple(Entry(parent=pair) for pair in entries))]
    for layer, texts in zip(LAYERS[1:], (user_conf, programmatic, system_conf), strict=True):
        if isinstance(texts, str):
            config = parse(texts, environment, (files or {}).get(layer, ""))
            problems.extend(problems_in(config, layer))
            layers.append(_LayerTexts(layer, config.values, config.descriptors))
        elif texts:
            pairs = _pairs({name: text_of(value) for name, value in texts.items()})
            strangers = (_pair(name, "") for name in texts if name not in pairs)
            problems.extend(_in_layer(unknown_name(pair), layer) for pair in strangers)
            layers.append(_LayerTexts(layer, pairs))
    stacks = {name: tuple(_stack(entry, layers, environment, problems)) for name, entry in CATALOGUE.items()}
    active = {name: each for name, stack in stacks.items() if (each := _active(stack)) is not None}
    return Resolved(
        settings={name: each.value for name, each in active.items() if each.value is not None},
        sources={name: each.layer for name, each in active.items()},
        problems=tuple(problems),
        found={name: stack for name, stack in stacks.items() if stack},
        lines=_lines(layers),
    )


def _active(stack: tuple[Found, ...]) -> Found | None:
    return next((each for each in stack if each.value is not None), None)


def _stack(
    parameter: Parameter,
    layers: list[_LayerTexts],
    environment: Mapping[str, str],
    problems: list[ConfigProblem],
) -> Iterator[Found]:
    """Yield the value of `parameter` in each layer; a text that is no value is a problem unless shadowed."""
    settled = False
    for layer in layers:
        pair = layer.pairs.get(parameter.name)
        if pair is None or layer.layer not in parameter.layers:
            continue
        text = expand(pair.value, environment)
        value: Value | None = None
        try:
            value = coerce(parameter.name, text)
            settled = True
        except ParameterError as error:
            if not settled:
                problem = _in_layer(bad_value(pair, error), layer.layer)
                remedy = f"{problem.remedy}; scrtune, unlike SCR, goes on with the next layer's value"
                problems.append(msgspec.structs.replace(problem, remedy=remedy))
        yield Found(
            layer=layer.layer,
            text=text,
            value=value,
            file=pair.file,
            line=pair.line,
            column=pair.value_column,
        )
    if parameter.default is not None:
        yield Found(layer=DEFAULT, text=text_of(parameter.default), value=parameter.default)


def _lines(layers: list[_LayerTexts]) -> dict[str, tuple[FoundLines, ...]]:
    """Return the descriptor lines of each kind that any layer has, the highest layer first."""
    stacks = {
        name: tuple(
            FoundLines(each.layer, entries)
            for each in layers
            if (entries := tuple(entry for entry in each.descriptors if entry.parent.key == name))
        )
        for name in DESCRIPTORS
    }
    return {name: stack for name, stack in stacks.items() if stack}


def _pairs(texts: Mapping[str, str]) -> dict[str, Pair]:
    """Return the parameters among `texts`, in the form that a parsed file has: names are case-sensitive."""
    return {name: _pair(name, text) for name, text in texts.items() if name in _NAMES}


def _pair(name: str, text: str) -> Pair:
    return Pair(key=name, raw=text, value=text)


def expand(text: str, environment: Mapping[str, str], *, keep_unset: bool = False) -> str:
    """Return `text` with ``$NAME`` and ``${NAME}`` expanded, empty when unset (expand_env of scr_param.c).

    SCR does so to the values of all layers. Unlike the config file's own reader this takes digits in names.
    `keep_unset`: outside the job a variable that is not set stays as it is.
    """

    def replace(match: re.Match[str]) -> str:
        return environment.get(match["braced"] or match["plain"] or "", match[0] if keep_unset else "")

    return _VARIABLE.sub(replace, text)


def consequence(parameter: Parameter, text: str) -> str:
    """Return what SCR makes of a `text` that is no value of `parameter`."""
    if parameter.if_wrong:
        return parameter.if_wrong
    if parameter.type in (ValueType.INT, ValueType.BOOL):
        return f"SCR reads it as {atoi(text)}"
    return "SCR silently keeps another value"


def bad_value(pair: Pair, error: ParameterError) -> ConfigProblem:
    """Return the problem of a pair whose value is none of its parameter."""
    parameter = CATALOGUE[pair.key]
    what = f"{error.text[:80]!r} is no value for it: {consequence(parameter, error.text)}"
    remedy = f"{nearest_choice(parameter, error.text)}choose {error.allowed}"
    problem = problem_at(pair, Code.BAD_VALUE, what, remedy, Severity.ERROR)
    return msgspec.structs.replace(problem, column=pair.value_column)


def problems_in(config: ConfigFile, layer: ValueSource) -> Iterator[ConfigProblem]:
    """Yield the parser's problems, and parameters that SCR does not look for in a file of that layer.

    Words behind a password may be the rest of it and are not shown.
    """
    secrets = {entry.parent.line: entry.parent.key for entry in config.entries if entry.parent.key in SECRETS}
    for problem in config.problems:
        name = secrets.get(problem.line, problem.parameter)
        hidden = f"what stands behind its value is no part of it ({problem.code})"
        what = problem.what if name == problem.parameter else hidden
        yield msgspec.structs.replace(problem, parameter=name, what=what, source=layer)
    for pair in (entry.parent for entry in config.entries):
        parameter = CATALOGUE.get(pair.key)
        if parameter is not None and layer not in parameter.layers:
            what, remedy = "SCR does not look for it in a config file", "set it in the environment"
            yield _in_layer(problem_at(pair, Code.WRONG_LAYER, what, remedy), layer)


def descriptor_in_environment(pair: Pair) -> ConfigProblem:
    """Return the problem of an environment variable with the name of a descriptor line."""
    what = f"SCR takes this environment variable for the {pair.key} lines of its files"
    remedy = f"unset {pair.key} for the application"
    return problem_at(pair, Code.DESCRIPTOR_IN_ENVIRONMENT, what, remedy, Severity.ERROR)


def _in_layer(problem: ConfigProblem, layer: ValueSource) -> ConfigProblem:
    return msgspec.structs.replace(problem, source=layer)
