"""What can change while a run lives, and what a re-initialization costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import OutputCompleted
from scrtune.intents.effects import RewriteConfig, Tell
from scrtune.intents.events import (
    ApplyRefused,
    EventsLost,
    SettingsObserved,
    Values,
)
from scrtune.intents.mutability import Mutability, RunMutability
from scrtune.intents.settings import DEFAULTS, is_asynchronous
from scrtune.intents.tune.active_settings import ActiveSettings
from scrtune.intents.tune.applied_settings import AppliedSettings
from scrtune.intents.tune.decisions import Verdict

from ..support.simulated_job import CACHED, REAL, Job, replayed, state
from .happenings import AT_LAUNCH, OWN, asks_for, happenings, live_through, mutabilities


def output(generation: int, apply_s: float) -> OutputCompleted:
    return OutputCompleted(
        dataset=1, name="d", start_s=0.0, end_s=9.0, generation=generation, apply_s=apply_s
    )


class TestRunMutability:
    @pytest.mark.parametrize("word", ["inert", "none"])
    def test_the_words_of_the_library_and_of_the_catalogue_are_both_read(self, word: str) -> None:
        assert RunMutability(parameters={"SCR_FLUSH_WIDTH": word}).of("SCR_FLUSH_WIDTH") is Mutability.INERT

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
        ranks.apply(output(1, 0.5), active, was_flushed=True)
        assert ranks.reinit_s == 0, "that was no re-init"
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 2})
        ranks.apply(output(2, 0.5), active, was_flushed=True)
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 1})
        ranks.apply(output(3, 0.7), active, was_flushed=True)
        assert ranks.reinit_s == pytest.approx(0.6)
        active.put({"SCR_FLUSH": 2, "SCR_CACHE_SIZE": 2})
        ranks.apply(output(4, 9.0), active, was_flushed=False)
        assert ranks.reinit_s == pytest.approx(0.6), "most of that was the flush that it forced"

    def test_what_one_took_is_charged_and_is_no_cost_of_the_settings(self) -> None:
        job = Job(CACHED, reinit_s=0.5, noise=0.0, mutability=REAL).until("accepted")
        free = Job(CACHED, noise=0.0, mutability=REAL).until("accepted")
        assert job.applied_s == 0.5
        assert sum(cost.apply_s for cost in job.pipeline.costs) == 0.5
        assert [cost.cost_s for cost in job.pipeline.costs] == pytest.approx(
            [cost.cost_s for cost in free.pipeline.costs]
        )
        budgets = [each.pipeline.tuner.budget.left_s for each in (job, free) if each.pipeline.tuner]
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
        job = Job(CACHED, noise=0.0, init_s=500.0, mutability=REAL).checkpoints(20)
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


def test_other_events_change_nothing_of_this() -> None:
    job = Job(CACHED, mutability=AT_LAUNCH).checkpoints(8)
    assert job.tell(EventsLost(source="x", count=1)) == []
