"""The verdict on a trial, on costs that are believed as a test wants them."""

import numpy as np
import pytest

from scrtune.intents.tune.belief.belief import Belief
from scrtune.intents.tune.choice.chooser import View
from scrtune.intents.tune.choice.judge import MOST_LOOKS, judge
from scrtune.intents.tune.decisions import Breakdown, Decision, Verdict

from ..belief.test_belief import ASYNC, OWN, SHAPE
from .test_chooser import PAST_THE_CACHE, view


def judged(found: View, looks: int, index: int = 1) -> bool | None:
    return judge(found, index, looks, 1.0, None)


@pytest.mark.parametrize(
    ("other_s", "looks", "kept"),
    [(0.7, 1, True), (1.3, 1, False), (1.0, 1, None), (0.99, MOST_LOOKS, False), (0.95, MOST_LOOKS, True)],
)
def test_a_trial_ends_by_the_posterior_and_at_last_only_a_gain_is_kept(
    other_s: float, looks: int, kept: bool | None
) -> None:
    assert judged(view(other_s), looks) is kept


@pytest.mark.parametrize(("other_s", "kept"), [(0.99, True), (1.0, True), (1.04, False)])
def test_of_two_settings_of_ours_that_cost_the_same_those_stay_that_were_measured_last(
    other_s: float, kept: bool
) -> None:
    """The others were measured before, and storage changes; going back to the user's own harms nobody."""
    found = view(other_s)
    belief = Belief([OWN, ASYNC, PAST_THE_CACHE], SHAPE, kept=3)
    belief.totals = np.stack([3.0 * found.belief.totals[0], *found.belief.totals])
    found = found._replace(belief=belief, incumbent=1, there_s=np.zeros(3), back_s=np.zeros(3))
    assert judged(found, MOST_LOOKS, 2) is kept


def test_but_what_is_no_worse_is_kept_where_the_way_back_costs() -> None:
    found = view(0.97)
    assert judged(found._replace(there_s=np.array([0.2, 0.0])), MOST_LOOKS) is True


def cost(seconds: float) -> Breakdown:
    return Breakdown(cost_s=seconds, write_s=seconds)


@pytest.mark.parametrize(
    ("seen_s", "lost_s", "looks", "kept"),
    [
        (0.65, -0.3, 1, True),
        (0.85, -0.1, 1, None),  # 1.4 times what was expected
        (0.85, -0.1, 2, True),
        (1.1, -0.1, 2, None),  # more than the user's own
        (0.65, 0.1, 3, None),  # in all it has lost
        (1.1, 0.1, MOST_LOOKS, True),
    ],
)
def test_what_is_believed_against_all_that_was_seen_is_looked_at_once_more(
    seen_s: float, lost_s: float, looks: int, kept: bool | None
) -> None:
    trial = Decision(
        time_s=0.0,
        generation=1,
        verdict=Verdict.TRIAL,
        rule="a rule",
        expected=cost(0.6),
        seen=cost(seen_s),
        cost_s=lost_s,
    )
    assert judge(view(0.6), 1, looks, seen_s, trial) is kept


@pytest.mark.parametrize(("cost_s", "kept"), [(0.9, None), (1.2, False)])
def test_your_own_settings_are_looked_at_once_more_after_a_checkpoint_as_cheap_as_what_won(
    cost_s: float, kept: bool | None
) -> None:
    """What won is believed to cost 1 s, they 1.5."""
    found = view(1.0 / 1.5, incumbent=1)
    totals = found.belief.totals
    found.belief.totals = 1.5 * totals
    assert judge(found, 0, 1, cost_s, None) is kept


@pytest.mark.parametrize(("looks", "left_s", "kept"), [(1, 5.0, None), (2, 5.0, False), (1, 1.0, False)])
def test_the_first_checkpoint_past_the_cache_is_repeated_where_that_loses_next_to_nothing(
    looks: int, left_s: float, kept: bool | None
) -> None:
    """It is expected to lose 0.3 s; what won is in the cache."""
    found = view(1.3, other=PAST_THE_CACHE)
    belief = Belief([ASYNC, PAST_THE_CACHE], SHAPE, kept=2)
    belief.totals = found.belief.totals
    assert judge(found._replace(belief=belief, left_s=left_s), 1, looks, 1.3, None) is kept
