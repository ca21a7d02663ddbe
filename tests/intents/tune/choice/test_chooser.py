"""The choice, on costs that are believed as a test wants them."""

from collections import Counter
from math import inf

import numpy as np
import pytest

from scrtune.intents.events import Values
from scrtune.intents.tune.belief.belief import Belief
from scrtune.intents.tune.choice.chooser import (
    View,
    best,
    is_blind_bet,
    is_replay_due,
    risk,
    why_not,
)

from ..belief.test_belief import ASYNC, OWN, SHAPE

PAST_THE_CACHE = {**OWN, "SCR_CACHE_BYPASS": 1}
NOISE = np.random.default_rng(0).standard_normal((2, 192))


def view(  # noqa: PLR0913 - what is chosen from
    other_s: float,
    spread: float = 0.1,
    *,
    other: Values = ASYNC,
    incumbent: int = 0,
    seen_own: int = 3,
    earned_s: float = 0.0,
    ways_s: float = 0.0,
    remaining: int = 20,
) -> View:
    """The user's own settings are believed to cost 1 s +- 3 %, the other candidate `other_s` +- `spread`."""
    belief = Belief([OWN, other], SHAPE, kept=2)
    belief.totals = np.array([1.0, other_s])[:, None] * np.exp(np.array([[0.03], [spread]]) * NOISE)
    ways = np.where(np.arange(2) == incumbent, 0.0, ways_s)
    return View(
        belief=belief,
        incumbent=incumbent,
        seen=Counter({0: seen_own, 1: 2 if incumbent else 0}),
        there_s=ways,
        back_s=ways,
        left_s=0.45 + earned_s,
        earned_s=earned_s,
        claimed_s=earned_s,
        remaining=remaining,
    )


def is_tried(found: View) -> bool:
    return best(found, lambda _: None, ()) is not None


def test_what_is_surely_cheaper_is_tried_and_what_is_surely_more_expensive_never() -> None:
    assert is_tried(view(0.7))
    assert not is_tried(view(1.3, earned_s=100.0, remaining=1000))
    assert "expected to cost" in why_not(view(1.3), 1)


def test_what_is_vetoed_or_banned_is_not() -> None:
    assert best(view(0.7), lambda _: "no", ()) is None
    assert best(view(0.7), lambda _: None, {1}) is None


def test_one_look_at_the_users_own_settings_may_be_a_spike() -> None:
    assert not is_tried(view(0.5, seen_own=1))
    assert is_tried(view(0.3, seen_own=1))
    assert is_tried(view(0.5, seen_own=2))


def test_and_they_are_measured_again_where_the_difference_could_be_one() -> None:
    assert is_replay_due(view(0.5, incumbent=1, seen_own=1), 0)
    assert not is_replay_due(view(0.25, incumbent=1, seen_own=1), 0), "no spike is that high"
    assert not is_replay_due(view(0.5, incumbent=1, seen_own=3), 0)


def test_that_may_take_more_of_the_budget_while_their_only_observation_may_be_a_spike() -> None:
    """The way there and the way back are each as expensive as given here; 1.45 s are left."""
    once, often = ({"other_s": 0.9, "incumbent": 1, "seen_own": n, "earned_s": 1.0} for n in (1, 3))
    assert is_replay_due(view(**once, ways_s=0.3), 0)
    assert not is_replay_due(view(**once, ways_s=0.4), 0)
    doubted = view(**often, ways_s=0.15)._replace(seen=Counter({0: 3, 1: 3}))
    assert is_replay_due(doubted, 0)
    expensive = view(**often, ways_s=0.3)._replace(seen=Counter({0: 3, 1: 3}))
    assert not is_replay_due(expensive, 0)


def test_a_tier_that_was_never_used_is_looked_at_for_what_the_job_has_earned() -> None:
    """By tuned checkpoints and 1.5 % of each: cumulative costs stay inside the bound whatever comes of it."""
    unsure = {"other": PAST_THE_CACHE, "other_s": 1.3, "spread": 0.3}
    assert not is_tried(view(**unsure, earned_s=1.0))
    assert is_tried(view(**unsure, earned_s=2.0))
    assert not is_tried(view(**unsure, earned_s=2.0, ways_s=1.0)), "the ways are not earned"
    assert not is_tried(view(**{**unsure, "other": ASYNC}, earned_s=2.0)), "its tier is known"
    nothing = view(**{**unsure, "spread": 0.05}, earned_s=10.0, remaining=5)
    assert not is_tried(nothing), "there is nothing to be found out"


