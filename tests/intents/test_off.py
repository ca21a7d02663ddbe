"""`scrtune off`: the user's own settings come back, and nothing is tried."""

from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.effects import RewriteConfig, Tell
from scrtune.intents.events import (
    TuningSwitched,
)
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.settings import DEFAULTS, is_asynchronous

from ..support.simulated_job import CACHED, REAL, T0, Job
from .happenings import AT_LAUNCH, OWN, asks_for, happenings, live_through, mutabilities


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
    in_force = job.in_force
    assert all(in_force[name] == tuner.baseline[name] for name in REAL if not tuner.mutability.is_fixed(name))
    job.relaunch()
    at_last = job.in_force
    assert {name: at_last[name] for name in DEFAULTS} == {
        **{name: tuner.baseline[name] for name in DEFAULTS},
        **tuner.later,
    }
