"""A trial: one candidate in use, to find out whether it is cheaper than the settings that it may replace."""

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ..events import Values
from ..rules.situation import Proposal
from .decisions import Breakdown


class Trial(msgspec.Struct, kw_only=True):
    """The changes of `proposal` to the settings `incumbent`, since `generation`; `looks` counts checkpoints.

    A trial `since_launch` began with the launch of a run, and no other run can take it back.
    """

    generation: int
    incumbent: Values
    proposal: Proposal
    looks: int = 0
    flush_began_s: float = 0.0
    """Epoch seconds; 0 before there was one."""
    flush_ended: bool = False
    """The first flush has ended."""
    since_launch: bool = False


def measured(cost: CheckpointCost, cost_s: float) -> Breakdown:
    """Return the parts of a checkpoint as they were measured, and `cost_s` as what it cost."""
    return Breakdown(
        cost_s=cost_s,
        write_s=cost.write_s,
        encode_s=cost.encode_s,
        flush_s=cost.flush_s,
        slowdown_s=cost.slowdown_s,
    )


def users_change(
    rule: str, changes: Values, because: str, *, intent: str = "your word", source: str = "user"
) -> Proposal:
    """Return `changes` that nothing was expected of: the user's word, or what follows from a verdict."""
    return Proposal(rule=rule, intent=intent, changes=changes, because=because, source=source)
