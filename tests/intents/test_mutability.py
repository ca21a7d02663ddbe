"""What this job's SCR cannot change while it runs: what must pay, what waits for a launch, and off."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import OutputCompleted
from scrtune.intents.effects import RewriteConfig, Tell
from scrtune.intents.events import (
    ApplyRefused,
    EventsLost,
    SettingsObserved,
    TuningSwitched,
    UserEdited,
    Values,
)
from scrtune.intents.intent import Evidence
from scrtune.intents.mutability import RunMutability
from scrtune.intents.observe.flush import FlushBehaviour
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.rules.guards import veto
from scrtune.intents.rules.situation import DEFAULTS, Intents, Proposal, Situation
from scrtune.intents.tune.active_settings import ActiveSettings, AppliedSettings
from scrtune.intents.tune.chooser import only_at_launch, reinit_s, unprofitable
from scrtune.intents.tune.decisions import Verdict

from ..support.simulated_job import CACHED, REAL, T0, Job, replayed, state

ASYNC = "flush asynchronously"
AT_LAUNCH = {**REAL, "SCR_FLUSH_ASYNC": "launch"}
TUNED: Values = {"SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_CACHE_SIZE": 2}


def change(gain_s: float = 1.0, **changes: int | str) -> Proposal:
    return Proposal(rule="r", intent="i", changes=changes, because="b", source="s", expected_gain_s=gain_s)


def output(generation: int, apply_s: float) -> OutputCompleted:
    return OutputCompleted(
        dataset=1, name="d", start_s=0.0, end_s=9.0, generation=generation, apply_s=apply_s
    )


def situation(**known: object) -> Situation:
    flush = FlushBehaviour(evidence=Evidence(count=9), flush_s=2.0, interval_s=10.0, blocking_s=1.0)
    made = Situation(
        intents=Intents(flush=flush),
        settings={**DEFAULTS, **CACHED, "SCR_FLUSH": 10},
        mutability=RunMutability(parameters=REAL, found=DEFAULTS),
    )
    return msgspec.structs.replace(made, **known)


class TestRunMutability:
    @pytest.mark.parametrize("word", ["inert", "none"])
    def test_the_words_of_the_library_and_of_the_catalogue_are_both_read(self, word: str) -> None:
        assert RunMutability(parameters={"SCR_FLUSH_WIDTH": word}).is_inert("SCR_FLUSH_WIDTH")

    def test_where_nothing_is_said_everything_can_change(self) -> None:
        assert not RunMutability().is_fixed("SCR_SET_SIZE")
        assert not RunMutability().needs_reinit("SCR_SET_SIZE")

    def test_what_nothing_is_said_of_cannot(self) -> None:
        assert RunMutability(parameters={"SCR_FLUSH": "live"}).is_fixed("SCR_SET_SIZE")

    def test_what_cannot_change_has_the_value_that_the_run_began_with(self) -> None:
        run = RunMutability(
            parameters={"A": "live", "B": "re-init", "C": "launch"}, found={"A": 0, "B": 0, "C": 0}
        )
        assert run.feasible({"A": 1, "B": 1, "C": 1, "D": 1}) == {"A": 1, "B": 1, "C": 0}
        assert run.holding({"A": 0}).feasible({"A": 1}) == {"A": 0}


class TestWhatPays:
    def test_what_is_live_costs_nothing(self) -> None:
        assert unprofitable(change(1e-6, SCR_FLUSH=2), situation(checkpoints=0, trial_budget_s=0.0)) is None

    def test_a_reinit_pays_when_as_many_checkpoints_as_there_were_gain_what_its_trial_costs(self) -> None:
        wanted = change(0.02, SCR_FLUSH_TYPE="PTHREAD")
        reason = unprofitable(wanted, situation(checkpoints=8))
        assert reason is not None
        assert "up to 6 re-inits of SCR, 0.030 s each" in reason
        assert "from checkpoint 9 on" in reason
        assert unprofitable(wanted, situation(checkpoints=9)) is None

    def test_without_a_gain_it_never_does(self) -> None:
        reason = unprofitable(change(0.0, SCR_FLUSH_TYPE="PTHREAD"), situation(checkpoints=10**6))
        assert reason is not None
        assert "never" in reason

    def test_there_must_be_credit_for_the_way_there_and_back(self) -> None:
        wanted = change(9.0, SCR_FLUSH_TYPE="PTHREAD")
        assert unprofitable(wanted, situation(checkpoints=9, trial_budget_s=0.06)) is None
        reason = unprofitable(wanted, situation(checkpoints=9, trial_budget_s=0.05))
        assert reason is not None
        assert "the trial budget is 0.050 s now" in reason

    def test_flushes_that_outlast_the_interval_are_forced_by_it(self) -> None:
        assert reinit_s(situation()) == 0.03
        background: Values = {**DEFAULTS, **CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
        slow = Intents(flush=FlushBehaviour(flush_s=20.0, interval_s=10.0, blocking_s=1.0))
        assert reinit_s(situation(settings=background)) == 0.03
        assert reinit_s(situation(settings=background, intents=slow)) == 20.03
        assert reinit_s(situation(settings={**background, "SCR_FLUSH": 0}, intents=slow)) == 0.03
        assert reinit_s(situation(settings={**background, "SCR_CACHE_BYPASS": 1}, intents=slow)) == 0.03

    def test_what_a_reinit_took_counts_from_then_on(self) -> None:
        first: Values = {"SCR_FLUSH": 1, "SCR_CACHE_SIZE": 1}
        ranks, active = AppliedSettings(), ActiveSettings(first, RunMutability(parameters=REAL, found=first))
        ranks.begin_run(SettingsObserved(settings=first))
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 1})
        ranks.apply(output(1, 0.5), active)
        assert ranks.reinit_s == 0, "that was no re-init"
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 2})
        ranks.apply(output(2, 0.5), active)
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 1})
        ranks.apply(output(3, 0.7), active)
        assert reinit_s(situation(reinit_s=ranks.reinit_s)) == pytest.approx(0.6)

    def test_one_that_pays_is_tried_and_what_it_took_is_charged_and_is_no_cost_of_the_settings(self) -> None:
        job = Job(CACHED, reinit_s=0.5, noise=0.0, mutability=REAL).checkpoints(5)
        assert job.verdicts[:2] == [(ASYNC, "trial"), (ASYNC, "accepted")]
        assert job.applied_s == 0.5
        assert [cost.apply_s for cost in job.pipeline.costs] == [0, 0, 0, 0.5, 0]
        assert job.pipeline.decisions[1].after_s == pytest.approx(1.1)
        free = Job(CACHED, noise=0.0, mutability=REAL).checkpoints(5)
        assert job.pipeline.tuner is not None
        assert free.pipeline.tuner is not None
        assert job.pipeline.tuner.trial_budget_s == pytest.approx(free.pipeline.tuner.trial_budget_s - 0.5)

    def test_one_that_does_not_is_noted_once_and_tried_when_it_does(self) -> None:
        job = Job(CACHED, noise=0.0, reinit_prior_s=2.45, mutability=REAL).checkpoints(3)
        assert job.verdicts[:2] == [(ASYNC, "vetoed"), (ASYNC, "pending")]
        assert "will from checkpoint 4 on" in job.pipeline.decisions[0].because
        job.checkpoints(1)
        assert job.verdicts[-1] == (ASYNC, "trial")
        assert job.pipeline.advice.at_launch == {}

    def test_at_a_launch_it_is_had_for_nothing(self) -> None:
        job = Job(CACHED, noise=0.0, reinit_prior_s=100.0, mutability=REAL).checkpoints(6)
        assert job.pipeline.advice.settings == CACHED
        assert job.pipeline.advice.at_launch == TUNED
        job.relaunch()
        assert job.verdicts[-1] == (ASYNC, "trial")
        job.checkpoints(6)
        assert job.verdicts[-1] == (ASYNC, "accepted")
        assert job.applied_s == 0


class TestGuards:
    def test_what_scr_does_not_read_is_not_proposed(self) -> None:
        job = Job(CACHED, mutability=REAL).checkpoints(30)
        assert not any("SCR_FLUSH_WIDTH" in each.changes for each in job.pipeline.decisions)
        assert veto(change(SCR_FLUSH_WIDTH=1), situation()) == "SCR_FLUSH_WIDTH: this SCR does not read it"

    def test_a_lever_that_nothing_obeys_is_vetoed_since_no_file_carries_it(self) -> None:
        without = {**REAL, "SCRTUNE_FLUSH_THREADS": "launch"}
        reason = veto(
            change(SCRTUNE_FLUSH_THREADS=1), situation(mutability=RunMutability(parameters=without))
        )
        assert reason is not None
        assert "nothing in this job applies it" in reason


class TestNextLaunch:
    def test_what_only_a_launch_can_change_waits_for_it_and_is_in_the_config_file_only(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
        assert job.verdicts[0] == (ASYNC, "pending")
        assert "SCR_FLUSH_ASYNC: only a launch can change it" in job.pipeline.decisions[0].because
        advice = job.pipeline.advice
        assert {name: advice.settings[name] for name in CACHED} == CACHED
        assert "SCR_FLUSH_ASYNC" not in advice.settings
        assert advice.at_launch == TUNED
        rewrites = [each.advice for each in job.effects if isinstance(each, RewriteConfig)]
        assert [each.at_launch.get("SCR_FLUSH_ASYNC") for each in rewrites[:2]] == [None, 1]
        assert not any("pending" in each.reason for each in rewrites), "nothing was done"

    def test_the_next_run_begins_with_it_and_it_stays_if_that_was_cheaper(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
        job.relaunch()
        trial = job.pipeline.decisions[-1]
        assert (trial.rule, trial.verdict) == (ASYNC, Verdict.TRIAL)
        assert trial.because.endswith("this run began with it")
        job.checkpoints(6)
        accepted = job.pipeline.decisions[-1]
        assert (accepted.rule, accepted.verdict, accepted.observations) == (ASYNC, Verdict.ACCEPTED, 6)
        assert accepted.before_s == pytest.approx(5, rel=0.1)
        assert accepted.after_s == pytest.approx(1.1, rel=0.1)
        assert "against the run before" in accepted.because
        job.relaunch()
        assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 1
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline["SCR_FLUSH_ASYNC"] == 0
        assert job.pipeline.advice.at_launch == {}

    def test_what_is_worse_is_taken_back_as_a_whole_by_the_launch_after(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
        job.relaunch()
        job.checkpoints(3, slowed_s=15.0)
        undone = job.pipeline.decisions[-1]
        assert (undone.rule, undone.verdict) == (ASYNC, Verdict.REVERTED)
        assert "until the next launch it stays active" in undone.because
        advice = job.pipeline.advice
        assert {name: advice.settings[name] for name in TUNED} == TUNED, "no half of it"
        assert advice.at_launch == {name: DEFAULTS[name] for name in TUNED}
        job.relaunch()
        assert {**job._own, **job.pipeline.advice.settings} == {**DEFAULTS, **CACHED}
        assert job.pipeline.advice.at_launch == {}

    def test_a_run_that_ends_too_early_to_tell_is_followed_by_one_that_goes_on(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
        for _ in range(2):
            job.relaunch()
            assert job.pipeline.tuner is not None
            assert job.pipeline.tuner.trying is not None
            job.checkpoints(3)
        assert job.verdicts[-1] == (ASYNC, "accepted")

    def test_one_in_which_no_checkpoint_was_measured_is_the_last_with_it(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
        job.relaunch()
        job.relaunch()
        assert job.verdicts[-1] == (ASYNC, "reverted")
        assert "no checkpoint was measured" in job.pipeline.decisions[-1].because
        job.relaunch()
        assert job.pipeline.settings == {**DEFAULTS, **CACHED}

    def test_a_launch_that_did_not_read_the_file_tries_nothing_and_it_waits_on(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
        told = list(job.verdicts)
        job.start(CACHED)
        assert job.verdicts == told
        assert job.pipeline.settings == {**DEFAULTS, **CACHED}
        assert job.pipeline.advice.at_launch == TUNED

    def test_a_floor_that_only_a_launch_can_keep_is_kept_from_the_next_one_on(self) -> None:
        fixed = {**REAL, "SCR_COPY_TYPE": "launch"}
        job = Job(CACHED, nodes=2, floor="NODE", mutability=fixed)
        assert job.verdicts == [("keep the redundancy floor", "required")]
        assert "from the next launch on" in job.pipeline.decisions[0].because
        assert job.pipeline.settings["SCR_COPY_TYPE"] == "SINGLE"
        assert job.pipeline.advice.at_launch == {"SCR_COPY_TYPE": "PARTNER"}
        job.checkpoints(8)
        job.relaunch()
        assert job.pipeline.tuner is not None
        assert job.pipeline.settings["SCR_COPY_TYPE"] == "PARTNER"
        assert job.pipeline.tuner.baseline["SCR_COPY_TYPE"] == "PARTNER"
        assert job.pipeline.advice.at_launch == {}

    def test_an_edit_of_what_only_a_launch_can_change_is_the_users_word_from_then_on(self) -> None:
        fixed = {**REAL, "SCR_SET_SIZE": "launch"}
        job = Job(CACHED, mutability=fixed)
        job.tell(UserEdited(changes={"SCR_SET_SIZE": 4, "SCR_FLUSH": 2}))
        assert "SCR_SET_SIZE from the next launch on" in job.pipeline.decisions[-1].because
        advice = job.pipeline.advice
        assert (advice.settings["SCR_FLUSH"], advice.settings["SCR_SET_SIZE"]) == (2, 8)
        assert advice.at_launch == {"SCR_SET_SIZE": 4}
        job.checkpoints(12, flush_every=2)
        assert (ASYNC, "trial") in job.verdicts, "which is no reason not to tune"
        job.relaunch()
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline["SCR_SET_SIZE"] == job.pipeline.settings["SCR_SET_SIZE"] == 4


class TestOff:
    def off(self, job: Job) -> None:
        effects = job.tell(TuningSwitched(on=False))
        assert isinstance(effects[0], RewriteConfig)
        assert any(isinstance(each, Tell) and "scrtune off" in each.text for each in effects)

    def test_the_users_own_settings_come_back_and_nothing_is_tried_until_on(self) -> None:
        job = Job(CACHED).checkpoints(8)
        generation = job.pipeline.advice.generation
        self.off(job)
        advice = job.pipeline.advice
        assert advice.generation > generation
        assert {**job._own, **advice.settings} == {**DEFAULTS, **CACHED}
        assert set(TUNED) <= set(advice.settings), "each at its own value, since it was touched"
        assert advice.reason.startswith("back to the user's settings: scrtune off")
        assert job.pipeline.decisions[-1].because == "scrtune off: your own settings"
        assert not job.pipeline.on
        decisions = list(job.pipeline.decisions)
        job.checkpoints(12)
        assert list(job.pipeline.decisions) == decisions
        job.tell(TuningSwitched(on=True))
        job.checkpoints(6)
        assert job.verdicts[len(decisions) :][:2] == [
            ("what had won before", "trial"),
            ("what had won before", "accepted"),
        ]

    def test_a_trial_ends_without_a_verdict(self) -> None:
        job = Job(CACHED).checkpoints(4)
        self.off(job)
        assert job.verdicts == [
            (ASYNC, "trial"),
            (ASYNC, "reverted"),
            ("scrtune off", "back to the user's settings"),
        ]
        job.tell(TuningSwitched(on=True))
        job.checkpoints(6)
        assert (ASYNC, "accepted") in job.verdicts

    def test_said_twice_it_is_done_once(self) -> None:
        job = Job(CACHED).checkpoints(8)
        self.off(job)
        assert job.tell(TuningSwitched(on=False)) == []
        job.tell(TuningSwitched(on=True))
        assert job.tell(TuningSwitched(on=True)) == []

    def test_it_holds_for_the_next_runs_too_and_when_said_before_the_first(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
        self.off(job)
        assert job.pipeline.advice.at_launch == {}
        job.relaunch()
        job.start({**CACHED, "SCR_FLUSH": 2})
        decisions = list(job.pipeline.decisions)
        job.checkpoints(20, flush_every=2)
        assert list(job.pipeline.decisions) == decisions
        early = Pipeline()
        assert early.handle(TuningSwitched(on=False), T0) == []
        for now, event in Job(CACHED).checkpoints(8).journal:
            early.handle(event, now)
        assert list(early.decisions) == []


class TestRefused:
    def test_a_trial_that_the_ranks_refuse_is_taken_back_and_told(self) -> None:
        job = Job(CACHED).checkpoints(3)
        generation = job.pipeline.advice.generation
        effects = job.tell(ApplyRefused(generation=generation, why="SCR_CACHE_SIZE: no such symbol"))
        assert job.verdicts == [(ASYNC, "trial"), (ASYNC, "reverted")]
        assert "the ranks refused it: SCR_CACHE_SIZE: no such symbol" in job.pipeline.decisions[-1].because
        assert job.pipeline.settings == {**DEFAULTS, **CACHED}
        assert [type(each) for each in effects] == [RewriteConfig, Tell]
        job.checkpoints(20)
        assert job.verdicts.count((ASYNC, "trial")) == 1

    def test_one_of_another_generation_is_history(self) -> None:
        job = Job(CACHED).checkpoints(3)
        assert job.tell(ApplyRefused(generation=0, why="late")) == []
        assert job.tell(ApplyRefused(generation=99, why="never")) == []

    def test_what_they_will_not_take_back_stays_until_the_next_launch(self) -> None:
        job = Job(CACHED).checkpoints(4, slowed_s=9.0)
        assert job.verdicts[-1] == (ASYNC, "reverted")
        generation = job.pipeline.advice.generation
        job.tell(ApplyRefused(generation=generation, why="no re-init now"))
        assert job.verdicts[-1] == ("what the ranks refused", "vetoed")
        advice = job.pipeline.advice
        assert advice.generation == generation + 1
        assert {name: advice.settings[name] for name in TUNED} == TUNED, "it is what is in force"
        assert advice.at_launch == {name: DEFAULTS[name] for name in TUNED}
        job.relaunch()
        assert job.pipeline.settings == {**DEFAULTS, **CACHED}

    def test_ranks_that_refuse_everything_are_not_asked_for_ever(self) -> None:
        job = Job(CACHED).checkpoints(3)
        for _ in range(20):
            job.tell(ApplyRefused(generation=job.pipeline.advice.generation, why="no"))
        assert [verdict for _, verdict in job.verdicts] == ["trial", "reverted", "vetoed"]


mutabilities = st.fixed_dictionaries(
    {name: st.sampled_from(["live", "live on rank 0", "re-init", "launch", "inert"]) for name in REAL}
)
happenings = st.sampled_from(
    ["checkpoint"] * 12 + ["relaunch", "start", "off", "on", "edit", "refuse", "fail"]
)


def live_through(job: Job, happening: str, slowed_s: float) -> None:
    match happening:
        case "checkpoint":
            job.checkpoints(2, slowed_s=slowed_s)  # its ranks are never asked for what they cannot do
        case "relaunch":
            job.relaunch()
        case "start":
            job.start(CACHED)
        case "off" | "on":
            job.tell(TuningSwitched(on=happening == "on"))
        case "edit":
            job.tell(UserEdited(changes={"SCR_FLUSH_TYPE": "PTHREAD", "SCR_SET_SIZE": 4}))
        case "refuse":
            job.tell(ApplyRefused(generation=job.pipeline.advice.generation, why="no"))
        case "fail":
            job.flush_fails_async = not job.flush_fails_async


@given(mutabilities, st.lists(happenings, max_size=25), st.sampled_from([0.1, 9.0]))
def test_whatever_happens_no_run_is_asked_for_what_only_a_launch_can_change(
    mutability: dict[str, str], happened: list[str], slowed_s: float
) -> None:
    job = Job(CACHED, mutability=mutability, reinit_s=0.1, noise=0.1)
    for happening in happened:
        live_through(job, happening, slowed_s)
        for each in job.effects:
            if isinstance(each, RewriteConfig):
                assert not {n for n in each.advice.at_launch if n.startswith("SCRTUNE_")}
    again, effects = replayed(job.journal)
    assert effects == job.effects
    assert state(again, job.now) == state(job.pipeline, job.now)


@given(mutabilities, st.lists(happenings, max_size=25), st.sampled_from([0.1, 9.0]))
def test_off_always_ends_at_the_users_own_settings(
    mutability: dict[str, str], happened: list[str], slowed_s: float
) -> None:
    job = Job(CACHED, mutability=mutability, noise=0.1)
    for happening in happened:
        live_through(job, happening, slowed_s)
    job.tell(TuningSwitched(on=False))
    tuner, advice = job.pipeline.tuner, job.pipeline.advice
    assert tuner is not None
    assert tuner.trying is None
    levers = {name: value for name, value in tuner.baseline.items() if name.startswith("SCRTUNE_")}
    assert {**tuner.settings, **advice.at_launch, **levers} == {**tuner.baseline, **tuner.later}
    in_force = {**job._own, **advice.settings}
    assert all(in_force[name] == tuner.baseline[name] for name in REAL if not tuner.mutability.is_fixed(name))
    job.relaunch()
    at_last = {**job._own, **job.pipeline.advice.settings}
    assert {name: at_last[name] for name in DEFAULTS} == {
        **{name: tuner.baseline[name] for name in DEFAULTS},
        **tuner.later,
    }


def test_other_events_change_nothing_of_this() -> None:
    job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
    assert job.tell(EventsLost(source="x", count=1)) == []


def test_what_waits_for_a_launch_says_so() -> None:
    fixed = situation(mutability=RunMutability(parameters={**REAL, "SCR_SET_SIZE": "launch"}))
    assert only_at_launch(change(SCR_FLUSH=1), fixed) is None
    reason = only_at_launch(change(SCR_SET_SIZE=4, SCR_FLUSH=1), fixed)
    assert reason is not None
    assert reason.startswith("SCR_SET_SIZE: only a launch")


def test_every_run_shows_anew_that_its_files_do_not_meet_before_it_is_moved_to_the_cache() -> None:
    """A run that began in the cache by our file would look like one whose user chose that."""
    job = Job({"SCR_COPY_TYPE": "SINGLE"}, noise=0.0, mutability=REAL, nodes=2, floor="SINGLE")
    job.past_the_cache_s = 6.0
    job.checkpoints(14)
    assert ("cache instead of bypass", "accepted") in job.verdicts
    assert job.pipeline.advice.settings["SCR_CACHE_BYPASS"] == 0
    kept = job.pipeline.advice.kept
    assert kept is not None
    assert "SCR_CACHE_BYPASS" not in kept
    assert kept["SCR_FLUSH_ASYNC"] == 1
    job.relaunch()
    assert job.pipeline.settings["SCR_CACHE_BYPASS"] == 0, "it is asked for again, live"
    assert "SCR_CACHE_BYPASS" not in job.pipeline.advice.at_launch


def test_the_cache_is_no_thing_to_wait_for_until_the_next_launch() -> None:
    user: Values = {"SCR_COPY_TYPE": "SINGLE"}
    job = Job(user, noise=0.0, reinit_prior_s=100.0, mutability=REAL, nodes=2, floor="SINGLE")
    job.past_the_cache_s = 6.0
    job.checkpoints(6)
    assert ("cache instead of bypass", "vetoed") in job.verdicts
    assert job.pipeline.advice.at_launch == {}
