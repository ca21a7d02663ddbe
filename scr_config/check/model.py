"""The input of the rules of `scrtune check`: one job's configuration, with the place of every value.

Sources for the STORE and CKPT lines, and those that SCR makes up itself: scr.c:852-960 (the implied ones),
scr_storedesc.c and scr_reddesc.c (their keys and defaults).
"""

import posixpath
import re
from collections.abc import Mapping

import msgspec

from ...intents.events import Value, Values
from ..catalogue import ParameterError, atoi, coerce
from ..parse import Entry, Pair
from ..problems import Code, ConfigProblem, Severity


class Capacity(msgspec.Struct, frozen=True):
    """Size of a file system, and how much of it is free."""

    total_bytes: int
    free_bytes: int


class CheckContext(msgspec.Struct, frozen=True, kw_only=True):
    """The facts besides the files: of the job, and of each cache path on this node.

    `environment` is what ``$NAME`` in values is taken from; `checkpoint_bytes` is one checkpoint, all ranks'.
    """

    version: tuple[int, ...] = (3, 1)
    environment: Mapping[str, str] = {}
    nodes: int | None = None
    checkpoint_bytes: int | None = None
    capacities: Mapping[str, Capacity] = {}


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """A directory for at most `count` datasets. `entry` is None for one that SCR implies."""

    path: str
    count: int
    flush_type: str
    enabled: bool = True
    entry: Entry | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How every `interval`-th checkpoint is kept. `entry` is None for the implied descriptor.

    `declared` says whether it is switched on (ENABLED), not whether SCR can make it.
    """

    store: str
    scheme: str
    interval: int
    bypass: bool
    failures: int
    set_size: int
    declared: bool
    entry: Entry | None = None


def value_in(version: tuple[int, ...], name: str, text: str) -> Value:
    """Return the value that `text` means for `name` in that release of SCR, in the words of the latest.

    LOCAL was the word for SINGLE up to 1.1-7 (its scr.c:6087), RS came with 3.0. Raises ParameterError.
    """
    word = text.strip(" \t").upper() if name == "SCR_COPY_TYPE" else ""
    if word == "LOCAL" and version < (1, 1, 8):
        return "SINGLE"
    if word == "RS" and version < (3,):
        raise ParameterError(name, text, "one of SINGLE, PARTNER, XOR, FILE: RS came with SCR 3.0")
    return coerce(name, text)


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 3.1.0; none of an empty text."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", text))


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one job: those of its environment and of its config files, if it has any.

    `given` has the setting that counts for each name; `settings` their valid values and SCR's defaults.
    Faults that are in no line belong to the file `fallback`. `config_file` is the user's and `system_file`
    SCR's, None when none was read. `entries` are the STORE, CKPT and GROUPS lines that count.
    """

    given: Mapping[str, Pair]
    settings: Values
    context: CheckContext
    fallback: str = ""
    config_file: str | None = None
    system_file: str | None = None
    entries: tuple[Entry, ...] = ()

    def flag(self, name: str) -> bool:
        """Return a parameter that is 0 or 1."""
        return bool(self.settings[name])

    def integer(self, name: str) -> int:
        """Return a whole number."""
        return int(self.settings[name])

    def text(self, name: str) -> str:
        """Return a word or a path."""
        return str(self.settings[name])

    @property
    def has_own_lines(self) -> bool:
        """Return whether the CKPT lines count, and not the descriptor that SCR implies."""
        return self.text("SCR_COPY_TYPE") == "FILE"

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the active descriptors, also those that SCR will disable."""
        return tuple(map(self._checkpoint, self.ckpt_lines if self.has_own_lines else (None,)))

    @property
    def stores(self) -> Mapping[str, Store]:
        """Return the active stores by path: the STORE lines, and the cache and control directory."""
        stores = list(map(self._store, self.lines("STORE")))
        for name, count in (("SCR_CACHE_BASE", self.integer("SCR_CACHE_SIZE")), ("SCR_CNTL_BASE", 0)):
            path, flush_type = reduced(self.text(name)), self.text("SCR_FLUSH_TYPE")
            stores.append(Store(path=path, count=count, flush_type=flush_type))
        return {store.path: store for store in reversed(stores)}

    @property
    def all_bypass(self) -> bool:
        """Return whether no dataset goes through the cache."""
        lines = self.checkpoints
        return all(line.bypass for line in lines) if lines else self.flag("SCR_CACHE_BYPASS")

    @property
    def flush_types(self) -> set[str]:
        """Return the transfers of the stores in use."""
        used = {line.store for line in self.checkpoints if not line.bypass}
        types = {store.flush_type for path, store in self.stores.items() if path in used}
        return types or {self.text("SCR_FLUSH_TYPE")}

    @property
    def ckpt_lines(self) -> tuple[Entry, ...]:
        """Return the CKPT lines, none if SCR ignores them."""
        return self.lines("CKPT") if self.has_own_lines else ()

    @property
    def has_unknown_descriptors(self) -> bool:
        """Return whether the CKPT lines are all in a file that was not read."""
        return self.config_file is None and self.has_own_lines and not self.lines("CKPT")

    @property
    def unread_file(self) -> str:
        """Return the file that may have the lines that are missing here; empty when SCR reads no other."""
        if self.config_file is None:
            return "the user's file"
        return "SCR's system file" if self.system_file is None else ""

    def is_the_users(self, name: str) -> bool:
        """Return whether `name` is given above the system's file."""
        return name in self.given and self.given[name].file != self.system_file

    def knows(self, names: tuple[str, ...]) -> bool:
        """Return whether none of `names` has a value that only the job will know."""
        return all(self.given[name].is_known for name in names if name in self.given)

    def fault(
        self,
        at: Pair | tuple[str, ...],
        code: Code,
        what: str,
        remedy: str,
        severity: Severity = Severity.WARNING,
    ) -> ConfigProblem:
        """Return a problem at a pair, at the value of the first name that was given, or in the file.

        What the user gave comes before what the system's file gives: that is theirs to correct.
        """
        if isinstance(at, Pair):
            pair, column, about = at, at.column, f"{at.key}={at.raw[:80]}"
        else:
            given = [self.given[name] for name in at if name in self.given]
            theirs = [setting for setting in given if self.is_the_users(setting.key)]
            start = 0 if self.config_file is None else 1
            nowhere = Pair(key="", raw="", value="", file=self.fallback, line=start, value_column=start)
            pair = next(iter(theirs or given), nowhere)
            column, about = pair.value_column, at[0]
        return ConfigProblem(severity, code, about, what, remedy, pair.line, column, file=pair.file)

    def lines(self, key: str) -> tuple[Entry, ...]:
        """Return the lines that begin with `key` and count."""
        return tuple(entry for entry in self.entries if entry.parent.key == key)

    def _store(self, entry: Entry) -> Store:
        return Store(
            path=reduced(entry.parent.value),
            count=_number(entry, "COUNT", self.integer("SCR_CACHE_SIZE")),
            flush_type=_text(entry, "FLUSH", self.text("SCR_FLUSH_TYPE")),
            enabled=bool(_number(entry, "ENABLED", 1)),
            entry=entry,
        )

    def _checkpoint(self, entry: Entry | None) -> Checkpoint:
        return Checkpoint(
            store=reduced(_text(entry, "STORE", self.text("SCR_CACHE_BASE"))),
            scheme=_text(entry, "TYPE", self.text("SCR_COPY_TYPE")).upper(),
            interval=_number(entry, "INTERVAL", 1),
            bypass=bool(_number(entry, "BYPASS", self.integer("SCR_CACHE_BYPASS"))),
            failures=_number(entry, "SET_FAILURES", self.integer("SCR_SET_FAILURES")),
            set_size=_number(entry, "SET_SIZE", self.integer("SCR_SET_SIZE")),
            declared=bool(_number(entry, "ENABLED", 1)),
            entry=entry,
        )


def reduced(path: str) -> str:
    """Return `path` as SCR compares it: without doubled or trailing slashes, ``.`` and ``..``."""
    return posixpath.normpath(path) if path else path


def _text(entry: Entry | None, key: str, default: str) -> str:
    pair = entry.child(key) if entry else None
    return pair.value if pair else default


def _number(entry: Entry | None, key: str, default: int) -> int:
    return atoi(_text(entry, key, str(default)))
