"""What does not go together in a job's configuration: one small function a rule, in the table at the end.

The facts were read in SCR's sources (3.1.0 and later) and tried on a real SCR; docs/check.md lists them.
"""

from collections.abc import Callable, Iterator

from ..intents.intent import bytes_text
from ..intents.redundancy import storage_factor
from .check_model import Configuration
from .descriptor_lines import DESCRIPTOR_LINES, Key
from .findings import Finding
from .parse import Entry, Pair
from .placement import GROUPS, SCHEMES, Checkpoint, child, number
from .problems import Problem, Severity
from .validate import checkpoints_are_deleted, failures_fit_the_set

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


def _failures(config: Configuration) -> Iterator[Finding]:
    if config.settings["SCR_COPY_TYPE"] != "FILE":
        for problem in failures_fit_the_set(config.settings):
            yield _at_problem(config, problem, "SCR_SET_SIZE")


def _deleted(config: Configuration) -> Iterator[Finding]:
    for problem in checkpoints_are_deleted(config.settings):
        yield _at_problem(config, problem)


def _poststage(config: Configuration) -> Iterator[Finding]:
    if not (config.settings["SCR_FLUSH_POSTSTAGE"] and config.settings["SCR_FLUSH_ASYNC"]):
        return
    what = "with SCR_FLUSH_ASYNC=1 SCR crashes in the flush (scr_flush_async.c:340)"
    names, remedy = ("SCR_FLUSH_POSTSTAGE", "SCR_FLUSH_ASYNC"), "set one of the two to 0"
    if _flush_types(config) == {"BBAPI"}:
        what = "SCR's manual has it for IBM's BBAPI; with every other transfer SCR crashes in the flush"
        yield config.at(names, "warning", "poststage-async", what, "try it before you rely on it")
    else:
        yield config.at(names, "error", "poststage-async", what, remedy)


def _bypass_makes_moot(config: Configuration) -> Iterator[Finding]:
    moot = [name for name in _MOOT_WITH_BYPASS if name in config.given]
    if not moot or config.has_unknown_descriptors or not _all_bypass(config):
        return
    why = (
        ""
        if "SCR_CACHE_BYPASS" in config.given
        else " by SCR's default, unless the application says otherwise"
    )
    what = (
        f"it is 1{why}: files go straight to the prefix directory, and these do nothing for their data: "
        + ", ".join(moot)
    )
    yield config.at(
        ("SCR_CACHE_BYPASS", *moot),
        "warning",
        "bypass-moot",
        what,
        "set SCR_CACHE_BYPASS=0, or take them out",
    )


def _async_does_not_overlap(config: Configuration) -> Iterator[Finding]:
    if not config.settings["SCR_FLUSH_ASYNC"] or config.has_unknown_descriptors:
        return
    names = ("SCR_FLUSH_ASYNC",)
    if _all_bypass(config):
        what = "nothing is flushed while SCR_CACHE_BYPASS=1 sends files straight to the prefix directory"
        yield config.at(names, "warning", "async-bypass", what, "set SCR_CACHE_BYPASS=0")
    elif _flush_types(config) == {"SYNC"}:
        what = "with SCR_FLUSH_TYPE=SYNC the copy still blocks the application"
        yield config.at(names, "warning", "async-sync", what, "set SCR_FLUSH_TYPE=PTHREAD")


def _copy_type_file(config: Configuration) -> Iterator[Finding]:
    if config.settings["SCR_COPY_TYPE"] != "FILE":
        for entry in config.lines("CKPT"):
            what = f"SCR_COPY_TYPE is {config.settings['SCR_COPY_TYPE']}: SCR does not look at CKPT lines"
            yield config.on(entry.parent, "warning", "ckpt-ignored", what, "set SCR_COPY_TYPE=FILE")
        return
    names, remedy = ("SCR_COPY_TYPE",), "add CKPT lines, or name a scheme: SINGLE, PARTNER, XOR or RS"
    if config.config_file is None:
        what = "SCR_Init aborts unless the config file has CKPT lines; none was looked at"
        yield config.at(names, "warning", "needs-ckpt", what, "check the config file together with this")
    elif not config.lines("CKPT"):
        what = "the config file has no CKPT line: SCR_Init aborts, unless the system's file has them"
        yield config.at(names, "error", "needs-ckpt", what, remedy)


