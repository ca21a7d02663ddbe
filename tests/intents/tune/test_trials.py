"""Trials of a job on 512 nodes, where most of what a checkpoint costs is expected rework."""

from collections import Counter

import pytest
from msgspec.structs import replace

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.goodput.events import OutputCompleted
from scrtune.intents.events import SettingsObserved
from scrtune.intents.observe.faults.redundancy import observe
from scrtune.intents.rules.situation import Situation
from scrtune.intents.tune.belief.observations import identity
from scrtune.intents.tune.decisions import Verdict
from scrtune.intents.tune.tuner import Tuner

from ...support.simulated_job import CACHED, GIB, Job
from .belief.test_belief import OWN as DEFAULTS
from .belief.test_belief import situation

OWN = {**DEFAULTS, "SCR_FLUSH": 10}
USUAL_BYTES = 16 * GIB


def large() -> Situation:
    """The situation of a job on 512 nodes."""
    found = situation(OWN)
    fixed = dict.fromkeys(("SCR_CACHE_BYPASS", "SCR_COPY_TYPE", "SCR_FLUSH"), "environment")
    sources = dict.fromkeys(OWN, "user config") | fixed
    job = SettingsObserved(settings=OWN, sources=sources, ranks=2048, nodes=512)
    return replace(found, job=job, intents=replace(found.intents, redundancy=observe(job)))


class LargeJob:
    """Takes checkpoints, 1000 s apart, each of 1 s; each tenth is flushed, and blocks 300 s longer."""

    def __init__(self) -> None:
        self.tuner, self._now_is, self._dataset = Tuner(OWN), large(), 0

    def checkpoint(self) -> None:
        """Take one."""
        self._dataset += 1
        now = 1000.0 * self._dataset
        flush_s = 0.0 if self._dataset % OWN["SCR_FLUSH"] else 300.0
        made = CheckpointCost(
            dataset=self._dataset,
            generation=self.tuner.generation,
            time_s=now,
            blocking_s=1.0 + flush_s,
            write_s=1.0,
            flush_s=flush_s,
            flushed=flush_s > 0,
            blocked_on_flush_s=flush_s,
            between_s=999.0,
            bytes=USUAL_BYTES,
            files=64,
        )
        self.tuner.add(made, lambda: self._now_is, now)

    def output(self, size_bytes: int) -> bool:
        """One of 1 s for the usual bytes, whose flush is asynchronous; whether the trial goes on."""
        self._dataset += 1
        start_s = 1000.0 * self._dataset
        before = self.tuner.generation
        output = OutputCompleted(
            dataset=self._dataset,
            name=str(self._dataset),
            start_s=start_s,
            end_s=start_s + size_bytes / USUAL_BYTES,
            generation=before,
            bytes=size_bytes,
            files=64,
            flush_due=True,
        )
        self.tuner.output(output, output.end_s)
        return self.tuner.generation == before


def test_expected_rework_that_is_saved_pays_for_no_trial() -> None:
    """It is no time that has passed: the budget, and the bound on what is lost, are of job time."""
    job = LargeJob()
    job.tuner.on = False
    for _ in range(10):
        job.checkpoint()
    before_s = job.tuner.budget.left_s
    job.tuner.put({**OWN, "SCR_FILE_BUF_SIZE": 12_345})
    job.checkpoint()
    assert job.tuner.baseline_s > 50, "most of it is rework"
    assert job.tuner.felt_s < 0.7 * job.tuner.baseline_s
    assert job.tuner.budget.left_s - before_s == pytest.approx(1.01 * job.tuner.felt_s, rel=0.1)


def test_a_trial_of_another_flush_has_no_verdict_before_one_was_seen() -> None:
    """Of checkpoints three of four are not flushed, and say nothing about it."""
    job = Job({**CACHED, "SCR_FLUSH": 4, "SCR_FLUSH_TYPE": "PTHREAD"})
    ended = Counter[int]()
    for dataset in range(1, 41):
        before = job.trying
        job.checkpoints(1, flush_every=4)
        if before is not None and job.trying is not before:
            ended[dataset % 4] += 1
    assert ended
    assert set(ended) == {0}


@pytest.mark.parametrize("more", range(4))
def test_a_budget_that_is_used_up_is_seen_at_once_however_long_all_was_quiet(more: int) -> None:
    """A settled belief is updated at each fourth checkpoint only."""
    job = Job(CACHED).settled().checkpoints(more)
    assert job.in_force["SCR_FLUSH_ASYNC"] == 1
    job.checkpoints(3, slowed_s=40.0)
    assert job.words[-1] == Verdict.BASELINE


@pytest.mark.parametrize("share", [1, 0.25])
def test_a_small_output_is_not_blamed_for_the_rework_that_its_settings_share_with_the_users_own(
    share: float,
) -> None:
    job = LargeJob()
    while not job.tuner.generation:
        job.checkpoint()
    assert job.output(int(share * USUAL_BYTES))


@pytest.mark.parametrize(("seed", "noise"), [(3, 0.15), (0, 0.02)])
def test_what_was_given_up_is_tried_once_more_at_most(seed: int, noise: float) -> None:
    """A flush beside the computation, no better than one that blocks, after three slow checkpoints."""
    job = Job(CACHED, noise=noise, seed=seed)
    job.slower = 2.5
    job.checkpoints(3, slowed_s=4.5)
    job.slower = 1.0
    job.checkpoints(247, slowed_s=4.5)
    assert job.pipeline.tuner is not None
    own = job.pipeline.tuner.baseline
    trials = [each for each in job.pipeline.decisions if each.verdict is Verdict.TRIAL]
    tried = Counter(identity({**own, **each.changes}) for each in trials)
    del tried[identity(own)]  # which are measured again while they are in doubt
    assert max(tried.values()) == 2
