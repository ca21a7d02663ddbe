"""What recorded traces say, and what the rules propose: `scrtune replay`."""

from typing import TYPE_CHECKING

import msgspec

from ...daemon.views import IntentView, intent_views
from ...intents.pipeline import Counters
from ...intents.rules.situation import Proposal

if TYPE_CHECKING:  # who only prints a view does not load what reads traces
    from ...replay.run import Replayed


class ReplayView(msgspec.Struct, frozen=True, kw_only=True):
    """What recorded traces say. Nothing of the proposals was tried."""

    files: int
    lines: int
    span_s: float
    processes: int
    hosts: int
    checkpoints: int
    counters: Counters
    damage: tuple[str, ...]
    intents: tuple[IntentView, ...]
    proposals: tuple[Proposal, ...]


def replay(replayed: "Replayed") -> ReplayView:
    """Return what recorded traces say, and what the rules make of it."""
    pipeline, summary = replayed.pipeline, replayed.summary
    return ReplayView(
        files=summary.files,
        lines=summary.lines,
        span_s=replayed.end_s - replayed.start_s,
        processes=len(pipeline.processes),
        hosts=len({host for host, _ in pipeline.processes}),
        checkpoints=pipeline.account(replayed.end_s).checkpoints,
        counters=pipeline.counters,
        damage=tuple(f"{each.source}, byte {each.offset}: {each.reason}" for each in summary.damage),
        intents=intent_views(pipeline),
        proposals=pipeline.proposals(),
    )