def _interval_of_one(config: Configuration) -> Iterator[Finding]:
    lines = [entry for entry in config.checkpoints if entry.entry is not None]
    if lines and not any(line.interval == 1 and _disabled(line) is None for line in lines):
        what = "no enabled CKPT line has INTERVAL=1: SCR_Init aborts (scr.c:2281)"
        first = lines[0].entry
        if first is not None:
            yield config.on(first.parent, "error", "no-interval-1", what, "give one of them INTERVAL=1")


def _disabled_lines(config: Configuration) -> Iterator[Finding]:
    for line in config.checkpoints:
        why = _disabled(line)
        if line.entry is not None and line.declared and why is not None:
            what, remedy = why
            yield config.on(
                line.entry.parent, "error", "ckpt-disabled", f"{what}: SCR disables the line", remedy
            )


def _stores_exist(config: Configuration) -> Iterator[Finding]:
    has_stores, stores = bool(config.lines("STORE")), config.stores
    for line in config.checkpoints:
        store = stores.get(line.store)
        if line.entry is None or "$" in line.store or (store is not None and store.enabled):
            continue
        what = f"no enabled STORE line has {line.store}: SCR disables the line"
        if not has_stores:
            what += " unless SCR's system file has the STORE line"
        severity: Severity = "error" if has_stores else "warning"
        pair = child(line.entry, "STORE") or line.entry.parent
        yield config.on(pair, severity, "unknown-store", what, f"add STORE={line.store}")


def _groups_exist(config: Configuration) -> Iterator[Finding]:
    lines = config.lines("GROUPS")
    known = {*GROUPS, *(pair.key for entry in lines for pair in entry.children)}
    severity: Severity = "error" if lines else "warning"
    hint = "" if lines else ", unless SCR's system file has it"
    remedy = "choose NODE or WORLD, or add GROUPS lines for every node"
    for entry in (*config.lines("STORE"), *_ckpt_lines_in_force(config)):
        pair = child(entry, "GROUP")
        if pair is not None and pair.value not in known and "$" not in pair.value:
            fate = "SCR disables the line" if entry.parent.key == "STORE" else "SCR_Init crashes"
            what = f"there is no such group{hint}: {fate}"
            yield config.on(pair, severity, "unknown-group", what, remedy)
    group = config.settings["SCR_GROUP"]
    if group not in known and "$" not in str(group):
        what = f"there is no group {group}{hint}: SCR_Init crashes"
        yield config.at(("SCR_GROUP",), severity, "unknown-group", what, remedy)


def _set_size_of_a_line(config: Configuration) -> Iterator[Finding]:
    for entry in _ckpt_lines_in_force(config):
        pair = child(entry, "SET_SIZE")
        if pair is not None and number(pair.value) != config.settings["SCR_SET_SIZE"]:
            what = f"SCR takes SCR_SET_SIZE={config.settings['SCR_SET_SIZE']} for every CKPT line"
            yield config.on(pair, "warning", "set-size-ignored", what, "set SCR_SET_SIZE, and leave this out")


def _children(config: Configuration) -> Iterator[Finding]:
    """The keys and values of STORE and CKPT lines."""
    for entry in config.entries:
        descriptor = DESCRIPTOR_LINES.get(entry.parent.key)
        if descriptor is None or descriptor.open_keys:
            continue
        keys = {key.name: key for key in descriptor.keys}
        for pair in entry.children:
            if (key := keys.get(pair.key)) is None:
                what, remedy = f"a {descriptor.name} line has no such key", f"use one of {', '.join(keys)}"
                yield config.on(pair, "warning", "unknown-child", f"{what}: SCR ignores it", remedy)
            else:
                yield from _child_value(config, pair, key)


def _child_value(config: Configuration, pair: Pair, key: Key) -> Iterator[Finding]:
    if "$" in pair.value:
        return
    if key.type in ("int", "bool") and not pair.value.lstrip("+-").isdecimal():
        what = f"SCR reads it as {number(pair.value)}"
        yield config.on(pair, "error", "bad-value", what, "give a whole number")
    elif key.name in ("FLUSH", "VIEW") and pair.value not in key.choices:
        what = f"it must be one of {', '.join(key.choices)} (capital letters)"
        if key.name == "FLUSH":
            what += ": SCR finds no such transfer, and flushes from this store fail"
        yield config.on(pair, "error", "bad-value", what, f"choose one of {', '.join(key.choices)}")


