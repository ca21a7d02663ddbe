"""Within which bounds the work between two checkpoints lies: what the user declared, and what SCR can do.

They are applied in the order of the table below; a later one has the last word where two contradict each
other. So more checkpoints than the declared overhead allows are taken where fewer than the least would come:
a checkpoint that is missing cannot be had any more, one too many only costs time.
"""

from collections.abc import Callable
from typing import NamedTuple

from ....units import rounded_duration_text as _time
from ...events import Durability
from ...settings import flush_every, is_asynchronous, number
from ..situation import Situation

LONGEST_S = 3600.0
_RARE = 50
"""Checkpoints: they take 2 % of so long an interval, which is not made longer than this and than an hour. The
end of an allocation, which no rate of failures knows, may destroy all of it."""
_ROOM = 1.5
"""Times its usual duration: an asynchronous flush shall end within the interval, or before the allocation."""
_IN_TIME = 0.95
"""Of the time that is left: the last of the checkpoints that the user needs shall not come too late."""
_LEAST_SHARE = 1e-6
"""A declared overhead of 0 has no interval; this one is so long that no checkpoint comes."""


class Bound(NamedTuple):
    """A bound in seconds of work, and where it comes from. For `is_overhead` SCR has its own parameter.

    `is_last`: it is for the last checkpoint before the allocation ends.
    """

    limit_s: float
    because: str
    is_lower: bool = True
    is_declared: bool = False
    is_overhead: bool = False
    is_last: bool = False

    def applied(self, work_s: float) -> float:
        """Return `work_s` within the bound."""
        return (max if self.is_lower else min)(self.limit_s, work_s)


class Bounded(NamedTuple):
    """Seconds of work within all bounds, and the last bound that changed them (None: none did)."""

    work_s: float
    by: Bound | None = None


def bounded(work_s: float, now: Situation, cost_s: float, *, declared_only: bool = False) -> Bounded:
    """Return `work_s` within the bounds of a job whose checkpoints take `cost_s` each."""
    found = Bounded(work_s)
    for bound in filter(None, (each(now, cost_s) for each in _BOUNDS)):
        if declared_only and not bound.is_declared:
            continue
        if (within_s := bound.applied(found.work_s)) != found.work_s:
            found = Bounded(within_s, bound)
    return found


def _longest(_now: Situation, cost_s: float) -> Bound:
    limit_s = max(LONGEST_S, _RARE * cost_s)
    return Bound(limit_s, f"no more than {_time(limit_s)} of work are put at risk", is_lower=False)


def _overhead(now: Situation, cost_s: float) -> Bound | None:
    """Checkpoints take C of each w + C seconds: a share o at most, if w >= C (1 - o) / o."""
    share = now.job.declared.overhead if now.job else None
    if share is None:
        return None
    share = max(_LEAST_SHARE, share)
    because = f"checkpoints may take {share:.1%} of the time, as you declared"
    return Bound(cost_s * (1 - share) / share, because, is_declared=True, is_overhead=True)


def _most(now: Situation, cost_s: float) -> Bound | None:
    """K at most come in L seconds if the period is longer than L / (k + 1)."""
    required = now.intents.checkpoints
    if required.most_left is None or required.left_s is None:
        return None
    period_s = required.left_s / (required.most_left + 1)
    because = f"at most {required.most} checkpoints: {required.most_left} more in {_time(required.left_s)}"
    return Bound(max(0.0, period_s - cost_s), because, is_declared=True)


def _least(now: Situation, cost_s: float) -> Bound | None:
    """K at least come in L seconds if the period is no longer than L / k."""
    required = now.intents.checkpoints
    if not required.least_left or required.left_s is None:
        return None
    period_s = _IN_TIME * required.left_s / required.least_left
    because = f"at least {required.least} checkpoints: {required.least_left} more in {_time(required.left_s)}"
    return Bound(max(0.0, period_s - cost_s), because, is_lower=False, is_declared=True)


def _in_time(now: Situation, cost_s: float) -> Bound | None:
    """Where each checkpoint is flushed: the last one is in the prefix directory when the allocation ends.

    What is set now holds from the next checkpoint on. None where it is too late for one after that.
    """
    seen, flush = now.intents.workflow, now.intents.flush
    if seen.left_s is None or flush_every(now.settings) > 1:
        return None
    flush_s = flush.flush_s if is_asynchronous(now.settings) else 0.0
    room_s = seen.left_s - flush.interval_s - _ROOM * (seen.longest_step_s + cost_s + flush_s)
    because = f"the last checkpoint is in time: the allocation ends in {_time(seen.left_s)}"
    return Bound(room_s, because, is_lower=False, is_last=True) if room_s > cost_s else None


def _half(_now: Situation, cost_s: float) -> Bound:
    return Bound(cost_s, "checkpoints take no more than half of the time")


def _flush_ends(now: Situation, _cost_s: float) -> Bound | None:
    if not is_asynchronous(now.settings):
        return None
    next_waits = now.rails.durability is Durability.NEXT or number(now.settings, "SCR_CACHE_SIZE") == 1
    flush_s = _ROOM * now.intents.flush.flush_s / (1 if next_waits else flush_every(now.settings))
    return Bound(flush_s, f"a flush of {_time(now.intents.flush.flush_s)} ends before the next one")


_BOUNDS: tuple[Callable[[Situation, float], Bound | None], ...] = (
    _longest, _overhead, _most, _least, _in_time, _half, _flush_ends,
)  # fmt: skip
