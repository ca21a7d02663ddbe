"""The tuner on the simulated jobs of `make bench-tuner`, few and short: safe first, and of use."""

import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced

from scrtune.goodput.events import FlushCompleted, OutputCompleted
from scrtune.intents.events import KnowledgeRecalled
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.rules.levers import LEVERS, Component
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.choice.judge import MOST_LOOKS
from scrtune.intents.tune.decisions import Verdict
from scrtune.intents.tune.tuner import Tuner

from ...support.simulated_job import CACHED, GIB, REAL, Job

sys.path.append(str(Path(__file__).parents[3]))  # benchmarks are no part of the package

from benchmarks.tuner.drive import Outcome, Run, case, simulate

JOBS = 9


@cache
def outcomes(scenario: str, start: str) -> list[Outcome]:
    return [simulate(scenario, start, seed, 40, lambda _: Pipeline()) for seed in range(JOBS)]


def against(made: list[Outcome], what: str) -> list[float]:
    """Return the ratios of what the jobs lost to what they would have lost under `what`."""
    return [each.tuned_s[-1] / getattr(each, what)[-1] for each in made]


def middle(ratios: list[float]) -> float:
    return float(prod(ratios) ** (1 / len(ratios)))


@pytest.mark.parametrize("start", ["defaults", "poor", "random", "optimal"])
def test_inside_the_rails_and_without_harm(start: str) -> None:
    made = outcomes("mixed", start)
    assert [each.outside for each in made] == [0] * JOBS
    ratios = against(made, "own_s")
    assert sum(each > 1.02 for each in ratios) <= 1
    assert max(ratios) <= 1.10


def test_poor_settings_are_left_within_a_few_checkpoints() -> None:
    made = outcomes("mixed", "poor")
    assert middle(against(made, "own_s")) <= 0.45
    assert middle(against(made, "oracle_s")) <= 1.35
    within = [each.steady_s[19] <= 1.05 * each.steady_best_s[19] for each in made]
    assert sum(within) >= JOBS - 2


def test_scrs_defaults_come_near_the_best() -> None:
    assert middle(against(outcomes("mixed", "defaults"), "oracle_s")) <= 1.25


def test_a_reinit_forces_a_flush_unless_the_newest_checkpoint_is_flushed() -> None:
    """A flush that outlasts the interval ends when there are newer checkpoints, which are not."""

    def output(tuner: Tuner, dataset: int) -> None:
        tuner.output(
            OutputCompleted(dataset=dataset, name="d", start_s=10.0 * dataset, end_s=10.0 * dataset + 1),
            now=0.0,
        )

    def flushed(tuner: Tuner, dataset: int, source: str = "engine") -> None:
        done = FlushCompleted(dataset=dataset, start_s=0.0, end_s=1.0, asynchronous=True, source=source)
        tuner.flushed(done)

    tuner = Tuner({**DEFAULTS, **CACHED, "SCR_FLUSH": 2})
    output(tuner, 1)
    assert not tuner.datasets.is_newest_flushed
    output(tuner, 2)
    flushed(tuner, 2)
    assert tuner.datasets.is_newest_flushed
    output(tuner, 3)
    flushed(tuner, 2)
    assert not tuner.datasets.is_newest_flushed
    output(tuner, 4)
    flushed(tuner, 4, source="scr")
    assert not tuner.datasets.is_newest_flushed, "SCR notices it in the next output: no decision reaches that"
    assert tuner.datasets.is_last_flushed, "a re-init before that one had no flush to force"
    output(tuner, 5)
    assert not tuner.datasets.is_last_flushed
    past = Tuner(DEFAULTS)
    output(past, 1)
    assert past.datasets.is_newest_flushed


