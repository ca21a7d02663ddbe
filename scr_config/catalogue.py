"""The catalogue of SCR's parameters, and how a text becomes a parameter's value.

The data are in `parameters.json` and `descriptor_lines.json`: what was read in SCR's sources (version 3.1.0
and later, commit 85e30b19 of 2024-10-21; each entry's `source` is a file and line of it) and tried on a real
SCR. Those of the components are in AXL e256b6d2, redset bdf77a1b and KVTree 8a691271 of 2024-06-27. Names
that start with ``SCRTUNE_`` are levers that SCR has no parameter for.
"""

import difflib
import functools
import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar

import msgspec

from ..intents.cpu_list import LARGEST_CPU, cpus_of
from ..intents.events import TextEnum, Value, Values, ValueSource
from ..intents.mutability import Mutability
from ..units import bytes_text

TOKEN_LIMIT_BYTES = 1023
"""The longest key or value in a config file: SCR_MAX_FILENAME of scr.h, less the terminating zero."""

_INT = re.compile(r"[+-]?0*[0-9]{1,18}")
_LEADING_INT = re.compile(r"[ \t]*([+-]?[0-9]{1,18})")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SIZE = re.compile(r"(\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)(?:([kmgtpe])b?)?", re.IGNORECASE)
_UNKNOWN = "a parameter of SCR's: this name is not known"
_LONGEST_NAME = 40
_NEAR = 0.8  # of difflib's ratio

LAYERS = (ValueSource.ENVIRONMENT, ValueSource.USER_CONFIG, ValueSource.SCR_CONFIG, ValueSource.SYSTEM_CONFIG)
"""The places where SCR looks for a value, in this order."""


class ValueType(TextEnum):
    """The type of a parameter's values; a path is a text, and ``cpus`` a Linux cpu list."""

    BOOL = "bool"
    INT = "int"
    BYTES = "bytes"
    FLOAT = "float"
    ENUM = "enum"
    TEXT = "text"
    PATH = "path"
    CPUS = "cpus"


class ParameterScope(TextEnum):
    """The reader of a parameter: SCR's library, its scripts (scr_run), one of its libraries, or scrtune."""

    LIBRARY = "library"
    SCRIPTS = "scripts"
    COMPONENT = "component"
    LEVER = "lever"


class Status(TextEnum):
    """The effect of a parameter in the SCR of today; an inert one is read and changes nothing."""

    ACTIVE = "active"
    INERT = "inert"
    BROKEN = "broken"


_WHOLE = (ValueType.BOOL, ValueType.INT, ValueType.BYTES)


