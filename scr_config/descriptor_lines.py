"""The descriptor lines of SCR's config files: what STORE, CKPT and GROUPS say, and with which keys.

The data are in `descriptor_lines.json`, read in the same sources as `parameters.json`. SCR takes all lines of
one kind from the first layer that has any: a CKPT line in the user's file hides every one of the system's.
"""

from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Literal

import msgspec

from .catalogue import Layer, Mutability


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key of a descriptor line. `default_text` is what stands without it, mostly a parameter's name.

    `choices` are none when any value of the type goes. An ``inert`` key is read and changes nothing.
    """

    name: str
    type: Literal["bool", "int", "enum", "text", "path"]
    default_text: str
    choices: tuple[str, ...] = ()
    doc: str
    since: str
    status: Literal["active", "inert"] = "active"
    note: str = ""


class Descriptor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of line: ``NAME=value KEY=VALUE ...``.

    `value` says what stands behind the name. `open_keys`: names other than those in `keys` are allowed, and
    mean what `value` says. The other fields are as in :class:`.parameters.Parameter`.
    """

    name: str
    value: str
    keys: tuple[Key, ...]
    open_keys: bool = False
    doc: str
    read_when: str = "SCR_Init"
    mutability: Mutability
    mechanism: str
    equal_on_ranks: bool
    layers: tuple[Layer, ...]
    intents: tuple[str, ...] = ()
    since: str
    source: str
    note: str = ""


def _load() -> Mapping[str, Descriptor]:
    data = resources.files(__package__).joinpath("descriptor_lines.json").read_bytes()
    entries = msgspec.json.decode(data, type=tuple[Descriptor, ...])
    return MappingProxyType({entry.name: entry for entry in entries})


DESCRIPTOR_LINES: Mapping[str, Descriptor] = _load()
"""Every kind of descriptor line by its leading key."""
