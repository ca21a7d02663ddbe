"""The tuner: a good change stays, a worse one goes, and what it may cost is bounded."""

import random
from collections.abc import Callable, Iterator
from math import exp, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import Values
from scrtune.intents.mutability import RunMutability
from scrtune.intents.rules.situation import Proposal
from scrtune.intents.tune.budget import ALLOWANCE, FIRST_CREDIT
from scrtune.intents.tune.chooser import TrialChoice
from scrtune.intents.tune.comparison import compare, spread
from scrtune.intents.tune.decisions import Decision, Verdict
from scrtune.intents.tune.trial import TRIES
from scrtune.intents.tune.tuner import Tuner

from ...support.simulated_job import take

BASELINE: Values = {"SCR_FLUSH": 1, "SCR_CACHE_SIZE": 2}


def proposal(rule: str, **changes: int | str) -> Proposal:
    return Proposal(rule=rule, intent="test", changes=changes or {rule: 1}, because="why", source="here")


def nothing() -> Proposal | None:
    return None


def asked(tuner: Tuner, *proposals: Proposal) -> Callable[[], Proposal | None]:
    """As the pipeline asks: what had won before, then the proposals that change something."""

    def propose() -> Proposal | None:
        wanted = tuner.candidates(proposals)
        return next((each for each in wanted if each.beyond(tuner.settings).changes), None)

    return propose


def verdicts(tuner: Tuner) -> list[str]:
    return [decision.verdict.value for decision in tuner.decisions]


def feed(
    tuner: Tuner, costs: list[float], propose: Callable[[], Proposal | None] = nothing
) -> list[Decision]:
    outcomes = [each for number, cost_s in enumerate(costs) for each in take(tuner, cost_s, number, propose)]
    return [decision for outcome in outcomes for decision in outcome.decisions]


def noise(rng: random.Random, drift: float = 0.0) -> Iterator[float]:
    """8 % independent, 15 % autocorrelated, and a trend per checkpoint."""
    slow, level = rng.gauss(0, 0.15), 0.0
    while True:
        yield exp(level + slow + rng.gauss(0, 0.08))
        slow = 0.7 * slow + rng.gauss(0, 0.15 * sqrt(1 - 0.49))
        level += drift


def job(
    seed: int, effects: dict[str, float], checkpoints: int = 40, drift: float = 0.0
) -> tuple[Tuner, float]:
    """Run a job whose changes multiply its cost by `effects`; returns its cost over that without tuning."""
    rng = random.Random(seed)
    tuner, factors = Tuner(BASELINE), noise(rng, drift)
    propose = asked(tuner, *(proposal(name) for name in effects))
    tuned = untuned = 0.0
    for number in range(checkpoints):
        factor = cost = next(factors)
        for name, effect in effects.items():
            cost *= effect if tuner.settings.get(name) == 1 else 1.0
        tuned, untuned = tuned + cost, untuned + factor
        take(tuner, cost, number, propose)
    return tuner, tuned / untuned


def won(tuner: Tuner) -> bool:
    return "accepted" in verdicts(tuner)


def test_the_users_settings_are_observed_first() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0, 1.0], asked(tuner, proposal("A")))
    assert tuner.settings == BASELINE
    assert (tuner.generation, tuner.baseline_s, tuner.trial_budget_s) == (0, 0, 0)
    feed(tuner, [1.0], asked(tuner, proposal("A")))
    assert tuner.settings == {**BASELINE, "A": 1}
    assert (tuner.generation, tuner.baseline_s) == (1, 1.0)
    assert tuner.trying is not None
    assert tuner.trying.rule == "A"


def test_a_clear_gain_is_kept_after_two_observations() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0, 1.0, 1.0, 0.5, 0.5], asked(tuner, proposal("A")))
    trial, accepted = tuner.decisions
    assert (trial.verdict, accepted.verdict) == (Verdict.TRIAL, Verdict.ACCEPTED)
    assert (accepted.before_s, accepted.after_s, accepted.observations) == (1.0, 0.5, 2)
    assert accepted.changes == {"A": 1}
    assert tuner.settings == {**BASELINE, "A": 1}
    assert tuner.current_s == 0.5


