"""Parameters that do not go together: one small function a constraint, in the table at the end.

`validate` holds advice and rendered settings to this table, `scrtune check` a job's whole configuration. The
facts were read in SCR's sources (3.1.0 and later) and tried on a real SCR; docs/check.md lists them.
"""

from collections.abc import Iterator

from ..intents.observe.redundancy import storage_factor
from ..units import bytes_text
from .check.model import Configuration, Fault, Rule
from .placement import Checkpoint, child
from .problems import Severity

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


def _failures_exceed_the_set(config: Configuration) -> Iterator[Fault]:
    """Source: scr_reddesc.c:269."""
    failures, size = (config.settings.integer(name) for name in ("SCR_SET_FAILURES", "SCR_SET_SIZE"))
    if config.settings.text("SCR_COPY_TYPE") != "FILE" and failures > size:
        what = f"{failures} losses in a set of {size}: the descriptor is disabled and SCR_Init aborts"
        names = ("SCR_SET_FAILURES", "SCR_SET_SIZE")
        yield Fault(names, "error", "failures-exceed-set", what, f"choose 1 to {size}")


def _datasets_are_deleted(config: Configuration) -> Iterator[Fault]:
    deletes = {
        "SCR_CACHE_PURGE": (True, "each SCR_Init deletes the cached datasets, flushed or not"),
        "SCR_PREFIX_PURGE": (True, "each SCR_Init deletes every dataset in the prefix directory"),
        "SCR_DISTRIBUTE": (False, "each SCR_Init deletes the cached datasets"),
    }
    for name, (value, what) in deletes.items():
        if config.settings.flag(name) == value:
            yield Fault((name,), "warning", "deletes-datasets", what, f"set {name}={int(not value)}")


def _poststage_with_async(config: Configuration) -> Iterator[Fault]:
    if not (config.settings.flag("SCR_FLUSH_POSTSTAGE") and config.settings.flag("SCR_FLUSH_ASYNC")):
        return
    what = "with SCR_FLUSH_ASYNC=1 SCR crashes in the flush (scr_flush_async.c:340)"
    names, remedy = ("SCR_FLUSH_POSTSTAGE", "SCR_FLUSH_ASYNC"), "set one of the two to 0"
    if config.flush_types == {"BBAPI"}:
        what = "SCR's manual has it for IBM's BBAPI; with every other transfer SCR crashes in the flush"
        yield Fault(names, "warning", "poststage-async", what, "try it before you rely on it")
    else:
        yield Fault(names, "error", "poststage-async", what, remedy)


def _bypass_makes_moot(config: Configuration) -> Iterator[Fault]:
    moot = [name for name in _MOOT_WITH_BYPASS if name in config.given]
    if config.is_the_users("SCR_CACHE_BYPASS"):  # what the system's file has ready for others is no fault
        moot = [name for name in moot if config.is_the_users(name)]
    if not moot or config.has_unknown_descriptors or not config.all_bypass:
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
    names = ("SCR_CACHE_BYPASS", *moot)
    yield Fault(names, "warning", "bypass-moot", what, "set SCR_CACHE_BYPASS=0, or take them out")


def _async_does_not_overlap(config: Configuration) -> Iterator[Fault]:
    if not config.settings.flag("SCR_FLUSH_ASYNC") or config.has_unknown_descriptors:
        return
    names = ("SCR_FLUSH_ASYNC",)
    is_overruled = config.is_the_users("SCR_CACHE_BYPASS") or config.is_the_users("SCR_FLUSH_TYPE")
    if is_overruled and not config.is_the_users("SCR_FLUSH_ASYNC"):
        return
    if config.all_bypass:
        what = "nothing is flushed while SCR_CACHE_BYPASS=1 sends files straight to the prefix directory"
        yield Fault(names, "warning", "async-bypass", what, "set SCR_CACHE_BYPASS=0")
    elif config.flush_types == {"SYNC"}:
        what = "with SCR_FLUSH_TYPE=SYNC the copy still blocks the application"
        yield Fault(names, "warning", "async-sync", what, "set SCR_FLUSH_TYPE=PTHREAD")


