"""Guard rails: what must not be tried, whatever it would save. They come before any statistics."""

from .events import Value
from .intent import bytes_text
from .redundancy import keeps_floor, storage_factor
from .situation import Proposal, Situation

CACHE_SHARE = 0.8
_CACHE_USERS = {"SCR_CACHE_SIZE", "SCR_CACHE_BYPASS", "SCR_COPY_TYPE"}

NEVER = frozenset({"SCR_CACHE_PURGE", "SCR_PREFIX_PURGE", "SCR_PREFIX_SIZE", "SCR_PREFIX", "SCR_ENABLE"})
"""Deleting data and moving it is the user's decision, whatever it would save."""


def veto(proposal: Proposal, now: Situation) -> str | None:
    """Why `proposal` must not be tried, or None. Every guard rail is here."""
    for guard in (_forbidden, _pinned, _below_floor, _does_not_fit):
        if reason := guard(proposal, now):
            return reason
    return None


def _forbidden(proposal: Proposal, _now: Situation) -> str | None:
    names = NEVER & proposal.changes.keys()
    return f"{', '.join(sorted(names))}: only the user may change this" if names else None


def _pinned(proposal: Proposal, now: Situation) -> str | None:
    if now.job is None or now.job.override:
        return None
    pinned = sorted(name for name in proposal.changes if now.job.sources.get(name) == "environment")
    changed = [name for name in pinned if proposal.changes[name] != now.settings.get(name)]
    if not changed:
        return None
    return f"{', '.join(changed)}: set in your environment, which wins (scrtune run --override allows it)"


def _below_floor(proposal: Proposal, now: Situation) -> str | None:
    scheme = proposal.changes.get("SCR_COPY_TYPE")
    floor = now.intents.redundancy.floor
    if scheme is None or keeps_floor(str(scheme), floor):
        return None
    return f"SCR_COPY_TYPE={scheme} is below the redundancy floor {floor}"


def _does_not_fit(proposal: Proposal, now: Situation) -> str | None:
    """More datasets x bytes on this node x storage factor: within 80 % of what the cache has free."""
    if now.node is None or not _CACHE_USERS & proposal.changes.keys():
        return None
    after: dict[str, Value] = {**now.settings, **proposal.changes}
    redundancy = now.intents.redundancy
    nodes = max(1, redundancy.nodes)
    scheme = str(after.get("SCR_COPY_TYPE", "XOR")) if nodes > 1 else "SINGLE"
    per_dataset = (
        now.intents.flush.checkpoint_bytes / nodes * storage_factor(scheme, min(redundancy.set_size, nodes))
    )
    held = now.integer("SCR_CACHE_SIZE", 1) if now.cached else 0
    more = max(0, int(after.get("SCR_CACHE_SIZE", 1)) - held)
    if more * per_dataset <= CACHE_SHARE * now.node.cache_free_bytes:
        return None
    return (
        f"{more} more datasets of {bytes_text(per_dataset)} do not fit into {CACHE_SHARE:.0%} of the cache's"
        f" {bytes_text(now.node.cache_free_bytes)} free"
    )
