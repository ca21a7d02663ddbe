"""What follows from a declared number or overhead, an allocation's end and a metric, through the pipeline."""

import random

import msgspec

from scrtune.goodput.events import JobStarted, OutputCompleted
from scrtune.intents.declared import Declared
from scrtune.intents.effects import Effect, RewriteConfig, Tell
from scrtune.intents.events import AllocationObserved, Event, MetricObserved, TuningSwitched
from scrtune.intents.rules.parameter import DerivedParameter
from scrtune.intents.tune.decisions import Decision, Verdict

from ..support.simulated_job import CACHED, Job, ObedientJob, replayed, state

RULE = "checkpoint within what you declared"
ALLOCATED = {"scheduler": "slurm", "job": "1", "hosts": ("n",), "steps": ("0 simulate",)}


def changes(job: Job) -> list[Decision]:
    return [each for each in job.pipeline.decisions if each.rule == RULE]


def parameter(job: Job, name: str) -> DerivedParameter:
    (found,) = (each for each in job.pipeline.parameters() if each.name == name)
    return found


def test_a_declared_overhead_is_kept_to_without_interval_auto() -> None:
    job = ObedientJob(interval="", declared=Declared(overhead=0.01))
    job.checkpoints(30)
    (made, *_) = changes(job)
    assert made.verdict is Verdict.REQUIRED
    assert made.changes["SCR_CHECKPOINT_INTERVAL"] == 0
    assert 0 < float(str(made.changes["SCR_CHECKPOINT_OVERHEAD"])) <= 1.01
    assert len(changes(job)) <= 3, "it does not follow every checkpoint"
    job.tell(TuningSwitched(on=False))
    assert job.in_force["SCR_CHECKPOINT_INTERVAL"] == 2
    assert job.in_force["SCR_CHECKPOINT_OVERHEAD"] == 0
    assert state(replayed(job.journal)[0], job.now) == state(job.pipeline, job.now)


def test_a_declared_number_is_kept_to_by_the_end_of_the_allocation() -> None:
    job = ObedientJob(interval="", declared=Declared(checkpoints_most=40))
    job.checkpoints(10)
    assert changes(job) == [], "nobody knows how long it runs"
    end_s = job.now + 3600 * 5
    job.tell(AllocationObserved(**ALLOCATED, end_s=end_s, time_s=job.now))
    while job.now < end_s:
        job.checkpoint()
    assert changes(job)
    assert 36 <= job.pipeline.intents.checkpoints.taken <= 41
    assert all("at most 40 checkpoints" in each.because for each in changes(job))


def test_with_interval_auto_the_last_checkpoint_is_in_time() -> None:
    """One in some ten minutes: without the end of the allocation up to ten minutes would be lost."""
    job = ObedientJob()
    job.settled()
    end_s = job.now + 3000.0
    job.tell(AllocationObserved(**ALLOCATED, end_s=end_s, time_s=job.now))
    taken = [job.now]
    while job.now < end_s:
        job.checkpoint()
        taken.append(job.pipeline.costs[-1].time_s)
    in_time = [each for each in taken if each < end_s]
    assert end_s - in_time[-1] < 60
    (made,) = (each for each in job.pipeline.decisions if "the last checkpoint is in time" in each.because)
    assert made.verdict is Verdict.REQUIRED


def test_what_is_within_the_declaration_stays_as_it_is() -> None:
    job = ObedientJob(interval="", declared=Declared(overhead=0.9, checkpoints_most=1000, run_s=3600.0))
    job.checkpoints(20)
    assert changes(job) == []
    (lever,) = (each for each in job.pipeline.levers() if each.name == "SCR_CHECKPOINT_SECONDS")
    assert "within what you declared" in lever.why


