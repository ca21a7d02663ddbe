"""How long to compute between checkpoints, and that simulated machines agree."""

import random
from math import exp, sqrt
from statistics import fmean, stdev

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from scrtune.goodput.interval.model import (
    IntervalError,
    Levels,
    Schedule,
    best_interval,
    daly,
    exact,
    first_order,
    flush_wait_s,
    goodput,
    optimal,
    shortest_interval_s,
    two_level_goodput,
    young,
)

from ...support.failing_machines import MTBF_S, lost_points


def test_young_and_daly_as_printed() -> None:
    assert young(50, 10_000) == 1000
    assert daly(50, 10_000) == pytest.approx(1000 * (1 + sqrt(0.0025) / 3 + 0.0025 / 9) - 50)
    assert daly(20_000, 10_000) == daly(30_000, 10_000) == 10_000


@given(st.floats(1e-4, 1e3))
def test_the_exact_interval_is_lambert_s(ratio: float) -> None:
    expected = MTBF_S * (1 + lambertw(-exp(-1 - ratio)).real)
    assert exact(ratio * MTBF_S, MTBF_S) == pytest.approx(expected, rel=1e-9)


@given(st.floats(1e-300, 1e-4))
def test_where_lambert_s_w_loses_its_digits_the_exact_interval_is_daly_s(ratio: float) -> None:
    assert exact(ratio * MTBF_S, MTBF_S) == pytest.approx(daly(ratio * MTBF_S, MTBF_S), rel=1e-6)


@given(st.floats(1e-5, 10), st.floats(0.2, 5))
def test_no_interval_beats_the_exact_one(ratio: float, factor: float) -> None:
    checkpoint_s = ratio * MTBF_S
    best_s = exact(checkpoint_s, MTBF_S)
    assert goodput(best_s, checkpoint_s, MTBF_S) >= goodput(best_s * factor, checkpoint_s, MTBF_S) - 1e-15


@pytest.mark.parametrize("ratio", [0.0035, 0.0125, 0.03, 0.1, 0.2])
def test_what_the_approximations_lose(ratio: float) -> None:
    cost_s = ratio * MTBF_S
    assert 0.0029 <= lost_points(young(cost_s, MTBF_S), cost_s) <= 0.54
    assert 0 <= lost_points(daly(cost_s, MTBF_S), cost_s) <= 0.0001
    assert 1.8 <= lost_points(exact(cost_s, MTBF_S) / 2, cost_s) <= 5.8
    assert 1.8 <= lost_points(exact(cost_s, MTBF_S) * 2, cost_s) <= 5.8


def test_an_mtbf_estimated_from_few_failures_loses_much() -> None:
    rng, cost_s = np.random.default_rng(5), 0.0125 * MTBF_S
    for failures, points in ((1, 3.8), (2, 1.3), (4, 0.55), (8, 0.25)):
        guesses = MTBF_S * rng.gamma(failures, 1 / failures, 4000)
        lost = fmean(lost_points(exact(cost_s, guess), cost_s) for guess in guesses)
        assert lost == pytest.approx(points, rel=0.12)


def simulate_one_level(
    interval_s: float, checkpoint_s: float, restart_s: float, lifetimes: np.ndarray
) -> float:
    """The share of time that was lasting work, on a machine that fails after each of `lifetimes` (s).

    Behind a restart, which must fit into a lifetime as well, every whole piece of one is work that lasts.
    """
    usable = np.maximum(0.0, lifetimes - restart_s)
    pieces = np.floor(usable / (interval_s + checkpoint_s))
    return float(np.sum(pieces) * interval_s / np.sum(lifetimes))


