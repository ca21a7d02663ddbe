"""The rules that a job's configuration is held to: parameters together, and its STORE, CKPT and GROUPS lines.

One small function a rule, in the table RULES. The facts were read in SCR's sources (3.1.0 and later) and
tried on a real SCR; docs/check.md lists them.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...intents.observe.faults.redundancy import effective, storage_factor
from ...units import bytes_text
from ..catalogue import DESCRIPTOR_LINES, Key, ValueType, atoi
from ..parse import Pair
from ..problems import Code, ConfigProblem, Severity
from .model import Checkpoint, Configuration


class Rule(NamedTuple):
    """`judge` yields what is wrong with a configuration; without the values of `needs` it cannot.

    A bad value is a problem of its own; SCR's default stands in for it here.
    """

    judge: Callable[[Configuration], Iterator[ConfigProblem]]
    needs: tuple[str, ...]


_SCHEMES = ("SINGLE", "PARTNER", "XOR", "RS")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_LARGEST_INT = 2**31 - 1

_HARMFUL_SWITCHES = {
    "SCR_CACHE_PURGE": (True, "each SCR_Init deletes the cached datasets, flushed or not"),
    "SCR_PREFIX_PURGE": (True, "each SCR_Init deletes every dataset in the prefix directory"),
    "SCR_DISTRIBUTE": (False, "each SCR_Init deletes the cached datasets"),
    "SCR_ENABLE": (False, "SCR_Init and every call after it do nothing: all other settings are moot"),
}
_MOOT_WITH_BYPASS = (
    "SCR_CACHE_BASE",
    "SCR_CACHE_SIZE",
    "SCR_COPY_TYPE",
    "SCR_SET_SIZE",
    "SCR_SET_FAILURES",
    "SCR_GROUP",
    "SCR_FLUSH",
    "SCR_FLUSH_TYPE",
    "SCR_FILE_BUF_SIZE",
    "SCR_MPI_BUF_SIZE",
)


def _failures_exceed_the_set(config: Configuration) -> Iterator[ConfigProblem]:
    """Source: scr_reddesc.c:269."""
    failures, size = (config.integer(name) for name in ("SCR_SET_FAILURES", "SCR_SET_SIZE"))
    if config.text("SCR_COPY_TYPE") != "FILE" and failures > size:
        what = f"{failures} losses in a set of {size}: the descriptor is disabled and SCR_Init aborts"
        names = ("SCR_SET_FAILURES", "SCR_SET_SIZE")
        yield config.fault(names, Code.FAILURES_EXCEED_SET, what, f"choose 1 to {size}", Severity.ERROR)


def _switches(config: Configuration) -> Iterator[ConfigProblem]:
    """Source of SCR_ENABLE: scr.c:639."""
    for name, (value, what) in _HARMFUL_SWITCHES.items():
        if config.flag(name) == value:
            code = Code.SCR_OFF if name == "SCR_ENABLE" else Code.DELETES_DATASETS
            yield config.fault((name,), code, what, f"set {name}={int(not value)}")


def _poststage_with_async(config: Configuration) -> Iterator[ConfigProblem]:
    if not (config.flag("SCR_FLUSH_POSTSTAGE") and config.flag("SCR_FLUSH_ASYNC")):
        return
    what = "with SCR_FLUSH_ASYNC=1 SCR crashes in the flush (scr_flush_async.c:340)"
    names = ("SCR_FLUSH_POSTSTAGE", "SCR_FLUSH_ASYNC")
    if config.flush_types == {"BBAPI"}:
        what = "SCR's manual has it for IBM's BBAPI; with every other transfer SCR crashes in the flush"
        yield config.fault(names, Code.POSTSTAGE_ASYNC, what, "try it before you rely on it")
    else:
        yield config.fault(names, Code.POSTSTAGE_ASYNC, what, "set one of the two to 0", Severity.ERROR)


def _bypass_makes_moot(config: Configuration) -> Iterator[ConfigProblem]:
    moot = [name for name in _MOOT_WITH_BYPASS if name in config.given]
    if config.is_the_users("SCR_CACHE_BYPASS"):  # what the system's file has ready for others is no fault
        moot = [name for name in moot if config.is_the_users(name)]
    if not moot or config.has_unknown_descriptors or not config.all_bypass:
        return
    is_default = "SCR_CACHE_BYPASS" not in config.given
    why = " by SCR's default, unless the application sets it" if is_default else ""
    what = f"it is 1{why}: files go straight to the prefix directory, and these do nothing for their data: "
    names = ("SCR_CACHE_BYPASS", *moot)
    yield config.fault(
        names, Code.BYPASS_MOOT, what + ", ".join(moot), "set SCR_CACHE_BYPASS=0, or take them out"
    )


def _async_does_not_overlap(config: Configuration) -> Iterator[ConfigProblem]:
    if not config.flag("SCR_FLUSH_ASYNC") or config.has_unknown_descriptors:
        return
    names = ("SCR_FLUSH_ASYNC",)
    is_overruled = config.is_the_users("SCR_CACHE_BYPASS") or config.is_the_users("SCR_FLUSH_TYPE")
    if is_overruled and not config.is_the_users("SCR_FLUSH_ASYNC"):
        return
    if config.all_bypass:
        what = "nothing is flushed while SCR_CACHE_BYPASS=1 sends files straight to the prefix directory"
        yield config.fault(names, Code.ASYNC_BYPASS, what, "set SCR_CACHE_BYPASS=0")
    elif config.flush_types == {"SYNC"}:
        what = "with SCR_FLUSH_TYPE=SYNC the copy still blocks the application"
        yield config.fault(names, Code.ASYNC_SYNC, what, "set SCR_FLUSH_TYPE=PTHREAD")


def _file_without_lines(config: Configuration) -> Iterator[ConfigProblem]:
    if not config.has_own_lines or config.lines("CKPT"):
        return
    names, remedy = ("SCR_COPY_TYPE",), "add CKPT lines, or name a scheme: SINGLE, PARTNER, XOR or RS"
    if config.config_file is None:
        what = "SCR_Init aborts unless the config file has CKPT lines; none was looked at"
        yield config.fault(names, Code.NEEDS_CKPT, what, "check the config file together with this")
        return
    what = "neither the config file nor the system's has a CKPT line: SCR_Init aborts"
    if config.system_file is None:
        what = "the config file has no CKPT line: SCR_Init aborts, unless the system's file has them"
    yield config.fault(names, Code.NEEDS_CKPT, what, remedy, Severity.ERROR)


def _redundancy_on_one_node(config: Configuration) -> Iterator[ConfigProblem]:
    if config.context.nodes != 1 or config.all_bypass:
        return
    what = "on one node SCR falls back to SINGLE: a lost node loses the checkpoints in its cache"
    remedy = "use more nodes, or say SINGLE and flush often"
    scheme = config.text("SCR_COPY_TYPE")
    if "SCR_COPY_TYPE" in config.given and scheme not in ("FILE", "SINGLE"):
        yield config.fault(("SCR_COPY_TYPE",), Code.SINGLE_NODE, what, remedy)
    for entry in config.ckpt_lines:
        pair = entry.child("TYPE")
        if pair is not None and pair.value.upper() != "SINGLE":
            yield config.fault(pair, Code.SINGLE_NODE, what, remedy)


def _cache_is_too_small(config: Configuration) -> Iterator[ConfigProblem]:
    size, nodes = config.context.checkpoint_bytes, config.context.nodes
    if size is None or not nodes or config.has_unknown_descriptors:
        return
    factors: dict[str, float] = {}
    for line in config.checkpoints:
        if not line.bypass:
            factors[line.store] = max(factors.get(line.store, 0.0), _factor(config, line, nodes))
    for path, store in config.stores.items():
        capacity, factor = config.context.capacities.get(path), factors.get(path)
        if capacity is None or factor is None:
            continue
        count = max(1, store.count)
        needed = count * size / nodes * factor
        if needed <= capacity.free_bytes:
            continue
        what = (
            f"{count} datasets of {bytes_text(size / nodes)} a node x {factor:.2f} for redundancy need"
            f" {bytes_text(needed)} in {path}, which has {bytes_text(capacity.total_bytes)} on this node,"
            f" {bytes_text(capacity.free_bytes)} of it free: writing a checkpoint will fail"
        )
        severity = Severity.ERROR if needed > capacity.total_bytes else Severity.WARNING
        remedy = "keep fewer datasets, choose a larger cache or a scheme that stores less"
        names = ("SCR_CACHE_SIZE", "SCR_CACHE_BASE", "SCR_COPY_TYPE", "SCR_CACHE_BYPASS")
        pair = None if store.entry is None else store.entry.child("COUNT") or store.entry.parent
        yield config.fault(pair or names, Code.CACHE_TOO_SMALL, what, remedy, severity)


def _factor(config: Configuration, line: Checkpoint, nodes: int) -> float:
    """Return bytes in the caches per byte of checkpoint; SCR takes SCR_SET_SIZE, not that of the line."""
    set_size = min(config.integer("SCR_SET_SIZE"), nodes)
    return storage_factor(effective(line.scheme, nodes), set_size, line.failures)


def _never_flushed(config: Configuration) -> Iterator[ConfigProblem]:
    """Source: scr.c:225 and scr.c:426; output that is no checkpoint is flushed all the same."""
    if config.integer("SCR_FLUSH") > 0 or config.has_unknown_descriptors or config.all_bypass:
        return
    what = (
        "checkpoints stay in the cache and are never copied to the prefix directory, not even the last one:"
        " they are lost when the allocation ends, unless SCR's scripts scavenge them"
    )
    yield config.fault(("SCR_FLUSH",), Code.NEVER_FLUSHED, what, "set SCR_FLUSH to 1 or more")


def _lines_are_ignored(config: Configuration) -> Iterator[ConfigProblem]:
    is_chosen = config.is_the_users("SCR_COPY_TYPE")
    for entry in () if config.has_own_lines else config.lines("CKPT"):
        if not (is_chosen and entry.parent.file == config.system_file):  # which only offers them
            what = f"SCR_COPY_TYPE is {config.text('SCR_COPY_TYPE')}: SCR does not look at CKPT lines"
            yield config.fault(entry.parent, Code.CKPT_IGNORED, what, "set SCR_COPY_TYPE=FILE")


def _interval_of_one(config: Configuration) -> Iterator[ConfigProblem]:
    lines, made = config.ckpt_lines, config.checkpoints
    if lines and not any(line.interval == 1 and _disabled(line) is None for line in made):
        what = "no enabled CKPT line has INTERVAL=1: SCR_Init aborts (scr.c:2281)"
        remedy = "give one of them INTERVAL=1"
        yield config.fault(lines[0].parent, Code.NO_INTERVAL_1, what, remedy, Severity.ERROR)


def _disabled_lines(config: Configuration) -> Iterator[ConfigProblem]:
    for line in config.checkpoints:
        why = _disabled(line)
        if line.entry is not None and line.declared and why is not None:
            what = f"{why[0]}: SCR disables the line"
            yield config.fault(line.entry.parent, Code.CKPT_DISABLED, what, why[1], Severity.ERROR)


def _stores_exist(config: Configuration) -> Iterator[ConfigProblem]:
    stores = config.stores
    elsewhere = "" if config.lines("STORE") else config.unread_file
    for line in config.checkpoints:
        store = stores.get(line.store)
        if line.entry is None or "$" in line.store or (store is not None and store.enabled):
            continue
        hint = f" unless {elsewhere} has the STORE line" if elsewhere else ""
        what = f"no enabled STORE line has {line.store}: SCR disables the line{hint}"
        severity = Severity.WARNING if elsewhere else Severity.ERROR
        pair = line.entry.child("STORE") or line.entry.parent
        yield config.fault(pair, Code.UNKNOWN_STORE, what, f"add STORE={line.store}", severity)


def _groups_exist(config: Configuration) -> Iterator[ConfigProblem]:
    lines = config.lines("GROUPS")
    known = {"NODE", "WORLD", *(pair.key for entry in lines for pair in entry.children)}
    elsewhere = "" if lines else config.unread_file
    severity = Severity.WARNING if elsewhere else Severity.ERROR
    hint = f", unless {elsewhere} has it" if elsewhere else ""
    remedy = "choose NODE or WORLD, or add GROUPS lines for every node"
    for entry in (*config.lines("STORE"), *config.ckpt_lines):
        pair = entry.child("GROUP")
        if pair is not None and pair.value not in known and "$" not in pair.value:
            fate = "SCR disables the line" if entry.parent.key == "STORE" else "SCR_Init crashes"
            what = f"there is no such group{hint}: {fate}"
            yield config.fault(pair, Code.UNKNOWN_GROUP, what, remedy, severity)
    group = config.text("SCR_GROUP")
    if group not in known and "$" not in group:
        what = f"there is no group {group}{hint}: SCR_Init crashes"
        yield config.fault(("SCR_GROUP",), Code.UNKNOWN_GROUP, what, remedy, severity)


def _set_size_of_a_line(config: Configuration) -> Iterator[ConfigProblem]:
    for entry in config.ckpt_lines:
        pair, size = entry.child("SET_SIZE"), config.integer("SCR_SET_SIZE")
        if pair is not None and atoi(pair.value) != size:
            what = f"SCR takes SCR_SET_SIZE={size} for every CKPT line"
            yield config.fault(pair, Code.SET_SIZE_IGNORED, what, "set SCR_SET_SIZE, and leave this out")


def _children(config: Configuration) -> Iterator[ConfigProblem]:
    """Judge the keys and values of STORE and CKPT lines."""
    for entry in config.entries:
        descriptor = DESCRIPTOR_LINES[entry.parent.key]
        keys = {key.name: key for key in descriptor.keys}
        for pair in () if descriptor.open_keys else entry.children:
            if (key := keys.get(pair.key)) is None:
                what, remedy = f"a {descriptor.name} line has no such key", f"use one of {', '.join(keys)}"
                yield config.fault(pair, Code.UNKNOWN_CHILD, f"{what}: SCR ignores it", remedy)
            else:
                yield from _child_value(config, pair, key)


def _child_value(config: Configuration, pair: Pair, key: Key) -> Iterator[ConfigProblem]:
    if "$" in pair.value:
        return
    if key.type in (ValueType.INT, ValueType.BOOL) and (fault := _bad_number(pair)):
        yield config.fault(pair, Code.BAD_VALUE, *fault, Severity.ERROR)
    elif key.name in ("FLUSH", "VIEW") and pair.value not in key.choices:
        choices = ", ".join(key.choices)
        what = f"it must be one of {choices} (capital letters)"
        if key.name == "FLUSH":
            what += ": SCR finds no such transfer, and flushes from this store fail"
        yield config.fault(pair, Code.BAD_VALUE, what, f"choose one of {choices}", Severity.ERROR)


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
    if line.scheme not in _SCHEMES and "$" not in line.scheme:
        return "its TYPE is missing or none that SCR knows", f"say TYPE as one of {', '.join(_SCHEMES)}"
    if not 1 <= line.failures <= line.set_size:
        what = f"SET_FAILURES {line.failures} is not within 1 and the set size {line.set_size}"
        return what, "choose SET_FAILURES within the set"
    return None


RULES: tuple[Rule, ...] = (
    Rule(_failures_exceed_the_set, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    Rule(_switches, ()),
    Rule(_poststage_with_async, ("SCR_COPY_TYPE", "SCR_FLUSH_TYPE")),
    Rule(_bypass_makes_moot, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS")),
    Rule(_async_does_not_overlap, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_FLUSH_TYPE")),
    Rule(_never_flushed, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_FLUSH")),
    Rule(_file_without_lines, ("SCR_COPY_TYPE",)),
    Rule(_redundancy_on_one_node, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS")),
    Rule(_cache_is_too_small, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_CACHE_SIZE", "SCR_CACHE_BASE")),
    Rule(_lines_are_ignored, ("SCR_COPY_TYPE",)),
    Rule(_interval_of_one, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    Rule(_disabled_lines, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    Rule(_stores_exist, ("SCR_COPY_TYPE", "SCR_CACHE_BASE", "SCR_CNTL_BASE")),
    Rule(_groups_exist, ("SCR_COPY_TYPE", "SCR_GROUP")),
    Rule(_set_size_of_a_line, ("SCR_COPY_TYPE", "SCR_SET_SIZE")),
    Rule(_children, ()),
)


def faults(config: Configuration) -> Iterator[ConfigProblem]:
    """Yield what is wrong with a configuration by all rules whose values are known."""
    for rule in RULES:
        if config.knows(rule.needs):
            yield from rule.judge(config)
