"""``--interval auto`` through the pipeline: a job that checkpoints when SCR_Need_checkpoint says so."""

import pytest

from scrtune.goodput.events import JobEnded, JobStarted
from scrtune.intents.effects import RewriteConfig
from scrtune.intents.events import TuningSwitched, UserEdited, Value
from scrtune.intents.tune.decisions import Decision, Verdict

from ..support.simulated_job import ObedientJob, replayed, state

INTERVAL = ("SCR_CHECKPOINT_SECONDS", "SCR_CHECKPOINT_INTERVAL")
RULE = "checkpoint as often as failures make it pay"


def changes(job: ObedientJob) -> list[Decision]:
    return [each for each in job.pipeline.decisions if each.rule == RULE]


def interval(job: ObedientJob) -> tuple[Value, ...]:
    return tuple(job.in_force[name] for name in INTERVAL)


def paced() -> ObedientJob:
    """A job that has got its interval, step by step as it became older."""
    job = ObedientJob()
    for _ in range(30):
        if changes(job) and float(str(job.in_force["SCR_CHECKPOINT_SECONDS"])) > 400:
            return job
        job.checkpoint()
    raise AssertionError(job.words)


def test_it_is_chosen_after_the_trials_in_steps_and_the_job_obeys() -> None:
    job = paced()
    first, *_, made = changes(job)
    assert len(changes(job)) <= 3
    assert first.verdict is made.verdict is Verdict.REQUIRED
    assert first.previous == {"SCR_CHECKPOINT_INTERVAL": 2, "SCR_CHECKPOINT_SECONDS": 0}
    assert 400 < float(str(made.changes["SCR_CHECKPOINT_SECONDS"])) < 700
    before = changes(job)
    assert "Daly" in made.source
    assert made.expected_gain_s > 0
    assert job.words.index("accepted") < job.words.index("required"), "what one costs was tuned first"
    published = [each.advice for each in job.effects if isinstance(each, RewriteConfig)][-1]
    assert made.changes.items() <= published.settings.items()
    assert made.changes.items() <= (published.kept or {}).items(), "the next launch begins with it"
    job.checkpoints(40)
    assert changes(job) == before, "and it does not oscillate"
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
    assert changes(job) == []
    assert interval(job) == (0, 2)


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
    assert changes(job) == []
    (lever,) = (each for each in job.pipeline.levers() if each.name == "SCR_CHECKPOINT_SECONDS")
    assert "SCR_Need_checkpoint" in lever.why


def test_scrtune_off_brings_the_users_interval_back_and_on_chooses_again() -> None:
    job = paced()
    chosen = interval(job)
    job.tell(TuningSwitched(on=False))
    assert interval(job) == (0, 2)
    job.checkpoints(5)
    assert interval(job) == (0, 2)
    job.tell(TuningSwitched(on=True))
    job.settled()
    assert interval(job) == pytest.approx(chosen, rel=0.3)


def test_an_edit_of_something_else_keeps_it_and_an_edit_of_the_interval_ends_it() -> None:
    job = paced()
    chosen = interval(job)
    job.tell(UserEdited(changes={"SCR_SET_SIZE": 4}))
    assert interval(job) == chosen
    job.tell(UserEdited(changes={"SCR_CHECKPOINT_SECONDS": 30}, is_pin=True))
    assert interval(job) == (30, 2)
    job.checkpoints(20)
    assert interval(job) == (30, 2)
    job.tell(UserEdited(released=("SCR_CHECKPOINT_SECONDS",)))
    assert interval(job) == (0, 2)
    job.settled()
    assert interval(job) == pytest.approx(chosen, rel=0.3)


def test_the_next_run_goes_on_with_it_and_one_that_does_not_leave_it_to_scrtune_has_its_own() -> None:
    job = paced()
    chosen, count = interval(job), len(changes(job))
    job.tell(JobEnded(time_s=job.now))
    job.relaunch()
    job.checkpoints(3)
    assert interval(job) == chosen
    assert len(changes(job)) == count
    own = ObedientJob(interval="")
    own.pipeline, own.now = job.pipeline, job.now
    own.start()
    assert interval(own) == (0, 2)


def test_failures_shorten_it() -> None:
    job = paced()
    before = changes(job)
    for _ in range(12):
        job.checkpoints(1)
        job.tell(JobStarted(time_s=job.now, ranks=4, writer="rank1"))  # tells of no failure
    assert changes(job) == before
    for _ in range(12):
        job.relaunch()
        job.checkpoints(1)
    job.checkpoints(4)
    first, last = (
        float(str(each.changes["SCR_CHECKPOINT_SECONDS"])) for each in (before[-1], changes(job)[-1])
    )
    assert last < 0.5 * first
