"""What trials cost: the ledger is charged with what those that were taken back took more, and no more."""

from math import sqrt
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.goodput.ledger.ledger import TUNING
from scrtune.intents.events import TuningSwitched, Values
from scrtune.intents.tune.decisions import Decision, Verdict
from scrtune.intents.tune.trial_costs import TrialCost, TrialCosts

from ...support.simulated_job import CACHED, Job, replayed

ASYNC: Values = {"SCR_FLUSH_ASYNC": 1}
BLOCKING: Values = {"SCR_FLUSH_ASYNC": 0}


def charged_s(job: Job) -> float:
    return job.pipeline.ledger.charges[TUNING]


def is_async(job: Job, generation: int) -> bool:
    assert job.pipeline.tuner is not None
    return job.pipeline.tuner.settings_of(generation)["SCR_FLUSH_ASYNC"] == 1


def test_a_trial_that_was_taken_back_cost_what_its_checkpoints_took_more() -> None:
    """A checkpoint takes 5 s with a flush that blocks; beside the steps it takes 1 s, and 6 s from them."""
    job = Job(CACHED, noise=0).checkpoints(40, slowed_s=6.0)
    assert {verdict for _, verdict in job.verdicts} == {"trial", "reverted"}
    tried = sum(is_async(job, cost.generation) for cost in job.pipeline.costs)
    assert tried >= 2
    assert charged_s(job) == pytest.approx(2 * tried)
    account = job.pipeline.account(job.now)
    assert account.buckets["tuning"] == pytest.approx(2 * tried)
    assert sum(account.buckets.values()) == pytest.approx(account.wall_s)


def test_a_trial_that_was_kept_cost_nothing() -> None:
    job = Job(CACHED).checkpoints(40)
    assert ("flush asynchronously", "accepted") in job.verdicts
    assert charged_s(job) == 0


def test_while_a_trial_is_on_nothing_is_told_of_it() -> None:
    job = Job(CACHED, noise=0)
    while ("flush asynchronously", "reverted") not in job.verdicts:
        assert charged_s(job) == 0
        job.checkpoint(slowed_s=6.0)
    assert charged_s(job) > 0


def test_a_trial_that_the_user_ends_is_taken_back_too() -> None:
    job = Job(CACHED, noise=0)
    while ("flush asynchronously", "trial") not in job.verdicts:
        job.checkpoint(slowed_s=6.0)
    job.checkpoint(slowed_s=6.0)
    assert charged_s(job) == 0
    job.tell(TuningSwitched(on=False))
    assert charged_s(job) == pytest.approx(2)


@pytest.mark.parametrize("checkpoints", range(1, 8))
def test_it_does_not_matter_where_in_a_flush_cycle_a_trial_ends(checkpoints: int) -> None:
    """Every fourth checkpoint is flushed, for 4 s either way: a trial costs nothing, wherever it ends."""
    job = Job({**CACHED, "SCR_FLUSH": 4}, noise=0)
    while ("flush asynchronously", "trial") not in job.verdicts:
        job.checkpoint(flush_every=4, slowed_s=4.0)
    for _ in range(checkpoints):
        job.checkpoint(flush_every=4, slowed_s=4.0)
    job.tell(TuningSwitched(on=False))
    job.checkpoints(4, flush_every=4, slowed_s=4.0)
    assert any(is_async(job, cost.generation) for cost in job.pipeline.costs)
    assert charged_s(job) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("slowed_s", [4.0, 6.0, 9.0])
def test_over_many_jobs_it_is_the_truth(slowed_s: float) -> None:
    """Under noise, what is told of a job scatters; its mean does not leave the truth."""
    told_s, true_s = [], []
    for seed in range(100):
        job = Job(CACHED, seed=seed, noise=0.1).checkpoints(20, slowed_s=slowed_s)
        kept = ("flush asynchronously", "accepted") in job.verdicts
        tried = sum(is_async(job, cost.generation) for cost in job.pipeline.costs)
        told_s.append(charged_s(job))
        true_s.append(0.0 if kept else tried * (slowed_s - 4))
    error_s = [told - true for told, true in zip(told_s, true_s, strict=True)]
    scatter_s = sqrt(fmean(error**2 for error in error_s))
    assert abs(fmean(error_s)) < 3 * scatter_s / sqrt(len(error_s))
    assert scatter_s < 2


def test_a_journal_that_is_told_again_charges_the_same() -> None:
    for job in (Job(CACHED).checkpoints(30, slowed_s=6.0), Job(CACHED, reinit_s=2.0).checkpoints(30)):
        again, _ = replayed(job.journal)
        assert again.ledger.charges == job.pipeline.ledger.charges
        assert again.account(job.now) == job.pipeline.account(job.now)


def cost(generation: int, cost_s: float, *, flushed: bool = True) -> CheckpointCost:
    return CheckpointCost(
        dataset=1, generation=generation, time_s=1.0, blocking_s=cost_s, flushed=flushed, interval_s=1.0
    )