class ParameterError(ValueError):
    """A text that is no value of the parameter, or a parameter that does not exist."""

    def __init__(self, parameter: str, text: str, allowed: str) -> None:
        super().__init__(f"{parameter}={text!r}: must be {allowed}")
        self.parameter = parameter
        self.text = text
        self.allowed = allowed


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One parameter.

    `default` is the value as compiled (at `default_source`); None where only `default_text` says it in words.
    `documented_default` is that of SCR's manual where it differs. `mutability` is the cheapest way to change
    it in a running job; `mechanism` says how. `means` and `symbol` are how libscrtune.so does it, and the
    variable or function of SCR's that it takes; without them a running job keeps the value.
    `equal_on_ranks`: ranks with different values hang or abort; `rank_0_decides`: the others' do not matter.
    `intents`: those that may set it, by the names that `scrtune explain` shows. `since` is the first release
    that reads it (1.1 is the oldest there is), `until` the last in which it did something. `if_wrong`: what
    SCR does with a value out of bounds.
    """

    name: str
    scope: ParameterScope = ParameterScope.LIBRARY
    type: ValueType
    default: Value | None = None
    default_text: str = ""
    default_source: str = ""
    documented_default: Value | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    case_sensitive: bool = True
    unit: str = ""
    doc: str
    read_when: str = "SCR_Init"
    mutability: Mutability
    mechanism: str = ""
    means: Literal[
        "", "int", "double", "async", "axl", "er", "cpus", "nice", "threads", "behind", "reinit"
    ] = ""
    symbol: str = ""
    equal_on_ranks: bool = True
    rank_0_decides: bool = False
    layers: tuple[ValueSource, ...] = LAYERS
    intents: tuple[str, ...] = ()
    since: str = "1.1"
    until: str = ""
    source: str
    status: Status = Status.ACTIVE
    note: str = ""
    if_wrong: str = ""

    @property
    def is_lever(self) -> bool:
        """Return whether it is scrtune's own: SCR does not know the name."""
        return self.scope is ParameterScope.LEVER

    @property
    def in_files(self) -> bool:
        """Return whether SCR looks for it in the user's config file."""
        return ValueSource.USER_CONFIG in self.layers and not self.is_lever

    @property
    def value_words(self) -> str:
        """Return what its values may be, with the unit where that is not clear."""
        return self.allowed + (f", in {self.unit}" if self.unit not in ("", "bytes") else "")

    @property
    def default_words(self) -> str:
        """Return the default in words, with that of SCR's manual where it differs."""
        if self.default is None:
            return self.default_text
        manual = "" if self.documented_default is None else self._shown(self.documented_default)
        return self._shown(self.default) + (f"; the manual says {manual}" if manual else "")

    @property
    def change(self) -> str:
        """Return how a running job gets another value: the mutability, and the mechanism."""
        if not self.mechanism or self.mechanism.startswith(self.mutability):
            return self.mechanism or self.mutability
        return f"{self.mutability}: {self.mechanism}"

    @property
    def ranks(self) -> str:
        """Return which ranks need the same value: ``equal`` (all), ``rank 0`` (only it counts) or ``any``."""
        if self.equal_on_ranks:
            return "equal"
        return "rank 0" if self.rank_0_decides else "any"

    @property
    def versions(self) -> str:
        """Return the releases of SCR in which it works."""
        return f"{self.since} to {self.until}" if self.until else f"{self.since} on"

    @property
    def allowed(self) -> str:
        """Return what its values may be, in words."""
        if self.type is ValueType.ENUM:
            case = " (capital letters)" if self.case_sensitive else ""
            return "one of " + ", ".join(self.choices) + case
        bounds = f"from {self.minimum} to {self.maximum}"
        return {
            ValueType.BOOL: "0 or 1",
            ValueType.INT: f"a whole number {bounds}",
            ValueType.BYTES: f"a size in bytes {bounds}, such as 4194304, 4m or 1.5GB",
            ValueType.FLOAT: "a finite decimal number",
            ValueType.CPUS: f"a Linux cpu list of CPUs 0 to {LARGEST_CPU}, such as 1,3-5, or empty",
        }.get(self.type, "a text without NUL")

    def accepts(self, value: Value) -> bool:
        """Return whether `value` is of its type, within its bounds and one of its choices."""
        if self.type in _WHOLE:  # a bool has no bounds of its own
            return isinstance(value, int) and (self.minimum or 0) <= value <= (self.maximum or 1)
        if self.type is ValueType.FLOAT:
            return isinstance(value, int | float) and math.isfinite(value)
        if self.type is ValueType.ENUM:
            return value in self.choices
        if not isinstance(value, str) or not _is_c_string(value):
            return False
        return self.type is not ValueType.CPUS or _is_cpu_list(value)

    def _shown(self, value: Value) -> str:
        if self.type is ValueType.BYTES and isinstance(value, int):
            return bytes_text(value)
        return text_of(value) or "empty"


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key of a descriptor line. `default_text` is what counts without it, mostly a parameter's name."""

    name: str
    type: ValueType
    default_text: str
    choices: tuple[str, ...] = ()
    doc: str
    since: str = "1.1"
    status: Status = Status.ACTIVE
    note: str = ""

    @property
    def meaning(self) -> str:
        """Return all that is said of it."""
        inert = "Changes nothing." if self.status is Status.INERT else ""
        return " ".join(filter(None, (self.doc, inert, self.note)))


