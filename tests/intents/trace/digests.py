"""The digest of some lines."""

from scrtune.intents.events import Access, TraceDigest
from scrtune.intents.trace.decoder import TraceDecoder

from ...support.trace_lines import TIERS


def digest_of(*batches: bytes, tiers: dict[str, str] = TIERS, source: str = "") -> TraceDigest:
    decoder = TraceDecoder(tiers)
    for batch in batches:
        decoder.feed(batch, source)
    taken = decoder.take(final=True)
    assert taken is not None
    return taken


def access(taken: TraceDigest, op: str, tier: str = "prefix") -> Access:
    return next(access for access in taken.accesses if (access.tier, access.op) == (tier, op))
