"""How long to compute between two checkpoints, and how often to flush: what failures and checkpoints cost.

Failures are independent and come at a constant rate. All times are seconds. `interval_s` is from the end of a
checkpoint to the start of the next, `checkpoint_s` what one takes from the job, `restart_s` what passes from
a failure until the lost work begins again. Of two levels, `cache` failures leave the cached checkpoints,
`prefix` failures those that were flushed; flushes follow each other, and an output waits for them where all
that the cache keeps is being flushed. `docs/interval.md` has the formulas and their sources.
"""

from collections.abc import Callable
from math import exp, expm1, inf, log, log1p, sqrt

import msgspec

_TOO_LONG = 700.0  # as an exponent: near the largest a float takes
_GOLDEN = (sqrt(5) - 1) / 2
_BRACKET = 64.0
_PRECISION = 1e-7
_MOST_BETWEEN_FLUSHES = 100_000


class IntervalError(ValueError):
    """Input that no machine can have; the text says which and what is possible."""


def require(*, or_0: bool = False, **values: float) -> None:
    """Raise IntervalError, with its name, for a value that is no number above 0, or from 0 on."""
    for name, value in values.items():
        if not (0 < value < inf or (or_0 and value == 0)):
            wanted = "0 or a number above it" if or_0 else "a number above 0"
            raise IntervalError(f"{name} is {value}: it must be {wanted}")


