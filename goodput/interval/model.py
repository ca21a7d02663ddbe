"""How long to compute between two checkpoints, and how often to flush: what failures and checkpoints cost.

Failures come independently of each other, at a constant rate (exponentially distributed; mean time between
them M, the MTBF). All times are seconds. `interval_s` is what SCR_CHECKPOINT_SECONDS sets: the time from the
end of a checkpoint to the start of the next. `checkpoint_s` is what one checkpoint takes from the job,
`restart_s` what passes from a failure until the work that is to be done again begins.

One level. Whatever fails, the work goes on from the last checkpoint; the restart may fail, too (Daly 2006):

    goodput = interval / (M exp(restart/M) (exp((interval + checkpoint)/M) - 1))

Two levels. `cache` failures (processes, and nodes where the scheme protects them) leave the cached
checkpoints, `prefix` failures those that were flushed. From one flush to the next passes at least what a
flush lasts, however short the interval: they share the way to the prefix directory, and an output waits where
all that the cache keeps is being flushed (SCR 3.1.0, `scr_start_output` in scr.c); with SCR_CACHE_SIZE=1 the
next output does. That is a cost of the schedule, n being the checkpoints to one flush:

    wait = max(0, flush - flush_cost - n (interval + checkpoint))
    wait = max(0, flush - flush_cost - interval)                     where the next output waits

Sources: J. W. Young, CACM 17(9), 1974; J. T. Daly, FGCS 22(3), 2006; A. Moody et al., SC'10, for the two
levels (here every n-th cached checkpoint is flushed, as SCR does); Benoit 2017, for their first order.
"""

from collections.abc import Callable
from math import exp, expm1, inf, isfinite, log, log1p, sqrt

import msgspec

_TOO_LONG = 700.0
"""An exponent that is near the largest a float takes: nobody lives to see the end of that work."""
_GOLDEN = (sqrt(5) - 1) / 2
_BRACKET = 64.0
_PRECISION = 1e-7
_MOST_BETWEEN_FLUSHES = 100_000


class IntervalError(ValueError):
    """Input that no machine can have; the text says which and what is possible."""


