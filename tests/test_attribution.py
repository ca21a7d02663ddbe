"""What each decision of the tuner gained, and how sure that is."""

import io
import random
from collections.abc import Iterator
from math import exp, sqrt

import msgspec
import pytest
from rich.console import Console

from scrtune.daemon import show_gains, views
from scrtune.daemon.gains import GainView, gains
from scrtune.goodput.attribution import Gain, Pair, gain
from scrtune.intents.decisions import Verdict
from scrtune.intents.events import TuningSwitched

from .simulated_job import CACHED, Job


def noise(rng: random.Random) -> Iterator[float]:
    """Checkpoints as they scatter: 8 % independently, 15 % with memory."""
    slow = rng.gauss(0, 0.15)
    while True:
        yield exp(slow + rng.gauss(0, 0.08))
        slow = 0.7 * slow + rng.gauss(0, 0.15 * sqrt(1 - 0.7**2))


def trial(rng: random.Random, turns: int, ratio: float) -> list[Pair]:
    """Two checkpoints of 10 s under the old settings, two under the new ones, and so on."""
    factor = noise(rng)
    return [
        Pair(
            before=(10 * next(factor), 10 * next(factor)),
            after=(10 * ratio * next(factor), 10 * ratio * next(factor)),
        )
        for _ in range(turns)
    ]


@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.3])
def test_the_interval_holds_the_truth_about_nine_times_in_ten(turns: int, ratio: float) -> None:
    rng, held, trials = random.Random(4), 0, 1500
    for _ in range(trials):
        found = gain(trial(rng, turns, ratio), 1)
        assert found is not None
        held += found.low_s <= 10 * (1 - ratio) <= found.high_s
    assert 0.84 <= held / trials <= 0.97


def test_two_runs_are_less_sure_than_turns_in_one() -> None:
    turn = Pair(before=(10.0, 10.0), after=(7.0, 7.0))
    one, two = gain([turn], 1), gain([msgspec.structs.replace(turn, across_runs=True)], 1)
    assert one is not None
    assert two is not None
    assert one.saved_s == two.saved_s == pytest.approx(3)
    assert two.high_s - two.low_s > 1.3 * (one.high_s - one.low_s)


def test_more_turns_that_agree_are_surer_and_such_that_do_not_are_less() -> None:
    def width(*after: float) -> float:
        found = gain([Pair(before=(10.0,), after=(each,)) for each in after], 1)
        assert found is not None
        return found.high_s - found.low_s

    assert width(7) > width(7, 7) > width(7, 7, 7)
    assert width(3, 7, 16) > 1.5 * width(7, 7, 7)


def test_the_total_is_for_the_checkpoints_under_the_change() -> None:
    found = gain([Pair(before=(10.0, 10.0), after=(12.0, 12.0))], 30)
    assert found is not None
    assert found.saved_s == pytest.approx(-2)
    assert found.total_s == pytest.approx(-60)
    assert found.total_low_s == pytest.approx(30 * found.low_s)
    assert found.total_low_s < found.total_s < found.total_high_s


def test_without_a_measurement_on_both_sides_nothing_is_said() -> None:
    assert gain([], 5) is None
    assert gain([Pair(before=(), after=(1.0,)), Pair(before=(1.0,), after=())], 5) is None
    free = gain([Pair(before=(1.0,), after=(0.0,))], 5)
    assert free is not None
    assert free.saved_s == pytest.approx(1.0)


def gains_of(job: Job) -> tuple[GainView, ...]:
    view = views.goodput(job.pipeline, job.now)
    return gains(view.decisions, view.costs)


def test_a_change_that_was_kept_counts_from_its_trial_on() -> None:
    job = Job(CACHED).checkpoints(40)
    (kept,) = gains_of(job)
    assert (kept.rule, kept.verdict) == ("flush asynchronously", Verdict.ACCEPTED)
    assert kept.gain.before_s == pytest.approx(5, rel=0.05)
    assert kept.gain.saved_s == pytest.approx(3.9, rel=0.05)
    under = [cost for cost in job.pipeline.costs if cost.blocking_s < 2]
    assert kept.gain.checkpoints == len(under) == 37
    truth_s = sum(5 - cost.cost_s for cost in under)
    assert kept.gain.total_low_s <= truth_s <= kept.gain.total_high_s


def test_a_change_that_was_taken_back_counts_for_its_trial_only() -> None:
    job = Job(CACHED).checkpoints(40, slowed_s=6.0)
    lost = gains_of(job)[0]
    assert (lost.rule, lost.verdict) == ("flush asynchronously", Verdict.REVERTED)
    assert lost.gain.checkpoints <= 6
    assert lost.gain.total_s < 0


def test_when_the_user_s_settings_come_back_a_change_gains_no_more() -> None:
    job = Job(CACHED).checkpoints(30)
    before = gains_of(job)[0].gain.checkpoints
    job.tell(TuningSwitched(on=False))
    job.checkpoints(20)
    assert gains_of(job)[0].gain.checkpoints == before


def test_a_trial_that_is_on_is_shown_with_what_it_has() -> None:
    job = Job(CACHED)
    while not any(each.verdict is Verdict.TRIAL for each in job.pipeline.decisions):
        job.checkpoint()
    assert gains_of(job) == ()
    job.checkpoint()
    (on_trial,) = gains_of(job)
    assert on_trial.verdict is Verdict.TRIAL
    assert on_trial.gain.pairs == on_trial.gain.checkpoints == 1


def test_a_change_in_turns_is_not_taken_for_what_it_may_replace() -> None:
    """With noise that no block proves anything in, the settings change back and forth."""
    job = Job(CACHED, noise=0.4, seed=5).checkpoints(60, slowed_s=3.2)
    found = gains_of(job)
    assert any(each.gain.pairs > 1 for each in found)
    settings_of = job.pipeline.tuner.settings_of if job.pipeline.tuner else None
    assert settings_of is not None
    for view in found:
        if view.verdict is Verdict.REVERTED:
            under = [
                cost
                for cost in job.pipeline.costs
                if view.generation <= cost.generation < view.generation + 2 * view.gain.pairs
                and view.changes.items() <= (settings_of(cost.generation) or {}).items()
            ]
            assert view.gain.checkpoints == len(under)


def text(view: views.GoodputView) -> str:
    console = Console(file=io.StringIO(), width=120, markup=False)
    console.print(show_gains.goodput(view))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_scrtune_goodput_shows_a_row_for_each_change_and_their_sum() -> None:
    job = Job(CACHED).checkpoints(40)
    view = views.goodput(job.pipeline, job.now)
    assert "What each decision gained" not in text(view)
    shown = text(msgspec.structs.replace(view, gains=gains(view.decisions, view.costs)))
    row = next(line for line in shown.splitlines() if "flush asynchronously" in line)
    assert "kept" in row
    assert " 37 " in row
    assert "together" in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_a_sum_of_gains_is_surer_than_the_sum_of_their_bounds() -> None:
    one = Gain(
        pairs=1,
        before_s=2,
        saved_s=1,
        low_s=0,
        high_s=2,
        checkpoints=1,
        total_s=1,
        total_low_s=0,
        total_high_s=2,
    )
    each = GainView(
        generation=1, time_s=0, rule="r", changes={}, previous={}, verdict=Verdict.ACCEPTED, gain=one
    )
    job = Job(CACHED)
    view = msgspec.structs.replace(views.goodput(job.pipeline, job.now), gains=(each, each))
    total = next(line for line in text(view).splitlines() if line.strip().startswith("together"))
    assert total.split()[1:] == ["2.000", "0.586", "to", "3.414"]