@pytest.mark.parametrize("ratio", [0.0035, 0.0125, 0.1])
def test_a_simulated_machine_agrees_with_the_formula_and_its_optimum(ratio: float) -> None:
    cost_s = ratio * MTBF_S
    lifetimes = np.random.default_rng(11).exponential(MTBF_S, 2_000_000)

    def simulated(interval_s: float) -> float:
        return simulate_one_level(interval_s, cost_s, cost_s, lifetimes)

    best_s = exact(cost_s, MTBF_S)
    assert simulated(best_s) == pytest.approx(goodput(best_s, cost_s, MTBF_S, cost_s), abs=5e-4)
    for other_s in (best_s / 2, best_s * 2):
        lost = 100 * (simulated(best_s) - simulated(other_s))
        assert lost == pytest.approx(lost_points(other_s, cost_s), abs=0.1)
    if ratio == 0.1:  # where the difference is larger than the simulation's noise
        lost = 100 * (simulated(best_s) - simulated(young(cost_s, MTBF_S)))
        assert lost == pytest.approx(lost_points(young(cost_s, MTBF_S), cost_s), abs=0.1)
        assert lost > 0.1


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_input_is_reported_by_name(bad: float) -> None:
    for rule in (young, daly, exact):
        with pytest.raises(IntervalError, match=r"checkpoint_s is .*: it must be a number above 0"):
            rule(bad, MTBF_S)
        with pytest.raises(IntervalError, match="mtbf_s is"):
            rule(1.0, bad)
    with pytest.raises(IntervalError, match="interval_s is"):
        goodput(bad, 1.0, MTBF_S)
    with pytest.raises(IntervalError, match="restart_s is -1"):
        goodput(1.0, 1.0, MTBF_S, -1)
    with pytest.raises(IntervalError, match="prefix_mtbf_s"):
        Levels(checkpoint_s=1, cache_mtbf_s=1, prefix_mtbf_s=bad)


def test_what_never_gets_through_has_no_goodput() -> None:
    assert goodput(1e6, 1, 1000) == 0
    assert goodput(1, 1, 1000, 1e9) == 0
    levels = Levels(checkpoint_s=1, cache_mtbf_s=100, prefix_mtbf_s=100, prefix_restart_s=1e6)
    assert two_level_goodput(Schedule(interval_s=10, flush_every=3), levels) == 0
    endless = Levels(checkpoint_s=1, cache_mtbf_s=1e3, prefix_mtbf_s=1e3)
    assert two_level_goodput(Schedule(interval_s=1e3, flush_every=10_000), endless) == 0


LEVELS = Levels(
    checkpoint_s=10,
    flush_cost_s=80,
    flush_s=100,
    cache_mtbf_s=2000,
    prefix_mtbf_s=10_000,
    cache_restart_s=30,
    prefix_restart_s=200,
)


def simulate_two_levels(schedule: Schedule, levels: Levels, flushes: int, rng: random.Random) -> float:
    """Walks through the same rules second by second, or rather failure by failure."""
    cached = levels.mtbf_s / levels.cache_mtbf_s
    total_s, piece, restart = 0.0, 0, ""
    done = 0
    while done < flushes:
        if restart:
            takes_s = levels.cache_restart_s if restart == "cache" else levels.prefix_restart_s
        else:
            is_last = piece == schedule.flush_every - 1
            takes_s = schedule.interval_s + levels.checkpoint_s + (levels.flush_cost_s if is_last else 0)
        fails_s = rng.expovariate(1 / levels.mtbf_s)
        total_s += min(takes_s, fails_s)
        if fails_s < takes_s:
            survives = rng.random() < cached and restart != "prefix"
            restart = "cache" if survives else "prefix"
            piece = piece if survives else 0
        elif restart:
            restart = ""
        else:
            piece = (piece + 1) % schedule.flush_every
            done += piece == 0
    return flushes * schedule.flush_every * schedule.interval_s / total_s


@pytest.mark.parametrize(("interval_s", "flush_every"), [(190, 6), (600, 1), (50, 40)])
def test_a_simulated_machine_with_two_levels_agrees(interval_s: float, flush_every: int) -> None:
    schedule = Schedule(interval_s=interval_s, flush_every=flush_every)
    rng = random.Random(3)
    found = [simulate_two_levels(schedule, LEVELS, 600, rng) for _ in range(12)]
    error = stdev(found) / sqrt(len(found))
    assert two_level_goodput(schedule, LEVELS) == pytest.approx(fmean(found), abs=4 * error)
    assert error < 0.004


@given(st.floats(10, 1e5), st.floats(0.1, 1e4), st.floats(0, 1e4), st.floats(0.01, 0.99))
def test_two_levels_that_are_equal_are_one(
    interval_s: float, cost_s: float, restart_s: float, share: float
) -> None:
    levels = Levels(
        checkpoint_s=cost_s,
        cache_mtbf_s=MTBF_S / share,
        prefix_mtbf_s=MTBF_S / (1 - share),
        cache_restart_s=restart_s,
        prefix_restart_s=restart_s,
    )
    one = goodput(interval_s, cost_s, MTBF_S, restart_s)
    assert two_level_goodput(Schedule(interval_s=interval_s), levels) == pytest.approx(one, rel=1e-6)