def test_nothing_that_changes_flushes_is_tried_before_the_first_one_was_measured() -> None:
    """Every checkpoint before it is cheap, whatever the flush will cost."""
    of_flushes = {lever.name for lever in LEVERS if Component.FLUSH in lever.components}
    made = case("small-files", "optimal", 1017, 9)
    assert made.own["SCR_FLUSH"] == 10
    run = Run(made, pipeline := Pipeline())
    for noise in made.noise:
        run.checkpoint(noise)
    tried = [each.changes for each in pipeline.decisions if each.verdict is Verdict.TRIAL]
    assert not [each for each in tried if of_flushes & each.keys()]


def test_a_trial_whose_flush_lets_an_output_wait_too_long_ends_with_that_output() -> None:
    made = case("io-bound", "defaults", 50010, 8)
    run = Run(made, pipeline := Pipeline())
    waited, settings = [], []
    for noise in made.noise:
        left_s = pipeline.tuner.budget.left_s if pipeline.tuner else 0.0
        found = run.checkpoint(noise)
        waited.append(found.wait_s > left_s + made.truth.cost_s(made.own))
        settings.append(run.settings)
    expensive = waited.index(True)
    assert settings[expensive] != made.own
    assert settings[expensive + 1 :] == [made.own] * (len(settings) - expensive - 1)


def test_the_way_back_waits_for_a_flush_that_is_due_where_it_would_force_one() -> None:
    made = case("io-bound", "defaults", 6125, 14)
    run = Run(made, Pipeline())
    settings, changed = [made.own], []
    for noise in made.noise:
        apply_s = run.checkpoint(noise).apply_s
        settings.append(run.settings)
        if apply_s:
            changed.append((len(settings) - 1, apply_s))
    (_, there_s), (back, back_s) = changed
    assert settings[back - 1]["SCR_FLUSH"] == 10
    assert settings[back] == made.own
    assert back % 10 == 1, "the one before was flushed"
    assert max(there_s, back_s) < 1.5 * made.job.reinit_s


def test_settings_that_checkpoints_have_outgrown_are_left_at_once() -> None:
    """What fitted into the cache when it was tried: 4 GiB, of 64 GiB free."""
    job = Job({"SCR_COPY_TYPE": "SINGLE"}, floor="PROCESS", mutability=REAL)
    job.past_the_cache_s = 20.0
    job.settled()
    assert job.in_force["SCR_CACHE_BYPASS"] == 0
    job.look_at_node(60 * GIB)
    job.checkpoint_bytes = 24 * GIB
    job.checkpoint()
    assert job.in_force["SCR_CACHE_BYPASS"] == 0, "there is room for 40 GiB more: two places"
    job.checkpoint_bytes = 80 * GIB
    job.checkpoint()
    assert job.in_force["SCR_CACHE_BYPASS"] == 1
    (back,) = (each for each in job.pipeline.decisions if each.verdict is Verdict.BASELINE)
    assert "checkpoints have grown to 80 GiB instead of 4 GiB" in back.because
    job.checkpoints(10)
    assert job.in_force["SCR_CACHE_BYPASS"] == 1, "and not tried again"


def test_what_the_cache_holds_while_its_flush_is_under_way_is_no_growth() -> None:
    """One dataset fits, and a node that is observed with it in the cache has no room for a second one."""
    made = case("io-bound", "defaults", 2007, 12)
    held_bytes = made.job.held_bytes({**made.own, "SCR_CACHE_BYPASS": 0})
    assert made.job.cache_free_bytes < 2 * held_bytes
    run = Run(made, pipeline := Pipeline())
    for noise in made.noise:
        run.checkpoint(noise)
    assert [each.verdict for each in pipeline.decisions] == [Verdict.TRIAL, Verdict.ACCEPTED]
    assert run.settings["SCR_CACHE_BYPASS"] == 0