def _one_node(config: Configuration) -> Iterator[Finding]:
    if config.situation.nodes != 1 or _all_bypass(config):
        return
    what = "on one node SCR falls back to SINGLE: a lost node loses the checkpoints in its cache"
    remedy = "use more nodes, or say SINGLE and flush often"
    scheme = config.settings["SCR_COPY_TYPE"]
    if "SCR_COPY_TYPE" in config.given and scheme not in ("FILE", "SINGLE"):
        yield config.at(("SCR_COPY_TYPE",), "warning", "single-node", what, remedy)
    for entry in _ckpt_lines_in_force(config):
        pair = child(entry, "TYPE")
        if pair is not None and pair.value.upper() != "SINGLE":
            yield config.on(pair, "warning", "single-node", what, remedy)


def _cache_holds_the_datasets(config: Configuration) -> Iterator[Finding]:
    size, nodes = config.situation.checkpoint_bytes, config.situation.nodes
    if size is None or not nodes or config.has_unknown_descriptors:
        return
    factors: dict[str, float] = {}
    for line in config.checkpoints:
        if not line.bypass:
            factors[line.store] = max(factors.get(line.store, 0.0), _factor(config, line, nodes))
    for path, store in config.stores.items():
        capacity, factor = config.situation.capacities.get(path), factors.get(path)
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
        severity: Severity = "error" if needed > capacity.total_bytes else "warning"
        remedy = "keep fewer datasets, choose a larger cache or a scheme that stores less"
        if store.entry is not None:
            pair = child(store.entry, "COUNT") or store.entry.parent
            yield config.on(pair, severity, "cache-too-small", what, remedy)
        else:
            names = ("SCR_CACHE_SIZE", "SCR_CACHE_BASE", "SCR_COPY_TYPE", "SCR_CACHE_BYPASS")
            yield config.at(names, severity, "cache-too-small", what, remedy)


RULES: tuple[tuple[Callable[[Configuration], Iterator[Finding]], tuple[str, ...]], ...] = (
    (_failures, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    (_deleted, ()),
    (_poststage, ("SCR_COPY_TYPE", "SCR_FLUSH_TYPE")),
    (_bypass_makes_moot, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS")),
    (_async_does_not_overlap, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_FLUSH_TYPE")),
    (_copy_type_file, ("SCR_COPY_TYPE",)),
    (_interval_of_one, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    (_disabled_lines, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    (_stores_exist, ("SCR_COPY_TYPE", "SCR_CACHE_BASE", "SCR_CNTL_BASE")),
    (_groups_exist, ("SCR_COPY_TYPE", "SCR_GROUP")),
    (_set_size_of_a_line, ("SCR_COPY_TYPE", "SCR_SET_SIZE")),
    (_children, ()),
    (_one_node, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS")),
    (_cache_holds_the_datasets, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_CACHE_SIZE", "SCR_CACHE_BASE")),
)
"""Each rule, and the parameters without whose values it cannot judge. What is no value was told before; here
SCR's default stands in for it.
"""


def _at_problem(config: Configuration, problem: Problem, *others: str) -> Finding:
    names = (problem.parameter, *others)
    return config.at(names, problem.severity, problem.code, problem.what, problem.remedy)


def _ckpt_lines_in_force(config: Configuration) -> tuple[Entry, ...]:
    return config.lines("CKPT") if config.settings["SCR_COPY_TYPE"] == "FILE" else ()


def _all_bypass(config: Configuration) -> bool:
    lines = config.checkpoints
    return all(line.bypass for line in lines) if lines else bool(config.settings["SCR_CACHE_BYPASS"])


def _flush_types(config: Configuration) -> set[str]:
    """The transfers of the stores in use."""
    default = str(config.settings["SCR_FLUSH_TYPE"])
    used = {line.store for line in config.checkpoints if not line.bypass}
    return {store.flush_type for path, store in config.stores.items() if path in used} or {default}


def _disabled(line: Checkpoint) -> tuple[str, str] | None:
    """Why SCR disables a CKPT line, and how to mend it; ENABLED=0 is a reason like any other."""
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


def _factor(config: Configuration, line: Checkpoint, nodes: int) -> float:
    """Bytes in the caches per byte of checkpoint; the set is SCR_SET_SIZE's, whatever the line says."""
    set_size = min(int(config.settings["SCR_SET_SIZE"]), nodes)
    return storage_factor(config.scheme(line), set_size, line.failures)
