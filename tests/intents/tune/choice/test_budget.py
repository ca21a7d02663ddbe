"""The bound on what tuning may cost: it holds for any sequence of costs."""

from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.intents.events import Values
from scrtune.intents.mutability import RunMutability
from scrtune.intents.settings import difference, is_asynchronous
from scrtune.intents.tune.choice.budget import ALLOWANCE, FIRST_CREDIT, TrialBudget
from scrtune.intents.tune.tuner import Tuner

from ..belief.test_belief import OWN, situation


@dataclass
class Spent:
    """What tuned checkpoints cost beyond the user's own, and what they might."""

    lost_s: float = 0.0
    allowed_s: float = 0.0
    largest_s: float = 0.0
    tuned: int = 0


def cost(number: int, tuner: Tuner, seconds: float) -> CheckpointCost:
    """A checkpoint of `seconds` under the active settings; a quarter of it writes, if its flush blocks."""
    is_beside = is_asynchronous(tuner.settings)
    write_s = seconds if is_beside else seconds / 4
    return CheckpointCost(
        dataset=number,
        generation=tuner.generation,
        time_s=40.0 * number,
        blocking_s=seconds,
        write_s=write_s,
        blocked_on_flush_s=seconds - write_s,
        flush_s=3 * write_s if is_beside else seconds - write_s,
        flushed=True,
        between_s=1e6,
        bytes=16 * 2**30,
        files=64,
    )


def run(costs: list[float], own_s: float = 4.0) -> tuple[Tuner, Spent]:
    """A job whose own checkpoints take `own_s`, and whose tuned ones the `costs`, whatever is tried."""
    tuner, spent, now_is = Tuner(OWN), Spent(), situation()
    for number, tuned_s in enumerate(costs, 1):
        is_tuned = tuner.settings != tuner.baseline
        seconds = tuned_s if is_tuned else own_s
        tuner.add(cost(number, tuner, seconds), lambda: now_is, 40.0 * number)
        believed_s = float(tuner.belief.totals[0].mean()) if tuner.belief else own_s
        if number == 1:
            spent.allowed_s = 2 * FIRST_CREDIT * believed_s  # credit, and overdraft
        spent.allowed_s += ALLOWANCE * own_s
        if is_tuned:
            spent.tuned += 1
            spent.lost_s += seconds - own_s
            spent.largest_s = max(spent.largest_s, seconds - own_s)
        doubt_s = spent.tuned * max(0.0, believed_s - own_s)  # the bound is against what is believed
        assert spent.lost_s <= spent.allowed_s + 2 * spent.largest_s + doubt_s + 0.05 * own_s, number
    return tuner, spent


seconds = st.one_of(st.floats(0.2, 8.0), st.sampled_from([0.5, 1.0, 3.0, 4.2, 5.0, 40.0, 400.0]))


@settings(max_examples=30)
@given(st.lists(seconds, min_size=4, max_size=24))
@example([1.0] * 5 + [4.3] * 30)
@example([1.0, 1.0, 30.0] * 8)
@example([3.9, 4.4] * 12)
def test_tuned_checkpoints_never_lose_more_than_the_budget_but_for_those_that_have_begun(
    costs: list[float],
) -> None:
    run(costs)


def test_what_is_always_dearer_ends_within_the_first_credit() -> None:
    for factor in (1.5, 3.0, 10.0):
        tuner, spent = run([4.0 * factor] * 30)
        assert tuner.trying or tuner.settings == tuner.baseline
        assert 1 <= spent.tuned <= 6
        assert spent.lost_s <= spent.allowed_s + spent.largest_s


def test_what_saves_fills_the_budget_and_stays() -> None:
    tuner, spent = run([1.0] * 20)
    assert difference(tuner.settings, OWN)
    assert spent.tuned >= 17
    assert tuner.belief
    believed_s = float(tuner.belief.totals[0].mean())
    assert tuner.budget.left_s == pytest.approx(spent.tuned * (believed_s - 1.0), rel=0.1)


def opened(own_s: float = 2.0, doubt_s: float = 0.0) -> TrialBudget:
    budget = TrialBudget()
    budget.believe(own_s, doubt_s)
    return budget