def test_and_however_sure_the_belief_is_once_that_costs_next_to_nothing_of_it() -> None:
    """It is expected to cost 0.3 s more, 0.45 s at most; where it is wrong nothing else would ever say so."""
    sure = {"other": PAST_THE_CACHE, "other_s": 1.3, "spread": 0.05}
    assert not is_tried(view(**sure, earned_s=20.0, remaining=5))
    assert is_tried(view(**sure, earned_s=30.0, remaining=5))
    assert is_tried(view(**sure, earned_s=1.0, remaining=20)), "or of what the rest of the job costs"
    used = view(**sure, earned_s=30.0)
    assert not is_tried(used._replace(seen=Counter({0: 3, 1: 1}))), "its first look has said it"


def test_and_not_for_the_rest_of_the_budget_even_where_that_is_expected_to_pay() -> None:
    unsure = view(1.3, 0.3, other=PAST_THE_CACHE, earned_s=1.0, remaining=200)
    assert not is_tried(unsure._replace(left_s=5.0))
    assert not is_tried(unsure._replace(left_s=inf)), "a launch has no budget that would limit it"
    assert is_tried(unsure._replace(left_s=5.0, earned_s=2.0))


def test_what_is_claimed_is_checked_once_it_has_paid_for_that_a_hundred_times() -> None:
    """Measured under the user's own settings costs 0.5 s: all their first checkpoints may have been slow."""
    assert not is_replay_due(view(0.5, incumbent=1, earned_s=40.0), 0)
    assert is_replay_due(view(0.5, incumbent=1, earned_s=60.0), 0)
    assert not is_replay_due(view(0.5, incumbent=1, earned_s=60.0), 1), "once"
    assert not is_replay_due(view(0.5, incumbent=1, earned_s=60.0, ways_s=1.0), 0), "the ways cost, too"
    assert not is_replay_due(view(0.2, incumbent=1, earned_s=600.0), 0), "they cannot have been that slow"


@pytest.mark.parametrize(("ways_s", "tried"), [(0.5, True), (1.5, True), (4.0, False)])
def test_a_small_risk_of_what_costs_many_checkpoints_is_a_large_one(ways_s: float, tried: bool) -> None:
    """It is no gain with a probability of 0.05, and costs both ways then: 0.45 s are left."""
    found = view(0.4, 0.55, ways_s=ways_s, remaining=200)
    totals = found.belief.totals
    assert risk(found, totals[0] - totals)[1] < 0.06
    assert is_tried(found) is tried


def test_a_reinit_that_pays_for_itself_once_is_worth_it() -> None:
    assert is_tried(view(0.6, ways_s=0.4, remaining=30))
    assert not is_tried(view(0.9, ways_s=0.9, remaining=15))


def test_the_more_there_is_to_gain_the_more_may_be_risked() -> None:
    """Both are more expensive by more than the budget of 0.45 s with a probability of some 10 %."""
    much, little = view(0.5, 0.85), view(0.9, 0.4)
    gains = [found.belief.totals[0] - found.belief.totals for found in (much, little)]
    assert [risk(found, gain)[1] for found, gain in zip((much, little), gains, strict=True)] == [
        pytest.approx(0.1, abs=0.03)
    ] * 2
    assert is_tried(much)
    assert not is_tried(little)


def test_and_that_by_the_square() -> None:
    """Both lose more than the budget, for there and back take 0.5 s, with a probability of some 11 %."""
    fifth, two_fifths = view(0.8, 0.2, ways_s=0.25), view(0.6, 0.4, ways_s=0.25)
    for found in (fifth, two_fifths):
        assert risk(found, found.belief.totals[0] - found.belief.totals)[1] == pytest.approx(0.11, abs=0.015)
    assert is_tried(two_fifths)
    assert not is_tried(fifth)


def test_what_may_be_a_fraction_of_it_is_worth_more_risk_than_what_surely_saves_as_much() -> None:
    wide, narrow = view(0.67, 0.5, ways_s=0.25), view(0.75, 0.25, ways_s=0.25)
    means = [found.belief.totals[1].mean() for found in (wide, narrow)]
    assert means == pytest.approx([0.74, 0.76], abs=0.015)
    assert is_tried(wide)
    assert not is_tried(narrow)


@pytest.mark.parametrize(
    ("other_s", "spread", "is_bet"),
    [
        (0.4, 0.7, False),
        (0.4, 1.0, True),
        (0.6, 1.2, True),
        (0.8, 0.1, False),
        (0.9, 0.15, True),
        (1.1, 0.05, True),
    ],
)
def test_before_a_flush_was_seen_what_saves_much_may_be_worse_with_a_probability_that_this_is_worth(
    other_s: float, spread: float, *, is_bet: bool
) -> None:
    """One that is expected to save 0.56 is worse with 0.1: tried; with 0.18, or one that saves 0.1: not."""
    assert is_blind_bet(view(other_s, spread), 1) is is_bet


def test_a_way_that_the_gain_pays_for_is_no_risk_but_one_back_is() -> None:
    assert is_tried(view(0.5, 0.1, ways_s=3.0, remaining=40))
    assert not is_tried(view(0.7, 0.5, ways_s=3.0, remaining=40))
