"""What this job's SCR cannot change while it runs: what must pay, what waits for a launch, and off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.daemon.views import status_view
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
from scrtune.intents.mutability import RunMutability
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.settings import DEFAULTS, is_asynchronous, is_cached
from scrtune.intents.tune.active_settings import ActiveSettings, AppliedSettings
from scrtune.intents.tune.decisions import Verdict

from ..support.simulated_job import CACHED, REAL, T0, Job, replayed, state

AT_LAUNCH = {**REAL, "SCR_FLUSH_ASYNC": "launch"}
OWN: Values = {**DEFAULTS, **CACHED}


def output(generation: int, apply_s: float) -> OutputCompleted:
    return OutputCompleted(
        dataset=1, name="d", start_s=0.0, end_s=9.0, generation=generation, apply_s=apply_s
    )


def asks_for(job: Job) -> Values:
    """What the next launch makes active, levers aside."""
    return job.pipeline.advice.at_launch


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


class TestReinits:
    def test_what_a_reinit_took_counts_from_then_on(self) -> None:
        first: Values = {"SCR_FLUSH": 1, "SCR_CACHE_SIZE": 1}
        ranks, active = AppliedSettings(), ActiveSettings(first, RunMutability(parameters=REAL, found=first))
        ranks.begin_run(SettingsObserved(settings=first), 0.0)
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 1})
        ranks.apply(output(1, 0.5), active)
        assert ranks.reinit_s == 0, "that was no re-init"
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 2})
        ranks.apply(output(2, 0.5), active)
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 1})
        ranks.apply(output(3, 0.7), active)
        assert ranks.reinit_s == pytest.approx(0.6)

    def test_what_one_took_is_charged_and_is_no_cost_of_the_settings(self) -> None:
        job = Job(CACHED, reinit_s=0.5, noise=0.0, mutability=REAL).until("accepted")
        free = Job(CACHED, noise=0.0, mutability=REAL).until("accepted")
        assert job.applied_s == 0.5
        assert sum(cost.apply_s for cost in job.pipeline.costs) == 0.5
        assert [cost.cost_s for cost in job.pipeline.costs] == pytest.approx(
            [cost.cost_s for cost in free.pipeline.costs]
        )
        budgets = [each.pipeline.tuner.trial_budget_s for each in (job, free) if each.pipeline.tuner]
        assert budgets[0] == pytest.approx(budgets[1] - 0.5)

    def test_a_step_that_is_better_is_not_given_back_because_the_way_was_dear(self) -> None:
        job = Job(CACHED, reinit_s=3.0, noise=0.0, mutability=REAL).settled()
        assert is_asynchronous(job.in_force)
        assert "reverted" not in job.words[:2]

    def test_until_then_it_is_expected_to_take_more_than_scr_init_took(self) -> None:
        def prior_s(init_s: float) -> float:
            return Job(CACHED, init_s=init_s, mutability=REAL).pipeline.situation.reinit_prior_s

        assert 0.004 < prior_s(0.004) < prior_s(0.0) < prior_s(1.0), "0: what SCR_Init took is not known"
        assert prior_s(1.0) > 1.0

    def test_one_that_does_not_pay_is_not_made(self) -> None:
        job = Job(CACHED, noise=0.0, init_s=50.0, mutability=REAL).checkpoints(20)
        assert job.applied_s == 0
        assert not is_asynchronous(job.in_force)
        assert asks_for(job)["SCR_FLUSH_ASYNC"] == 1, "the next launch begins with it"

    def test_at_a_launch_it_is_had_for_nothing(self) -> None:
        job = Job(CACHED, noise=0.0, init_s=50.0, mutability=REAL).checkpoints(6)
        assert not is_asynchronous(job.in_force)
        assert asks_for(job)["SCR_FLUSH_ASYNC"] == 1
        job.relaunch()
        assert job.words[-1] == "trial"
        job.until("accepted")
        assert is_asynchronous(job.in_force)
        assert job.applied_s == 0


class TestNextLaunch:
    def waiting(self) -> Job:
        return Job(CACHED, mutability=AT_LAUNCH).until("pending")

    def test_what_only_a_launch_can_change_waits_for_it_and_is_in_the_config_file_only(self) -> None:
        job = self.waiting()
        pending = next(each for each in job.pipeline.decisions if each.verdict is Verdict.PENDING)
        assert "SCR_FLUSH_ASYNC: only a launch can change it" in pending.because
        assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 0
        assert "SCR_FLUSH_ASYNC" not in job.pipeline.advice.settings
        assert asks_for(job).items() >= {"SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}.items()
        rewrites = [each.advice for each in job.effects if isinstance(each, RewriteConfig)]
        assert any(each.at_launch.get("SCR_FLUSH_ASYNC") == 1 for each in rewrites)
        assert not any("pending" in each.reason for each in rewrites), "nothing was done"

    def test_the_next_run_begins_with_it_and_it_stays_if_that_was_cheaper(self) -> None:
        job = self.waiting()
        job.relaunch()
        trial = job.pipeline.decisions[-1]
        assert trial.verdict is Verdict.TRIAL
        assert trial.because.endswith("this run began with it")
        job.checkpoints(6)
        (judged,) = [each for each in job.pipeline.decisions if each.rule == trial.rule][-1:]
        assert judged.verdict is Verdict.ACCEPTED
        job.settled()
        job.relaunch()
        assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 1
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline["SCR_FLUSH_ASYNC"] == 0
        assert "SCR_FLUSH_ASYNC" not in asks_for(job)

    def test_what_is_worse_is_taken_back_as_a_whole_by_the_launch_after(self) -> None:
        job = self.waiting()
        tried = asks_for(job)
        job.relaunch()
        job.checkpoints(6, slowed_s=15.0)
        undone = next(each for each in reversed(job.pipeline.decisions) if each.verdict is Verdict.REVERTED)
        assert "until the next launch it stays active" in undone.because
        assert {name: job.in_force[name] for name in tried} == tried, "no half of it"
        assert asks_for(job) == {name: OWN[name] for name in tried}
        job.relaunch()
        assert {name: job.in_force[name] for name in tried} == {name: OWN[name] for name in tried}
        assert asks_for(job) == {}

    def test_a_run_that_ends_too_early_to_tell_is_followed_by_one_that_goes_on(self) -> None:
        job = self.waiting()
        for _ in range(2):
            job.relaunch()
            assert job.trying is not None
            assert "this run began with it" in job.trying.because
            job.checkpoints(1, slowed_s=4.5)
        assert job.words[-1] == "trial"

    def test_one_in_which_no_checkpoint_was_measured_is_the_last_with_it(self) -> None:
        job = self.waiting()
        job.relaunch()
        job.relaunch()
        assert job.words[-1] == "reverted"
        assert "no checkpoint was measured" in job.pipeline.decisions[-1].because
        job.relaunch()
        assert job.pipeline.settings == OWN

    def test_a_launch_that_did_not_read_the_file_tries_nothing_and_it_waits_on(self) -> None:
        job = self.waiting()
        told, wanted = list(job.verdicts), asks_for(job)
        job.start(CACHED)
        assert job.verdicts == told
        assert asks_for(job) == wanted

    def test_a_floor_that_only_a_launch_can_keep_is_kept_from_the_next_one_on(self) -> None:
        fixed = {**REAL, "SCR_COPY_TYPE": "launch"}
        job = Job(CACHED, nodes=2, floor="NODE", mutability=fixed)
        assert job.verdicts == [("keep the redundancy floor", "required")]
        assert "from the next launch on" in job.pipeline.decisions[0].because
        assert job.pipeline.settings["SCR_COPY_TYPE"] == "SINGLE"
        assert asks_for(job) == {"SCR_COPY_TYPE": "PARTNER"}
        job.checkpoints(8)
        job.relaunch()
        assert job.pipeline.tuner is not None
        assert job.pipeline.settings["SCR_COPY_TYPE"] == "PARTNER"
        assert job.pipeline.tuner.baseline["SCR_COPY_TYPE"] == "PARTNER"
        assert "SCR_COPY_TYPE" not in asks_for(job)

    def test_an_edit_of_what_only_a_launch_can_change_is_the_users_word_from_then_on(self) -> None:
        fixed = {**REAL, "SCR_SET_SIZE": "launch"}
        job = Job(CACHED, mutability=fixed)
        job.tell(UserEdited(changes={"SCR_SET_SIZE": 4, "SCR_FLUSH": 2}))
        assert "SCR_SET_SIZE from the next launch on" in job.pipeline.decisions[-1].because
        advice = job.pipeline.advice
        assert (advice.settings["SCR_FLUSH"], advice.settings["SCR_SET_SIZE"]) == (2, 8)
        assert advice.at_launch == {"SCR_SET_SIZE": 4}
        job.checkpoints(12, flush_every=2)
        assert "trial" in job.words, "which is no reason not to tune"
        job.relaunch()
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline["SCR_SET_SIZE"] == job.pipeline.settings["SCR_SET_SIZE"] == 4

    def test_every_run_shows_anew_that_its_files_do_not_meet_before_it_is_moved_to_the_cache(self) -> None:
        """A run that began in the cache by our file would look like one whose user chose that."""
        job = Job({"SCR_COPY_TYPE": "SINGLE"}, noise=0.0, mutability=REAL, nodes=2, floor="SINGLE")
        job.past_the_cache_s = 20.0
        job.settled()
        assert is_cached(job.in_force)
        kept = job.pipeline.advice.kept
        assert kept is not None
        assert "SCR_CACHE_BYPASS" not in kept
        job.relaunch()
        assert job.pipeline.settings["SCR_CACHE_BYPASS"] == 0, "it is asked for again, live"
        assert "SCR_CACHE_BYPASS" not in asks_for(job)

    def test_the_cache_is_no_thing_to_wait_for_until_the_next_launch(self) -> None:
        user: Values = {"SCR_COPY_TYPE": "SINGLE"}
        job = Job(user, noise=0.0, init_s=5e3, mutability=REAL, nodes=2, floor="SINGLE")
        job.past_the_cache_s = 20.0
        job.checkpoints(6)
        assert not is_cached(job.in_force)
        assert asks_for(job) == {}


class TestOff:
    def off(self, job: Job) -> None:
        effects = job.tell(TuningSwitched(on=False))
        assert isinstance(effects[0], RewriteConfig)
        assert any(isinstance(each, Tell) and "scrtune off" in each.text for each in effects)

    def test_the_users_own_settings_come_back_and_nothing_is_tried_until_on(self) -> None:
        job = Job(CACHED).settled()
        generation, won = job.pipeline.advice.generation, job.in_force
        self.off(job)
        advice = job.pipeline.advice
        assert advice.generation > generation
        assert job.in_force == OWN
        changed = {name for name in OWN if won[name] != OWN[name]}
        assert changed <= set(advice.settings), "each at its own value, since it was touched"
        assert advice.reason.startswith("back to the user's settings: scrtune off")
        assert job.pipeline.decisions[-1].because == "scrtune off: your own settings"
        assert not job.pipeline.on
        decisions = list(job.pipeline.decisions)
        job.checkpoints(12)
        assert list(job.pipeline.decisions) == decisions
        job.tell(TuningSwitched(on=True))
        job.checkpoints(6)
        assert is_asynchronous(job.in_force), "what was learnt is not forgotten"

    def test_a_trial_ends_without_a_verdict(self) -> None:
        job = Job(CACHED).until("trial")
        self.off(job)
        assert job.words == ["trial", "reverted", "back to the user's settings"]
        job.tell(TuningSwitched(on=True))
        job.checkpoints(6)
        assert "accepted" in job.words

    def test_said_twice_it_is_done_once(self) -> None:
        job = Job(CACHED).checkpoints(8)
        self.off(job)
        assert job.tell(TuningSwitched(on=False)) == []
        job.tell(TuningSwitched(on=True))
        assert job.tell(TuningSwitched(on=True)) == []

    def test_it_holds_for_the_next_runs_too_and_when_said_before_the_first(self) -> None:
        job = Job(CACHED, mutability=AT_LAUNCH).until("pending")
        self.off(job)
        assert asks_for(job) == {}
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
    def test_a_trial_that_the_ranks_refuse_is_taken_back_told_and_not_asked_for_again(self) -> None:
        job = Job(CACHED).until("trial")
        generation, tried = job.pipeline.advice.generation, job.pipeline.decisions[-1].changes
        effects = job.tell(ApplyRefused(generation=generation, why="SCR_CACHE_SIZE: no such symbol"))
        assert job.words == ["trial", "reverted"]
        assert "the ranks refused it: SCR_CACHE_SIZE: no such symbol" in job.pipeline.decisions[-1].because
        assert job.pipeline.settings == OWN
        assert [type(each) for each in effects] == [RewriteConfig, Tell]
        job.checkpoints(20)
        trials = [each.changes for each in job.pipeline.decisions if each.verdict is Verdict.TRIAL]
        assert trials.count(tried) == 1

    def test_one_of_another_generation_is_history(self) -> None:
        job = Job(CACHED).until("trial")
        assert job.tell(ApplyRefused(generation=0, why="late")) == []
        assert job.tell(ApplyRefused(generation=99, why="never")) == []

    def test_what_they_will_not_take_back_stays_until_the_next_launch(self) -> None:
        job = Job(CACHED).until("reverted", slowed_s=9.0)
        tried = job.pipeline.decisions[0].changes
        generation = job.pipeline.advice.generation
        job.tell(ApplyRefused(generation=generation, why="no re-init now"))
        assert job.verdicts[-1] == ("what the ranks refused", "vetoed")
        advice = job.pipeline.advice
        assert advice.generation == generation + 1
        assert {name: advice.settings[name] for name in tried} == tried, "it is what is in force"
        in_a_file = {name for name in tried if not name.startswith("SCRTUNE_")}
        assert advice.at_launch == {name: DEFAULTS[name] for name in in_a_file}
        job.relaunch()
        assert job.pipeline.settings == OWN

    def test_ranks_that_refuse_everything_are_not_asked_for_ever(self) -> None:
        job = Job(CACHED).until("trial")
        for _ in range(20):
            job.tell(ApplyRefused(generation=job.pipeline.advice.generation, why="no"))
        assert job.words == ["trial", "reverted", "vetoed"]


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


def test_an_interval_that_waits_for_the_launch_is_not_said_to_be_found() -> None:
    job = Job(CACHED, mutability={**REAL, "SCR_CHECKPOINT_SECONDS": "launch"})
    job.tell(UserEdited(changes={"SCR_CHECKPOINT_SECONDS": 600}))
    assert job.pipeline.advice.at_launch["SCR_CHECKPOINT_SECONDS"] == 600
    assert status_view(job.pipeline, job.now, job_id="j", host="n").savings.interval == {}