class TestLedger:
    def test_it_is_closed_until_the_users_own_settings_were_measured(self) -> None:
        budget = TrialBudget()
        budget.charge_apply(5.0)  # what the user's own declaration demands
        assert budget.left_s == 0
        budget.believe(2.0, 0.0)
        budget.believe(100.0, 0.0)
        assert budget.left_s == pytest.approx(FIRST_CREDIT * 2), "a first credit is given once"

    def test_a_checkpoint_adds_its_share_and_a_tuned_one_what_it_saves_or_loses(self) -> None:
        budget = opened()
        budget.charge(9.0, 1.0, is_tuned=False)
        assert budget.left_s == pytest.approx(0.9 + 0.03), "under the user's own nothing is lost"
        budget.charge(1.5, 1.0, is_tuned=True)
        assert budget.left_s == pytest.approx(0.93 + 0.03 + 0.5)
        budget.charge(4.0, 1.0, is_tuned=True)
        assert budget.left_s == pytest.approx(1.46 + 0.03 - 2)

    def test_half_a_checkpoint_would_have_cost_half_as_much(self) -> None:
        budget = opened()
        budget.charge(0.7, 0.5, is_tuned=True)
        assert budget.left_s == pytest.approx(0.9 + 0.015 + 0.3)

    def test_what_was_saved_follows_what_the_users_own_settings_are_believed_to_cost(self) -> None:
        budget = opened(6.0)  # a spike
        budget.charge(3.0, 1.0, is_tuned=True)
        assert budget.claimed_s == pytest.approx(0.09 + 3)
        budget.believe(2.0, 0.0)
        assert budget.claimed_s == pytest.approx(0.09 - 1)
        assert budget.left_s == pytest.approx(FIRST_CREDIT * 6 + 0.09 - 1)

    def test_what_is_settled_stays_when_the_machine_changes(self) -> None:
        budget = opened()
        budget.charge(1.5, 1.0, is_tuned=True)
        budget.believe(8.0, 0.0, regime=1)
        assert budget.claimed_s == pytest.approx(0.03 + 0.5)
        budget.charge(7.0, 1.0, is_tuned=True)
        assert budget.claimed_s == pytest.approx(0.03 + 0.5 + 0.12 + 1.0)

    def test_what_was_in_doubt_stays_so_when_the_machine_changes(self) -> None:
        budget = opened(2.0, doubt_s=0.75)
        budget.charge(1.0, 1.0, is_tuned=True)
        assert budget.earned_s == pytest.approx(0.03 + 0.25)
        budget.believe(2.0, 0.0, regime=1)
        assert budget.earned_s == pytest.approx(0.03 + 0.25)

    def test_earned_is_what_came_after_the_first_credit_and_was_surely_saved(self) -> None:
        budget = opened(2.0, doubt_s=0.5)
        budget.charge(2.0, 1.0, is_tuned=False)
        assert budget.earned_s == pytest.approx(0.03)
        budget.charge(1.2, 1.0, is_tuned=True)
        assert budget.left_s == pytest.approx(0.9 + 0.06 + 0.8), "the bound counts what is believed"
        assert budget.claimed_s == pytest.approx(0.06 + 0.8)
        assert budget.earned_s == pytest.approx(0.06 + 0.3)
        budget.charge(1.9, 1.0, is_tuned=True)
        assert budget.earned_s == pytest.approx(0.09 + 0.3 - 0.4), "a gain within the noise is none"

    def test_one_that_is_used_up_fills_the_overdraft_which_only_later_checkpoints_draw_on(self) -> None:
        budget = opened()
        budget.charge(4.0, 1.0, is_tuned=True)
        assert budget.left_s == pytest.approx(0.93 - 2)
        budget.charge(9.0, 1.0, is_tuned=True, had_begun=True)
        assert budget.overdraft_s == pytest.approx(0.9)
        budget.charge(2.5, 1.0, is_tuned=True)
        assert budget.overdraft_s == pytest.approx(0.4)
        before_s = budget.left_s
        budget.charge(2.0, 1.0, is_tuned=False)
        assert budget.overdraft_s == pytest.approx(0.43)
        assert budget.left_s == pytest.approx(before_s), "1.5 % of a checkpoint goes to one of them"

    def test_one_that_is_used_up_fills_again_once_the_overdraft_is_full(self) -> None:
        """In a long job the 1.5 % of each checkpoint is never lost: nothing is lost for good."""
        budget = opened()
        budget.charge(4.0, 1.0, is_tuned=True, had_begun=True)
        assert (budget.left_s, budget.overdraft_s) == (pytest.approx(-1.07), pytest.approx(0.9))
        for _ in range(35):
            budget.charge(2.0, 1.0, is_tuned=False)
        assert (budget.left_s, budget.overdraft_s) == (pytest.approx(0.0, abs=0.031), pytest.approx(0.9))
        budget.charge(2.0, 1.0, is_tuned=False)
        assert budget.left_s > 0

    def test_applying_is_paid_for_and_never_earns(self) -> None:
        budget = opened()
        budget.charge_apply(0.25)
        budget.charge_apply(-5.0)
        assert budget.left_s == pytest.approx(0.65)


def test_the_time_of_applying_is_in_the_budget_of_the_tuner() -> None:
    tuner, _ = run([1.0] * 2)
    before_s = tuner.budget.left_s
    tuner.budget.charge_apply(0.5)
    assert tuner.budget.left_s == pytest.approx(before_s - 0.5)
    assert tuner.mutability == RunMutability()


def test_settings_of_a_run_are_those_that_were_tuned_inside_it() -> None:
    """`own` may be anything that the ranks run under: also what this run cannot change back."""
    own: Values = {**OWN, "SCR_SET_SIZE": 4}
    stuck = RunMutability(parameters=dict.fromkeys(OWN, "live") | {"SCR_SET_SIZE": "launch"}, found=OWN)
    tuner, now_is = Tuner(own, stuck), situation()
    tuner.add(cost(1, tuner, 4.0), lambda: now_is, 40.0)
    before_s = tuner.budget.left_s
    tuner.on = False
    tuner.add(cost(2, tuner, 400.0), lambda: now_is, 80.0)
    assert tuner.budget.left_s > before_s, "it ran under the user's own as far as it can: nothing is lost"