class Descriptor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of descriptor line, ``NAME=value KEY=VALUE ...``; `value` says what stands behind the name.

    SCR takes all lines of one kind from the first layer that has any. `open_keys`: other names than those of
    `keys` are allowed. The other fields are as in :class:`Parameter`.
    """

    name: str
    value: str
    keys: tuple[Key, ...] = ()
    open_keys: bool = False
    doc: str
    read_when: str = "SCR_Init"
    mutability: Mutability = Mutability.REINIT
    mechanism: str
    equal_on_ranks: bool = True
    layers: tuple[ValueSource, ...] = LAYERS[1:]
    intents: tuple[str, ...] = ()
    since: str = "1.1"
    source: str
    note: str = ""


_Named = TypeVar("_Named", Parameter, Descriptor)
_Fields = Mapping[str, object]
_OUTSIDE: _Fields = {"equal_on_ranks": False, "layers": LAYERS[:1]}
_NEWER: _Fields = {**_OUTSIDE, "since": "3.0"}
_COMMON: Mapping[str, _Fields] = {
    ValueType.INT: {"minimum": -(2**31), "maximum": 2**31 - 1},
    ValueType.BYTES: {"minimum": 0, "maximum": 2**53, "unit": "bytes"},
    Mutability.REINIT: {"mechanism": "SCR_Finalize and SCR_Init, or the next run"},
    Mutability.LAUNCH: {"mechanism": "the next run"},
    Mutability.INERT: {"status": Status.INERT},
    ParameterScope.COMPONENT: {**_NEWER, "read_when": "AXL_Init, in SCR_Init"},
    ParameterScope.SCRIPTS: {**_OUTSIDE, "read_when": "start of scr_run", "mechanism": "the next scr_run"},
    ParameterScope.LEVER: {**_NEWER, "read_when": "each SCR_Start_output", "layers": LAYERS[:3]},
}
"""The fields that the entries of a type, a mutability and a scope have unless they say otherwise."""

_DEFAULT = {"value": "default", "text": "default_text", "source": "default_source"}


def _complete(name: str, entry: _Fields) -> _Fields:
    """Return the fields of `entry`, with those of its objects and those that it leaves out."""
    own = {"default": {"text": "none"}, "change": {"mutability": "launch"}, **entry}
    value, default, change = (
        msgspec.convert(own.pop(group), dict[str, object]) for group in ("value", "default", "change")
    )
    if "means" in change:
        mutability = Mutability.REINIT if change["means"] == "reinit" else Mutability.LIVE
        change = {"mutability": mutability, "symbol": name.lower(), **change}
    own |= value | change | {_DEFAULT.get(word, word): each for word, each in default.items()}
    common: dict[str, object] = {"name": name, "equal_on_ranks": not change.get("rank_0_decides")}
    for field in ("type", "mutability", "scope"):
        common |= _COMMON.get(str(own.get(field)), {})
    return {**common, **own}


def _load(file: str, kind: type[_Named]) -> Mapping[str, _Named]:
    data = Path(__file__).with_name(file).read_bytes()
    entries = msgspec.json.decode(data, type=dict[str, dict[str, object]])
    fill = _complete if kind is Parameter else lambda name, entry: {"name": name, **entry}
    return MappingProxyType({name: msgspec.convert(fill(name, each), kind) for name, each in entries.items()})


CATALOGUE: Mapping[str, Parameter] = _load("parameters.json", Parameter)
"""Every parameter by its name, in alphabetical order."""

DESCRIPTOR_LINES: Mapping[str, Descriptor] = _load("descriptor_lines.json", Descriptor)
"""Every kind of descriptor line by its leading key."""

SCRIPT_KEYS = ("CNTLDIR", "CACHEDIR")
"""Keys of lines that SCR's scripts alone read (scripts/python/scrjob/nodetests/dir_capacity.py)."""

SECRETS = frozenset({"SCR_LOG_DB_PASS"})
"""Parameters whose values are confidential: they go neither into events, journal nor advice."""


