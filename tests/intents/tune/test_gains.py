"""What each decision of the tuner gained, and how sure that is: the comparison that it was judged by."""

import io
import random
import re
from collections.abc import Iterator
from itertools import pairwise
from math import exp, sqrt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from scrtune.cli.text import goodput as show_goodput
from scrtune.cli.text import job as show_job
from scrtune.daemon import views
from scrtune.goodput.ledger.ledger import TUNING
from scrtune.intents.events import TuningSwitched
from scrtune.intents.rules.situation import Proposal
from scrtune.intents.tune.comparison import Comparison, compare, spread
from scrtune.intents.tune.decisions import Decision, Verdict
from scrtune.intents.tune.gains import Gain, GainView, gain, gains
from scrtune.intents.tune.trial import RUNS_SPREAD
from scrtune.intents.tune.tuner import Tuner

from ...support.simulated_job import CACHED, Job, replayed, take


def noise(rng: random.Random) -> Iterator[float]:
    """Checkpoints as they scatter: 8 % independently, 15 % with memory."""
    slow = rng.gauss(0, 0.15)
    while True:
        yield exp(slow + rng.gauss(0, 0.08))
        slow = 0.7 * slow + rng.gauss(0, 0.15 * sqrt(1 - 0.7**2))


def in_turns(rng: random.Random, turns: int, ratio: float) -> Comparison:
    """Two checkpoints of 10 s under the old settings, two under the new ones, and so on."""
    factors, before, after = noise(rng), [], []
    usual_s = [10 * next(factors) for _ in range(6)]
    for _ in range(turns):
        before += [10 * next(factors), 10 * next(factors)]
        after += [10 * ratio * next(factors), 10 * ratio * next(factors)]
    return compare(before, after, spread(usual_s))


def in_two_runs(rng: random.Random, ratio: float) -> Comparison:
    """The last six checkpoints of a run, and the first of the next."""
    one, other = noise(rng), noise(rng)
    before = [10 * next(one) for _ in range(6)]
    return compare(before, [10 * ratio * next(other) for _ in before], RUNS_SPREAD, across_runs=True)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.3])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_interval_holds_the_truth_about_nine_times_in_ten(size: int, ratio: float) -> None:
    rng, trials = random.Random(4), 1000
    turns = [in_turns(rng, size, ratio) for _ in range(trials)]
    runs = [in_two_runs(rng, ratio) for _ in range(trials)]
    for made in (turns, runs):
        assert 0.87 <= sum(each.low <= ratio <= each.high for each in made) / trials <= 0.975


def tried(costs: list[float], effect: float) -> list[tuple[Decision, Decision]]:
    """Trials of a change that multiplies the cost of a checkpoint by `effect`, each with its verdict."""
    tuner = Tuner({})
    change = Proposal(rule="a change", intent="", changes={"C": 1}, because="", source="")
    for number, cost_s in enumerate(costs):
        told_s = cost_s * (effect if "C" in tuner.settings else 1)
        wanted = [] if "C" in tuner.settings else tuner.candidates([change])
        take(tuner, told_s, number, lambda wanted=wanted: next(iter(wanted), None))
    ends = {Verdict.ACCEPTED, Verdict.REVERTED}
    return [
        (one, two)
        for one, two in pairwise(tuner.decisions)
        if one.verdict is Verdict.TRIAL and two.verdict in ends
    ]


def agrees(trial: Decision, verdict: Decision) -> None:
    """What is said of a trial is one thing, whoever says it."""
    found = trial.comparison
    assert found is not None
    made = gain(found, 1)
    assert (verdict.before_s, verdict.after_s, verdict.observations) == (
        found.before_s,
        found.after_s,
        made.pairs,
    )
    assert made.before_s == verdict.before_s
    assert made.saved_s == verdict.before_s - verdict.after_s
    assert found.ratio == pytest.approx(verdict.after_s / verdict.before_s)
    assert made.low_s <= made.saved_s <= made.high_s
    if verdict.verdict is Verdict.ACCEPTED:
        assert made.low_s > 0
        assert found.p_better >= 0.95
    if verdict.because.startswith("no proof"):
        assert made.low_s <= 0 < made.high_s
    if verdict.because.startswith("not better"):
        assert made.saved_s <= 0
    if "times the cost before" in verdict.because:  # it was judged by them
        assert (verdict.verdict is Verdict.ACCEPTED) == (made.low_s > 0)
        assert f"{found.ratio:.2f} times" in verdict.because
        assert f"({found.low:.2f} to {found.high:.2f} with 90 %), in {made.pairs} pairs" in verdict.because


@given(
    costs=st.lists(st.floats(0, 1e6) | st.floats(0.5, 2), min_size=5, max_size=40),
    effect=st.floats(0.01, 4),
)
def test_verdict_and_interval_never_contradict_each_other(costs: list[float], effect: float) -> None:
    for trial, verdict in tried(costs, effect):
        agrees(trial, verdict)


def test_nor_do_they_under_the_noise_of_checkpoints_and_no_kind_of_verdict_is_left_out() -> None:
    kinds = set()
    for seed in range(150):
        factors = noise(random.Random(seed))
        for trial, verdict in tried([next(factors) for _ in range(25)], effect=0.7 + 0.1 * (seed % 5)):
            agrees(trial, verdict)
            kinds.add(verdict.because.partition(":")[0] if verdict.verdict is Verdict.REVERTED else "kept")
    assert {"kept", "no proof of a gain", "not better"} <= kinds