def test_what_is_surely_cheaper_stays_when_a_trial_has_used_up_the_budget() -> None:
    """The re-init took more than the budget had. Without the overdraft a second one undoes it."""
    made = case("io-bound", "random", 5025, 24)
    run, left_s = Run(made, pipeline := Pipeline()), []
    for noise in made.noise:
        run.checkpoint(noise)
        left_s.append(pipeline.tuner.budget.left_s if pipeline.tuner else 0.0)
    assert min(left_s) < 0
    assert Verdict.BASELINE not in [each.verdict for each in pipeline.decisions]
    assert run.settings != made.own
    assert left_s[-1] > 0


def test_the_users_own_settings_come_first() -> None:
    for user in ({}, CACHED):
        job = Job(user)
        assert not job.pipeline.decisions
        job.checkpoint()
        assert [cost.generation for cost in job.pipeline.costs] == [0]


def test_a_job_that_is_only_watched_costs_no_more_updates_than_a_settled_one() -> None:
    """The belief is updated after each fourth checkpoint."""
    job = Job(CACHED, mutability=REAL, tuning=False).checkpoints(9)
    believed = []
    for _ in range(12):
        job.checkpoint()
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.belief is not None
        believed.append(job.pipeline.tuner.belief.totals.tobytes())
    assert len(set(believed)) == 4
    assert [each.changes for each in job.pipeline.proposals()], "and it recommends"


def test_each_trial_says_what_is_expected_what_was_seen_and_what_is_left() -> None:
    job = Job(CACHED, mutability=REAL).settled()
    trials = [each for each in job.pipeline.decisions if each.verdict is Verdict.TRIAL]
    for each in trials:
        assert each.because
        assert each.budget_s > 0
        assert each.expected is not None
        assert each.seen is not None
        assert each.comparison is not None
        assert each.checkpoints >= 1
        assert each.expected.cost_s > 0
    assert trials


def test_every_lever_says_why_it_is_as_it_is() -> None:
    job = Job(CACHED, mutability=REAL)
    assert all(each.why for each in job.pipeline.levers())
    job.settled()
    for each in job.pipeline.levers():
        assert each.why
        assert each.value == job.in_force.get(each.name, 0)


def test_in_a_long_job_memory_is_bounded() -> None:
    job = Job(CACHED)
    for _ in range(500):
        job.checkpoint()
        job.journal.clear()
        job.effects.clear()
    assert len(job.pipeline.decisions) <= 1000
    assert job.pipeline.tuner is not None
    assert len(job.pipeline.tuner.learner.observations.all) <= 64


def test_what_was_learnt_brings_the_next_job_there_sooner() -> None:
    first = Job(CACHED).settled()
    knowledge = first.pipeline.knowledge
    assert knowledge is not None
    assert knowledge.settings["SCR_FLUSH_ASYNC"] == 1
    assert knowledge.cost_s < 0.5 * knowledge.baseline_s
    assert (knowledge.jobs, knowledge.checkpoints) == (1, len(first.pipeline.costs))
    assert "1 earlier job" in knowledge.sentence()
    assert Pipeline().knowledge is None
    second = Job(CACHED, seed=1)
    second.pipeline = Pipeline()
    second.tell(KnowledgeRecalled(knowledge=knowledge))
    second.start()
    second.until("accepted")
    alone = Job(CACHED, seed=1).until("accepted")
    spread = [each[1] for each in second.pipeline.tuner.belief.learnt_rates().values()]  # type: ignore[union-attr]
    wider = [each[1] for each in alone.pipeline.tuner.belief.learnt_rates().values()]  # type: ignore[union-attr]
    assert sum(spread) < sum(wider), "its rates are surer"
    assert len(second.pipeline.costs) <= len(alone.pipeline.costs)
    more = second.pipeline.knowledge
    assert more is not None
    assert (more.jobs, more.checkpoints) == (2, knowledge.checkpoints + len(second.pipeline.costs))


