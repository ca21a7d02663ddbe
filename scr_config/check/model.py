"""What the rules of `scrtune check` look at: one job's configuration, with the place of every value."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ...intents.events import Value
from ...intents.observe.redundancy import effective
from ..catalogue import ParameterError, coerce
from ..parse import Entry, Pair
from ..placement import Checkpoint, Store, checkpoints, stores
from ..problems import Severity
from ..settings import Settings
from .findings import Place


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One ``NAME=value`` where it stands. `text` is None when it is known only in the job."""

    name: str
    text: str | None
    file: str
    line: int
    column: int
    value_column: int

    @property
    def place(self) -> Place:
        """Where its name stands."""
        return Place(self.file, self.line, self.column)

    @property
    def value_place(self) -> Place:
        """Where its value stands."""
        return Place(self.file, self.line, self.value_column)


class SystemPair(Pair, frozen=True, kw_only=True):
    """One pair of SCR's system config file."""


class Capacity(msgspec.Struct, frozen=True):
    """Size of a file system, and what is free of it."""

    total_bytes: int
    free_bytes: int


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known besides the files. `capacities`: of each cache path, on this node.

    `environment` is what ``$NAME`` in values is taken from; `checkpoint_bytes` is one checkpoint, all ranks'.
    """

    version: tuple[int, ...] = (3, 1)
    environment: Mapping[str, str] = {}
    nodes: int | None = None
    checkpoint_bytes: int | None = None
    capacities: Mapping[str, Capacity] = {}


def value_in(version: tuple[int, ...], name: str, text: str) -> Value:
    """The value that `text` means for `name` in that release of SCR, in the words of the latest.

    LOCAL was the word for SINGLE up to 1.1-7 (its scr.c:6087), RS came with 3.0. Raises ParameterError.
    """
    word = text.strip(" \t").upper() if name == "SCR_COPY_TYPE" else ""
    if word == "LOCAL" and version < (1, 1, 8):
        return "SINGLE"
    if word == "RS" and version < (3,):
        raise ParameterError(name, text, "one of SINGLE, PARTNER, XOR, FILE: RS came with SCR 3.0")
    return coerce(name, text)


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version such as 3.1.0; none of an empty text."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", text))


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What one job runs with: the settings of its environment and of its config files, if it has any.

    `given` has the setting that counts for each name; `settings` their valid values and SCR's defaults.
    Faults that lie nowhere else lie in `fallback`. `config_file` is the name of the user's file and
    `system_file` that of SCR's system file, None when none was looked at. `entries` are the STORE, CKPT and
    GROUPS lines that count: the user's, and those of the system's of a kind that the user's file has not.
    """

    given: Mapping[str, Setting]
    settings: Settings
    situation: Situation
    fallback: str
    config_file: str | None = None
    system_file: str | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The descriptors in force, those that SCR will disable too."""
        return checkpoints(self.settings, self.entries)

    @property
    def stores(self) -> Mapping[str, Store]:
        """The stores in force, by path."""
        return stores(self.settings, self.entries)

    @property
    def all_bypass(self) -> bool:
        """Whether no dataset goes through the cache."""
        lines = self.checkpoints
        return all(line.bypass for line in lines) if lines else self.settings.flag("SCR_CACHE_BYPASS")

    @property
    def flush_types(self) -> set[str]:
        """The transfers of the stores in use."""
        used = {line.store for line in self.checkpoints if not line.bypass}
        types = {store.flush_type for path, store in self.stores.items() if path in used}
        return types or {self.settings.text("SCR_FLUSH_TYPE")}

    @property
    def ckpt_lines(self) -> tuple[Entry, ...]:
        """The CKPT lines, if SCR looks at them."""
        return self.lines("CKPT") if self.settings.text("SCR_COPY_TYPE") == "FILE" else ()

    @property
    def has_unknown_descriptors(self) -> bool:
        """Whether the CKPT lines are all in a file that was not looked at."""
        is_file = self.settings.text("SCR_COPY_TYPE") == "FILE"
        return self.config_file is None and is_file and not self.lines("CKPT")

    @property
    def not_looked_at(self) -> str:
        """The file that may have the lines that are missing here; empty when SCR reads no other."""
        if self.config_file is None:
            return "the user's file"
        return "SCR's system file" if self.system_file is None else ""

    def is_the_users(self, name: str) -> bool:
        """Whether `name` is given above the system's file."""
        return name in self.given and self.given[name].file != self.system_file

    def knows(self, names: tuple[str, ...]) -> bool:
        """Whether none of `names` has a value that only the job will know."""
        return not any(name in self.given and self.given[name].text is None for name in names)

    def lines(self, key: str) -> tuple[Entry, ...]:
        """The lines that begin with `key` and count."""
        return tuple(entry for entry in self.entries if entry.parent.key == key)

    def scheme(self, checkpoint: Checkpoint) -> str:
        """What SCR really does for it on so many nodes."""
        nodes = self.situation.nodes
        return checkpoint.scheme if nodes is None else effective(checkpoint.scheme, nodes)


class Fault(NamedTuple):
    """What a rule found. It lies at `pair` of the config file, else where the first of `names` was given."""

    names: tuple[str, ...]
    severity: Severity
    code: str
    what: str
    remedy: str
    pair: Pair | None = None


class Rule(NamedTuple):
    """`judge` tells what is wrong with a configuration; without the values of `needs` it cannot.

    A value that is none was told before; SCR's default stands in for it here.
    """

    judge: Callable[[Configuration], Iterator[Fault]]
    needs: tuple[str, ...]
