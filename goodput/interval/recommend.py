"""The best interval of a job, how sure that is, and what another one would cost.

All is computed for many equally likely pairs of failure rates (*worlds*); an estimate is what holds for the
mean rate, and 90 % of the worlds lie between its `low` and its `high`.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import sub
from statistics import fmean, median
from typing import TypeAlias

import msgspec

from ..checkpoint_cost import CheckpointCost
from . import model
from .failure_rate import FailurePrior, posterior
from .failures import Failures
from .model import IntervalError, Levels, Schedule, ScheduleCosts

CONFIDENCE = 0.9
_TAIL = (1 - CONFIDENCE) / 2
_WORLDS = 199
_WORLDS_A_LEVEL = 19
_ENOUGH = 3
_RECENT = 8


class Estimate(msgspec.Struct, frozen=True):
    """A number, with the interval that it lies in with a probability of 90 %."""

    value: float
    low: float
    high: float


class MeasuredCosts(ScheduleCosts, frozen=True, kw_only=True):
    """Mean costs of `checkpoints` of them, and when they are taken.

    `interval_s` is the work between two now (0: unknown); with `flush_every` 0 there is only one level.
    """

    interval_s: float = 0.0
    flush_every: int = 0
    checkpoints: int = 0

    @property
    def in_use(self) -> Schedule:
        """When they are taken now."""
        return Schedule(interval_s=self.interval_s, flush_every=max(1, self.flush_every))


class ScheduleChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One way to choose a schedule, and what comes of it.

    `goodput` (0 to 1) is as far as checkpoints and failures go; `lost` is what the best has more, `gained`
    what this has more than the schedule in use. `flush_every` is 0 with one level. Without waits intervals
    are `shortest_interval_s` at least.
    """

    name: str
    interval_s: Estimate
    flush_every: Estimate
    goodput: Estimate
    lost: Estimate
    gained: Estimate | None = None
    flush_wait_s: float = 0.0
    shortest_interval_s: float = 0.0


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules side by side; `best` names the one that the others are measured against.

    `mtbf_s` is the median MTBF; the schedules are for `decided_for_s`, that of the mean rate. Half of the
    prior lies within a factor of `prior_half_within`.
    """

    measured: MeasuredCosts
    failures: Failures
    prior: FailurePrior
    prior_half_within: float
    mtbf_s: Estimate
    decided_for_s: float
    cache_share: Estimate
    choices: tuple[ScheduleChoice, ...]
    best: str
    settings: dict[str, int]
    """What the best schedule means for SCR."""

    def choice(self, name: str) -> ScheduleChoice:
        """The choice of that name. Raises KeyError."""
        return {each.name: each for each in self.choices}[name]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often checkpoints come, and the best interval, which has `lost` more goodput (0 to 1)."""

    interval_s: float
    best_s: float
    checkpoint_s: float
    lost: float
    settings: dict[str, int]


IN_USE = "in use"
ASKED = "what if"
_Method: TypeAlias = Callable[[Levels], Schedule]
_RULES = {"Young 1974": model.young, "Daly 2006": model.daly, "exact": model.exact}


def measured(
    costs: Sequence[CheckpointCost], flush_every: int = 0, next_output_waits: bool = False
) -> MeasuredCosts:
    """Return what the checkpoints of the active settings cost; of the last eight, where those are not three.

    What a flush blocked is the flush's, whichever checkpoint felt it, but for waits that come of the interval
    in use. Raises IntervalError when there is no checkpoint, or no cost.
    """
    if not costs:
        raise IntervalError("no checkpoint was measured yet: the interval depends on what one costs")
    mine = [cost for cost in costs if cost.generation == costs[-1].generation]
    mine = mine if len(mine) >= _ENOUGH else list(costs[-_RECENT:])
    flushes = [cost for cost in mine if cost.flushed]
    two_levels = flush_every > 0 and bool(flushes)
    all_s = fmean(cost.blocking_s + cost.slowdown_s for cost in mine)
    shared_s = fmean(min(cost.blocking_s, cost.blocked_on_flush_s + cost.wait_s) for cost in mine)
    felt_s = max(0.0, shared_s + fmean(cost.slowdown_s for cost in mine)) if two_levels else 0.0
    if all_s <= felt_s:
        raise IntervalError("checkpoints cost nothing measurable: any interval is as good as another")
    between = (cost.interval_s - before.blocking_s for before, cost in pairwise(mine))
    interval_s = median([each for each in between if each > 0] or [0.0])
    found = MeasuredCosts(checkpoint_s=all_s - felt_s, interval_s=interval_s, checkpoints=len(mine))
    if not two_levels:
        return found
    flush_cost_s = felt_s * len(mine) / len(flushes)
    waited_s = sum(min(cost.blocking_s, cost.wait_s) for cost in mine) / len(flushes)
    others_s = max(0.0, flush_cost_s - waited_s)
    found = msgspec.structs.replace(
        found,
        flush_cost_s=others_s,
        flush_s=fmean(cost.flush_s for cost in flushes),
        flush_every=flush_every,
        next_output_waits=next_output_waits,
    )
    explained_s = model.flush_wait_s(found.in_use, found) if found.interval_s else 0.0
    return msgspec.structs.replace(found, flush_cost_s=max(others_s, flush_cost_s - explained_s))


