"""How long to compute between checkpoints, how sure that is, and that simulated machines agree."""

import random
from collections.abc import Iterator
from math import exp, log, sqrt
from statistics import fmean, stdev

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import lambertw

from scrtune.goodput.checkpoint_cost import CheckpointCost, costs_of, costs_of_saves
from scrtune.goodput.events import (
    AllocationEnded,
    FlushCompleted,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobHalted,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.interval.failure_rate import NODE_MTBF_S, FailurePrior, Posterior, posterior, typical
from scrtune.goodput.interval.failures import Failures, FailureWatch, failures_of
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
from scrtune.goodput.interval.recommend import (
    ASKED,
    IN_USE,
    Estimate,
    MeasuredCosts,
    Outlook,
    measured,
    recommend,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.ledger.ledger import Ledger
from scrtune.goodput.validation import span

MTBF_S = 10_000.0

# one level ------------------------------------------------------------------------------------------------


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


def lost_points(interval_s: float, checkpoint_s: float) -> float:
    """Points of goodput below the best, where a restart takes as long as a checkpoint."""
    best_s = exact(checkpoint_s, MTBF_S)
    best, own = (goodput(each, checkpoint_s, MTBF_S, checkpoint_s) for each in (best_s, interval_s))
    return 100 * (best - own)


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


# two levels -----------------------------------------------------------------------------------------------

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


# flushes that last longer than the interval ----------------------------------------------------------------

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


# how often it fails ----------------------------------------------------------------------------------------


def seen(*events: GoodputEvent) -> Failures:
    return failures_of(JobEvents(events))


def start(at_s: float, nodes: int = 4) -> JobStarted:
    return JobStarted(time_s=at_s, ranks=8, nodes=nodes)


def step(at_s: float) -> StepCompleted:
    return StepCompleted(step=int(at_s), start_s=at_s - 1, end_s=at_s)


def restart(at_s: float, source: str = "cache", *, valid: bool = True) -> RestartCompleted:
    return RestartCompleted(dataset=1, name="c", start_s=at_s - 1, end_s=at_s, source=source, valid=valid)


def test_a_run_that_another_one_follows_has_failed_and_where_from_it_went_on_is_the_kind() -> None:
    found = seen(
        *(start(0), step(100)),
        *(start(110), restart(115), step(200)),
        *(start(230), restart(240, "rebuild"), step(300)),
        *(start(360), restart(400, "prefix"), step(500)),
    )
    assert (found.cache, found.prefix, found.unknown) == (2, 1, 0)
    assert found.observed_s == 100 + 90 + 70 + 140
    assert found.cache_restart_s == fmean([15, 40])
    assert found.prefix_restart_s == 100
    assert found.restart_s == fmean([15, 40, 100])
    assert found.nodes == 4


def test_what_was_planned_is_no_failure_unless_a_node_failed() -> None:
    well = (step(100), JobEnded(time_s=101, exit_code=0))
    assert seen(start(0), *well, start(200), step(300)).total == 0
    assert seen(start(0), step(100), JobHalted(time_s=100), start(200)).total == 0
    assert seen(start(0), step(100), AllocationEnded(time_s=100), start(200)).total == 0
    assert seen(start(0), step(100), NodeFailed(time_s=150), NodeFailed(time_s=151), start(200)).total == 1
    halted = (JobHalted(time_s=100), NodeFailed(time_s=150))
    assert seen(start(0), step(100), *halted, start(200)).total == 1


def test_a_last_run_counts_when_it_said_that_it_ended_badly() -> None:
    assert seen(start(0), step(100)).total == 0
    assert seen(start(0), step(100), JobEnded(time_s=101, exit_code=0)).total == 0
    assert seen(start(0), step(100), JobEnded(time_s=101, exit_code=137)).unknown == 1
    timeout = (AllocationEnded(time_s=101), JobEnded(time_s=102, exit_code=143))
    assert seen(start(0), step(100), *timeout).total == 0


def test_each_rank_may_say_that_the_run_began_and_nobody_that_it_did() -> None:
    assert seen(start(0), start(0), step(50)).total == 0
    assert seen(step(50), step(90)).observed_s == 40
    assert seen() == Failures()


def test_a_rank_that_speaks_before_the_first_start_is_no_run_that_failed() -> None:
    early = Interval(kind="device_init", start_s=9.995, end_s=12, writer="rank1")
    assert seen(early, start(10), step(50)).total == 0
    assert seen(step(5), start(10), step(50)).total == 1


def test_ranks_of_one_launch_that_start_one_after_the_other_are_one_run() -> None:
    ranks = [JobStarted(time_s=at_s, writer=f"rank{at_s}") for at_s in range(4)]
    assert seen(*ranks, step(50), JobEnded(time_s=60, exit_code=0)).total == 0
    assert (
        seen(*ranks, step(50), *(JobStarted(time_s=100 + n, writer=f"rank{n}") for n in range(4))).total == 1
    )


def test_what_is_read_in_the_middle_of_a_run_or_could_not_be_read_is_no_restart() -> None:
    found = seen(start(0), step(100), start(110), restart(120, valid=False), step(150), restart(160))
    assert (found.cache, found.prefix, found.unknown) == (0, 0, 1)


def test_writers_that_know_nothing_of_scr_say_when_they_were_reading() -> None:
    told = Interval(kind="checkpoint_restore", start_s=115, end_s=120)
    found = seen(start(0), step(100), start(110), told, StepStarted(step=1, time_s=121), restart(150))
    assert (found.cache, found.unknown, found.restart_s) == (0, 1, 20)
    ended = IntervalEnded(kind="checkpoint_restore", time_s=130)
    assert seen(start(0), step(100), start(110), ended).restart_s == 30


def test_saves_are_checkpoints_and_those_that_overlap_are_one() -> None:
    def save(start_s: float, end_s: float, writer: str = "") -> Interval:
        return Interval(kind="checkpoint_save", start_s=start_s, end_s=end_s, writer=writer)

    pair = (
        IntervalStarted(kind="checkpoint_save", time_s=200, writer="1"),
        IntervalEnded(kind="checkpoint_save", time_s=205, writer="1"),
    )
    open_end = IntervalStarted(kind="checkpoint_save", time_s=400, writer="1")
    other = Interval(kind="custom", start_s=0, end_s=50)
    events = (start(0), save(100, 103, "0"), save(101, 104, "1"), *pair, start(250), save(300, 306), other)
    found = costs_of_saves(JobEvents([*events, open_end]))
    assert [cost.blocking_s for cost in found] == [4, 5, 6]
    assert [cost.interval_s for cost in found] == [0, 100, 0]
    assert [cost.dataset for cost in found] == [1, 2, 3]
    assert costs_of_saves(JobEvents()) == []


def test_saves_in_each_other_cost_what_the_account_has() -> None:
    marks = [(2, IntervalStarted), (3, IntervalStarted), (4, IntervalEnded), (9, IntervalEnded)]
    log = [start(0), *(made(kind="checkpoint_save", time_s=float(at_s)) for at_s, made in marks)]
    ledger = Ledger()
    ledger.extend(log)
    (cost,) = costs_of_saves(JobEvents(log))
    assert cost.blocking_s == ledger.account(10).buckets["checkpoint_other"] == 7


def rate(failures: int, watched_s: float, prior_s: float = MTBF_S, weight: float = 1.0) -> Posterior:
    seen_so_far = Failures(unknown=failures, observed_s=watched_s)
    return posterior(seen_so_far, FailurePrior(mtbf_s=prior_s, weight=weight))


def test_before_anything_was_seen_only_the_order_of_magnitude_is_known() -> None:
    nothing = rate(0, 0.0)
    quartiles = nothing.mtbfs_s([0.25, 0.5, 0.75])
    unit_s = MTBF_S * (sqrt(2) - 1)  # the distribution function of weight 1 is 1 - 1 / (1 + r)^2
    assert quartiles == pytest.approx([unit_s, MTBF_S, unit_s / (sqrt(4 / 3) - 1)], rel=1e-3)
    assert nothing.mtbf_s == pytest.approx(unit_s, rel=1e-3)
    assert nothing.half_within == pytest.approx(2.5, rel=0.02)
    assert rate(0, 0.0, weight=4).half_within < 2 < rate(0, 0.0, weight=0.5).half_within


@pytest.mark.parametrize("failures", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("watched", [0.01, 1.0, 200.0])
@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
def test_the_density_is_added_up_rightly(failures: int, watched: float, weight: float) -> None:
    def log_density(log_rate: float) -> float:
        power = (failures + weight) * log_rate - watched * exp(log_rate)
        return power - (2 * weight + 1) * float(np.logaddexp(0, log_rate))

    def density(log_rate: float) -> float:
        return exp(log_density(log_rate) - log_density(peak))

    unit_s = FailurePrior(mtbf_s=MTBF_S, weight=weight).unit_s
    found = rate(failures, watched * unit_s, weight=weight)
    peak = log(unit_s / found.mtbf_s)
    points = [peak - 1, peak, peak + 1]
    whole = quad(density, peak - 30, peak + 15, points=points, limit=400)[0]
    mean = quad(lambda x: exp(x) * density(x), peak - 30, peak + 15, points=points, limit=400)[0]
    assert found.mtbf_s == pytest.approx(unit_s * whole / mean, rel=1e-3)
    (median_s,) = found.mtbfs_s([0.5])
    below = quad(density, peak - 30, log(unit_s / median_s), points=points[:1], limit=400)[0]
    assert below / whole == pytest.approx(0.5, abs=2e-3)


@given(st.integers(0, 10**6), st.floats(0, 1e12), st.floats(1e-3, 1e12), st.floats(0.05, 100))
def test_whatever_was_seen_the_rate_is_finite_and_its_quantiles_are_in_order(
    failures: int, watched_s: float, prior_s: float, weight: float
) -> None:
    found = rate(failures, watched_s, prior_s, weight)
    quantiles = found.mtbfs_s([0.01, 0.05, 0.5, 0.95, 0.99])
    assert quantiles == sorted(quantiles)
    assert quantiles[0] > 0
    assert quantiles[-1] < float("inf")
    assert quantiles[0] * 1e-3 < found.mtbf_s < quantiles[-1]


def test_many_failures_outweigh_any_prior_and_a_few_a_very_wrong_one() -> None:
    assert rate(400, 400 * MTBF_S, prior_s=1000 * MTBF_S).mtbf_s == pytest.approx(MTBF_S, rel=0.01)
    assert rate(3, 3 * MTBF_S, prior_s=1000 * MTBF_S).mtbf_s < 3 * MTBF_S
    assert rate(2, 2 * MTBF_S, prior_s=MTBF_S / 1000).mtbf_s > MTBF_S / 3


def test_the_default_prior_is_that_of_the_nodes() -> None:
    assert typical(16).mtbf_s == NODE_MTBF_S / 16
    assert round(NODE_MTBF_S / 3600) == 6335
    assert posterior(Failures(), typical(16)).cache_share == pytest.approx(0.85)
    assert posterior(Failures(), typical(1, survives_node=False)).cache_share == pytest.approx(0.16)
    many = posterior(Failures(cache=300, prefix=100, unknown=50, observed_s=4.5e9), typical(16))
    assert many.mtbf_s == pytest.approx(1e7, rel=0.01)
    assert many.cache_share == pytest.approx(0.75, rel=0.01)


@pytest.mark.parametrize(
    "bad", [{"mtbf_s": 0.0}, {"mtbf_s": 1, "weight": -1}, {"mtbf_s": 1, "cache_share": 1.0}]
)
def test_an_impossible_prior_is_reported(bad: dict[str, float]) -> None:
    with pytest.raises(IntervalError, match="prior: "):
        FailurePrior(**bad)
    with pytest.raises(IntervalError, match="at least one"):
        typical(0)


def drawn(rng: np.random.Generator, prior: FailurePrior) -> float:
    """The failure rate of a machine as the prior has them: the ratio of two Gamma variables."""
    return float(rng.gamma(prior.weight) / rng.gamma(prior.weight + 1) / prior.unit_s)


def test_credible_intervals_cover_at_their_rate() -> None:
    """Machines drawn from the prior, watched until a given time: 90 % lie within the 90 % interval."""
    rng, prior = np.random.default_rng(2), FailurePrior(mtbf_s=MTBF_S)
    inside = shares = 0
    machines = 2000
    for _ in range(machines):
        rate, share = drawn(rng, prior), rng.beta(4 * 0.85, 4 * 0.15)
        failed = int(rng.poisson(rate * 30_000))
        cache = int(rng.binomial(failed, share))
        known = posterior(Failures(observed_s=30_000, cache=cache, prefix=failed - cache), prior)
        low_s, high_s = known.mtbfs_s([0.05, 0.95])
        inside += low_s <= 1 / rate <= high_s
        low, high = known.cache_shares([0.05, 0.95])
        shares += low <= share <= high
    assert inside / machines == pytest.approx(0.9, abs=0.02)
    assert shares / machines == pytest.approx(0.9, abs=0.02)


def test_a_share_of_which_nothing_is_known_is_neither_none_nor_all() -> None:
    vague = posterior(Failures(), FailurePrior(mtbf_s=1, share_weight=1e-3))
    assert all(0 < each < 1 for each in vague.cache_shares([0.001, 0.5, 0.999]))


@pytest.mark.parametrize(
    ("too_long", "most_points"), [(0.1, 1.0), (1 / 3, 0.8), (1, 0.8), (3, 1.4), (10, 3.5)]
)
def test_with_the_prior_the_first_failure_loses_less_than_without(
    too_long: float, most_points: float
) -> None:
    rng, cost_s = np.random.default_rng(9), 0.0125 * MTBF_S
    failures = [int(each) for each in rng.poisson(1, 1500)]
    guesses = [rate(each, MTBF_S, prior_s=too_long * MTBF_S).mtbf_s for each in range(max(failures) + 1)]
    lost = fmean(lost_points(exact(cost_s, guesses[each]), cost_s) for each in failures)
    assert lost < most_points < 3.8


# the best interval of a job --------------------------------------------------------------------------------


def cost(
    dataset: int, blocking_s: float, *, generation: int = 0, flushed: bool = False, **more: float
) -> CheckpointCost:
    return CheckpointCost(
        dataset=dataset,
        generation=generation,
        time_s=100.0 * dataset,
        blocking_s=blocking_s,
        flushed=flushed,
        interval_s=100.0,
        **more,
    )


def test_what_a_flush_costs_is_reported_from_what_the_cache_costs() -> None:
    costs = [cost(each, 2.0) for each in range(1, 4)]
    costs.append(cost(4, 5.0, flushed=True, blocked_on_flush_s=3.0, slowdown_s=2.0, flush_s=20.0))
    costs.append(cost(5, 3.0, wait_s=1.0))
    found = measured(costs, flush_every=5)
    assert found.checkpoint_s == pytest.approx(2.0)
    assert found.flush_cost_s == pytest.approx(6.0)
    assert (found.flush_s, found.interval_s, found.flush_every, found.checkpoints) == (20, 98, 5, 5)
    mean_s = fmean(each.cost_s for each in costs)
    assert found.checkpoint_s + found.flush_cost_s / 5 == pytest.approx(mean_s)


def test_without_a_flush_there_is_one_level_and_all_is_its_cost() -> None:
    found = measured([cost(each, 2.0, wait_s=0.5) for each in range(4)])
    assert (found.checkpoint_s, found.flush_cost_s, found.flush_every) == (2.0, 0.0, 0)
    assert measured([cost(each, 2.0) for each in range(4)], flush_every=10).flush_every == 0


def test_only_checkpoints_under_the_settings_in_force_count_where_there_are_three() -> None:
    old, new = [cost(each, 9.0) for each in range(5)], [cost(each, 1.0, generation=1) for each in range(5, 8)]
    assert measured([*old, *new]).checkpoint_s == 1.0
    assert measured([*old, *new[:2]]).checkpoint_s == fmean([9.0] * 5 + [1.0] * 2)


def test_nothing_measured_is_reported() -> None:
    with pytest.raises(IntervalError, match="no checkpoint was measured yet"):
        measured([])
    with pytest.raises(IntervalError, match="cost nothing measurable"):
        measured([cost(1, 0.0)])


ONE = MeasuredCosts(checkpoint_s=30, interval_s=300, checkpoints=9)
TWO = MeasuredCosts(
    checkpoint_s=10, flush_cost_s=80, flush_s=100, interval_s=600, flush_every=1, checkpoints=9
)


def test_one_level_is_compared_with_young_and_daly() -> None:
    view = recommend(ONE, Failures(observed_s=100), FailurePrior(mtbf_s=MTBF_S))
    assert [each.name for each in view.choices] == [IN_USE, "Young 1974", "Daly 2006", "exact"]
    best, mtbf_s = view.choice(view.best), view.decided_for_s
    assert best.interval_s.value == exact(30, mtbf_s)
    assert best.goodput.value == pytest.approx(goodput(exact(30, mtbf_s), 30, mtbf_s, 30))
    assert view.settings == {"SCR_CHECKPOINT_SECONDS": round(exact(30, mtbf_s))}
    used = view.choice(IN_USE)
    assert used.interval_s.low == used.interval_s.high == 300
    assert used.lost.value == pytest.approx(best.goodput.value - goodput(300, 30, mtbf_s, 30))
    assert best.lost.value == best.lost.low == best.lost.high == 0
    assert view.mtbf_s.value == pytest.approx(MTBF_S, rel=0.1)


def test_two_levels_say_how_often_to_flush() -> None:
    view = recommend(TWO, Failures(cache=5, prefix=1, observed_s=60_000), FailurePrior(mtbf_s=MTBF_S))
    best = view.choice("exact, two levels")
    assert view.best == best.name
    assert view.settings.keys() == {"SCR_CHECKPOINT_SECONDS", "SCR_FLUSH"}
    assert all(each.lost.value >= 0 for each in view.choices)
    for estimate in (best.interval_s, best.flush_every, best.goodput, view.mtbf_s, view.cache_share):
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.low < estimate.high


def test_more_failures_make_it_surer() -> None:
    def width(failures: int) -> float:
        seen_so_far = Failures(cache=failures, observed_s=failures * MTBF_S + 1)
        best = recommend(ONE, seen_so_far, FailurePrior(mtbf_s=MTBF_S)).choice("exact").interval_s
        return best.high / best.low

    assert width(0) > 3 * width(10) > 3 * width(100) > 1


def test_the_credible_interval_of_the_best_interval_covers_at_its_rate() -> None:
    rng, prior, inside = np.random.default_rng(8), FailurePrior(mtbf_s=MTBF_S), 0
    machines = 250
    for _ in range(machines):
        rate = drawn(rng, prior)
        failures = Failures(observed_s=30_000, unknown=int(rng.poisson(rate * 30_000)))
        best = recommend(ONE, failures, prior).choice("exact").interval_s
        inside += best.low <= exact(30, 1 / rate) <= best.high
    assert inside / machines == pytest.approx(0.9, abs=0.055)


def what_if(found: MeasuredCosts, prior: FailurePrior, interval_s: float, flush_every: int = 0) -> Outlook:
    return recommend(found, Failures(), prior, Schedule(interval_s=interval_s, flush_every=flush_every))


def test_what_if_sets_the_question_beside_the_answer() -> None:
    view = what_if(TWO, FailurePrior(mtbf_s=MTBF_S), interval_s=200, flush_every=4)
    others = [each.name for each in recommend(TWO, Failures(), FailurePrior(mtbf_s=MTBF_S)).choices]
    assert [each.name for each in view.choices] == [IN_USE, ASKED, *others[1:]]
    asked, used = view.choice(ASKED), view.choice(IN_USE)
    assert (asked.interval_s.value, asked.flush_every.value) == (200, 4)
    assert 0 < asked.lost.value < used.lost.value
    assert what_if(TWO, FailurePrior(mtbf_s=MTBF_S), 200).choice(ASKED).flush_every.value == 1


def test_what_is_gained_over_the_schedule_in_use_has_an_interval_too() -> None:
    view = what_if(TWO, FailurePrior(mtbf_s=MTBF_S), interval_s=200, flush_every=4)
    asked, used, best = view.choice(ASKED), view.choice(IN_USE), view.choice(view.best)
    assert asked.gained is not None
    assert asked.gained.value == pytest.approx(asked.goodput.value - used.goodput.value)
    assert asked.gained.low < asked.gained.value < asked.gained.high
    assert used.gained == Estimate(value=0, low=0, high=0)
    assert best.gained == used.lost
    never_seen = MeasuredCosts(checkpoint_s=30, checkpoints=1)
    assert all(
        each.gained is None for each in recommend(never_seen, Failures(), FailurePrior(mtbf_s=1e4)).choices
    )


def test_a_what_if_shorter_than_its_flush_says_so() -> None:
    found = MeasuredCosts(checkpoint_s=5, flush_s=60, interval_s=100, flush_every=1, checkpoints=12)
    view = what_if(found, FailurePrior(mtbf_s=1e7), interval_s=20, flush_every=1)
    asked, used = view.choice(ASKED), view.choice(IN_USE)
    assert asked.goodput.value == pytest.approx(1 / 3, abs=1e-4)
    assert (asked.flush_wait_s, asked.shortest_interval_s) == (35, 55)
    assert used.flush_wait_s == view.choice(view.best).flush_wait_s == 0


def test_the_best_setting_is_not_rounded_into_waiting() -> None:
    found = MeasuredCosts(checkpoint_s=0.1, flush_s=60.3, interval_s=100, flush_every=1, checkpoints=12)
    view = recommend(found, Failures(prefix=20, observed_s=20_000), FailurePrior(mtbf_s=1_000))
    seconds, every = view.settings["SCR_CHECKPOINT_SECONDS"], view.settings["SCR_FLUSH"]
    assert view.choice(view.best).interval_s.value == shortest_interval_s(found, every)
    assert 0 <= seconds - shortest_interval_s(found, every) < 1


def test_waits_that_come_of_the_interval_in_use_are_no_cost_of_the_flush() -> None:
    waiting = [cost(each, 80.0, flushed=True, flush_s=100.0, wait_s=78.0) for each in range(4)]
    found = measured(waiting, flush_every=1)
    assert (found.checkpoint_s, found.interval_s, found.flush_cost_s) == (2, 20, 0)
    assert flush_wait_s(Schedule(interval_s=20), found) == 78
    one = measured(waiting, flush_every=1, next_output_waits=True)
    assert flush_wait_s(Schedule(interval_s=20), one) == 80
    unsteady = [*waiting[:3], cost(4, 80.0, flushed=True, flush_s=20.0, wait_s=78.0)]
    assert measured(unsteady, flush_every=1).flush_cost_s == pytest.approx(78 - (80 - 22))


def test_a_what_if_that_makes_no_sense_is_reported() -> None:
    with pytest.raises(IntervalError, match="not cached"):
        what_if(ONE, FailurePrior(mtbf_s=MTBF_S), interval_s=200, flush_every=4)
    with pytest.raises(IntervalError, match="interval_s is -5"):
        what_if(ONE, FailurePrior(mtbf_s=MTBF_S), interval_s=-5)


# events in columns ----------------------------------------------------------------------------------------

TIMES_S = st.integers(0, 60).map(float)
EVENTS: st.SearchStrategy[GoodputEvent] = st.one_of(
    st.builds(StepStarted, step=st.just(1), time_s=TIMES_S, writer=st.sampled_from("ab")),
    st.builds(lambda at, s: StepCompleted(step=1, start_s=at, end_s=at + s), TIMES_S, TIMES_S),
    st.builds(IntervalStarted, kind=st.sampled_from(["custom", "checkpoint_restore"]), time_s=TIMES_S),
    st.builds(IntervalEnded, kind=st.sampled_from(["custom", "checkpoint_restore"]), time_s=TIMES_S),
    st.builds(JobStarted, time_s=TIMES_S),
    st.builds(JobEnded, time_s=TIMES_S, exit_code=st.sampled_from([0, 1])),
    st.builds(NodeFailed, node=st.just("n"), time_s=TIMES_S),
    st.builds(AllocationEnded, time_s=TIMES_S),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=40, unique_by=lambda event: span(event)[1]))
def test_failures_of_columns_are_those_of_the_events_one_by_one(events: list[GoodputEvent]) -> None:
    watch = FailureWatch()
    for event in sorted(events, key=lambda event: span(event)[1]):
        watch.handle(event)
    assert failures_of(JobEvents(events)) == watch.failures


def test_a_million_steps_are_not_made_events_for_what_checkpoints_cost() -> None:
    class Columns(JobEvents):
        def __iter__(self) -> Iterator[GoodputEvent]:
            raise AssertionError("events were made")

    events: list[GoodputEvent] = [StepStarted(step=step, time_s=float(step)) for step in range(100)]
    events += [StepCompleted(step=step, start_s=step, end_s=step + 1.0) for step in range(10)]
    flush = FlushCompleted(dataset=1, start_s=12.0, end_s=16.0)
    output = OutputCompleted(
        dataset=1, name="c1", start_s=10.0, end_s=12.0, generation=0, write_s=2.0, flush_due=True
    )
    events += [StepCompleted(step=step, start_s=12 + 2 * step, end_s=14.0 + 2 * step) for step in range(2)]
    (cost,) = costs_of(Columns([*events, flush, output]))  # whatever came first
    assert (cost.blocking_s, cost.slowdown_s) == (2.0, 2.0)
