"""The catalogue of SCR's parameters, and how a text becomes a parameter's value.

The data are in `parameters.json`: what was read in SCR's sources (version 3.1.0 and later, commit 85e30b19 of
2024-10-21; each entry's `source` is a file and line of it) and tried on a real SCR. Those of the components
are in AXL e256b6d2, redset bdf77a1b and KVTree 8a691271 of 2024-06-27. Parameters whose names start with
``SCRTUNE_`` are levers that SCR has no name for. Descriptor lines are in :mod:`.descriptor_lines`.
"""

import math
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Literal

import msgspec

from ..intents.events import Value, Values
from ..units import bytes_text

Type = Literal["bool", "int", "bytes", "float", "enum", "text", "path", "cpus"]
Layer = Literal["environment", "user config", "SCR_Config", "system config"]
Mutability = Literal["live", "re-init", "launch", "none"]
LEVER_PREFIX = "SCRTUNE_"
TOKEN_LIMIT_BYTES = 1023
"""What a config file can hold in a key or value: SCR_MAX_FILENAME of scr.h, less the terminating zero."""

_INT = re.compile(r"[+-]?0*[0-9]{1,18}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SIZE = re.compile(r"(\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)(?:([kmgtpe])b?)?", re.IGNORECASE)
_CPU_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_LARGEST_CPU = 8191  # the kernel's largest NR_CPUS, less one


class ParameterError(ValueError):
    """A text that is no value of the parameter, or a parameter that does not exist."""

    def __init__(self, parameter: str, text: str, allowed: str) -> None:
        super().__init__(f"{parameter}={text!r}: must be {allowed}")
        self.parameter = parameter
        self.text = text
        self.allowed = allowed


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One parameter.

    `scope` is who reads it: SCR's ``library``, its ``scripts`` (scr_run), one of its libraries
    (``component``), or scrtune (``lever``). `default` is the value as compiled (at `default_source`), or None
    when it is worked out at run time or held elsewhere: `default_text` says it in words.
    `documented_default` is what SCR's manual says, where it says otherwise.
    `mutability` is the cheapest way to change it in a running job: ``live``, ``re-init`` (SCR_Finalize and
    SCR_Init), ``launch``, or ``none`` (SCR reads it and does nothing with it); `mechanism` says how. `means`
    and `symbol` are how libscrtune.so does it, and the variable or function of SCR's that it takes; without
    them a running job keeps the value (`native/levers_table.py`).
    `equal_on_ranks`: ranks with different values hang or abort; `rank_0_decides`: the others' values do not
    matter. `layers`: where SCR looks for it. `intents`: which of scrtune's intents may set it, by the names
    that `scrtune explain` shows. `since` is the first release whose sources read it (1.1 is the oldest there
    is), `until` the last in which it does something, empty when it still does.
    `if_wrong`: what SCR does with a value out of bounds. `status` is ``active``, ``inert`` or ``broken``.
    """

    name: str
    scope: Literal["library", "scripts", "component", "lever"] = "library"
    type: Type
    default: Value | None
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
    means: Literal["", "int", "double", "async", "axl", "er", "cpus", "threads", "reinit"] = ""
    symbol: str = ""
    equal_on_ranks: bool
    rank_0_decides: bool = False
    layers: tuple[Layer, ...]
    intents: tuple[str, ...] = ()
    since: str
    until: str = ""
    source: str
    status: Literal["active", "inert", "broken"] = "active"
    note: str = ""
    if_wrong: str = ""

    @property
    def is_lever(self) -> bool:
        """Whether it is scrtune's own: SCR does not know the name."""
        return self.name.startswith(LEVER_PREFIX)

    @property
    def default_words(self) -> str:
        """What stands when nobody sets it, in words; with what SCR's manual says where it says otherwise."""
        if self.default is None:
            return self.default_text
        manual = "" if self.documented_default is None else self._shown(self.documented_default)
        return self._shown(self.default) + (f"; the manual says {manual}" if manual else "")

    @property
    def change(self) -> str:
        """How a running job gets another value: the class, and the mechanism."""
        if not self.mechanism or self.mechanism.startswith(self.mutability):
            return self.mechanism or self.mutability
        return f"{self.mutability}: {self.mechanism}"

    @property
    def ranks(self) -> str:
        """Which ranks must have the same value: ``equal``, ``rank 0`` (it alone counts) or ``any``."""
        if self.equal_on_ranks:
            return "equal"
        return "rank 0" if self.rank_0_decides else "any"

    @property
    def versions(self) -> str:
        """The releases of SCR in which it works; the inert ones of today have a last one."""
        return f"{self.since} to {self.until}" if self.until else f"{self.since} on"

    @property
    def allowed(self) -> str:
        """What its values may be, in words."""
        if self.type == "enum":
            case = " (capital letters)" if self.case_sensitive else ""
            return "one of " + ", ".join(self.choices) + case
        if self.type in ("int", "bytes"):
            example = ", such as 4194304, 4m or 1.5GB" if self.type == "bytes" else ""
            kind = "a size in bytes" if self.type == "bytes" else "a whole number"
            return f"{kind} from {self.minimum} to {self.maximum}{example}"
        return {
            "bool": "0 or 1",
            "float": "a finite decimal number",
            "cpus": f"a Linux cpu list of CPUs 0 to {_LARGEST_CPU}, such as 1,3-5, or empty",
        }.get(self.type, "a text without NUL")

    def accepts(self, value: Value) -> bool:
        """Whether `value` is of its type, within its bounds and one of its choices."""
        if self.type in ("bool", "int", "bytes"):
            return isinstance(value, int) and self._within(value)
        if self.type == "float":
            return isinstance(value, int | float) and math.isfinite(value)
        if not isinstance(value, str) or not _is_c_string(value):
            return False
        if self.type == "enum":
            return value in self.choices
        return self.type != "cpus" or _cpus(value) is not None

    def _shown(self, value: Value) -> str:
        if self.type == "bytes" and isinstance(value, int):
            return bytes_text(value)
        return text_of(value) or "empty"

    def _within(self, value: int) -> bool:
        if self.type == "bool":
            return value in (0, 1)
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return low <= value <= high


def _load() -> Mapping[str, Parameter]:
    data = resources.files(__package__).joinpath("parameters.json").read_bytes()
    entries = msgspec.json.decode(data, type=tuple[Parameter, ...])
    return MappingProxyType({entry.name: entry for entry in entries})


CATALOGUE: Mapping[str, Parameter] = _load()
"""Every parameter by its name, in alphabetical order."""

SECRETS = frozenset({"SCR_LOG_DB_PASS"})
"""Parameters whose values are nobody's business: they go neither into events, journal nor advice."""


def coerce(name: str, text: str) -> Value:
    """The value that `text` means for parameter `name`.

    Stricter than SCR, whose ``atoi`` reads ``yes`` as 0 and whose sizes fall back to the default unseen.
    Raises :class:`ParameterError` for an unknown name, a text of the wrong form and a value out of bounds.
    """
    if (parameter := CATALOGUE.get(name)) is None:
        raise ParameterError(name, text, "a parameter of SCR's: this name is not known")
    value = _convert(parameter, text)
    if value is None or not parameter.accepts(value):
        raise ParameterError(name, text, parameter.allowed)
    return value


def text_of(value: Value) -> str:
    """`value` as SCR reads it: the inverse of :func:`coerce`."""
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else str(int(value))


def defaults() -> Values:
    """Every parameter that has a compiled default, with it."""
    return {name: entry.default for name, entry in CATALOGUE.items() if entry.default is not None}


def cpus_of(text: str) -> frozenset[int]:
    """The CPUs of a Linux cpu list such as ``1,3-5``; none for an empty one. Raises ValueError."""
    cpus = _cpus(text)
    if cpus is None:
        raise ValueError(f"{text!r} is no cpu list; write CPUs 0 to {_LARGEST_CPU} as in 1,3-5")
    return cpus


def _convert(parameter: Parameter, text: str) -> Value | None:
    """The value of `text` by the parameter's type, its bounds unchecked; None when it has the wrong form."""
    stripped = text.strip(" \t")
    if parameter.type == "int":
        return int(stripped) if _INT.fullmatch(stripped) else None
    if parameter.type == "bool":
        return int(int(stripped) != 0) if _INT.fullmatch(stripped) else None
    if parameter.type == "bytes":
        return _size(text.lstrip(" \t"))
    if parameter.type == "float":
        return float(stripped) if _FLOAT.fullmatch(stripped) else None
    if parameter.type == "enum" and not parameter.case_sensitive:
        return stripped.upper()
    return text if parameter.type in ("text", "path") else stripped


def _is_c_string(text: str) -> bool:
    """Whether the environment of a process could hold it."""
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def _size(text: str) -> int | None:
    """A size as SCR's ``scr_abtoull`` reads it (scr_util.c:101): through a double, units of 1024."""
    if (match := _SIZE.fullmatch(text)) is None:
        return None
    unit = 1024 ** (" kmgtpe".index((match[2] or " ").lower()))
    size = float(match[1]) * unit
    return int(size) if math.isfinite(size) else None


def _cpus(text: str) -> frozenset[int] | None:
    if not text:
        return frozenset()
    cpus: set[int] = set()
    for part in text.split(","):
        if (match := _CPU_RANGE.fullmatch(part)) is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= _LARGEST_CPU:
            return None
        cpus.update(range(first, last + 1))
    return frozenset(cpus)
