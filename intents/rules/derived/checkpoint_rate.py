"""Intents 8 and 10: how often to checkpoint, how often to flush, and how many datasets the cache holds.

The pace is that of :mod:`.interval`. How often to flush follows from the same failures and costs by the
two-level form: each level as Young has it, tau = sqrt(2 C / lambda), and every (tau of the prefix directory /
tau of the cache)-th checkpoint is flushed.
"""

from collections.abc import Iterator
from math import ceil, inf

from msgspec.structs import replace

from ....goodput.interval.model import (
    IntervalError,
    Levels,
    Schedule,
    first_order,
    goodput,
    two_level_goodput,
)
from ....units import rounded_duration_text as _time
from ...events import Durability
from ...settings import flush_every, is_asynchronous, is_cached, number
from ..parameter import DerivedParameter
from ..situation import Situation
from .interval import AUTO, CALLS, OVERHEAD, SECONDS, UNSET, WorkBetween, is_demanded, pace, why_unknown
from .table import CACHE_SIZE, CHECKPOINT_SECONDS, FLUSH

RATE, REQUIRED = CHECKPOINT_SECONDS.intent, CACHE_SIZE.intent

_ENOUGH = 3
_ONE_SIGMA = (0.16, 0.84)
_SHORTEST_S = 1e-9
_ONLY_ONE = "one of the three paces: SCR takes a checkpoint when any of them says so"
_AS_DECLARED = "100 c / (c + w + f): a cost of c after work w and a flush that blocks f, as was declared"
_AS_IT_IS = "it has this value already"


def checkpoint_rate(now: Situation) -> Iterator[DerivedParameter]:
    """Yield the parameters of the pace and of the flushes, and the size of the cache."""
    why = why_unknown(now)
    found = None if why else pace(now)
    yield from _pace(now, found, why)
    yield _flush(now, found)
    yield _cache_size(now, found)


def _pace(now: Situation, found: WorkBetween | None, why: str) -> Iterator[DerivedParameter]:
    common = replace(CHECKPOINT_SECONDS, why_not=why)
    if found is None:
        yield from (replace(common, name=name) for name in UNSET)
        return
    settings, bound = {**UNSET, **now.settings}, found.bound
    if not found.is_worth_it and not is_demanded(now):
        common = replace(common, why_not=f"{found.basis}: another interval would save too little")
    common = replace(
        common,
        intent=REQUIRED if bound and bound.is_declared and not bound.is_overhead else RATE,
        clipped=bound.because if bound else "",
        inputs=(
            f"a checkpoint takes {found.cost_s:.3f} s",
            f"a failure every {_time(now.mtbf_s)} ({now.failures.total} seen)",
            f"one destroys an interval every {_time(found.mtbf_s)}",
            f"{_time(found.present_s)} of work between two now, {_time(found.work_s)} instead",
        ),
    )
    for name in (SECONDS, CALLS, OVERHEAD):
        value = found.values[name]
        rule = _AS_DECLARED if name == OVERHEAD else common.rule
        each = replace(common, name=name, rule=rule if value else _ONLY_ONE)
        if each.why_not or value == settings[name]:
            yield replace(each, why_not=each.why_not or _AS_IT_IS)
            continue
        gain_s, sd_s = _pace_gain(now, found) if value else (0.0, 0.0)
        yield replace(each, value=value, gain_s=gain_s, gain_sd_s=sd_s, veto=_why_theirs(now))


def _why_theirs(now: Situation) -> str:
    """Return why the pace is the user's: another parameter beside the one they set would only add to it."""
    if now.job is None or now.job.interval == AUTO or is_demanded(now):
        return ""
    theirs = filter(now.job.is_given, UNSET)
    named = " ".join(f"{name}={now.settings[name]}" for name in theirs if now.settings.get(name))
    return f"the pace is yours ({named}); scrtune run --interval auto leaves it to scrtune" if named else ""


def _flush(now: Situation, found: WorkBetween | None) -> DerivedParameter:
    """Return how often to flush: as the two levels have it, within what is durable enough and what fits."""
    flush = now.intents.flush
    if not is_cached(now.settings):
        return replace(FLUSH, why_not="checkpoints are written to the prefix directory, past the cache")
    if flush.evidence.count < _ENOUGH or flush.flush_s <= 0:
        return replace(FLUSH, why_not="what a checkpoint and a flush cost is not settled yet")
    levels, present = _levels(now), flush_every(now.settings)
    work_s = found.work_s if found else max(_SHORTEST_S, flush.interval_s - flush.blocking_s)
    period_s = work_s + levels.checkpoint_s
    try:
        best = first_order(levels).flush_every
        gain_s, sd_s = _flush_gain(now, work_s, best)
    except (IntervalError, OverflowError):
        return replace(FLUSH, why_not="costs and failures are too far apart to weigh")
    seen = replace(
        FLUSH,
        inputs=(
            f"C1 {levels.checkpoint_s:.3f} s a checkpoint, C2 {levels.flush_cost_s:.3f} s a flush",
            f"M1 {_time(levels.cache_mtbf_s)} between failures that the cache survives",
            f"M2 {_time(levels.prefix_mtbf_s)} between those that it does not survive",
            f"a flush lasts {_time(flush.flush_s)}, a checkpoint comes every {_time(period_s)}",
        ),
    )
    every, still = best, now.intents.checkpoints.still_to_come(period_s)
    if is_asynchronous(now.settings) and (least := ceil(min(flush.flush_s / period_s, 1e6))) > every:
        every, seen = least, replace(seen, clipped="a flush ends before the next one begins")
    if still and still < every:
        clipped = f"{still} more end before the job does, and one of them is to be flushed"
        every, seen = still, replace(seen, clipped=clipped, intent=REQUIRED)
    if now.rails.flush_every < every:
        every = now.rails.flush_every
        seen = replace(seen, clipped=f"what is asked for is {now.rails.because}", intent=RATE)
    if every == present:
        return replace(seen, why_not=_AS_IT_IS)
    if every != best:
        gain_s, sd_s = _flush_gain(now, work_s, every)
    return replace(seen, value=every, gain_s=gain_s, gain_sd_s=sd_s)