def decided(verdict: Verdict, generation: int, **changes: int) -> Decision:
    return Decision(generation=generation, time_s=1.0, verdict=verdict, rule="r", changes=changes)


def on_trial(costs: TrialCosts, *before_s: float) -> None:
    """Checkpoints under generation 0; then `SCR_FLUSH_ASYNC` is tried as generation 1."""
    costs.activate(0, BLOCKING)
    for each in before_s:
        costs.add(cost(0, each))
    costs.decide(decided(Verdict.TRIAL, 1, SCR_FLUSH_ASYNC=1))
    costs.activate(1, ASYNC)


def taken_back(costs: TrialCosts, generation: int, settings: Values) -> None:
    costs.decide(decided(Verdict.REVERTED, generation, SCR_FLUSH_ASYNC=0))
    costs.activate(generation, settings)


def taken_s(costs: TrialCosts) -> float:
    return sum(each.cost_s for each in costs.take())


def test_what_ends_after_a_trial_was_taken_back_still_counts() -> None:
    costs = TrialCosts()
    on_trial(costs, 5, 5)
    costs.add(cost(1, 12))
    taken_back(costs, 2, BLOCKING)
    assert taken_s(costs) == 7
    costs.add(cost(1, 8))
    costs.add(cost(2, 500))
    assert taken_s(costs) == 3
    assert taken_s(costs) == 0


def test_what_only_a_launch_takes_back_costs_until_then() -> None:
    costs = TrialCosts()
    on_trial(costs, 5, 5)
    taken_back(costs, 2, ASYNC)
    costs.add(cost(2, 8))
    assert taken_s(costs) == 3
    costs.activate(3, BLOCKING)
    costs.add(cost(3, 8))
    assert taken_s(costs) == 0


def test_a_run_under_other_settings_takes_back_what_was_on_trial() -> None:
    costs = TrialCosts()
    on_trial(costs, 5, 5)
    costs.add(cost(1, 8))
    costs.decide(decided(Verdict.BASELINE, 2))
    costs.activate(2, {"SCR_FLUSH_ASYNC": 1})
    assert taken_s(costs) == 3
    costs.add(cost(2, 8))
    assert taken_s(costs) == 0


def test_the_next_trial_is_held_against_what_was_kept_and_not_against_what_that_replaced() -> None:
    costs = TrialCosts()
    on_trial(costs, 50, 50)
    costs.add(cost(1, 5))
    costs.decide(decided(Verdict.ACCEPTED, 1, SCR_FLUSH_ASYNC=1))
    costs.add(cost(1, 7))
    costs.add(cost(0, 50))
    costs.decide(decided(Verdict.TRIAL, 2, SCR_CACHE_SIZE=3))
    costs.activate(2, {**ASYNC, "SCR_CACHE_SIZE": 3})
    costs.add(cost(2, 10))
    taken_back(costs, 3, ASYNC)
    assert taken_s(costs) == 4


def test_what_has_nothing_to_be_held_against_is_not_counted() -> None:
    costs = TrialCosts()
    on_trial(costs)
    costs.add(cost(1, 8))
    taken_back(costs, 2, BLOCKING)
    costs.add(cost(1, 8))
    assert taken_s(costs) == 0


def test_each_cost_names_its_trial_and_how_many_checkpoints_it_is_of() -> None:
    costs = TrialCosts()
    on_trial(costs, 5, 5)
    costs.add(cost(1, 12))
    costs.add(cost(1, 6))
    assert costs.take() == []
    taken_back(costs, 2, BLOCKING)
    costs.add(cost(1, 3))
    assert costs.take() == [TrialCost(1, 2, 8), TrialCost(1, 1, -2)]


costs_s = st.floats(0.01, 1000)


@given(
    before_s=st.lists(costs_s, min_size=1, max_size=6),
    after_s=st.lists(st.tuples(costs_s, st.booleans()), max_size=20),
    early=st.integers(0, 20),
)
def test_it_is_the_sum_of_the_differences_whenever_the_checkpoints_end(
    before_s: list[float], after_s: list[tuple[float, bool]], early: int
) -> None:
    """Settings that bypass the cache flush nothing: whatever the candidate does is held against them."""
    costs = TrialCosts()
    for each in before_s:
        costs.add(cost(0, each, flushed=False))
    on_trial(costs)
    for index, (cost_s, flushed) in enumerate(after_s):
        if index == early:
            taken_back(costs, 2, BLOCKING)
        costs.add(cost(1, cost_s, flushed=flushed))
    if early >= len(after_s):
        taken_back(costs, 2, BLOCKING)
    expected_s = sum(cost_s - fmean(before_s) for cost_s, _ in after_s)
    assert taken_s(costs) == pytest.approx(expected_s, abs=1e-6)