def test_a_worse_change_is_taken_back_exactly() -> None:
    tuner = Tuner(BASELINE)
    change = proposal("A", SCR_FLUSH=9, SCR_NEW=1)
    feed(tuner, [1.0, 1.0, 1.0, 1.2, 1.2], asked(tuner, change))
    assert verdicts(tuner) == ["trial", "reverted"]
    assert tuner.settings == BASELINE, "and what was not there before is not there"
    assert tuner.decisions[-1].changes == {"SCR_FLUSH": 1}
    assert not tuner.candidates([change])


def test_one_outrageous_checkpoint_is_enough() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0, 1.0, 1.0, 1.7], asked(tuner, proposal("A")))
    assert verdicts(tuner) == ["trial", "reverted"]


def test_where_costs_scatter_it_takes_more_to_be_outrageous_but_never_more_than_three_times() -> None:
    wild = [0.5, 1.0, 1.8]
    patient, ended = Tuner(BASELINE), Tuner(BASELINE)
    feed(patient, [*wild, 1.9], asked(patient, proposal("A")))
    feed(ended, [*wild, 3.5], asked(ended, proposal("A")))
    assert patient.trying is not None
    assert ended.trying is None


def test_a_small_difference_is_compared_again_with_the_settings_before() -> None:
    tuner, change = Tuner(BASELINE), proposal("A")
    feed(tuner, [1.0, 1.0, 1.0, 0.93, 0.93], asked(tuner, change))
    assert tuner.comparing
    assert tuner.settings == BASELINE
    feed(tuner, [1.0, 1.0], asked(tuner, change))
    assert not tuner.comparing
    assert tuner.settings["A"] == 1
    feed(tuner, [0.93, 0.93, 1.0, 1.0, 0.93, 0.93], asked(tuner, change))
    assert verdicts(tuner) == ["trial", "reverted"], "a change needs a reason: 7 % is not proved by 6 pairs"
    assert "no proof" in tuner.decisions[-1].because
    assert (tuner.decisions[-1].observations, tuner.settings) == (6, BASELINE)


def test_every_decision_that_changes_settings_has_a_new_generation() -> None:
    tuner, _ = job(3, {"A": 0.6, "B": 1.3, "C": 0.9})
    seen = [each.generation for each in tuner.decisions if each.verdict is not Verdict.ACCEPTED]
    assert seen == sorted(set(seen))


@pytest.mark.parametrize(
    ("effect", "least", "most"),
    [(0.7, 0.95, 1.0), (0.8, 0.6, 1.0), (1.0, 0.0, 0.1), (1.1, 0.0, 0.03), (1.3, 0.0, 0.0)],
)
def test_how_often_a_change_is_kept(effect: float, least: float, most: float) -> None:
    kept = sum(won(job(seed, {"A": effect})[0]) for seed in range(300)) / 300
    assert least <= kept <= most


def test_a_gain_of_30_percent_is_kept_within_a_few_checkpoints() -> None:
    assert sum(won(job(seed, {"A": 0.7}, checkpoints=9)[0]) for seed in range(200)) / 200 > 0.9


def test_no_effect_costs_nothing_and_worse_changes_little() -> None:
    ratios = sorted(job(seed, {"A": 1.05, "B": 1.2, "C": 1.1})[1] for seed in range(200))
    assert ratios[100] < 1.03
    assert ratios[-2] < 1.08
    assert all(job(seed, {"A": 1.0})[1] == 1.0 for seed in range(20))


COSTS = st.floats(0.2, 5.0)


@given(
    st.lists(COSTS, min_size=3, max_size=3),
    st.lists(st.floats(0.2, 5.0), max_size=8),
    st.integers(0, 1000),
    st.sampled_from([-0.05, 0.0, 0.05]),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.01, 0.3, 3.0]),
)
def test_the_bound_holds_for_every_job(  # noqa: PLR0913, PLR0917 - all that a job may be
    first: list[float], effects: list[float], seed: int, drift: float, lag: int, switch_s: float
) -> None:
    """As `docs/tuning.md` states it, also when advice reaches the job up to two checkpoints late.

    Each change of settings costs `switch_s`, there and back.
    """
    tuner, factors = Tuner(BASELINE), noise(random.Random(seed), drift)
    propose = asked(tuner, *(proposal(f"P{number}") for number in range(len(effects))))
    advised = [(tuner.generation, dict(tuner.settings))] * (lag + 1)
    excess = reference = baseline = last_losses = 0.0
    recent: list[float] = []
    in_force = BASELINE
    for number in range(80):
        generation, settings = advised[-1 - lag]
        cost = next(factors) * (first[number] if number < 3 else 1.0)
        for index, effect in enumerate(effects):
            cost *= effect if settings.get(f"P{index}") == 1 else 1.0
        before_s = tuner.baseline_s
        apply_s = switch_s if settings != in_force else 0.0
        in_force = settings
        tuner.charge_apply(apply_s)
        loss = apply_s + (cost - before_s if settings != BASELINE else 0.0)
        reference += before_s
        excess += loss
        recent = [*recent, max(0.0, loss)][
            -(2 * lag + 2) :
        ]  # late to be known, late to be acted on, and back
        is_current = generation == tuner.generation
        take(tuner, cost, number, propose, generation)
        if before_s == 0.0:
            baseline = tuner.baseline_s
        elif tuner.trial_budget_s <= 0:
            last_losses = max(last_losses, sum(recent))
        assert (
            excess <= ALLOWANCE * reference + FIRST_CREDIT * baseline + max(last_losses, sum(recent)) + 1e-9
        )
        assert tuner.settings == tuner.baseline or tuner.trial_budget_s > 0 or not is_current
        advised.append((tuner.generation, dict(tuner.settings)))