def test_the_first_order_is_near_the_optimum_and_the_search_finds_it() -> None:
    near, best = first_order(LEVELS), optimal(LEVELS)
    assert near == Schedule(interval_s=200, flush_every=6)
    grid = [(two_level_goodput(s, LEVELS), s) for n in range(1, 25) for s in [best_interval(LEVELS, n)]]
    assert two_level_goodput(best, LEVELS) == max(value for value, _ in grid)
    for interval_s in range(20, 1000, 20):
        each = Schedule(interval_s=interval_s, flush_every=best.flush_every)
        assert two_level_goodput(each, LEVELS) <= two_level_goodput(best, LEVELS) + 1e-12
    assert two_level_goodput(near, LEVELS) > two_level_goodput(best, LEVELS) - 0.001


levels_of_any_kind = st.builds(
    Levels,
    checkpoint_s=st.floats(0.01, 1e3),
    flush_cost_s=st.floats(0, 1e3),
    flush_s=st.floats(0, 1e4),
    cache_mtbf_s=st.floats(1e3, 1e8),
    prefix_mtbf_s=st.floats(1e3, 1e7),
    cache_restart_s=st.floats(0, 1e3),
    prefix_restart_s=st.floats(0, 1e3),
    next_output_waits=st.booleans(),
)


@settings(max_examples=60)
@given(levels_of_any_kind)
def test_none_near_the_best_schedule_is_better(levels: Levels) -> None:
    best = optimal(levels)
    value = two_level_goodput(best, levels)
    assert 0 <= value <= 1
    for n in (best.flush_every - 1, best.flush_every + 1):
        if 1 <= n <= 100_000:  # the most that is looked at
            assert two_level_goodput(best_interval(levels, n), levels) <= value + 1e-9
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        near = Schedule(interval_s=best.interval_s * factor, flush_every=best.flush_every)
        assert two_level_goodput(near, levels) <= value + 1e-9


SLOW_FLUSH = Levels(checkpoint_s=5, flush_s=60, cache_mtbf_s=1e9, prefix_mtbf_s=1e9)
schedules = st.builds(
    Schedule, interval_s=st.floats(-1, 5).map(lambda log_s: 10.0**log_s), flush_every=st.integers(1, 20)
)
"""Of which flushes of up to 10,000 s fit into about half."""


def changed(levels: Levels, **fields: float) -> Levels:
    return msgspec.structs.replace(levels, **fields)


@pytest.mark.parametrize(
    ("interval_s", "flush_every", "cycle_s"),
    [(20, 1, 60), (20, 2, 60), (20, 3, 75), (55, 1, 60), (100, 1, 105)],
)
def test_from_flush_to_flush_passes_at_least_what_one_lasts(
    interval_s: float, flush_every: int, cycle_s: float
) -> None:
    schedule = Schedule(interval_s=interval_s, flush_every=flush_every)
    expected = flush_every * interval_s / cycle_s
    assert two_level_goodput(schedule, SLOW_FLUSH) == pytest.approx(expected, rel=1e-6)
    assert flush_wait_s(schedule, SLOW_FLUSH) == pytest.approx(cycle_s - flush_every * (interval_s + 5))


@pytest.mark.parametrize(
    ("interval_s", "flush_every", "cycle_s"), [(20, 1, 65), (20, 2, 90), (60, 2, 130), (100, 1, 105)]
)
def test_where_the_cache_keeps_one_checkpoint_the_next_output_waits(
    interval_s: float, flush_every: int, cycle_s: float
) -> None:
    schedule = Schedule(interval_s=interval_s, flush_every=flush_every)
    levels = changed(SLOW_FLUSH, next_output_waits=True)
    expected = flush_every * interval_s / cycle_s
    assert two_level_goodput(schedule, levels) == pytest.approx(expected, rel=1e-6)
    assert shortest_interval_s(levels, flush_every) == 60


@pytest.mark.parametrize(("cache_mtbf_s", "waits"), [(20_000, False), (1_000, True)])
def test_the_best_schedule_waits_for_a_rare_flush_only_where_that_is_worth_it(
    cache_mtbf_s: float, waits: bool
) -> None:
    levels = Levels(
        checkpoint_s=1, flush_s=600, cache_mtbf_s=cache_mtbf_s, prefix_mtbf_s=1e5, next_output_waits=True
    )
    best = optimal(levels)
    assert (flush_wait_s(best, levels) > 0) is waits
    every = (two_level_goodput(best_interval(levels, n), levels) for n in range(1, 400))
    assert two_level_goodput(best, levels) == pytest.approx(max(every), abs=1e-9)