def young(checkpoint_s: float, mtbf_s: float) -> float:
    """Young's interval, sqrt(2 C M): right to first order where a checkpoint is short against the MTBF."""
    _require(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    return sqrt(2 * checkpoint_s * mtbf_s)


def daly(checkpoint_s: float, mtbf_s: float) -> float:
    """Daly's interval of higher order; the MTBF where a checkpoint takes two of them or more."""
    _require(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = checkpoint_s / (2 * mtbf_s)
    return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s


def exact(checkpoint_s: float, mtbf_s: float) -> float:
    """The interval of the highest goodput, M (1 + W(-exp(-1 - C/M))) with Lambert's W; below the MTBF.

    W's argument is too near to its branch point for floats where C is small: x = interval / M is found as the
    zero of x + ln(1 - x) + C/M instead, by Newton's steps from above, which cannot miss it.
    """
    _require(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
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
    _require(interval_s=interval_s, checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    _require_not_negative(restart_s=restart_s)
    attempt = (interval_s + checkpoint_s) / mtbf_s
    if attempt + restart_s / mtbf_s > _TOO_LONG:
        return 0.0
    return interval_s / mtbf_s / (exp(restart_s / mtbf_s) * expm1(attempt))


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When to take checkpoints: `interval_s` of work between two, every `flush_every`-th one is flushed."""

    interval_s: float
    flush_every: int = 1


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What the two levels take from the job, in seconds.

    `checkpoint_s` is what a checkpoint in the cache takes, `flush_cost_s` what a flush adds to it (blocking,
    and slower steps) while it is under way, which is for `flush_s`. `next_output_waits` says that the cache
    keeps one checkpoint only (SCR_CACHE_SIZE=1): the next output begins when the flush has ended.
    """

    checkpoint_s: float
    flush_cost_s: float = 0.0
    flush_s: float = 0.0
    next_output_waits: bool = False


class Levels(Costs, frozen=True, kw_only=True):
    """What the two levels cost and how often they are needed, in seconds.

    `cache_mtbf_s` is the mean time between failures that the cache survives, `prefix_mtbf_s` of the others;
    what passes until the work goes on is `cache_restart_s` and `prefix_restart_s`. Raises IntervalError.
    """

    cache_mtbf_s: float
    prefix_mtbf_s: float
    cache_restart_s: float = 0.0
    prefix_restart_s: float = 0.0

    def __post_init__(self) -> None:
        _require(
            checkpoint_s=self.checkpoint_s, cache_mtbf_s=self.cache_mtbf_s, prefix_mtbf_s=self.prefix_mtbf_s
        )
        _require_not_negative(
            flush_cost_s=self.flush_cost_s,
            flush_s=self.flush_s,
            cache_restart_s=self.cache_restart_s,
            prefix_restart_s=self.prefix_restart_s,
        )

    @property
    def mtbf_s(self) -> float:
        """Mean time between failures of either kind."""
        return 1 / (1 / self.cache_mtbf_s + 1 / self.prefix_mtbf_s)


def shortest_interval_s(costs: Costs, flush_every: int) -> float:
    """The shortest interval with which nothing waits for a flush, 0 if none is too short; seconds."""
    rest_s = costs.flush_s - costs.flush_cost_s
    if not costs.next_output_waits:
        rest_s = rest_s / flush_every - costs.checkpoint_s
    return max(0.0, rest_s)


def flush_wait_s(schedule: Schedule, costs: Costs) -> float:
    """Seconds that the job waits for each flush."""
    missing_s = max(0.0, shortest_interval_s(costs, schedule.flush_every) - schedule.interval_s)
    return missing_s if costs.next_output_waits else missing_s * schedule.flush_every


def two_level_goodput(schedule: Schedule, levels: Levels) -> float:
    """The share of time that is lasting work, 0 to 1, exact for exponential failures.

    Let T(i) be the time until the next flush from behind the i-th checkpoint since the last one. A failure in
    the piece that follows leads back to T(i) or, from the prefix directory, to T(0), after a restart that may
    fail in its turn. T(i) depends on T(i+1) and T(0) linearly and, but for the last piece, in the same way:
    the recursion is a geometric series. With one piece and equal restarts it is :func:`goodput`.

    The last piece has the wait for the flush, whichever it is that waits. A failure is thought to end a flush
    under way, which begins anew with the piece that is done again.
    """
    n = schedule.flush_every
    _require(interval_s=schedule.interval_s, flush_every=n)
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
    through, spent_s = _piece(piece_s, mtbf_s, cached, back, restart_s)
    last_through, last_spent_s = _piece(last_piece_s, mtbf_s, cached, back, restart_s)
    all_but_last = exp((n - 1) * log(through))
    to_flush = all_but_last * last_through
    if to_flush < exp(-_TOO_LONG):
        return 0.0
    series = -expm1((n - 1) * log(through)) / (1 - through) if through < 1 else n - 1.0
    attempt_s = spent_s * series + last_spent_s * all_but_last
    total_s = (attempt_s + (1 - to_flush) * prefix_restart_s) / to_flush
    return n * schedule.interval_s / total_s


def _piece(
    piece_s: float, mtbf_s: float, cached: float, back: float, restart_s: float
) -> tuple[float, float]:
    """Probability to get through without the prefix directory, and the mean time spent until either."""
    fails = -expm1(-piece_s / mtbf_s)
    leaves = 1 - fails * cached * back
    return exp(-piece_s / mtbf_s) / leaves, fails * (mtbf_s + cached * restart_s) / leaves


def first_order(levels: Levels) -> Schedule:
    """Each level as Young has it: sqrt(2 C1 M1); every sqrt(M2 C2 / (M1 C1))-th checkpoint is flushed."""
    ratio = levels.prefix_mtbf_s * levels.flush_cost_s / (levels.cache_mtbf_s * levels.checkpoint_s)
    n = max(1, min(_MOST_BETWEEN_FLUSHES, round(sqrt(ratio))))
    return Schedule(interval_s=young(levels.checkpoint_s, levels.cache_mtbf_s), flush_every=n)


def optimal(levels: Levels) -> Schedule:
    """The schedule of the highest goodput.

    Where the best one waits for flushes, those that do not (of long intervals) and those that wait for a rare
    flush each have a best one: the search begins at either end.
    """
    frequent = first_order(levels).flush_every
    at_once = _climb(msgspec.structs.replace(levels, flush_s=0.0), frequent)
    if not flush_wait_s(at_once, levels):
        return at_once
    rare = first_order(msgspec.structs.replace(levels, flush_cost_s=levels.flush_s)).flush_every
    found = [_climb(levels, flush_every) for flush_every in sorted({1, frequent, rare})]
    return max(found, key=lambda each: two_level_goodput(each, levels))


def _climb(levels: Levels, flush_every: int) -> Schedule:
    """The best schedule that steps to better ones lead to, which double while they do."""

    def best_with(n: int) -> tuple[float, Schedule]:
        schedule = best_interval(levels, n)
        return two_level_goodput(schedule, levels), schedule

    here = best_with(flush_every)
    stride = 1
    while stride:
        n = here[1].flush_every
        near = [best_with(each) for each in (n - stride, n + stride) if 1 <= each <= _MOST_BETWEEN_FLUSHES]
        best = max([here, *near], key=lambda found: found[0])
        stride = stride // 2 if best is here else 2 * stride
        here = best
    return here[1]


def best_interval(levels: Levels, flush_every: int) -> Schedule:
    """The best interval when every `flush_every`-th checkpoint is flushed."""
    _require(flush_every=flush_every)
    mean_cost_s = levels.checkpoint_s + levels.flush_cost_s / flush_every
    guess_s = exact(mean_cost_s, 1 / (1 / levels.cache_mtbf_s + flush_every / levels.prefix_mtbf_s))
    shortest_s = shortest_interval_s(levels, flush_every)
    low_s, high_s = guess_s / _BRACKET, max(guess_s * _BRACKET, 2 * shortest_s)

    def schedule(interval_s: float) -> Schedule:
        return Schedule(interval_s=interval_s, flush_every=flush_every)

    def value(log_s: float) -> float:
        return two_level_goodput(schedule(exp(log_s)), levels)

    found = schedule(exp(_highest(value, log(low_s), log(high_s))))
    if not shortest_s:
        return found
    # where waiting begins the goodput has a bend, which is often the best place
    return max(found, schedule(shortest_s), key=lambda each: two_level_goodput(each, levels))


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


def _require(**values: float) -> None:
    for name, value in values.items():
        if not (isfinite(value) and value > 0):
            raise IntervalError(f"{name} is {value}: it must be a number above 0")


def _require_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < inf:
            raise IntervalError(f"{name} is {value}: it must be 0 or a number above it")
