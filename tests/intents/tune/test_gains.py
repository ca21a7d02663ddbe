"""What each trial gained: what is believed of it, and what its checkpoints saved or cost."""

import numpy as np
import pytest

from scrtune.goodput.buckets import TUNING
from scrtune.intents.events import TuningSwitched
from scrtune.intents.tune.decisions import Verdict, compare
from scrtune.intents.tune.gains import gain, gains, together

from ...support.simulated_job import CACHED, Job, replayed


def test_a_comparison_is_the_posterior_of_the_ratio() -> None:
    before, after = np.full(101, 10.0), np.linspace(4.0, 6.0, 101)
    found = compare(before, after, 3)
    assert (found.before_s, found.after_s, found.ratio) == (10, 5, pytest.approx(0.5))
    assert (found.low, found.high) == (pytest.approx(0.41), pytest.approx(0.59))
    assert found.p_better == 1
    assert "0.50 times the cost before (0.41 to 0.59 with 90 %) after 3 checkpoints" in found.text
    made = gain(found, 3, -15.0)
    assert made.saved_s == 5
    assert made.low_s < made.saved_s < made.high_s
    assert made.total_s == 15


def test_a_change_that_was_kept_counts_from_its_trial_on() -> None:
    job = Job(CACHED).settled()
    kept = next(each for each in gains(list(job.pipeline.decisions)) if each.verdict is Verdict.ACCEPTED)
    assert kept.changes["SCR_FLUSH_ASYNC"] == 1
    assert kept.gain.before_s == pytest.approx(5, rel=0.1)
    assert kept.gain.saved_s == pytest.approx(3.9, rel=0.1)
    before = kept.gain.checkpoints
    job.checkpoints(5)
    (again, *_) = gains(list(job.pipeline.decisions))
    assert again.gain.checkpoints == before + 5
    assert again.gain.total_s == pytest.approx(kept.gain.total_s + 5 * 3.9, rel=0.2)


def test_all_totals_together_are_what_tuning_saved() -> None:
    job = Job(CACHED).settled()
    saved_s = sum(5 - cost.cost_s for cost in job.pipeline.costs if cost.blocking_s < 2)
    assert together(gains(list(job.pipeline.decisions))).total_s == pytest.approx(saved_s, rel=0.1)


@pytest.mark.parametrize("slowed_s", [6.0, 9.0])
def test_what_a_trial_cost_that_was_taken_back_is_what_the_account_has_for_it(slowed_s: float) -> None:
    job = Job(CACHED, noise=0.1).until("reverted", slowed_s=slowed_s)
    lost = gains(list(job.pipeline.decisions))[0]
    assert lost.verdict is Verdict.REVERTED
    assert lost.gain.total_s < 0
    # a gain has the expected rework of both settings, the account the time that has passed
    assert job.pipeline.ledger.charges[TUNING] == pytest.approx(-lost.gain.total_s, rel=1e-3)


def test_when_the_users_settings_come_back_a_change_gains_no_more() -> None:
    job = Job(CACHED).settled()
    before = gains(list(job.pipeline.decisions))
    job.tell(TuningSwitched(on=False))
    job.checkpoints(20)
    after = gains(list(job.pipeline.decisions))
    assert [each.gain.checkpoints for each in after] == [each.gain.checkpoints for each in before]


def test_nothing_is_claimed_against_settings_that_were_not_measured_since_the_machine_changed() -> None:
    job = Job(CACHED).settled()
    totals_s, is_known = [], []
    for _ in range(5):
        job.checkpoint(slowed_s=3.0)
        assert job.pipeline.tuner is not None
        totals_s.append(together(gains(list(job.pipeline.decisions))).total_s)
        is_known.append(job.pipeline.tuner.baseline_s > 0)
    changed = is_known.index(False)
    assert totals_s[changed] == totals_s[changed - 1]
    assert is_known[-1], "they were measured again"


def test_a_journal_that_is_told_again_gains_the_same() -> None:
    job = Job(CACHED, noise=0.3, seed=5).checkpoints(40, slowed_s=3.2)
    again, _ = replayed(job.journal)
    assert gains(list(again.decisions)) == gains(list(job.pipeline.decisions)) != ()
