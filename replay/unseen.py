"""Whether a trace lacks what was written to the cache: then its sizes are not those of the job."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from ..intents.events import Operation, Tier, TraceDigest
from ..units import bytes_text
from .table import TraceTable

_MISSED = 2
"""Where more bytes than so many times those seen to be written were copied, writes were missed."""

Moved: TypeAlias = Iterable[tuple[str, str, int]]
"""Tier, operation, and bytes."""


def unseen_in_table(table: TraceTable) -> str:
    """Return :func:`unseen_writes` of a resolved table."""
    return unseen_writes((key.tier, key.operation, each.bytes) for key, each in table.accesses.items())


def unseen_in_digests(digests: Iterable[TraceDigest]) -> str:
    """Return :func:`unseen_writes` of `digests`."""
    return unseen_writes((each.tier, each.op, each.bytes) for digest in digests for each in digest.accesses)


def unseen_writes(moved: Moved) -> str:
    """Return that writes to the cache are missing, where what was copied out of it says so; else nothing."""
    sums = Counter[tuple[str, str]]()
    for tier, operation, count in moved:
        sums[tier, operation] += count
    copied = min(sums[Tier.CACHE, Operation.READ], sums[Tier.PREFIX, Operation.WRITE])
    written = sums[Tier.CACHE, Operation.WRITE]
    if copied <= _MISSED * written:
        return ""
    return (
        f"{bytes_text(copied)} were copied from the cache to the prefix directory, but only"
        f" {bytes_text(written)} seen to be written to it: DFTracer missed what wrote them (docs/traces.md"
        " says which calls). Sizes, bandwidth and what follows from them are not the job's"
    )