def test_a_job_that_tries_nothing_leaves_the_settings_that_earlier_ones_found() -> None:
    knowledge = Job(CACHED).settled().pipeline.knowledge
    assert knowledge is not None
    assert knowledge.settings
    watched = Job(CACHED, seed=1, tuning=False)
    watched.pipeline = Pipeline()
    watched.tell(KnowledgeRecalled(knowledge=knowledge))
    watched.start()
    more = watched.checkpoints(6).pipeline.knowledge
    assert more is not None
    assert (more.jobs, more.settings) == (2, knowledge.settings)
    assert 0 < more.cost_s < more.baseline_s


@pytest.mark.parametrize("every", [0, -1])
def test_nobody_who_has_no_checkpoint_flushed_is_moved_into_the_cache_without_a_flush(every: int) -> None:
    """Past the cache SCR_FLUSH is of no effect: each checkpoint is in the prefix directory."""
    job = Job({"SCR_FLUSH": every}, durability="next")
    job.past_the_cache_s = 60.0
    for _ in range(20):
        job.checkpoint()
        assert job.in_force["SCR_CACHE_BYPASS"] == 1 or job.in_force["SCR_FLUSH"] == 1
    assert "accepted" in job.words, "with SCR_FLUSH=1 the cache is cheaper, and as safe"


def test_a_trial_is_not_blamed_for_waits_for_flushes_of_the_settings_before_it() -> None:
    """Two of the user's own are under way when it begins: each copies 64 bytes at a time, and takes 50 s."""
    drawn = case("io-bound", "random", 100_015, 12)
    beside = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_FLUSH_ASYNC": 1}
    slow = {"SCR_FILE_BUF_SIZE": 64, "SCRTUNE_FLUSH_THREADS": 1, "SCRTUNE_FLUSH_NICE": 0, "SCR_CACHE_SIZE": 2}
    made = replace(drawn, user={**drawn.user, **beside, **slow})
    run = Run(made, pipeline := Pipeline())
    waits = [run.checkpoint(noise).wait_s for noise in made.noise]
    verdicts = [each.verdict for each in pipeline.decisions if each.verdict is not Verdict.VETOED]
    assert verdicts[:2] == [Verdict.TRIAL, Verdict.ACCEPTED]
    assert waits[4] > 10.0, "the second output of the trial waits for a flush of the user's own"
    assert max(waits[5:]) < 1.0


def test_after_a_flush_in_half_the_time_the_users_own_settings_get_a_turn() -> None:
    """Its prefix directory becomes three times as fast: at 20 of 40, and each tenth checkpoint is flushed."""
    made = case("regime-shift", "defaults", 100_047, 40)
    run = Run(made, pipeline := Pipeline())
    for noise in made.noise[:30]:
        run.checkpoint(noise)
    assert run.settings["SCR_CACHE_BYPASS"] == 0
    for noise in made.noise[30:]:
        run.checkpoint(noise)
    assert run.settings == made.own, "writing there directly is cheaper now"
    assert pipeline.tuner is not None
    assert pipeline.tuner.baseline_s < 0.5 * run.machine.truths[0].cost_s(made.own)


def test_what_spikes_said_of_the_users_own_settings_is_found_out_when_much_has_been_claimed() -> None:
    """Two of their first three checkpoints took three times as long; nothing is cheaper than they are."""
    made = case("mixed", "defaults", 30_125, 400)
    run = Run(made, pipeline := Pipeline())
    for noise in made.noise:
        run.checkpoint(noise)
    assert pipeline.tuner is not None
    verdicts = [each.verdict for each in pipeline.decisions]
    assert verdicts[:2] == [Verdict.TRIAL, Verdict.ACCEPTED]
    assert run.settings == made.own
    assert pipeline.tuner.baseline_s < 2 * run.machine.truth.cost_s(made.own)


def test_what_tuned_checkpoints_save_once_the_machine_has_changed_is_claimed_by_nobody() -> None:
    job = Job(CACHED).settled()
    tuner = job.pipeline.tuner
    assert tuner is not None
    assert (tuner.uncounted, tuner.knows_own) == (0, True)
    job.slower = 3.0
    while tuner.knows_own:
        job.checkpoint()
    before = tuner.uncounted
    job.checkpoint()
    assert tuner.uncounted == before + 1