def _file_without_lines(config: Configuration) -> Iterator[Fault]:
    if config.settings.text("SCR_COPY_TYPE") != "FILE":
        return
    names, remedy = ("SCR_COPY_TYPE",), "add CKPT lines, or name a scheme: SINGLE, PARTNER, XOR or RS"
    if config.lines("CKPT"):
        return
    if config.config_file is None:
        what = "SCR_Init aborts unless the config file has CKPT lines; none was looked at"
        yield Fault(names, "warning", "needs-ckpt", what, "check the config file together with this")
    elif config.system_file is None:
        what = "the config file has no CKPT line: SCR_Init aborts, unless the system's file has them"
        yield Fault(names, "error", "needs-ckpt", what, remedy)
    else:
        what = "neither the config file nor the system's has a CKPT line: SCR_Init aborts"
        yield Fault(names, "error", "needs-ckpt", what, remedy)


def _redundancy_on_one_node(config: Configuration) -> Iterator[Fault]:
    if config.situation.nodes != 1 or config.all_bypass:
        return
    what = "on one node SCR falls back to SINGLE: a lost node loses the checkpoints in its cache"
    remedy = "use more nodes, or say SINGLE and flush often"
    scheme = config.settings.text("SCR_COPY_TYPE")
    if "SCR_COPY_TYPE" in config.given and scheme not in ("FILE", "SINGLE"):
        yield Fault(("SCR_COPY_TYPE",), "warning", "single-node", what, remedy)
    for entry in config.ckpt_lines:
        pair = child(entry, "TYPE")
        if pair is not None and pair.value.upper() != "SINGLE":
            yield Fault(("SCR_COPY_TYPE",), "warning", "single-node", what, remedy, pair)


def _cache_is_too_small(config: Configuration) -> Iterator[Fault]:
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
        names = ("SCR_CACHE_SIZE", "SCR_CACHE_BASE", "SCR_COPY_TYPE", "SCR_CACHE_BYPASS")
        pair = None if store.entry is None else child(store.entry, "COUNT") or store.entry.parent
        yield Fault(names, severity, "cache-too-small", what, remedy, pair)


def _factor(config: Configuration, line: Checkpoint, nodes: int) -> float:
    """Bytes in the caches per byte of checkpoint; the set is SCR_SET_SIZE's, whatever the line says."""
    set_size = min(config.settings.integer("SCR_SET_SIZE"), nodes)
    return storage_factor(config.scheme(line), set_size, line.failures)


def _scr_is_off(config: Configuration) -> Iterator[Fault]:
    """Source: scr.c:639."""
    if not config.settings.flag("SCR_ENABLE"):
        what = "SCR_Init and every call after it do nothing: all other settings are moot"
        yield Fault(("SCR_ENABLE",), "warning", "scr-off", what, "set SCR_ENABLE=1, or take it out")


def _never_flushed(config: Configuration) -> Iterator[Fault]:
    """Source: scr.c:225 and scr.c:426; output that is no checkpoint is flushed all the same."""
    if config.settings.integer("SCR_FLUSH") > 0 or config.has_unknown_descriptors or config.all_bypass:
        return
    what = (
        "checkpoints stay in the cache and are never copied to the prefix directory, the last one neither:"
        " when the allocation ends they are gone, unless SCR's scripts scavenge them"
    )
    yield Fault(("SCR_FLUSH",), "warning", "never-flushed", what, "set SCR_FLUSH to 1 or more")


CONSTRAINTS: tuple[Rule, ...] = (
    Rule(_failures_exceed_the_set, ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES")),
    Rule(_datasets_are_deleted, ()),
    Rule(_poststage_with_async, ("SCR_COPY_TYPE", "SCR_FLUSH_TYPE")),
    Rule(_bypass_makes_moot, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS")),
    Rule(_async_does_not_overlap, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_FLUSH_TYPE")),
    Rule(_scr_is_off, ()),
    Rule(_never_flushed, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_FLUSH")),
    Rule(_file_without_lines, ("SCR_COPY_TYPE",)),
    Rule(_redundancy_on_one_node, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS")),
    Rule(_cache_is_too_small, ("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_CACHE_SIZE", "SCR_CACHE_BASE")),
)