def recommend(
    found: MeasuredCosts, failures: Failures, prior: FailurePrior, asked: Schedule | None = None
) -> Outlook:
    """Return the best schedule beside the one in use, what was `asked`, Young's and Daly's.

    With `flush_every` 0 what was asked leaves flushes as they are. Raises IntervalError, also where it asks
    for flushes of a job that has only one level.
    """
    now, best = found.in_use, "exact, two levels" if found.flush_every else "exact"
    given = {IN_USE: now} if found.interval_s else {}
    if asked is not None:
        if asked.flush_every and not found.flush_every:
            raise IntervalError("flush: this job's checkpoints are not cached, or none was flushed yet")
        given[ASKED] = msgspec.structs.replace(asked, flush_every=asked.flush_every or now.flush_every)
    methods = {name: _one_level(rule, found) for name, rule in _RULES.items()}
    if found.flush_every:
        methods |= {"first order, two levels": model.first_order, best: model.optimal}
    known = posterior(failures, prior)
    # with one level the share does not count
    rates, shares = _WORLDS, [known.cache_share]
    if found.flush_every:
        rates, shares = _WORLDS_A_LEVEL, known.cache_shares(_midpoints(_WORLDS_A_LEVEL))
    pairs = [(mtbf_s, share) for mtbf_s in known.mtbfs_s(_midpoints(rates)) for share in shares]
    worlds = [_levels(found, failures, *pair) for pair in [(known.mtbf_s, known.cache_share), *pairs]]
    chosen = {name: [schedule] * len(worlds) for name, schedule in given.items()}
    chosen |= {name: [method(levels) for levels in worlds] for name, method in methods.items()}
    # what is chosen for the mean rate is in force whatever the rate turns out to be
    goodputs = {
        name: [model.two_level_goodput(schedules[0], levels) for levels in worlds]
        for name, schedules in chosen.items()
    }
    choices = [
        ScheduleChoice(
            name=name,
            interval_s=_estimate(each.interval_s for each in schedules),
            flush_every=_estimate(each.flush_every if found.flush_every else 0 for each in schedules),
            goodput=_estimate(goodputs[name]),
            lost=_estimate(map(sub, goodputs[best], goodputs[name])),
            gained=_estimate(map(sub, goodputs[name], goodputs[IN_USE])) if IN_USE in goodputs else None,
            flush_wait_s=model.flush_wait_s(schedules[0], found),
            shortest_interval_s=model.shortest_interval_s(found, schedules[0].flush_every),
        )
        for name, schedules in chosen.items()
    ]
    return Outlook(
        measured=found,
        failures=failures,
        prior=prior,
        prior_half_within=posterior(Failures(), prior).half_within,
        mtbf_s=Estimate(*known.mtbfs_s([0.5, _TAIL, 1 - _TAIL])),
        decided_for_s=known.mtbf_s,
        cache_share=Estimate(known.cache_share, *known.cache_shares([_TAIL, 1 - _TAIL])),
        choices=tuple(choices),
        best=best,
        settings=_settings(found, chosen[best][0]),
    )


def pace(found: MeasuredCosts, failures: Failures, prior: FailurePrior) -> Pace:
    """Return the interval in use beside the best one, for the mean rate alone. Raises IntervalError."""
    if not found.interval_s:
        raise IntervalError("the interval in use is not known before the second checkpoint")
    known = posterior(failures, prior)
    levels = _levels(found, failures, known.mtbf_s, known.cache_share)
    best = (model.optimal if found.flush_every else _one_level(model.exact, found))(levels)
    now = found.in_use
    return Pace(
        interval_s=found.interval_s,
        best_s=best.interval_s,
        checkpoint_s=found.checkpoint_s + found.flush_cost_s / now.flush_every,
        lost=model.two_level_goodput(best, levels) - model.two_level_goodput(now, levels),
        settings=_settings(found, best),
    )


def _one_level(rule: Callable[[float, float], float], found: MeasuredCosts) -> _Method:
    """A rule that knows one kind of checkpoint, which costs what they cost on average."""
    flush_every = max(1, found.flush_every)

    def choose(levels: Levels) -> Schedule:
        cost_s = levels.checkpoint_s + levels.flush_cost_s / flush_every
        return Schedule(interval_s=rule(cost_s, levels.mtbf_s), flush_every=flush_every)

    return choose


def _settings(found: MeasuredCosts, schedule: Schedule) -> dict[str, int]:
    """SCR counts whole seconds from the end of a checkpoint; SCR_FLUSH is left alone with one level."""
    seconds, shortest_s = round(schedule.interval_s), model.shortest_interval_s(found, schedule.flush_every)
    if seconds < shortest_s <= schedule.interval_s:  # rounded into waiting
        seconds += 1
    made = {"SCR_CHECKPOINT_SECONDS": max(1, seconds)}
    return {**made, "SCR_FLUSH": schedule.flush_every} if found.flush_every else made


def _levels(found: MeasuredCosts, failures: Failures, mtbf_s: float, cache_share: float) -> Levels:
    """A restart that was never seen takes as long as a checkpoint; what is not flushed yet is lost, too."""
    prefix_restart_s = failures.prefix_restart_s or max(found.flush_s, found.checkpoint_s)
    cache_restart_s = failures.cache_restart_s or found.checkpoint_s
    if not found.flush_every:
        cache_restart_s = prefix_restart_s = failures.restart_s or found.checkpoint_s
    return Levels(
        **{name: getattr(found, name) for name in ScheduleCosts.__struct_fields__},
        cache_mtbf_s=mtbf_s / cache_share,
        prefix_mtbf_s=mtbf_s / (1 - cache_share),
        cache_restart_s=cache_restart_s,
        prefix_restart_s=prefix_restart_s + found.flush_s,
    )


def _midpoints(count: int) -> list[float]:
    """Equally likely probabilities."""
    return [(each + 0.5) / count for each in range(count)]


def _estimate(values: Iterable[float]) -> Estimate:
    """The first of `values`, which holds for the mean rate, and where 90 % of the others lie."""
    value, *others = values
    others.sort()
    last = len(others) - 1
    return Estimate(value, others[round(_TAIL * last)], others[round((1 - _TAIL) * last)])
