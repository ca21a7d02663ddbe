"""Settings that SCR fails on: values out of bounds, and parameters that do not go together.

Bounds are in the catalogue; what does not go together is one small function a constraint, in the table
CONSTRAINTS. `validate` holds advice and rendered settings to it, `scrtune check` a job's whole configuration.
The facts were read in SCR's sources (3.1.0 and later) and tried on a real SCR; docs/check.md lists them.
"""

import re
from collections.abc import Iterator, Mapping

from ..intents.events import Value
from ..intents.observe.redundancy import storage_factor
from ..units import bytes_text
from .catalogue import CATALOGUE, TOKEN_LIMIT_BYTES, Status
from .check.model import CheckContext, Checkpoint, Configuration, Fault, Rule
from .parse import Pair, value_oddities
from .problems import Code, ConfigProblem, Severity
from .settings import Settings

FILE_GRAMMAR = Code.NOT_FOR_A_FILE
"""Code of the errors that a value has in a config file only: the environment can carry it."""

_NOT_IN_A_FILE = re.compile(r"[\x00-\x20\x7f=$\\]")

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
        yield Fault(names, Code.FAILURES_EXCEED_SET, what, f"choose 1 to {size}", Severity.ERROR)


def _datasets_are_deleted(config: Configuration) -> Iterator[Fault]:
    deletes = {
        "SCR_CACHE_PURGE": (True, "each SCR_Init deletes the cached datasets, flushed or not"),
        "SCR_PREFIX_PURGE": (True, "each SCR_Init deletes every dataset in the prefix directory"),
        "SCR_DISTRIBUTE": (False, "each SCR_Init deletes the cached datasets"),
    }
    for name, (value, what) in deletes.items():
        if config.settings.flag(name) == value:
            yield Fault((name,), Code.DELETES_DATASETS, what, f"set {name}={int(not value)}")


def _poststage_with_async(config: Configuration) -> Iterator[Fault]:
    if not (config.settings.flag("SCR_FLUSH_POSTSTAGE") and config.settings.flag("SCR_FLUSH_ASYNC")):
        return
    what = "with SCR_FLUSH_ASYNC=1 SCR crashes in the flush (scr_flush_async.c:340)"
    names, remedy = ("SCR_FLUSH_POSTSTAGE", "SCR_FLUSH_ASYNC"), "set one of the two to 0"
    if config.flush_types == {"BBAPI"}:
        what = "SCR's manual has it for IBM's BBAPI; with every other transfer SCR crashes in the flush"
        yield Fault(names, Code.POSTSTAGE_ASYNC, what, "try it before you rely on it")
    else:
        yield Fault(names, Code.POSTSTAGE_ASYNC, what, remedy, Severity.ERROR)


def _bypass_makes_moot(config: Configuration) -> Iterator[Fault]:
    moot = [name for name in _MOOT_WITH_BYPASS if name in config.given]
    if config.is_the_users("SCR_CACHE_BYPASS"):  # what the system's file has ready for others is no fault
        moot = [name for name in moot if config.is_the_users(name)]
    if not moot or config.has_unknown_descriptors or not config.all_bypass:
        return
    is_default = "SCR_CACHE_BYPASS" not in config.given
    why = " by SCR's default, unless the application sets it" if is_default else ""
    what = f"it is 1{why}: files go straight to the prefix directory, and these do nothing for their data: "
    names = ("SCR_CACHE_BYPASS", *moot)
    yield Fault(names, Code.BYPASS_MOOT, what + ", ".join(moot), "set SCR_CACHE_BYPASS=0, or take them out")


def _async_does_not_overlap(config: Configuration) -> Iterator[Fault]:
    if not config.settings.flag("SCR_FLUSH_ASYNC") or config.has_unknown_descriptors:
        return
    names = ("SCR_FLUSH_ASYNC",)
    is_overruled = config.is_the_users("SCR_CACHE_BYPASS") or config.is_the_users("SCR_FLUSH_TYPE")
    if is_overruled and not config.is_the_users("SCR_FLUSH_ASYNC"):
        return
    if config.all_bypass:
        what = "nothing is flushed while SCR_CACHE_BYPASS=1 sends files straight to the prefix directory"
        yield Fault(names, Code.ASYNC_BYPASS, what, "set SCR_CACHE_BYPASS=0")
    elif config.flush_types == {"SYNC"}:
        what = "with SCR_FLUSH_TYPE=SYNC the copy still blocks the application"
        yield Fault(names, Code.ASYNC_SYNC, what, "set SCR_FLUSH_TYPE=PTHREAD")


def _file_without_lines(config: Configuration) -> Iterator[Fault]:
    if config.settings.text("SCR_COPY_TYPE") != "FILE":
        return
    names, remedy = ("SCR_COPY_TYPE",), "add CKPT lines, or name a scheme: SINGLE, PARTNER, XOR or RS"
    if config.lines("CKPT"):
        return
    if config.config_file is None:
        what = "SCR_Init aborts unless the config file has CKPT lines; none was looked at"
        yield Fault(names, Code.NEEDS_CKPT, what, "check the config file together with this")
    elif config.system_file is None:
        what = "the config file has no CKPT line: SCR_Init aborts, unless the system's file has them"
        yield Fault(names, Code.NEEDS_CKPT, what, remedy, Severity.ERROR)
    else:
        what = "neither the config file nor the system's has a CKPT line: SCR_Init aborts"
        yield Fault(names, Code.NEEDS_CKPT, what, remedy, Severity.ERROR)