def young(checkpoint_s: float, mtbf_s: float) -> float:
    """Young's interval, sqrt(2 C M): right to first order where a checkpoint is short against the MTBF."""
    require(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    return sqrt(2 * checkpoint_s * mtbf_s)


def daly(checkpoint_s: float, mtbf_s: float) -> float:
    """Daly's interval of higher order; the MTBF where a checkpoint takes two of them or more."""
    require(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = checkpoint_s / (2 * mtbf_s)
    return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s


def exact(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the interval of the highest goodput, below the MTBF: M (1 + W(-exp(-1 - C/M))), Lambert's W.

    Floats are too coarse for W: the zero of x + ln(1 - x) + C/M, x = interval / M, by Newton's steps from
    above.
    """
    require(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    ratio = checkpoint_s / mtbf_s
    if not ratio:  # of numbers that far apart
        return sqrt(2 * checkpoint_s) * sqrt(mtbf_s)
    x = min(sqrt(2 * ratio), -expm1(-1 - ratio))
    while x < 1:
        nearer = x + (x + log1p(-x) + ratio) * (1 - x) / x
        if not 0 < nearer < x * (1 - 1e-15):
            break
        x = nearer
    return mtbf_s * x


def goodput(interval_s: float, checkpoint_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """The share of time that is lasting work, 0 to 1, as far as checkpoints and failures go (Daly 2006)."""
    require(interval_s=interval_s, checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    require(or_0=True, restart_s=restart_s)
    attempt = (interval_s + checkpoint_s) / mtbf_s
    if attempt + restart_s / mtbf_s > _TOO_LONG:
        return 0.0
    return interval_s / mtbf_s / (exp(restart_s / mtbf_s) * expm1(attempt))


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When to take checkpoints: `interval_s` of work between two, every `flush_every`-th one is flushed."""

    interval_s: float
    flush_every: int = 1


class ScheduleCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What a cached checkpoint takes from the job, and what a flush of `flush_s` adds; s.

    `next_output_waits` for the end of a flush where the cache keeps one checkpoint only (SCR_CACHE_SIZE=1).
    """

    checkpoint_s: float
    flush_cost_s: float = 0.0
    flush_s: float = 0.0
    next_output_waits: bool = False


class Levels(ScheduleCosts, frozen=True, kw_only=True):
    """What two levels cost, and the failures that the cache survives, and others. Raises IntervalError."""

    cache_mtbf_s: float
    prefix_mtbf_s: float
    cache_restart_s: float = 0.0
    prefix_restart_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("checkpoint_s", "cache_mtbf_s", "prefix_mtbf_s"):
            require(**{name: getattr(self, name)})
        for name in ("flush_cost_s", "flush_s", "cache_restart_s", "prefix_restart_s"):
            require(or_0=True, **{name: getattr(self, name)})

    @property
    def mtbf_s(self) -> float:
        """Mean time between failures of either kind."""
        return 1 / (1 / self.cache_mtbf_s + 1 / self.prefix_mtbf_s)


def shortest_interval_s(costs: ScheduleCosts, flush_every: int) -> float:
    """The shortest interval with which nothing waits for a flush, 0 if none is too short; seconds."""
    rest_s = costs.flush_s - costs.flush_cost_s
    if not costs.next_output_waits:
        rest_s = rest_s / flush_every - costs.checkpoint_s
    return max(0.0, rest_s)


def flush_wait_s(schedule: Schedule, costs: ScheduleCosts) -> float:
    """Seconds that the job waits for each flush."""
    missing_s = max(0.0, shortest_interval_s(costs, schedule.flush_every) - schedule.interval_s)
    return missing_s if costs.next_output_waits else missing_s * schedule.flush_every


def two_level_goodput(schedule: Schedule, levels: Levels) -> float:
    """Return the share of time that is lasting work, 0 to 1, exact for exponential failures.

    The time until the next flush from behind the i-th checkpoint depends linearly on that from the next one,
    and from the last flush, alike for all pieces but the last, which has the wait: a geometric series
    (`docs/interval.md`). With one piece and equal restarts it is :func:`goodput`.
    """
    n = schedule.flush_every
    require(interval_s=schedule.interval_s, flush_every=n)
    mtbf_s = levels.mtbf_s
    cached = mtbf_s / levels.cache_mtbf_s
    piece_s = schedule.interval_s + levels.checkpoint_s
    last_piece_s = piece_s + levels.flush_cost_s + flush_wait_s(schedule, levels)
    longest_s = last_piece_s + levels.cache_restart_s + levels.prefix_restart_s
    if longest_s / mtbf_s > _TOO_LONG:
        return 0.0
    restarted = exp(-levels.cache_restart_s / mtbf_s)
    ends = restarted + (1 - restarted) * (1 - cached)  # a try succeeds, or is the last from the cache
    back, restart_s = restarted / ends, mtbf_s * (1 - restarted) / ends
    prefix_restart_s = mtbf_s * expm1(levels.prefix_restart_s / mtbf_s)

    def piece(takes_s: float) -> tuple[float, float]:
        """Probability to get through without the prefix directory, and the mean time spent until either."""
        fails = -expm1(-takes_s / mtbf_s)
        leaves = 1 - fails * cached * back
        return exp(-takes_s / mtbf_s) / leaves, fails * (mtbf_s + cached * restart_s) / leaves

    through, spent_s = piece(piece_s)
    last_through, last_spent_s = piece(last_piece_s)
    all_but_last = exp((n - 1) * log(through))
    to_flush = all_but_last * last_through
    if to_flush < exp(-_TOO_LONG):
        return 0.0
    series = -expm1((n - 1) * log(through)) / (1 - through) if through < 1 else n - 1.0
    attempt_s = spent_s * series + last_spent_s * all_but_last
    total_s = (attempt_s + (1 - to_flush) * prefix_restart_s) / to_flush
    return n * schedule.interval_s / total_s


def first_order(levels: Levels) -> Schedule:
    """Each level as Young has it: sqrt(2 C1 M1); every sqrt(M2 C2 / (M1 C1))-th checkpoint is flushed."""
    ratio = levels.prefix_mtbf_s * levels.flush_cost_s / (levels.cache_mtbf_s * levels.checkpoint_s)
    n = max(1, min(_MOST_BETWEEN_FLUSHES, round(sqrt(ratio))))
    return Schedule(interval_s=young(levels.checkpoint_s, levels.cache_mtbf_s), flush_every=n)


def optimal(levels: Levels) -> Schedule:
    """Return the schedule of the highest goodput, beginning at long intervals and at rare flushes."""
    frequent = first_order(levels).flush_every
    at_once = _climb(msgspec.structs.replace(levels, flush_s=0.0), frequent)
    if not flush_wait_s(at_once, levels):
        return at_once
    rare = first_order(msgspec.structs.replace(levels, flush_cost_s=levels.flush_s)).flush_every
    found = [_climb(levels, flush_every) for flush_every in sorted({1, frequent, rare})]
    return max(found, key=lambda each: two_level_goodput(each, levels))


def _climb(levels: Levels, flush_every: int) -> Schedule:
    """The best schedule that steps to better ones lead to, which double while they do."""
    here, stride = best_interval(levels, flush_every), 1
    while stride:
        steps = (here.flush_every - stride, here.flush_every + stride)
        near = [best_interval(levels, n) for n in steps if 1 <= n <= _MOST_BETWEEN_FLUSHES]
        best = max([here, *near], key=lambda each: two_level_goodput(each, levels))
        stride = stride // 2 if best is here else 2 * stride
        here = best
    return here


def best_interval(levels: Levels, flush_every: int) -> Schedule:
    """The best interval when every `flush_every`-th checkpoint is flushed."""
    require(flush_every=flush_every)
    mean_cost_s = levels.checkpoint_s + levels.flush_cost_s / flush_every
    guess_s = exact(mean_cost_s, 1 / (1 / levels.cache_mtbf_s + flush_every / levels.prefix_mtbf_s))
    shortest_s = shortest_interval_s(levels, flush_every)
    low_s, high_s = guess_s / _BRACKET, max(guess_s * _BRACKET, 2 * shortest_s)

    def value(interval_s: float) -> float:
        return two_level_goodput(Schedule(interval_s=interval_s, flush_every=flush_every), levels)

    best_s = exp(_highest(lambda log_s: value(exp(log_s)), log(low_s), log(high_s)))
    # where waiting begins the goodput has a bend, which is often the best place
    best_s = max(best_s, shortest_s, key=value) if shortest_s else best_s
    return Schedule(interval_s=best_s, flush_every=flush_every)


def _highest(value: Callable[[float], float], low: float, high: float) -> float:
    """Where `value`, which rises and then falls, is highest (golden section search, Kiefer 1953)."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    value_left, value_right = value(left), value(right)
    while high - low > _PRECISION:
        if value_left >= value_right:
            high, right, value_right = right, left, value_left
            left = high - _GOLDEN * (high - low)
            value_left = value(left)
        else:
            low, left, value_left = left, right, value_right
            right = low + _GOLDEN * (high - low)
            value_right = value(right)
    return (low + high) / 2