def _cache_size(now: Situation, found: WorkBetween | None) -> DerivedParameter:
    """Return how many datasets the cache holds, so that no output waits for a flush."""
    flush = now.intents.flush
    if not is_asynchronous(now.settings):
        return replace(CACHE_SIZE, why_not="no dataset is flushed beside the computation: one is enough")
    if now.rails.durability is Durability.NEXT:
        return replace(
            CACHE_SIZE, why_not=f"the next output waits for the flush anyway ({now.rails.because})"
        )
    if flush.evidence.count < _ENOUGH:
        return replace(CACHE_SIZE, why_not="what a checkpoint and a flush cost is not settled yet")
    period_s = found.work_s + found.cost_s if found else flush.interval_s
    places = replace(flush, interval_s=period_s).places
    still = now.intents.checkpoints.still_to_come(period_s)
    lasts = f"a flush lasts {_time(flush.flush_s)}, a checkpoint comes every {_time(period_s)}"
    seen = replace(CACHE_SIZE, inputs=(lasts,))
    if still is not None and max(2, still) < places:
        places, seen = max(2, still), replace(seen, clipped=f"{still} more end before the job does")
    if places == number(now.settings, "SCR_CACHE_SIZE"):
        return replace(seen, why_not=_AS_IT_IS)
    return replace(seen, value=places)


def _levels(now: Situation, mtbf_s: float | None = None) -> Levels:
    """Return what the two levels cost, and how often each is needed (default: at the mean rate).

    Waits and what a flush slows down are the flush's.
    """
    flush, share = now.intents.flush, now.failure_rate.cache_share
    mtbf_s = now.mtbf_s if mtbf_s is None else mtbf_s
    of_flush_s = flush.blocked_on_flush_s + flush.wait_s + max(0.0, flush.slowdown_s)
    own_s = flush.blocking_s - flush.blocked_on_flush_s - flush.wait_s
    return Levels(
        checkpoint_s=max(_SHORTEST_S, own_s),
        flush_cost_s=of_flush_s / (flush.flushed_share or 1.0),
        cache_mtbf_s=mtbf_s / share,
        prefix_mtbf_s=mtbf_s / (1 - share),
        cache_restart_s=now.failures.cache_restart_s,
        prefix_restart_s=now.failures.prefix_restart_s,
    )


def _flush_gain(now: Situation, work_s: float, every: int) -> tuple[float, float]:
    """Return the seconds that another SCR_FLUSH saves in the rest of the job, and their SD."""

    def share(mtbf_s: float) -> float:
        levels, present = _levels(now, mtbf_s), flush_every(now.settings)
        then, until_now = (Schedule(interval_s=work_s, flush_every=each) for each in (every, present))
        return two_level_goodput(then, levels) - two_level_goodput(until_now, levels)

    return _over_the_rest(now, [share(each) for each in _mtbfs_s(now)])


def _pace_gain(now: Situation, found: WorkBetween) -> tuple[float, float]:
    """Return the seconds that another interval saves in the rest of the job, and their SD."""
    mean_s, *others_s = _mtbfs_s(now)
    ratio, restart_s = found.mtbf_s / mean_s, now.failures.restart_s
    saved = [
        goodput(found.work_s, found.cost_s, ratio * each, restart_s)
        - goodput(found.present_s, found.cost_s, ratio * each, restart_s)
        for each in (mean_s, *others_s)
    ]
    return _over_the_rest(now, saved)


def _mtbfs_s(now: Situation) -> list[float]:
    """Return the MTBF by the mean rate, and those one standard deviation away."""
    return [now.mtbf_s, *now.failure_rate.mtbfs_s(_ONE_SIGMA)]


def _over_the_rest(now: Situation, shares: list[float]) -> tuple[float, float]:
    """Return seconds and their SD; a job whose end is not known lasts as long again (Gott 1993)."""
    left_s = now.intents.checkpoints.left_s
    rest_s = now.failures.observed_s if left_s is None else left_s
    mean, *others = shares
    return mean * rest_s, abs(others[1] - others[0]) / 2 * rest_s if max(map(abs, others)) < inf else 0.0
