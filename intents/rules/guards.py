"""Guard rails: the changes that must not be tried at any gain. A new one is a function in `GUARDS`."""

from ...units import bytes_text
from ..events import Values, ValueSource
from ..mutability import LEVER
from ..observe.redundancy import effective, keeps_floor, storage_factor
from .situation import Proposal, Situation, number

CACHE_SHARE = 0.8
_CACHE_USERS = {"SCR_CACHE_SIZE", "SCR_CACHE_BYPASS", "SCR_COPY_TYPE"}
_PROTECTION = {"SCR_CACHE_BYPASS", "SCR_COPY_TYPE"}
_MEMORY_CACHE = "/dev/shm"  # noqa: S108 - where SCR's cache is, not a temporary file of ours

NEVER = frozenset({"SCR_CACHE_PURGE", "SCR_PREFIX_PURGE", "SCR_PREFIX_SIZE", "SCR_PREFIX", "SCR_ENABLE"})
"""Parameters that delete or move data: they are the user's alone."""


def _forbidden(proposal: Proposal, _now: Situation) -> str | None:
    names = NEVER & proposal.changes.keys()
    return f"{', '.join(sorted(names))}: only the user may change this" if names else None


def _pinned(proposal: Proposal, now: Situation) -> str | None:
    if now.job is None:
        return None
    sources = now.job.sources
    changed = sorted(name for name in proposal.changes if proposal.changes[name] != now.settings.get(name))
    if edited := [name for name in changed if sources.get(name) == ValueSource.EDITED]:
        return f"{', '.join(edited)}: you gave it in the config file while the job ran, which wins"
    pinned = [name for name in changed if sources.get(name) == ValueSource.ENVIRONMENT]
    if not pinned or now.job.override:
        return None
    return f"{', '.join(pinned)}: set in your environment, which wins (scrtune run --override allows it)"


def _unchangeable(proposal: Proposal, now: Situation) -> str | None:
    """Neither this run of the job nor any launch can change it."""
    if inert := sorted(filter(now.mutability.is_inert, proposal.changes)):
        return f"{', '.join(inert)}: this SCR does not read it"
    levers = sorted(
        name for name in proposal.changes if name.startswith(LEVER) and now.mutability.is_fixed(name)
    )
    if not levers:
        return None
    return f"{', '.join(levers)}: nothing in this job applies it (scrtune run preloads a library that does)"


def _files_collide(proposal: Proposal, now: Situation) -> str | None:
    """Files that may bypass the cache may collide in it."""
    if now.cached or number({**now.settings, **proposal.changes}, "SCR_CACHE_BYPASS"):
        return None
    return now.why_no_cache or None


def _below_floor(proposal: Proposal, now: Situation) -> str | None:
    """Datasets in the cache must survive what the floor survives; the prefix directory survives all."""
    after = {**now.settings, **proposal.changes}
    if not _PROTECTION & proposal.changes.keys() or number(after, "SCR_CACHE_BYPASS"):
        return None
    redundancy = now.intents.redundancy
    scheme = str(after.get("SCR_COPY_TYPE", "XOR"))
    if not keeps_floor(scheme, redundancy.floor):
        return f"SCR_COPY_TYPE={scheme} is below the redundancy floor {redundancy.floor}"
    in_use = effective(scheme, redundancy.nodes)
    # a job that caches already has what SCR makes of its scheme on one node; no other may lose protection
    if now.cached or keeps_floor(in_use, redundancy.floor):
        return None
    return (
        f"on one node the cache survives what {in_use} does, less than the floor {redundancy.floor};"
        " declare --redundancy-floor PROCESS if that is enough"
    )


def _does_not_fit(proposal: Proposal, now: Situation) -> str | None:
    """The cache may grow by at most 80 % of its free space on this node."""
    if not _CACHE_USERS & proposal.changes.keys() or now.job is None:
        return None
    after = {**now.settings, **proposal.changes}
    # what was written under these settings is there, as far as there is room for it
    held = min(now.integer("SCR_CACHE_SIZE"), now.intents.flush.evidence.count) if now.cached else 0
    more_bytes = _bytes_held(number(after, "SCR_CACHE_SIZE"), after, now) - _bytes_held(
        held, now.settings, now
    )
    if number(after, "SCR_CACHE_BYPASS") or more_bytes <= 0:
        return None
    free_bytes = _free_bytes(now)
    if free_bytes <= 0:  # from a recorded trace, of which nothing is tried
        return "the free space of the cache is not known" if now.job.tuning else None
    if more_bytes <= CACHE_SHARE * free_bytes:
        return None
    return (
        f"{bytes_text(more_bytes)} more do not fit into {CACHE_SHARE:.0%} of the cache's"
        f" {bytes_text(free_bytes)} free"
    )


def _bytes_held(datasets: int, settings: Values, now: Situation) -> float:
    """Return the bytes of `datasets` in this node's cache: its ranks' part of each x storage factor."""
    redundancy = now.intents.redundancy
    scheme = effective(str(settings.get("SCR_COPY_TYPE", "XOR")), redundancy.nodes)
    factor = storage_factor(scheme, min(redundancy.set_size, redundancy.nodes))
    here = now.intents.flush.checkpoint_bytes * now.ranks_per_node / redundancy.ranks
    return datasets * here * factor


def _free_bytes(now: Situation) -> int:
    """Return the free bytes of the cache; of one in memory at most those of the node's memory."""
    if now.node is None:
        return 0
    in_memory = now.job is not None and now.job.cache.startswith(_MEMORY_CACHE)
    memory_bytes = now.node.memory_available_bytes if in_memory else 0
    return min(now.node.cache_free_bytes, memory_bytes) if memory_bytes > 0 else now.node.cache_free_bytes


GUARDS = (_forbidden, _pinned, _unchangeable, _files_collide, _below_floor, _does_not_fit)


def veto(proposal: Proposal, now: Situation) -> str | None:
    """Return why `proposal` must not be tried, or None."""
    return next((reason for guard in GUARDS if (reason := guard(proposal, now))), None)