def test_a_flush_that_blocks_is_over_before_the_work_goes_on() -> None:
    levels = changed(SLOW_FLUSH, flush_cost_s=60)
    assert shortest_interval_s(levels, 1) == 0
    assert two_level_goodput(Schedule(interval_s=20), levels) == pytest.approx(20 / 85, rel=1e-6)


@given(levels_of_any_kind, schedules)
def test_goodput_is_never_above_what_flushes_allow(levels: Levels, schedule: Schedule) -> None:
    found, worked_s = two_level_goodput(schedule, levels), schedule.flush_every * schedule.interval_s
    if levels.flush_s:
        assert found <= worked_s / levels.flush_s * (1 + 1e-9)
    assert found <= schedule.interval_s / (schedule.interval_s + levels.checkpoint_s) * (1 + 1e-9)


@given(levels_of_any_kind, schedules)
def test_where_flushes_fit_their_time_does_not_matter_and_where_they_do_not_it_costs(
    levels: Levels, schedule: Schedule
) -> None:
    at_once = two_level_goodput(schedule, changed(levels, flush_s=0.0))
    if schedule.interval_s >= shortest_interval_s(levels, schedule.flush_every):
        assert two_level_goodput(schedule, levels) == at_once
        assert flush_wait_s(schedule, levels) == 0
    else:
        assert two_level_goodput(schedule, levels) <= at_once
        assert flush_wait_s(schedule, levels) > 0


@given(levels_of_any_kind, st.integers(1, 200))
def test_where_waiting_begins_the_goodput_does_not_jump(levels: Levels, flush_every: int) -> None:
    at_s = shortest_interval_s(levels, flush_every)
    if at_s > 1e-3:
        below, above = (
            two_level_goodput(Schedule(interval_s=at_s * factor, flush_every=flush_every), levels)
            for factor in (1 - 1e-9, 1 + 1e-9)
        )
        assert below == pytest.approx(above, rel=1e-4, abs=1e-12)


def simulate_flushes(schedule: Schedule, levels: Levels, flushes: int, rng: random.Random) -> float:
    """A machine that flushes beside its work and fails now and then; the cache survives every failure.

    It has a clock, and for each flush a time when it ends: what waits for it waits until then. A failure ends
    a flush that is under way, too; it begins anew when the work does, as SCR has it (scr_flush_restart).
    """
    now_s = flush_end_s = 0.0
    flushing = False
    piece = done = 0
    fails_s = rng.expovariate(1 / levels.cache_mtbf_s)
    while done < flushes:
        is_last = piece == schedule.flush_every - 1
        ends_s = now_s + schedule.interval_s
        if levels.next_output_waits:
            ends_s = max(ends_s, flush_end_s)
        ends_s += levels.checkpoint_s
        if is_last:
            ends_s = max(ends_s, flush_end_s)
        if fails_s < ends_s:
            flushing = flush_end_s > fails_s
            now_s = fails_s + levels.cache_restart_s
            flush_end_s = now_s + levels.flush_s if flushing else 0.0
            fails_s = now_s + rng.expovariate(1 / levels.cache_mtbf_s)
            continue
        now_s, piece = ends_s, (piece + 1) % schedule.flush_every
        if is_last:
            flush_end_s = now_s + levels.flush_s
            done += 1
    return flushes * schedule.flush_every * schedule.interval_s / now_s


@pytest.mark.parametrize("next_output_waits", [False, True])
@pytest.mark.parametrize(
    ("interval_s", "flush_every", "mtbf_s", "within"),
    [(20, 1, 500, 0.0), (50, 1, 500, 0.0), (100, 1, 500, 0.0), (8, 3, 2_000, 0.01), (8, 6, 2_000, 0.01)],
)
def test_a_simulated_machine_that_waits_for_its_flushes_agrees(
    interval_s: float, flush_every: int, mtbf_s: float, within: float, next_output_waits: bool
) -> None:
    schedule = Schedule(interval_s=interval_s, flush_every=flush_every)
    levels = changed(SLOW_FLUSH, cache_mtbf_s=mtbf_s, next_output_waits=next_output_waits)
    rng = random.Random(17)
    found = [simulate_flushes(schedule, levels, 1_000, rng) for _ in range(12)]
    error = stdev(found) / sqrt(len(found))
    assert error < 0.004
    assert two_level_goodput(schedule, levels) == pytest.approx(fmean(found), abs=4 * error + within)