def _redundancy_on_one_node(config: Configuration) -> Iterator[Fault]:
    if config.context.nodes != 1 or config.all_bypass:
        return
    what = "on one node SCR falls back to SINGLE: a lost node loses the checkpoints in its cache"
    remedy = "use more nodes, or say SINGLE and flush often"
    scheme = config.settings.text("SCR_COPY_TYPE")
    if "SCR_COPY_TYPE" in config.given and scheme not in ("FILE", "SINGLE"):
        yield Fault(("SCR_COPY_TYPE",), Code.SINGLE_NODE, what, remedy)
    for entry in config.ckpt_lines:
        pair = entry.child("TYPE")
        if pair is not None and pair.value.upper() != "SINGLE":
            yield Fault(pair, Code.SINGLE_NODE, what, remedy)


def _cache_is_too_small(config: Configuration) -> Iterator[Fault]:
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
        yield Fault(pair or names, Code.CACHE_TOO_SMALL, what, remedy, severity)


def _factor(config: Configuration, line: Checkpoint, nodes: int) -> float:
    """Return bytes in the caches per byte of checkpoint; SCR takes SCR_SET_SIZE, not that of the line."""
    set_size = min(config.settings.integer("SCR_SET_SIZE"), nodes)
    return storage_factor(config.scheme(line), set_size, line.failures)


def _scr_is_off(config: Configuration) -> Iterator[Fault]:
    """Source: scr.c:639."""
    if not config.settings.flag("SCR_ENABLE"):
        what = "SCR_Init and every call after it do nothing: all other settings are moot"
        yield Fault(("SCR_ENABLE",), Code.SCR_OFF, what, "set SCR_ENABLE=1, or take it out")


def _never_flushed(config: Configuration) -> Iterator[Fault]:
    """Source: scr.c:225 and scr.c:426; output that is no checkpoint is flushed all the same."""
    if config.settings.integer("SCR_FLUSH") > 0 or config.has_unknown_descriptors or config.all_bypass:
        return
    what = (
        "checkpoints stay in the cache and are never copied to the prefix directory, not even the last one:"
        " they are lost when the allocation ends, unless SCR's scripts scavenge them"
    )
    yield Fault(("SCR_FLUSH",), Code.NEVER_FLUSHED, what, "set SCR_FLUSH to 1 or more")


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


def validate(settings: Mapping[str, Value]) -> tuple[ConfigProblem, ...]:
    """Return every problem of `settings` as a whole, in order of the parameters. Never raises."""
    problems = [problem for name, value in sorted(settings.items()) for problem in _of_one(name, value)]
    if not any(map(_is_fatal, problems)):
        problems.extend(_together(Settings(settings)))
    return tuple(problems)


def fatal(settings: Mapping[str, Value]) -> tuple[ConfigProblem, ...]:
    """Return the errors of `settings` wherever they are given: without those of a config file's grammar."""
    return tuple(filter(_is_fatal, validate(settings)))


def _is_fatal(problem: ConfigProblem) -> bool:
    return problem.severity is Severity.ERROR and problem.code is not FILE_GRAMMAR


def _of_one(name: str, value: Value) -> Iterator[ConfigProblem]:
    """Yield what is wrong with one value by itself."""
    parameter = CATALOGUE.get(name)
    if parameter is None:
        what = "SCR has no such parameter and ignores it"
        yield ConfigProblem(Severity.ERROR, Code.UNKNOWN_NAME, name, what, "check the spelling")
        return
    if not parameter.accepts(value):
        consequence = f": {parameter.if_wrong}" if parameter.if_wrong else ""
        what = f"{value!r} is not {parameter.allowed}{consequence}"
        yield ConfigProblem(Severity.ERROR, Code.BAD_VALUE, name, what, f"choose {parameter.allowed}")
        return
    if parameter.status is Status.INERT and value != parameter.default:
        what = f"SCR reads it and does nothing with it. {parameter.note}"
        yield ConfigProblem(Severity.WARNING, Code.INERT, name, what, "do not count on it")
    if isinstance(value, str) and parameter.in_files:
        if misfit := _misfit(value):
            yield ConfigProblem(Severity.ERROR, FILE_GRAMMAR, name, *misfit)
        for code, what, remedy in value_oddities(value):
            yield ConfigProblem(Severity.WARNING, code, name, what, remedy)


def _misfit(value: str) -> tuple[str, str] | None:
    """Return why a config file cannot carry `value`, and the remedy; None when it can."""
    if not value:
        return (
            "a config file cannot hold an empty value: SCR would take whatever is in memory",
            "leave the parameter out",
        )
    if _NOT_IN_A_FILE.search(value):
        return (
            f"a config file cannot carry {value!r}: spaces and = end a value, $ and \\ are expanded",
            "choose another value, or give it in the environment",
        )
    if len(value.encode(errors="replace")) > TOKEN_LIMIT_BYTES:
        return f"SCR reads values of {TOKEN_LIMIT_BYTES} bytes at most from a config file", "shorten it"
    return None


def _together(settings: Settings) -> Iterator[ConfigProblem]:
    """Yield what does not go together; a value that is SCR's default counts as not given."""
    given = {
        name: Pair(key=name, raw=text, value=text)
        for name, text in settings.texts().items()
        if settings[name] != CATALOGUE[name].default
    }
    config = Configuration(given=given, settings=settings, context=CheckContext())
    for constraint in CONSTRAINTS:
        for fault in constraint.judge(config):
            name = fault.at.key if isinstance(fault.at, Pair) else fault.at[0]
            yield ConfigProblem(fault.severity, fault.code, name, fault.what, fault.remedy)
