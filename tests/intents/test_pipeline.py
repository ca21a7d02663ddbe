"""The pipeline: events in, effects out; the whole loop on a simulated job."""

from itertools import pairwise

import pytest

from scrtune.goodput.events import (
    FlushCompleted,
    JobEnded,
    JobStarted,
    OutputCompleted,
)
from scrtune.intents.effects import Advice, Effect, Observe, RewriteConfig, Tell
from scrtune.intents.events import (
    SettingsObserved,
    TraceDigest,
    UserEdited,
)
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.settings import DEFAULTS, is_asynchronous
from scrtune.intents.tune.decisions import Verdict

from ..support.simulated_job import CACHED, GIB, T0, Job


def test_a_blocking_flush_becomes_asynchronous_and_stays_when_that_pays() -> None:
    job = Job(CACHED).checkpoints(12)
    assert job.words[:2] == ["trial", "accepted"]
    assert is_asynchronous(job.in_force)
    found = job.pipeline.decisions[0].comparison
    assert found is not None
    assert found.before_s == pytest.approx(5, rel=0.1)
    assert found.after_s == pytest.approx(1.1, rel=0.1)
    assert job.pipeline.tuner is not None
    assert job.pipeline.tuner.baseline_s == pytest.approx(5, rel=0.15)
    assert job.pipeline.tuner.current_s == pytest.approx(1.1, rel=0.1)


@pytest.mark.parametrize("slowed_s", [5.5, 6.0, 9.0])
def test_and_is_taken_back_exactly_when_it_does_not(slowed_s: float) -> None:
    job = Job(CACHED).checkpoints(12, slowed_s=slowed_s)
    assert job.words[0] == "trial"
    assert job.trying or job.in_force == {**DEFAULTS, **CACHED}
    assert job.pipeline.tuner is not None
    assert job.pipeline.tuner.baseline == {**DEFAULTS, **CACHED}
    tried = [cost.cost_s for cost in job.pipeline.costs if cost.blocking_s < 2]
    assert 1 <= len(tried) <= 6
    job.checkpoints(40, slowed_s=slowed_s)
    tried = [cost.cost_s for cost in job.pipeline.costs if cost.blocking_s < 2]
    lost_s = sum(cost_s - 5 for cost_s in tried)
    begun_s = 1 + slowed_s
    assert lost_s <= (0.9 + 0.015 * 52) * 5 + begun_s, "credit, overdraft, 1.5 % of each; one had begun"
    assert job.trying or job.in_force == {**DEFAULTS, **CACHED}


@pytest.mark.parametrize("slowed_s", [6.0, 9.0])
def test_and_is_given_up_when_it_becomes_dear_later(slowed_s: float) -> None:
    """What was learnt of the user's own settings before says nothing once the machine has changed."""
    job = Job(CACHED).settled()
    before = len(job.pipeline.costs)
    job.checkpoints(60, slowed_s=slowed_s)
    late = [cost.cost_s for cost in job.pipeline.costs[before:]]
    assert sum(cost_s > 1.2 * 5 for cost_s in late) <= 30
    assert job.in_force["SCR_FLUSH_ASYNC"] == 0


def test_each_change_rewrites_the_config_once_and_each_decision_is_told_once() -> None:
    job = Job(CACHED).checkpoints(30)
    published = [each.advice for each in job.effects if isinstance(each, RewriteConfig)]
    assert all(one != other for one, other in pairwise(published))
    generations = [each.generation for each in published]
    assert {cost.generation for cost in job.pipeline.costs} <= set(generations)
    assert generations == sorted(generations)
    assert published[-1] == job.pipeline.advice
    told = [each.text for each in job.effects if isinstance(each, Tell)]
    assert len(told) == len(job.pipeline.decisions) > 0


def test_advice_holds_what_the_user_set_and_what_was_tuned_and_says_why() -> None:
    job = Job(CACHED)
    assert job.pipeline.advice == Advice(settings=CACHED, kept={})
    job.until("trial")
    advice = job.pipeline.advice
    (trial,) = job.pipeline.decisions
    assert advice.settings == {**CACHED, **trial.changes}
    assert advice.reason.startswith("trial: ")
    assert "SCR_FLUSH_ASYNC=1" in advice.reason