@given(st.lists(st.floats(0.3, 4.0), min_size=1, max_size=6), st.integers(0, 10_000))
def test_going_back_restores_exactly_what_was_in_force(effects: list[float], seed: int) -> None:
    tuner, _ = job(seed, {f"P{number}": effect for number, effect in enumerate(effects)}, checkpoints=80)
    in_force: Values = dict(BASELINE)
    stable = dict(in_force)
    for decision in tuner.decisions:
        match decision.verdict:
            case Verdict.TRIAL:
                in_force = {**stable, **decision.changes}
            case Verdict.ACCEPTED:
                stable = in_force
            case Verdict.REVERTED:
                in_force = stable
            case Verdict.BASELINE:
                in_force = stable = dict(BASELINE)
    assert tuner.settings == (stable if tuner.comparing else in_force)
    assert tuner.baseline == BASELINE


def test_when_tuned_checkpoints_become_dearer_than_the_users_they_are_measured_anew() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5], asked(tuner, proposal("A")))
    while tuner.settings != BASELINE:
        feed(tuner, [1.5])
    assert verdicts(tuner)[-1] == "back to the user's settings"
    assert tuner.settings == BASELINE
    assert tuner.given_up is not None
    assert tuner.given_up.changes == {"A": 1}
    propose = asked(tuner, proposal("A"))
    feed(tuner, [3.0, 3.0, 3.0], propose)
    assert tuner.baseline_s == 3.0, "everything has become dearer: a new baseline"
    feed(tuner, [1.5, 1.5], propose)
    assert verdicts(tuner)[-2:] == ["trial", "accepted"]
    assert tuner.settings["A"] == 1


def test_a_change_that_lost_may_be_tried_again_once_another_has_won_but_not_for_ever() -> None:
    tuner, level = Tuner(BASELINE), 1.0
    for winner in range(6):
        propose = asked(tuner, proposal("lost"), proposal(f"winner {winner}"))
        while not (tuner.trying and tuner.trying.rule.startswith("winner")):
            feed(tuner, [level], propose)
        level /= 2
        feed(tuner, [level, level])
    assert verdicts(tuner).count("accepted") == 6
    assert sum(each.verdict is Verdict.TRIAL and each.rule == "lost" for each in tuner.decisions) == TRIES


def test_no_rule_undoes_what_another_has_won() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0, 1.0, 1.0, 0.5, 0.5], asked(tuner, proposal("up", SCR_CACHE_SIZE=4)))
    assert tuner.settings["SCR_CACHE_SIZE"] == 4
    assert not tuner.candidates([proposal("down", SCR_CACHE_SIZE=2)])
    assert tuner.candidates([proposal("down", SCR_CACHE_SIZE=3)])


def test_a_checkpoint_that_fails_on_trial_ends_the_trial() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0] * 3, asked(tuner, proposal("A")))
    tuner.failed("the flush of dataset 4 failed", tuner.generation, 9.0)
    assert verdicts(tuner) == ["trial", "reverted"]
    assert tuner.settings == BASELINE


def test_a_checkpoint_that_fails_under_tuned_settings_brings_the_users_back_for_good() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0, 1.0, 1.0, 0.5, 0.5], asked(tuner, proposal("A")))
    tuner.failed("the output of dataset 6 failed", tuner.generation, 9.0)
    assert tuner.settings == BASELINE
    assert tuner.given_up is None
    assert not tuner.candidates([proposal("A")])