def coerce(name: str, text: str) -> Value:
    """Return the value that `text` means for parameter `name`.

    Stricter than SCR, whose ``atoi`` reads ``yes`` as 0, and which replaces a bad size by the default.
    Raises :class:`ParameterError` for an unknown name, a text of the wrong form and a value out of bounds.
    """
    if (parameter := CATALOGUE.get(name)) is None:
        raise ParameterError(name, text, _UNKNOWN)
    value = _convert(parameter, text)
    if value is None or not parameter.accepts(value):
        raise ParameterError(name, text, parameter.allowed)
    return value


@functools.lru_cache(maxsize=256)
def suggestion(name: str) -> str:
    """Return ``did you mean NAME?`` for an unknown name; empty when no known name is near."""
    if len(name) > _LONGEST_NAME:
        return ""
    known = {entry.removeprefix("SCR_"): entry for entry in (*CATALOGUE, *DESCRIPTOR_LINES, *SCRIPT_KEYS)}
    bare = name.removeprefix("SCR_")
    near = [entry for entry in known if entry.endswith(f"_{bare}")]  # SCR_DB_NAME is SCR_LOG_DB_NAME today
    near = near or difflib.get_close_matches(bare, known, n=1, cutoff=_NEAR)
    return f"did you mean {known[near[0]]}?" if len(near) == 1 else ""


def nearest_choice(parameter: Parameter, text: str) -> str:
    """Return a hint at the choice of an enumeration that `text` was meant to be; empty when none is near."""
    word = text[:_LONGEST_NAME].upper()
    if word in parameter.choices and not parameter.case_sensitive:
        return ""  # it came with a later release
    if parameter.name == "SCR_COPY_TYPE" and word == "LOCAL":
        return "LOCAL is called SINGLE since SCR 1.1.8. "
    near = difflib.get_close_matches(word, parameter.choices, n=1)
    return f"did you mean {near[0]}? " if near else ""


def text_of(value: Value) -> str:
    """Return `value` as SCR reads it: the inverse of :func:`coerce`."""
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else str(int(value))


def compiled_defaults() -> Values:
    """Return the compiled default of every parameter that has one."""
    return {name: entry.default for name, entry in CATALOGUE.items() if entry.default is not None}


def checked(values: Mapping[str, Value]) -> Values:
    """Return the compiled defaults with `values` over them.

    Raises :class:`ParameterError` for an unknown name and a value that its parameter does not take.
    """
    for name, value in values.items():
        parameter = CATALOGUE.get(name)
        if parameter is None or not parameter.accepts(value):
            raise ParameterError(name, str(value), parameter.allowed if parameter else _UNKNOWN)
    return {**compiled_defaults(), **values}


def atoi(text: str) -> int:
    """Return what C's ``atoi`` makes of `text`."""
    match = _LEADING_INT.match(text)
    return int(match[1]) if match else 0


def _convert(parameter: Parameter, text: str) -> Value | None:
    """Return the value of `text` by the parameter's type, its bounds unchecked; None for a wrong form."""
    stripped = text.strip(" \t")
    if parameter.type is ValueType.BYTES:
        return _size(text.lstrip(" \t"))
    if parameter.type in (ValueType.INT, ValueType.BOOL):
        if _INT.fullmatch(stripped) is None:
            return None
        return int(stripped) if parameter.type is ValueType.INT else int(int(stripped) != 0)
    if parameter.type is ValueType.FLOAT:
        return float(stripped) if _FLOAT.fullmatch(stripped) else None
    if parameter.type is ValueType.ENUM and not parameter.case_sensitive:
        return stripped.upper()
    return text if parameter.type in (ValueType.TEXT, ValueType.PATH) else stripped


def _is_c_string(text: str) -> bool:
    """Return whether the environment of a process could hold it."""
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def _is_cpu_list(text: str) -> bool:
    try:
        cpus_of(text)
    except ValueError:
        return False
    return True


def _size(text: str) -> int | None:
    """Return bytes as SCR's ``scr_abtoull`` reads a size (scr_util.c:101): a double, units of 1024."""
    if (match := _SIZE.fullmatch(text)) is None:
        return None
    unit = 1024 ** (" kmgtpe".index((match[2] or " ").lower()))
    size = float(match[1]) * unit
    return int(size) if math.isfinite(size) else None