class TestFailures:
    """Whose flush fails is left, and never tried again; what is innocent stays."""

    def fails(self, job: Job, generation: int) -> None:
        """A flush of an earlier checkpoint, under the settings of `generation`, turns out to have failed."""
        flush = FlushCompleted(
            dataset=1,
            start_s=job.now - 2,
            end_s=job.now,
            generation=generation,
            asynchronous=True,
            valid=False,
        )
        job.tell(flush)

    def test_what_was_kept_is_left_also_while_something_else_is_on_trial(self) -> None:
        job = Job(CACHED, mutability=REAL).until("accepted")
        accepted = next(each for each in job.pipeline.decisions if each.verdict is Verdict.ACCEPTED)
        kept = dict(job.in_force)
        while job.trying is None:
            job.checkpoint(slowed_s=2.0)
        self.fails(job, accepted.generation)
        assert job.words[-2:] == ["reverted", "back to the user's settings"]
        for _ in range(20):
            assert job.in_force != kept, "never again"
            job.checkpoint(slowed_s=2.0)

    def test_what_is_active_stays_when_a_flush_of_others_has_failed(self) -> None:
        job = Job(CACHED, mutability=REAL, noise=0.1).checkpoints(60, slowed_s=2.0)
        tuner = job.pipeline.tuner
        assert tuner is not None
        active, others = dict(tuner.settings), [1, 2, 3]
        assert all(tuner.settings_of(each) not in (None, active) for each in others)
        for each in others:
            self.fails(job, each)
        assert tuner.settings == active != tuner.baseline


class SlowFlushes(Job):
    """An asynchronous flush takes 19 s: nearly all of the time until the next output."""

    _flush: FlushCompleted | None = None

    def compute(self, steps: int, beside_s: float = 0.0, flush: FlushCompleted | None = None) -> None:
        if flush is not None:
            self._flush = replaced(flush, end_s=flush.start_s + 19.0)
        for _ in range(steps):
            present = self._flush
            super().compute(1, beside_s / steps if present else 0.0)
            if present and present.end_s <= self.now:
                self.tell(present)
                self._flush = None


@pytest.mark.parametrize("seed", range(4))
def test_a_trial_that_has_lost_ends_although_its_costs_come_with_those_of_the_next_output(seed: int) -> None:
    """Each second checkpoint is flushed; what that cost is complete only when the one after it has ended."""
    job = SlowFlushes({**CACHED, "SCR_FLUSH": 2}, mutability=REAL, reinit_s=0.1, noise=0.05, seed=seed)
    looks = Counter[int]()
    for _ in range(60):
        job.checkpoint(flush_every=2, slowed_s=6.0)
        looks[job.pipeline.advice.generation] += job.trying is not None
    # two checkpoints a flush, one more until the last flush's cost is complete, and the way back
    assert max(looks.values()) <= 2 * MOST_LOOKS + 4


def test_a_tier_that_one_spike_showed_is_looked_at_once_more() -> None:
    """The first checkpoint in the cache, which costs 0.37 of the user's own, takes five times as long."""
    made = case("mixed", "defaults", 30_207, 400)
    run = Run(made, pipeline := Pipeline())
    spike = replace(made.noise[0], write=5.0, encode=5.0, flush=5.0)
    for noise in made.noise[:200]:
        is_first = spike is not None and pipeline.advice.settings.get("SCR_CACHE_BYPASS") == 0
        run.checkpoint(spike if is_first and spike else noise)
        spike = None if is_first else spike
    verdicts = [each.verdict for each in pipeline.decisions if each.verdict is not Verdict.VETOED]
    assert verdicts[:2] == [Verdict.TRIAL, Verdict.REVERTED]
    assert run.settings["SCR_CACHE_BYPASS"] == 0
