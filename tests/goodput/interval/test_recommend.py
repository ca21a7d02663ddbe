"""The best interval of a job, how sure it is, and what another one would cost."""

from statistics import fmean

import numpy as np
import pytest

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.goodput.interval.failure_rate import FailurePrior
from scrtune.goodput.interval.failures import Failures
from scrtune.goodput.interval.model import (
    IntervalError,
    Schedule,
    exact,
    flush_wait_s,
    goodput,
    shortest_interval_s,
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

from ...support.failing_machines import MTBF_S, drawn


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