def test_what_is_kept_for_the_next_launch_is_what_has_won_and_never_what_is_only_tried() -> None:
    job = Job(CACHED)
    job.pipeline = Pipeline()
    job.start(sources={"SCR_FLUSH": "environment", "SCR_COPY_TYPE": "SCR_Config"})
    job.until("trial")
    assert job.pipeline.advice.kept == {}, "neither the trial, nor what the environment or the program says"
    job.until("accepted")
    won = next(each.changes for each in job.pipeline.decisions if each.verdict is Verdict.ACCEPTED)
    in_a_file = {name: value for name, value in won.items() if not name.startswith("SCRTUNE_")}
    assert job.pipeline.advice.kept == in_a_file != {}
    published = [each.advice for each in job.effects if isinstance(each, RewriteConfig)]
    assert published[-1] == job.pipeline.advice, "a verdict is published although no setting changes"
    job.tell(UserEdited(changes={"SCR_SET_SIZE": 4}))
    assert job.pipeline.advice.kept == {"SCR_SET_SIZE": 4}, "they are measured first"


def test_what_an_earlier_job_left_in_the_file_is_given_back_at_once_and_is_not_the_users_word() -> None:
    left = {"SCR_FLUSH": 9, "SCR_FLUSH_ASYNC": 1}
    sources = dict.fromkeys(CACHED, "user config")
    job = Job(CACHED)
    job.pipeline = Pipeline()
    job.tell(JobStarted(time_s=T0))
    job.tell(SettingsObserved(settings={**DEFAULTS, **CACHED}, sources=sources, advised=left))
    assert job.pipeline.tuner is not None
    assert job.pipeline.tuner.baseline == {**DEFAULTS, **CACHED}
    advice = job.pipeline.advice
    assert advice.generation == 1, "generation 0 would be taken for what is in force"
    assert advice.settings == {**CACHED, "SCR_FLUSH_ASYNC": 0}
    assert advice.kept == {}
    (decision,) = job.pipeline.decisions
    assert (decision.changes, decision.previous) == ({"SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 0}, left)
    assert "an earlier job" in decision.because


def test_without_tuning_the_pipeline_only_watches() -> None:
    job = Job(CACHED, tuning=False).checkpoints(20)
    assert job.pipeline.advice == Advice(settings=CACHED, kept={})
    assert job.verdicts == []
    job = Job(CACHED, tuning=False, recommend=False).checkpoints(20)
    assert (job.verdicts, job.pipeline.proposals()) == ([], ())


def test_what_would_be_tried_is_proposed_although_nothing_is() -> None:
    (proposal,) = Job(CACHED, tuning=False).checkpoints(20).pipeline.proposals()
    assert proposal.changes["SCR_FLUSH_ASYNC"] == 1
    assert proposal.expected_gain_s == pytest.approx(4, rel=0.2)


def test_without_tuning_what_the_user_demands_is_proposed_alone() -> None:
    job = Job(CACHED, nodes=4, floor="XOR", tuning=False).checkpoints(3)
    assert job.pipeline.advice == Advice(settings=CACHED, kept={})
    assert {each.rule for each in job.pipeline.proposals() if each.required} == {"keep the redundancy floor"}


def test_a_durability_that_there_is_not_is_warned_about() -> None:
    for declared in ("", "strict", "next"):
        assert warnings(Job(CACHED, durability=declared)) == []
    (warned,) = warnings(Job(CACHED, durability="leaning"))
    assert "durability 'leaning' is not one of strict, next" in warned


def warnings(job: Job) -> list[str]:
    return [each.text for each in job.effects if isinstance(each, Tell) and each.level == "warning"]


def test_a_parameter_of_the_environment_is_never_changed_and_says_why() -> None:
    job = Job({})
    job.start(CACHED, sources={"SCR_FLUSH_ASYNC": "environment"})
    job.checkpoints(20)
    assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 0
    assert not any("SCR_FLUSH_ASYNC" in each.changes for each in job.pipeline.decisions)
    lever = next(each for each in job.pipeline.levers() if each.name == "SCR_FLUSH_ASYNC")
    assert "your environment sets it" in lever.why


def test_a_flush_that_fails_on_trial_ends_the_trial_for_good() -> None:
    job = Job(CACHED)
    job.flush_fails_async = True
    job.until("trial").checkpoints(1)
    assert job.words == ["trial", "reverted"]
    assert job.pipeline.decisions[-1].because.startswith("the flush of dataset")
    assert job.in_force == {**DEFAULTS, **CACHED}
    failed = job.pipeline.decisions[0].changes
    job.checkpoints(30)
    assert not [each for each in job.pipeline.decisions if each.changes == failed][1:]


def test_when_every_third_checkpoint_is_flushed_costs_are_those_of_a_whole_cycle() -> None:
    job = Job({**CACHED, "SCR_FLUSH": 3}, tuning=False)
    job.checkpoints(12, flush_every=3)
    (proposal,) = job.pipeline.proposals()
    assert proposal.expected_gain_s == pytest.approx(4 / 3, rel=0.3)
    job = Job({**CACHED, "SCR_FLUSH": 3})
    job.checkpoints(39, flush_every=3)
    assert job.pipeline.tuner is not None
    assert job.pipeline.tuner.baseline_s == pytest.approx(1 + 4 / 3, rel=0.3)
    assert is_asynchronous(job.in_force)
    assert job.pipeline.tuner.current_s == pytest.approx(1 + 0.1 / 3, rel=0.15)


def test_a_cost_under_settings_no_longer_in_force_is_charged_but_ends_no_trial() -> None:
    job = Job(CACHED).until("trial")
    tuner = job.pipeline.tuner
    assert tuner is not None
    left_s = tuner.budget.left_s
    late = OutputCompleted(
        dataset=99, name="late", start_s=job.now, end_s=job.now + 5, generation=0, bytes=4 * GIB, files=16
    )
    job.tell(late)
    assert tuner.budget.left_s == pytest.approx(left_s + 0.015 * tuner.baseline_s, rel=0.01)
    assert tuner.trying is not None


def test_the_last_flush_of_a_job_has_no_computation_beside_it_and_says_nothing_of_others() -> None:
    job = Job({**CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"})
    job.checkpoints(4)
    assert job.pipeline.tuner is not None
    count = job.pipeline.tuner.learner.observations.count
    output = OutputCompleted(dataset=5, name="d", start_s=job.now, end_s=job.now + 1, flush_due=True)
    job.tell(output)
    job.tell(FlushCompleted(dataset=5, start_s=job.now + 1, end_s=job.now + 1.5, asynchronous=True))
    job.tell(JobEnded(time_s=job.now + 2))
    assert len(job.pipeline.costs) == 5
    assert job.pipeline.tuner.learner.observations.count == count


class TestObservation:
    """What is traced; `tests/intents/observe/test_observation.py` has when it ends."""

    def output(self, job: Job, **traced: float) -> list[Effect]:
        job.now += 100.0
        output = OutputCompleted(dataset=1, name="d", start_s=job.now - 3, end_s=job.now, write_s=1, **traced)
        return [effect for effect in job.tell(output) if isinstance(effect, Observe)]

    def test_its_end_and_its_next_beginning_are_told_once(self) -> None:
        job = Job(CACHED, observe_budget=0.001)
        assert self.output(job, observed=1000, observe_s=1.0) == [Observe(on=False)]
        assert [self.output(job) for _ in range(3)] == [[]] * 3
        job.tell(JobStarted(time_s=job.now))
        told = [each for each in job.effects if isinstance(each, Observe)]
        assert told == [Observe(on=False), Observe(on=True)]

    def test_a_new_run_is_traced_on_all_ranks(self) -> None:
        job = Job(CACHED)
        assert self.output(job, observed=10) == []
        assert job.tell(JobStarted(time_s=job.now)) == [Observe(on=True)]

    def test_a_change_of_settings_does_not_begin_it_again(self) -> None:
        job = Job(CACHED)
        self.output(job, observed=1000, observe_s=1000.0)
        job.checkpoints(12)
        assert job.pipeline.decisions
        assert not job.pipeline.observing.observation.on

    def test_a_node_without_rank_zero_ends_it_by_what_it_has_seen(self) -> None:
        pipeline = Pipeline()
        digest = TraceDigest(start_s=T0, end_s=T0 + 1, lines=9_000, events=9_000)
        told = [pipeline.handle(digest, T0) for _ in range(6)]
        assert told == [[], [], [Observe(on=False)], [], [Observe(on=False)], []]
        job = Job(CACHED)
        assert [job.tell(digest) for _ in range(6)] == [[]] * 6, "rank 0's node hears of the outputs"

    def test_what_it_costs_is_no_cost_of_the_settings(self) -> None:
        job = Job(CACHED)
        self.output(job, observed=1000, observe_s=0.5)
        (cost,) = job.pipeline.costs
        assert cost.observe_s == 0.5
        assert cost.blocking_s == pytest.approx(3 - 0.5)
        assert job.pipeline.account(job.now).buckets["observation"] == pytest.approx(0.5)


class TestRestarts:
    def tuned(self) -> Job:
        job = Job(CACHED).settled()
        assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 1
        return job

    def test_a_run_that_finds_what_was_tuned_goes_on_from_there(self) -> None:
        job = self.tuned()
        assert job.pipeline.tuner is not None
        decisions, advice = list(job.pipeline.decisions), job.pipeline.advice
        in_the_file = {
            name: value for name, value in advice.settings.items() if not name.startswith("SCRTUNE_")
        }
        job.start(in_the_file)
        assert list(job.pipeline.decisions) == decisions
        assert job.pipeline.advice == advice
        assert job.pipeline.tuner.baseline == {**DEFAULTS, **CACHED}

    def test_a_run_without_our_file_goes_on_too(self) -> None:
        job = self.tuned()
        advice = job.pipeline.advice
        job.start(CACHED)
        assert job.pipeline.advice == advice

    def test_within_a_trial_the_run_ends_the_trial_and_it_may_be_made_again(self) -> None:
        job = Job(CACHED).until("trial")
        job.start(job.pipeline.advice.settings)
        assert job.words == ["trial", "reverted"]
        assert job.in_force == {**DEFAULTS, **CACHED}
        job.checkpoints(6)
        assert "accepted" in job.words

    def test_other_settings_are_the_users_word_and_a_new_baseline(self) -> None:
        job = self.tuned()
        generation = job.pipeline.advice.generation
        job.start({**CACHED, "SCR_FLUSH": 5})
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline == {**DEFAULTS, **CACHED, "SCR_FLUSH": 5}
        assert job.pipeline.settings == job.pipeline.tuner.baseline
        assert job.pipeline.advice.generation > generation
        assert job.verdicts[-1] == ("a run under other settings", "back to the user's settings")

    def test_what_the_environment_sets_to_a_tuned_value_is_pinned(self) -> None:
        job = self.tuned()
        job.start(job.pipeline.advice.settings, sources={"SCR_FLUSH_ASYNC": "environment"})
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline["SCR_FLUSH_ASYNC"] == 1
        assert job.pipeline.job is not None
        assert job.pipeline.job.sources["SCR_FLUSH_ASYNC"] == "environment"

    def test_a_flush_of_the_run_before_is_not_waited_for(self) -> None:
        job = self.tuned()
        costs = len(job.pipeline.costs)
        job.tell(OutputCompleted(dataset=77, name="d", start_s=job.now, end_s=job.now + 1, flush_due=True))
        job.start(CACHED)
        job.tell(FlushCompleted(dataset=77, start_s=job.now, end_s=job.now))
        assert len(job.pipeline.costs) == costs


class TestRedundancyFloor:
    def test_a_declared_floor_is_met_before_anything_is_measured(self) -> None:
        job = Job(CACHED, nodes=2, floor="NODE")
        assert job.verdicts == [("keep the redundancy floor", "required")]
        assert job.pipeline.advice.settings["SCR_COPY_TYPE"] == "PARTNER"
        assert any(isinstance(effect, Tell) for effect in job.effects)

    def test_it_is_never_undercut(self) -> None:
        job = Job({**CACHED, "SCR_COPY_TYPE": "XOR"}, nodes=2, floor="NODE").checkpoints(60)
        tried = {decision.changes.get("SCR_COPY_TYPE", "XOR") for decision in job.pipeline.decisions}
        assert tried <= {"XOR", "PARTNER", "RS"}

    def test_one_that_the_environment_forbids_is_told(self) -> None:
        job = Job({}, nodes=2, floor="NODE")
        job.start(CACHED, sources={"SCR_COPY_TYPE": "environment"})
        assert job.verdicts[-1] == ("keep the redundancy floor", "vetoed")
        assert job.pipeline.settings["SCR_COPY_TYPE"] == "SINGLE"

    def test_one_that_nobody_knows_is_told(self) -> None:
        job = Job(CACHED, floor="everything")
        assert [each.level for each in job.effects if isinstance(each, Tell)] == ["warning"]
