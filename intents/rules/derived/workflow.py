"""Intent 11: what an allocation's end, and applications beside or after this one, ask for.

When less than SCR_HALT_SECONDS are left, SCR_Need_checkpoint and SCR_Should_exit say yes (scr.c:300), and
SCR_Finalize flushes the last checkpoint. SCR knows the end from libyogrt or SCR_END_TIME (scr_env.c:80).
"""

from collections.abc import Iterator
from math import ceil

from msgspec.structs import replace

from ....units import rounded_duration_text as _time
from ...settings import flush_every, is_asynchronous, is_cached
from ..parameter import DerivedParameter
from ..situation import Situation
from .table import FLUSH_POSTSTAGE, HALT_SECONDS

HALT, POSTSTAGE = "SCR_HALT_SECONDS", "SCR_FLUSH_POSTSTAGE"

_LEFT_TO_IT = "BBAPI"
_ENOUGH = 3
_MARGIN = 1.5
"""Times what is expected: checkpoints and flushes vary by 10 to 20 %, and rarely take twice as long."""


def workflow(now: Situation) -> Iterator[DerivedParameter]:
    """Yield when to halt before the allocation's end, and whether a flush may outlast the application."""
    yield _halt(now)
    yield _poststage(now)


def _halt(now: Situation) -> DerivedParameter:
    flush, seen_workflow = now.intents.flush, now.intents.workflow
    if seen_workflow.left_s is None:
        return replace(HALT_SECONDS, why_not="the end of the allocation is not known")
    if flush.evidence.count < _ENOUGH:
        return replace(HALT_SECONDS, why_not="what a checkpoint and a flush cost is not settled yet")
    asks_s = seen_workflow.longest_step_s if now.obeyed else 0.0
    asks_s = asks_s or max(now.intents.rate.p90_s, flush.interval_s)
    flush_s = flush.flush_s if is_cached(now.settings) else 0.0
    before_s = flush_s if is_asynchronous(now.settings) else 0.0
    checkpoint_s = flush.blocking_s - (flush.blocked_on_flush_s if is_cached(now.settings) else 0.0)
    value = max(1, ceil(_MARGIN * (asks_s + checkpoint_s + before_s + flush_s)))
    lost_s = flush.interval_s * flush_every(now.settings) / 2
    useful_s = checkpoint_s + flush_s
    gain_s = lost_s - (value - useful_s)
    seen = replace(
        HALT_SECONDS,
        inputs=(
            f"the allocation ends in {_time(seen_workflow.left_s)}",
            f"the application asks SCR after {_time(asks_s)} at most",
            f"a checkpoint takes {_time(checkpoint_s)}, a flush {_time(flush_s)}"
            + (", the one before as long" if before_s else ""),
            f"an end without notice loses {_time(lost_s)} of work on average",
            "only applications that ask SCR_Should_exit, or SCR_HALT_EXIT=1, end by it",
        ),
    )
    own = now.settings.get(HALT, now.own.get(HALT, 0))
    if isinstance(own, int | float) and own >= value:
        return replace(seen, why_not=f"yours, {own:.0f} s, is enough")
    if gain_s <= 0:
        why_not = f"to end {_time(value)} early would cost more than the {_time(lost_s)} that are lost"
        return replace(seen, why_not=why_not)
    return replace(seen, value=value, gain_s=gain_s, gain_sd_s=lost_s / 3**0.5)


def _poststage(now: Situation) -> DerivedParameter:
    """SCR_Finalize need not wait for the last flush; this version crashes, and knows it for one type only."""
    flush, seen_workflow = now.intents.flush, now.intents.workflow
    if not seen_workflow.is_one:
        return replace(FLUSH_POSTSTAGE, why_not="one application: none waits for its end")
    if not is_cached(now.settings) or flush.flush_s <= 0:
        return replace(FLUSH_POSTSTAGE, why_not="nothing is flushed when the application ends")
    return replace(
        FLUSH_POSTSTAGE,
        value=1,
        inputs=(seen_workflow.sentence(), f"the last flush takes {_time(flush.flush_s)}"),
        gain_s=flush.flush_s * max(1, seen_workflow.runs),
        veto=_why_no_poststage(now),
    )


def _why_no_poststage(now: Situation) -> str:
    kind = now.settings.get("SCR_FLUSH_TYPE")
    if kind != _LEFT_TO_IT:
        return f"{POSTSTAGE}: SCR leaves flushes of type {_LEFT_TO_IT} to it, none of type {kind} (scr.c:152)"
    return f"{POSTSTAGE}: SCR 3.1.0 crashes when it begins such a flush (scr_flush_async.c:340)"
