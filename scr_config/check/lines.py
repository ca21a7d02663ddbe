"""Rules for the STORE, CKPT and GROUPS lines of a job's configuration, in the table at the end.

The facts were read in SCR's sources (3.1.0 and later) and tried on a real SCR; docs/check.md lists them.
"""

import re
from collections.abc import Iterator

from ..catalogue import DESCRIPTOR_LINES, Key, ValueType, atoi
from ..parse import Pair
from ..problems import Code, Severity
from .model import Checkpoint, Configuration, Fault, Rule

SCHEMES = ("SINGLE", "PARTNER", "XOR", "RS")
GROUPS = ("NODE", "WORLD")
"""The groups that SCR makes up itself."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_LARGEST_INT = 2**31 - 1


def _lines_are_ignored(config: Configuration) -> Iterator[Fault]:
    scheme = config.settings.text("SCR_COPY_TYPE")
    is_chosen = config.is_the_users("SCR_COPY_TYPE")
    for entry in config.lines("CKPT"):
        is_an_offer = entry.parent.file == config.system_file and is_chosen
        if scheme != "FILE" and not is_an_offer:
            what = f"SCR_COPY_TYPE is {scheme}: SCR does not look at CKPT lines"
            yield Fault(entry.parent, Code.CKPT_IGNORED, what, "set SCR_COPY_TYPE=FILE")


def _interval_of_one(config: Configuration) -> Iterator[Fault]:
    lines, made = config.ckpt_lines, config.checkpoints
    if lines and not any(line.interval == 1 and _disabled(line) is None for line in made):
        what = "no enabled CKPT line has INTERVAL=1: SCR_Init aborts (scr.c:2281)"
        remedy = "give one of them INTERVAL=1"
        yield Fault(lines[0].parent, Code.NO_INTERVAL_1, what, remedy, Severity.ERROR)


def _disabled_lines(config: Configuration) -> Iterator[Fault]:
    for line in config.checkpoints:
        why = _disabled(line)
        if line.entry is not None and line.declared and why is not None:
            what, remedy = why
            what = f"{what}: SCR disables the line"
            yield Fault(line.entry.parent, Code.CKPT_DISABLED, what, remedy, Severity.ERROR)


def _stores_exist(config: Configuration) -> Iterator[Fault]:
    stores = config.stores
    elsewhere = "" if config.lines("STORE") else config.unread_file
    for line in config.checkpoints:
        store = stores.get(line.store)
        if line.entry is None or "$" in line.store or (store is not None and store.enabled):
            continue
        what = f"no enabled STORE line has {line.store}: SCR disables the line"
        if elsewhere:
            what += f" unless {elsewhere} has the STORE line"
        severity = Severity.WARNING if elsewhere else Severity.ERROR
        pair = line.entry.child("STORE") or line.entry.parent
        yield Fault(pair, Code.UNKNOWN_STORE, what, f"add STORE={line.store}", severity)


def _groups_exist(config: Configuration) -> Iterator[Fault]:
    lines = config.lines("GROUPS")
    known = {*GROUPS, *(pair.key for entry in lines for pair in entry.children)}
    elsewhere = "" if lines else config.unread_file
    severity = Severity.WARNING if elsewhere else Severity.ERROR
    hint = f", unless {elsewhere} has it" if elsewhere else ""
    remedy = "choose NODE or WORLD, or add GROUPS lines for every node"
    for entry in (*config.lines("STORE"), *config.ckpt_lines):
        pair = entry.child("GROUP")
        if pair is not None and pair.value not in known and "$" not in pair.value:
            fate = "SCR disables the line" if entry.parent.key == "STORE" else "SCR_Init crashes"
            what = f"there is no such group{hint}: {fate}"
            yield Fault(pair, Code.UNKNOWN_GROUP, what, remedy, severity)
    group = config.settings.text("SCR_GROUP")
    if group not in known and "$" not in group:
        what = f"there is no group {group}{hint}: SCR_Init crashes"
        yield Fault(("SCR_GROUP",), Code.UNKNOWN_GROUP, what, remedy, severity)


def _set_size_of_a_line(config: Configuration) -> Iterator[Fault]:
    for entry in config.ckpt_lines:
        pair, size = entry.child("SET_SIZE"), config.settings.integer("SCR_SET_SIZE")
        if pair is not None and atoi(pair.value) != size:
            what = f"SCR takes SCR_SET_SIZE={size} for every CKPT line"
            yield Fault(pair, Code.SET_SIZE_IGNORED, what, "set SCR_SET_SIZE, and leave this out")


def _children(config: Configuration) -> Iterator[Fault]:
    """Judge the keys and values of STORE and CKPT lines."""
    for entry in config.entries:
        descriptor = DESCRIPTOR_LINES.get(entry.parent.key)
        if descriptor is None or descriptor.open_keys:
            continue
        keys = {key.name: key for key in descriptor.keys}
        for pair in entry.children:
            if (key := keys.get(pair.key)) is None:
                what, remedy = f"a {descriptor.name} line has no such key", f"use one of {', '.join(keys)}"
                yield Fault(pair, Code.UNKNOWN_CHILD, f"{what}: SCR ignores it", remedy)
            else:
                yield from _child_value(pair, key)


def _child_value(pair: Pair, key: Key) -> Iterator[Fault]:
    if "$" in pair.value:
        return
    if key.type in (ValueType.INT, ValueType.BOOL):
        if (fault := _bad_number(pair)) is not None:
            yield Fault(pair, Code.BAD_VALUE, *fault, Severity.ERROR)
    elif key.name in ("FLUSH", "VIEW") and pair.value not in key.choices:
        choices = ", ".join(key.choices)
        what = f"it must be one of {choices} (capital letters)"
        if key.name == "FLUSH":
            what += ": SCR finds no such transfer, and flushes from this store fail"
        yield Fault(pair, Code.BAD_VALUE, what, f"choose one of {choices}", Severity.ERROR)


def _bad_number(pair: Pair) -> tuple[str, str] | None:
    """Return what SCR makes of a number that it cannot use, and the remedy; None for a good one."""
    if not _WHOLE_NUMBER.fullmatch(pair.value):
        return f"SCR reads it as {atoi(pair.value)}", "give a whole number"
    if not -_LARGEST_INT <= atoi(pair.value) <= _LARGEST_INT:
        return "SCR holds it in an int, and takes another number", f"give a number up to {_LARGEST_INT}"
    if pair.key == "INTERVAL" and atoi(pair.value) < 1:
        what = "SCR never takes a line whose interval is less than 1 (scr_reddesc.c:90)"
        return what, "give 1 or more, or ENABLED=0 to switch the line off"
    return None


def _disabled(line: Checkpoint) -> tuple[str, str] | None:
    """Return why SCR disables a CKPT line, and the remedy; ENABLED=0 is a reason like any other."""
    if not line.declared:
        return "ENABLED is 0", "set ENABLED=1"
    if line.scheme not in SCHEMES and "$" not in line.scheme:
        return "its TYPE is missing or none that SCR knows", f"say TYPE as one of {', '.join(SCHEMES)}"
    if not 1 <= line.failures <= line.set_size:
        return (
            f"SET_FAILURES {line.failures} is not within 1 and the set size {line.set_size}",
            "choose SET_FAILURES within the set",
        )
    return None


LINE_RULES: tuple[Rule, ...] = (
    Rule(_lines_are_ignored, ("SCR_COPY_TYPE",)),
    Rule(_interval_of_one, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    Rule(_disabled_lines, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    Rule(_stores_exist, ("SCR_COPY_TYPE", "SCR_CACHE_BASE", "SCR_CNTL_BASE")),
    Rule(_groups_exist, ("SCR_COPY_TYPE", "SCR_GROUP")),
    Rule(_set_size_of_a_line, ("SCR_COPY_TYPE", "SCR_SET_SIZE")),
    Rule(_children, ()),
)
