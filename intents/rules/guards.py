"""Guard rails: what must not be tried, whatever it would save. They come before any statistics."""

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
"""Deleting data and moving it is the user's decision, whatever it would save."""


def veto(proposal: Proposal, now: Situation) -> str | None:
    """Why `proposal` must not be tried, or None. Every guard rail is here."""
    for guard in (_forbidden, _pinned, _out_of_reach, _files_would_meet, _below_floor, _does_not_fit):
        if reason := guard(proposal, now):
            return reason
    return None


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


def _out_of_reach(proposal: Proposal, now: Situation) -> str | None:
    """What neither this run of the job nor any launch can change."""
    if inert := sorted(filter(now.mutability.is_inert, proposal.changes)):
        return f"{', '.join(inert)}: this SCR does not read it"
    levers = sorted(
        name for name in proposal.changes if name.startswith(LEVER) and now.mutability.is_fixed(name)
    )
    if not levers:
        return None
    return f"{', '.join(levers)}: nothing in this job obeys it (scrtune run preloads what does)"


def _files_would_meet(proposal: Proposal, now: Situation) -> str | None:
    """What may go past the cache is not always what may go through it."""
    if now.cached or number({**now.settings, **proposal.changes}, "SCR_CACHE_BYPASS"):
        return None
    return now.why_no_cache or None


def _below_floor(proposal: Proposal, now: Situation) -> str | None:
    """What is in the cache must survive what the floor survives; in the prefix directory it survives all."""
    after = {**now.settings, **proposal.changes}
    if not _PROTECTION & proposal.changes.keys() or number(after, "SCR_CACHE_BYPASS"):
        return None
    redundancy = now.intents.redundancy
    scheme = str(after.get("SCR_COPY_TYPE", "XOR"))
    if not keeps_floor(scheme, redundancy.floor):
        return f"SCR_COPY_TYPE={scheme} is below the redundancy floor {redundancy.floor}"
    really = effective(scheme, redundancy.nodes)
    # who caches already has what SCR makes of their scheme on one node; who does not shall not lose by us
    if now.cached or keeps_floor(really, redundancy.floor):
        return None
    return (
        f"on one node the cache survives what {really} does, less than the floor {redundancy.floor};"
        " --redundancy-floor PROCESS says that this is enough"
    )


def _does_not_fit(proposal: Proposal, now: Situation) -> str | None:
    """What the cache will hold more than now, within 80 % of what it has free on this node."""
    if not _CACHE_USERS & proposal.changes.keys() or now.job is None:
        return None
    after = {**now.settings, **proposal.changes}
    # what was written under these settings is there, at most as often as there is room for it
    held = min(now.integer("SCR_CACHE_SIZE"), now.intents.flush.evidence.count) if now.cached else 0
    more_bytes = _bytes_held(number(after, "SCR_CACHE_SIZE"), after, now) - _bytes_held(
        held, now.settings, now
    )
    if number(after, "SCR_CACHE_BYPASS") or more_bytes <= 0:
        return None
    free_bytes = _free_bytes(now)
    if free_bytes <= 0:  # of a recorded trace nothing is tried, and the cache's size is not known
        return "how much the cache has free is not known" if now.job.tuning else None
    if more_bytes <= CACHE_SHARE * free_bytes:
        return None
    return (
        f"{bytes_text(more_bytes)} more do not fit into {CACHE_SHARE:.0%} of the cache's"
        f" {bytes_text(free_bytes)} free"
    )


def _bytes_held(datasets: int, settings: Values, now: Situation) -> float:
    """Bytes of so many datasets in this node's cache: its ranks' part of each x storage factor."""
    redundancy = now.intents.redundancy
    scheme = effective(str(settings.get("SCR_COPY_TYPE", "XOR")), redundancy.nodes)
    factor = storage_factor(scheme, min(redundancy.set_size, redundancy.nodes))
    here = now.intents.flush.checkpoint_bytes * now.ranks_per_node / redundancy.ranks
    return datasets * here * factor


def _free_bytes(now: Situation) -> int:
    """Free in the cache; a cache in memory has at most what the node's memory has."""
    if now.node is None:
        return 0
    in_memory = now.job is not None and now.job.cache.startswith(_MEMORY_CACHE)
    memory_bytes = now.node.memory_available_bytes if in_memory else 0
    return min(now.node.cache_free_bytes, memory_bytes) if memory_bytes > 0 else now.node.cache_free_bytes