def test_the_tuner_does_not_explore_for_checkpoints_that_do_not_come() -> None:
    job = Job(CACHED)
    job.checkpoints(6)
    unknown = job.pipeline.situation.remaining
    assert unknown > 6, "as many as there were is the median, and the mean is more"
    job.tell(AllocationObserved(**ALLOCATED, end_s=job.now + 60, time_s=job.now))
    assert 0 < job.pipeline.situation.remaining < 60 / job.pipeline.intents.flush.interval_s
    job.tell(AllocationObserved(**ALLOCATED, end_s=job.now + 1e6, time_s=job.now))
    assert job.pipeline.situation.remaining == unknown, "an allocation may be longer than the job"
    declared = Job(CACHED, declared=Declared(run_s=1e5))
    declared.checkpoints(6)
    assert declared.pipeline.situation.remaining == 200


def test_the_end_of_the_allocation_gives_the_seconds_to_halt_by() -> None:
    job = Job({**CACHED, "SCR_FLUSH": 10, "SCR_COPY_TYPE": "SINGLE"})
    job.checkpoints(6, flush_every=2)
    assert "not known" in parameter(job, "SCR_HALT_SECONDS").why_not
    job.tell(AllocationObserved(**ALLOCATED, end_s=job.now + 7200, time_s=job.now))
    assert float(str(parameter(job, "SCR_HALT_SECONDS").value)) > 1.5 * (4 + 1)
    assert "the allocation ends in 2.0 h" in job.pipeline.intents.named()["workflow"].sentence()


class Training(Job):
    """A job that reports its loss after each checkpoint."""

    def __init__(self, **described: Declared) -> None:
        super().__init__(CACHED, **described)  # type: ignore[arg-type]
        self.rng, self.reported = random.Random(3), 0

    def report(self, value: float | None, name: str = "loss") -> list[Tell]:
        self.reported += 1
        event = MetricObserved(name=name, value=value, step=self.reported, time_s=self.now)
        return [each for each in self.tell(event) if isinstance(each, Tell)]

    def train(self, count: int) -> list[Tell]:
        told = []
        for _ in range(count):
            self.checkpoint()
            told += self.report(2.0 + self.rng.gauss(0, 0.05))
        return told

    @property
    def current(self) -> DerivedParameter:
        return parameter(self, "SCR_CURRENT")

    def tell(self, event: Event) -> list[Effect]:
        """Give each output a name of its own."""
        if isinstance(event, OutputCompleted):
            event = msgspec.structs.replace(event, name=f"c.{event.dataset}")
        return super().tell(event)


def test_a_training_that_diverges_is_told_once_with_the_way_back_and_not_touched() -> None:
    job = Training(declared=Declared(metric="loss"))
    assert job.train(20) == []
    assert job.pipeline.divergence == ""
    job.checkpoint()  # what is written now may have it already
    before = [each for each in job.effects if isinstance(each, RewriteConfig)]
    (warning,) = job.report(None)
    assert warning.level == "warning"
    assert "loss is no finite number" in warning.text
    assert "SCR_CURRENT=c.20" in warning.text
    assert job.report(None) == []
    assert job.current.value == "c.20"
    assert job.current.veto
    assert "c.20" in job.pipeline.divergence
    assert [each for each in job.effects if isinstance(each, RewriteConfig)] == before
    assert "SCR_CURRENT" not in job.pipeline.advice.settings | (job.pipeline.advice.kept or {})
    assert state(replayed(job.journal)[0], job.now) == state(job.pipeline, job.now)


def test_a_training_that_comes_back_has_recovered() -> None:
    job = Training()
    job.train(20)
    assert len(job.report(50.0)) == 1
    job.report(2.0)
    job.report(2.0)
    (told,) = job.report(2.0)
    assert "does not diverge any more" in told.text
    assert job.current.value is None


def test_the_next_run_begins_without_a_divergence() -> None:
    job = Training()
    job.train(20)
    job.report(None)
    job.tell(JobStarted(time_s=job.now, ranks=4))
    job.relaunch()
    assert job.pipeline.divergence == ""


def test_a_metric_that_was_not_declared_is_not_spoken_of() -> None:
    job = Training(declared=Declared(metric="loss"))
    job.train(20)
    assert job.report(None, name="gradient norm") == []
    assert job.pipeline.divergence == ""
