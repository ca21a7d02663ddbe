"""``--interval auto`` through the pipeline: a job that checkpoints when SCR_Need_checkpoint says so."""

from math import ceil

import pytest

from scrtune.goodput.events import FlushCompleted, JobEnded, JobStarted
from scrtune.intents.effects import RewriteConfig
from scrtune.intents.events import TuningSwitched, UserEdited, Value, Values
from scrtune.intents.tune.decisions import Decision, Verdict

from ..support.simulated_job import CACHED, Job, replayed, state

NODES = 64
OWN: Values = {
    **CACHED,
    "SCR_CHECKPOINT_SECONDS": 0,
    "SCR_CHECKPOINT_INTERVAL": 2,
    "SCR_CHECKPOINT_OVERHEAD": 0.0,
}
INTERVAL = ("SCR_CHECKPOINT_SECONDS", "SCR_CHECKPOINT_INTERVAL")
RULE = "checkpoint as often as failures make it pay"


class ObedientJob(Job):
    """Asks after each step of 10 s; it counts two steps, or the seconds since its last checkpoint."""

    def __init__(self, user: Values = OWN, **described: float | str | bool) -> None:
        self.asks = True
        super().__init__(user, **{"nodes": NODES, "interval": "auto", **described})
        self.asks = True

    def compute(self, steps: int, beside_s: float = 0.0, flush: FlushCompleted | None = None) -> None:
        seconds = float(str(self.in_force["SCR_CHECKPOINT_SECONDS"]))
        super().compute(max(1, ceil(seconds / 10)) if seconds else steps, beside_s, flush)

    @property
    def changes(self) -> list[Decision]:
        return [each for each in self.pipeline.decisions if each.rule == RULE]

    @property
    def interval(self) -> tuple[Value, ...]:
        return tuple(self.in_force[name] for name in INTERVAL)


def paced() -> ObedientJob:
    """A job that has got its interval, step by step as it became older."""
    job = ObedientJob()
    for _ in range(30):
        if job.changes and float(str(job.in_force["SCR_CHECKPOINT_SECONDS"])) > 400:
            return job
        job.checkpoint()
    raise AssertionError(job.words)


def test_it_is_chosen_after_the_trials_in_steps_and_the_job_obeys() -> None:
    job = paced()
    first, *_, made = job.changes
    assert len(job.changes) <= 3
    assert first.verdict is made.verdict is Verdict.REQUIRED
    assert first.previous == {"SCR_CHECKPOINT_INTERVAL": 2, "SCR_CHECKPOINT_SECONDS": 0}
    assert 400 < float(str(made.changes["SCR_CHECKPOINT_SECONDS"])) < 700
    before = job.changes
    assert "Daly" in made.source
    assert made.expected_gain_s > 0
    assert job.words.index("accepted") < job.words.index("required"), "what one costs was tuned first"
    published = [each.advice for each in job.effects if isinstance(each, RewriteConfig)][-1]
    assert made.changes.items() <= published.settings.items()
    assert made.changes.items() <= (published.kept or {}).items(), "the next launch begins with it"
    job.checkpoints(40)
    assert job.changes == before, "and it does not oscillate"
    assert max(cost.interval_s for cost in job.pipeline.costs) > 400
    restored = replayed(job.journal)[0]
    assert state(restored, job.now) == state(job.pipeline, job.now)


def test_the_change_is_no_regime_change_for_the_settings_that_won() -> None:
    job = paced()
    tuner = job.pipeline.tuner
    assert tuner is not None
    (before,) = [each for each in job.pipeline.decisions if each.verdict is Verdict.ACCEPTED]
    job.checkpoints(20)
    assert before.changes.items() <= {**job.in_force, **(job.trying.changes if job.trying else {})}.items()
    assert Verdict.BASELINE not in {each.verdict for each in job.pipeline.decisions}
    tuner = job.pipeline.tuner
    assert tuner is not None
    assert tuner.felt_s == pytest.approx(1.1, rel=0.1), "longer intervals expose more, and cost no more"


@pytest.mark.parametrize("described", [{"interval": ""}, {"tuning": False}])
def test_it_stays_the_users_unless_it_is_left_to_scrtune(described: dict[str, str | bool]) -> None:
    job = ObedientJob(**described)
    job.checkpoints(30)
    assert job.changes == []
    assert job.interval == (0, 2)


def test_with_mode_recommend_it_is_proposed() -> None:
    job = ObedientJob(tuning=False)
    job.checkpoints(10)
    (proposal,) = (each for each in job.pipeline.proposals() if each.rule == RULE)
    assert proposal.changes["SCR_CHECKPOINT_INTERVAL"] == 0
    (lever,) = (each for each in job.pipeline.levers() if each.name == "SCR_CHECKPOINT_SECONDS")
    assert lever.other == proposal.changes["SCR_CHECKPOINT_SECONDS"]
    assert lever.gain_s == proposal.expected_gain_s


def test_an_application_that_checkpoints_when_it_likes_keeps_its_interval() -> None:
    job = ObedientJob()
    job.asks = False
    job.checkpoints(30)
    assert job.changes == []
    (lever,) = (each for each in job.pipeline.levers() if each.name == "SCR_CHECKPOINT_SECONDS")
    assert "SCR_Need_checkpoint" in lever.why


def test_scrtune_off_brings_the_users_interval_back_and_on_chooses_again() -> None:
    job = paced()
    chosen = job.interval
    job.tell(TuningSwitched(on=False))
    assert job.interval == (0, 2)
    job.checkpoints(5)
    assert job.interval == (0, 2)
    job.tell(TuningSwitched(on=True))
    job.settled()
    assert job.interval == pytest.approx(chosen, rel=0.3)


def test_an_edit_of_something_else_keeps_it_and_an_edit_of_the_interval_ends_it() -> None:
    job = paced()
    chosen = job.interval
    job.tell(UserEdited(changes={"SCR_SET_SIZE": 4}))
    assert job.interval == chosen
    job.tell(UserEdited(changes={"SCR_CHECKPOINT_SECONDS": 30}, is_pin=True))
    assert job.interval == (30, 2)
    job.checkpoints(20)
    assert job.interval == (30, 2)
    job.tell(UserEdited(released=("SCR_CHECKPOINT_SECONDS",)))
    assert job.interval == (0, 2)
    job.settled()
    assert job.interval == pytest.approx(chosen, rel=0.3)


def test_the_next_run_goes_on_with_it_and_one_that_does_not_leave_it_to_scrtune_has_its_own() -> None:
    job = paced()
    chosen, count = job.interval, len(job.changes)
    job.tell(JobEnded(time_s=job.now))
    job.relaunch()
    job.checkpoints(3)
    assert job.interval == chosen
    assert len(job.changes) == count
    own = ObedientJob(interval="")
    own.pipeline, own.now = job.pipeline, job.now
    own.start()
    assert own.interval == (0, 2)


def test_failures_shorten_it() -> None:
    job = paced()
    before = job.changes
    for _ in range(12):
        job.checkpoints(1)
        job.tell(JobStarted(time_s=job.now, ranks=4, writer="rank1"))  # tells of no failure
    assert job.changes == before
    for _ in range(12):
        job.relaunch()
        job.checkpoints(1)
    job.checkpoints(4)
    first, last = (
        float(str(each.changes["SCR_CHECKPOINT_SECONDS"])) for each in (before[-1], job.changes[-1])
    )
    assert last < 0.5 * first