def test_a_checkpoint_that_fails_under_the_users_own_settings_changes_nothing() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0] * 2)
    tuner.failed("the output of dataset 3 failed", tuner.generation, 9.0)
    assert verdicts(tuner) == []


def test_a_run_that_ends_within_a_trial_gives_no_verdict() -> None:
    tuner, change = Tuner(BASELINE), proposal("A")
    feed(tuner, [1.0, 1.0, 1.0, 0.9], asked(tuner, change))
    tuner.begin_run(RunMutability(), 9.0)
    assert tuner.settings == BASELINE
    assert tuner.candidates([change])
    assert "run ended" in tuner.decisions[-1].because


def test_a_required_change_moves_the_baseline() -> None:
    tuner = Tuner(BASELINE)
    tuner.require([(proposal("floor", SCR_COPY_TYPE="XOR"), None)], 0.0)
    assert tuner.settings == tuner.baseline == {**BASELINE, "SCR_COPY_TYPE": "XOR"}
    assert verdicts(tuner) == ["required"]
    feed(tuner, [9.0] * 10)
    assert tuner.settings == tuner.baseline


def test_a_veto_is_noted_once_and_is_not_for_ever() -> None:
    tuner, change = Tuner(BASELINE), proposal("A")
    vetoed = TrialChoice(None, ((Verdict.VETOED, change, "no room"),))
    tuner.start(vetoed, 0.0)
    tuner.start(vetoed, 1.0)
    assert verdicts(tuner) == ["vetoed"]
    assert tuner.decisions[0].because == "no room"
    assert tuner.candidates([change])


def test_other_settings_of_the_user_begin_anew_with_the_log_and_the_generations_going_on() -> None:
    tuner = Tuner(BASELINE)
    feed(tuner, [1.0, 1.0, 1.0, 0.5, 0.5], asked(tuner, proposal("A")))
    generation, log = tuner.generation, verdicts(tuner)
    outcome = tuner.restart({"SCR_FLUSH": 3}, RunMutability(), "its settings are others", 9.0)
    assert tuner.settings == tuner.baseline == {"SCR_FLUSH": 3}
    assert tuner.generation > generation
    assert verdicts(tuner) == [*log, "back to the user's settings"]
    assert outcome.changed
    assert tuner.candidates([proposal("A")])


def test_in_a_long_job_memory_is_bounded() -> None:
    tuner, _ = job(1, {"A": 0.9, "B": 1.1, "C": 1.0}, checkpoints=20_000)
    assert len(tuner.decisions) <= 1000
    assert len(tuner._past) <= 65
    assert len(tuner._cooldown.tries) <= 4


def test_each_decision_is_returned_once() -> None:
    tuner = Tuner(BASELINE)
    assert [each.verdict for each in feed(tuner, [1.0] * 3, asked(tuner, proposal("A")))] == [Verdict.TRIAL]
    assert feed(tuner, [1.0], nothing) == []


def test_an_outcome_says_when_settings_change_also_without_a_decision() -> None:
    tuner, change = Tuner(BASELINE), proposal("A")
    feed(tuner, [1.0, 1.0, 1.0, 0.93], asked(tuner, change))
    (outcome,) = take(tuner, 0.93, 9.0, nothing)
    assert tuner.comparing
    assert (outcome.changed, outcome.decisions) == (True, [])
    (outcome,) = take(tuner, 1.0, 10.0, nothing)
    assert not outcome.changed


def test_comparing_reckons_with_more_noise_where_there_is_more() -> None:
    calm = compare([1.0, 1.0], [0.7, 0.7])
    wild = compare([1.0, 1.0], [0.7, 0.7], spread=0.5)
    assert calm.ratio == wild.ratio == pytest.approx(0.7)
    assert calm.p_better > 0.95 > wild.p_better > 0.5
    assert compare([1.0] * 4, [0.2, 1.3, 0.2, 1.3]).p_better < compare([1.0] * 4, [0.51] * 4).p_better


def test_costs_of_nothing_do_not_decide_everything() -> None:
    assert compare([1.0, 1.0], [1.0, 0.0]).ratio > 0.1
    assert compare([0.0, 0.0], [0.0, 0.0]).ratio == 1.0
    assert spread([1.0, 1.0]) == 0.0
    assert spread([1.0, exp(0.2), exp(-0.2)]) == pytest.approx(0.2)
