"""A trial: one candidate in use, to find out whether it is cheaper than the settings that it may replace."""

import msgspec

from ..events import Values
from ..rules.situation import Proposal


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
