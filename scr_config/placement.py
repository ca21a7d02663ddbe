"""Where and how SCR keeps datasets: its STORE and CKPT lines, and those it makes up itself.

Sources: scr.c:852-960 (the implied ones), scr_storedesc.c and scr_reddesc.c (their keys and defaults).
"""

import posixpath
import re
from collections.abc import Iterable, Mapping

import msgspec

from .parse import Entry, Pair
from .settings import Settings

SCHEMES = ("SINGLE", "PARTNER", "XOR", "RS")
GROUPS = ("NODE", "WORLD")
"""The groups that SCR makes up itself."""

_LEADING_INT = re.compile(r"[ \t]*([+-]?[0-9]{1,18})")


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """A place for datasets: how many at most, how they are flushed. `entry` is None for an implied one."""

    path: str
    count: int
    flush_type: str
    enabled: bool
    entry: Entry | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How every `interval`-th checkpoint is kept. `entry` is None for the implied descriptor.

    `declared` says whether it is switched on (ENABLED), and nothing of whether SCR can make it.
    """

    store: str
    scheme: str
    interval: int
    bypass: bool
    failures: int
    set_size: int
    declared: bool
    entry: Entry | None = None


def number(text: str) -> int:
    """What C's ``atoi`` makes of `text`."""
    match = _LEADING_INT.match(text)
    return int(match[1]) if match else 0


def child(entry: Entry, key: str) -> Pair | None:
    """The first child of that key."""
    return next((pair for pair in entry.children if pair.key == key), None)


def stores(settings: Settings, entries: Iterable[Entry]) -> Mapping[str, Store]:
    """Every store by its path: the STORE lines, and the cache and control directory."""
    found: dict[str, Store] = {}
    for entry in entries:
        if entry.parent.key == "STORE":
            made = _store(settings, entry)
            found.setdefault(made.path, made)
    for name, count in (("SCR_CACHE_BASE", settings.integer("SCR_CACHE_SIZE")), ("SCR_CNTL_BASE", 0)):
        path = reduced(settings.text(name))
        flush_type = settings.text("SCR_FLUSH_TYPE")
        found.setdefault(path, Store(path=path, count=count, flush_type=flush_type, enabled=True))
    return found


def checkpoints(settings: Settings, entries: Iterable[Entry]) -> tuple[Checkpoint, ...]:
    """The CKPT lines when SCR_COPY_TYPE=FILE, else the one that SCR implies."""
    if settings.text("SCR_COPY_TYPE") == "FILE":
        return tuple(_checkpoint(settings, entry) for entry in entries if entry.parent.key == "CKPT")
    return (
        Checkpoint(
            store=reduced(settings.text("SCR_CACHE_BASE")),
            scheme=settings.text("SCR_COPY_TYPE"),
            interval=1,
            bypass=settings.flag("SCR_CACHE_BYPASS"),
            failures=settings.integer("SCR_SET_FAILURES"),
            set_size=settings.integer("SCR_SET_SIZE"),
            declared=True,
        ),
    )


def reduced(path: str) -> str:
    """`path` as SCR compares it: without doubled or trailing slashes, ``.`` and ``..``."""
    return posixpath.normpath(path) if path else path


def _store(settings: Settings, entry: Entry) -> Store:
    return Store(
        path=reduced(entry.parent.value),
        count=_number(entry, "COUNT", settings.integer("SCR_CACHE_SIZE")),
        flush_type=_text(entry, "FLUSH", settings.text("SCR_FLUSH_TYPE")),
        enabled=bool(_number(entry, "ENABLED", 1)),
        entry=entry,
    )


def _checkpoint(settings: Settings, entry: Entry) -> Checkpoint:
    return Checkpoint(
        store=reduced(_text(entry, "STORE", settings.text("SCR_CACHE_BASE"))),
        scheme=_text(entry, "TYPE", "FILE").upper(),
        interval=_number(entry, "INTERVAL", 1),
        bypass=bool(_number(entry, "BYPASS", int(settings.flag("SCR_CACHE_BYPASS")))),
        failures=_number(entry, "SET_FAILURES", settings.integer("SCR_SET_FAILURES")),
        set_size=_number(entry, "SET_SIZE", settings.integer("SCR_SET_SIZE")),
        declared=bool(_number(entry, "ENABLED", 1)),
        entry=entry,
    )


def _text(entry: Entry, key: str, default: str) -> str:
    pair = child(entry, key)
    return pair.value if pair else default


def _number(entry: Entry, key: str, default: int) -> int:
    pair = child(entry, key)
    return number(pair.value) if pair else default