def test_two_runs_are_less_sure_than_turns_in_one() -> None:
    costs = [10.0, 10.0], [7.0, 7.0]
    one, two = gain(compare(*costs), 1), gain(compare(*costs, RUNS_SPREAD, across_runs=True), 1)
    assert one.saved_s == two.saved_s == pytest.approx(3)
    assert two.high_s - two.low_s > 1.3 * (one.high_s - one.low_s)


def test_more_pairs_that_agree_are_surer_and_such_that_do_not_are_less() -> None:
    def width(*after: float) -> float:
        found = gain(compare([10.0] * len(after), after), 1)
        return found.high_s - found.low_s

    assert width(7) > width(7, 7) > width(7, 7, 7)
    assert width(3, 7, 16) > 1.5 * width(7, 7, 7)


def test_what_one_side_has_more_is_left_out() -> None:
    assert compare([10.0, 11.0, 50.0], [7.0, 8.0]) == compare([10.0, 11.0], [7.0, 8.0])


def test_the_total_is_for_the_checkpoints_under_the_change() -> None:
    found = gain(compare([10.0, 10.0], [12.0, 12.0]), 30)
    assert found.saved_s == pytest.approx(-2)
    assert found.total_s == pytest.approx(-60)
    assert found.total_low_s == pytest.approx(30 * found.low_s)
    assert found.total_low_s < found.total_s < found.total_high_s


def test_a_checkpoint_that_costs_nothing_saves_all_of_it_but_noise() -> None:
    assert gain(compare([1.0], [0.0]), 5).saved_s == pytest.approx(1.0, abs=0.03)


def gains_of(job: Job) -> tuple[GainView, ...]:
    view = views.goodput_view(job.pipeline, job.now)
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
    assert lost.gain.total_low_s < lost.gain.total_s < 0


@pytest.mark.parametrize("slowed_s", [3.6, 4.0, 6.0])
def test_what_a_trial_cost_that_was_taken_back_is_what_the_account_has_for_it(slowed_s: float) -> None:
    taken_back = 0
    for seed in range(10):
        job = Job(CACHED, noise=0.2, seed=seed).checkpoints(30, slowed_s=slowed_s)
        lost = [view.gain for view in gains_of(job) if view.verdict is Verdict.REVERTED]
        taken_back += len(lost)
        assert job.pipeline.ledger.charges.get(TUNING, 0) == pytest.approx(
            -sum(each.total_s for each in lost)
        )
    assert taken_back > 5


def test_a_journal_that_is_told_again_gains_the_same() -> None:
    job = Job(CACHED, noise=0.3, seed=5).checkpoints(60, slowed_s=3.2)
    again, _ = replayed(job.journal)
    assert gains(tuple(again.decisions), again.costs) == gains_of(job) != ()


def test_a_trial_that_a_run_under_other_settings_ended_has_no_other_trial_s_verdict() -> None:
    found = compare([10.0], [7.0])
    trial = Decision(
        generation=1, time_s=1, verdict=Verdict.TRIAL, rule="r", comparison=found, checkpoints=1, cost_s=-3.5
    )
    other = msgspec.structs.replace(
        trial, verdict=Verdict.BASELINE, rule="a run under other settings", generation=2
    )
    next_one = msgspec.structs.replace(trial, generation=3, rule="s")
    kept = msgspec.structs.replace(next_one, verdict=Verdict.ACCEPTED)
    ended, won = gains([trial, other, next_one, kept], [])
    assert (ended.rule, ended.verdict, ended.gain.total_s) == ("r", Verdict.REVERTED, 3.5)
    assert (won.rule, won.verdict) == ("s", Verdict.ACCEPTED)


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
    console.print(show_goodput.goodput(view))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_scrtune_goodput_shows_a_row_for_each_change_and_their_sum() -> None:
    job = Job(CACHED).checkpoints(40)
    view = views.goodput_view(job.pipeline, job.now)
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
    view = msgspec.structs.replace(views.goodput_view(job.pipeline, job.now), gains=(each, each))
    total = next(line for line in text(view).splitlines() if line.strip().startswith("together"))
    assert total.split()[1:] == ["2.000", "0.586", "to", "3.414"]


def test_what_scrtune_explain_shows_of_a_trial_is_one_set_of_numbers() -> None:
    job = Job(CACHED, noise=0.25, seed=5).checkpoints(60, slowed_s=3.4)
    view = msgspec.structs.replace(views.explain_view(job.pipeline), gains=gains_of(job))
    console = Console(file=io.StringIO(), width=200, markup=False)
    console.print(show_job.explain(view))
    assert isinstance(console.file, io.StringIO)
    shown = re.findall(
        r"measured ([\d.]+) s -> ([\d.]+) s a checkpoint \(geometric means\):"
        r" [^:\n]+: ([\d.]+) times the cost before \([^)]+\), in (\d) pairs\s+"
        r"(saves|costs) ([\d.]+) s (?:of|more than) ([\d.]+) s a checkpoint \([^)]+, in (\d) pairs\)",
        console.file.getvalue(),
    )
    assert len(shown) == len(view.gains) == 2
    for before, after, ratio, pairs, word, saved, of, again in shown:
        assert float(after) / float(before) == pytest.approx(float(ratio), abs=0.01)
        assert abs(float(before) - float(after)) == pytest.approx(float(saved), abs=0.011)
        assert (word == "saves") == (float(ratio) < 1)
        assert float(of) == pytest.approx(float(before), abs=0.006)
        assert pairs == again
