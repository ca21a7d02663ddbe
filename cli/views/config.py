"""SCR's configuration as it is here, without a job: `scrtune env --resolved`."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ...intents.events import Value, ValueSource
from ...scr_config.catalogue import CATALOGUE, LAYERS, SECRETS
from ...scr_config.locations import app_conf_path, system_conf_path, user_conf_path
from ...scr_config.problems import ConfigProblem
from ...scr_config.resolution import DEFAULT, Found, Resolved, consequence, resolve
from ..user_files import config_text

HIDDEN = "(not shown)"


class FileView(msgspec.Struct, frozen=True):
    """One file that SCR would read. `found` is whether it is there."""

    layer: str
    path: str
    found: bool


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """What has a place in SCR's configuration; `line` and `column` are 0 outside files."""

    layer: str
    file: str = ""
    line: int = 0
    column: int = 0


class PlaceView(Located, frozen=True, kw_only=True):
    """A value (a text where it is none of its parameter) and its place."""

    value: Value | None


_UNSET = PlaceView(layer=DEFAULT, value=None)


class ParameterView(Located, frozen=True, kw_only=True):
    """A parameter's value and its place, and what that shadows.

    `value` is None when nobody sets it and SCR works it out as it runs: `default` says how. `wrong` is a text
    above it that is no value, which SCR does not pass over: `in_scr` says what it makes of that.
    """

    name: str
    value: Value | None
    shadows: tuple[PlaceView, ...] = ()
    default: str = ""
    wrong: PlaceView | None = None
    in_scr: str = ""


class LineView(Located, frozen=True, kw_only=True):
    """One STORE, CKPT or GROUPS line; `in_force` is false when a higher layer has lines of its kind."""

    name: str
    text: str
    in_force: bool


class ResolvedView(msgspec.Struct, frozen=True, kw_only=True):
    """`scrtune env --resolved`."""

    files: tuple[FileView, ...]
    parameters: tuple[ParameterView, ...]
    lines: tuple[LineView, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()


def resolved_view(
    environment: Mapping[str, str], cwd: Path, conf: Path | None = None, system_conf: Path | None = None
) -> ResolvedView:
    """Return what a job started in `cwd` with `environment` would find.

    Raises :class:`UnreadableError` for a file that it cannot read.

    `conf` and `system_conf` stand for the user's and the system's config file, wherever SCR would look. What
    the application gives to SCR_Config is taken from where SCR keeps it of the last run.
    """
    variables = {_clean(name): _clean(text) for name, text in environment.items()}
    paths = {
        ValueSource.USER_CONFIG: conf or user_conf_path(variables, cwd),
        ValueSource.SYSTEM_CONFIG: system_conf or system_conf_path(variables.get("PATH", "")),
    }
    user = _text(paths[ValueSource.USER_CONFIG], conf)
    system = _text(paths[ValueSource.SYSTEM_CONFIG], system_conf)
    paths[ValueSource.SCR_CONFIG] = app_conf_path(variables, cwd, user, system)
    program = _text(paths[ValueSource.SCR_CONFIG])
    resolved = resolve(variables, user, program, system, {layer: str(path) for layer, path in paths.items()})
    texts = dict(zip(LAYERS[1:], (user, program, system), strict=True))
    return ResolvedView(
        files=tuple(FileView(layer, str(paths[layer]), texts[layer] is not None) for layer in LAYERS[1:]),
        parameters=tuple(_parameters(resolved)),
        lines=tuple(_lines(resolved)),
        problems=resolved.problems,
    )


def _parameters(resolved: Resolved) -> Iterator[ParameterView]:
    for name, parameter in CATALOGUE.items():
        default = "" if parameter.default is not None else parameter.default_text
        highest = next(iter(resolved.found.get(name, ())), None)
        wrong = None if highest is None or highest.value is not None else _place(name, highest)
        in_scr = "" if wrong is None else consequence(parameter, str(wrong.value))
        is_set = name in resolved.settings
        place = msgspec.structs.asdict(_place(name, resolved.origin(name)) if is_set else _UNSET)
        shadows = tuple(_place(name, each) for each in resolved.shadowed(name)) if is_set else ()
        if is_set and place["layer"] == DEFAULT:
            place["file"] = place["file"] or parameter.default_source
        yield ParameterView(name=name, shadows=shadows, default=default, wrong=wrong, in_scr=in_scr, **place)


def _place(name: str, found: Found) -> PlaceView:
    place = msgspec.convert(found, Located, from_attributes=True)
    return PlaceView(value=_shown(name, found), **msgspec.structs.asdict(place))


def _shown(name: str, found: Found) -> Value:
    if name in SECRETS:
        return HIDDEN
    return found.text if found.value is None else found.value


def _lines(resolved: Resolved) -> Iterator[LineView]:
    for name, stack in resolved.lines.items():
        for layer, entry in ((each, entry) for each in stack for entry in each.entries):
            keys, parent = (f"{pair.key}={pair.value}" for pair in entry.children), entry.parent
            yield LineView(
                name=name,
                text=" ".join((parent.value, *keys)),
                layer=layer.layer,
                file=parent.file,
                line=parent.line,
                column=parent.value_column,
                in_force=layer is stack[0],
            )


def _text(path: Path, named: Path | None = None) -> str | None:
    """Return the text of a file; None when there is none, unless it was `named`."""
    try:
        is_there = path.is_file()
    except OSError:  # config_text says it in words
        is_there = True
    return _clean(config_text(path)) if is_there or named is not None else None


def _clean(text: str) -> str:
    """Return `text` for people: bytes that are no UTF-8 can neither be printed nor stand in JSON."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
