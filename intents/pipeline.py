"""The one place where state changes: events in, effects out. Live, replay and tests drive the same class.

``handle(event, now)`` is a pure function of the events so far: fed the same journal it makes the same
decisions. The caller owns the clock, the files and the sockets.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING

from ..goodput.buckets import FLUSH_SLOWDOWN, TUNING
from ..goodput.checkpoint_cost import CheckpointCost, CheckpointCosts
from ..goodput.events import (
    FlushCompleted,
    GoodputEvent,
    JobEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
)
from .counters import EventFilter, count
from .effects import Effect, Observe, RewriteConfig, Tell
from .events import (
    AllocationObserved,
    ApplyRefused,
    Event,
    EventsLost,
    KnowledgeRecalled,
    LeaderChanged,
    MetricObserved,
    NodeLeft,
    NodeObserved,
    SettingsObserved,
    StorageProbed,
    StorageTargetsObserved,
    TraceDigest,
    TuningSwitched,
    UserEdited,
)
from .job_state import JobState, Leader
from .mutability import RunMutability
from .rules.derived.interval import in_force, interval, is_ours, users_own
from .rules.situation import Held
from .settings import is_cached
from .tune.decisions import Outcome
from .tune.job_run import JobRun

if TYPE_CHECKING:
    from .tune.tuner import Tuner

_REMEMBERED_COSTS = 10_000
_REMEMBERED_LEADERS = 100


class Pipeline(JobState):
    """Decides for one job: a method for each kind of event, which yields its effects. Memory is bounded."""

    def __init__(self) -> None:
        super().__init__()
        self._filter = EventFilter()
        self._meter = CheckpointCosts()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event in at `now` (epoch seconds); returns the effects for the shell, in order."""
        self.counters.events += 1
        self._now_s = now
        return [*self._handle(event, now)]

    def _handle(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case TraceDigest():
                yield from self._digest(event, now)
            case NodeObserved():
                self._look(event, now)
            case StorageProbed() | StorageTargetsObserved() | AllocationObserved() | NodeLeft():
                self.observers.note(event, now)
            case KnowledgeRecalled() | LeaderChanged() | EventsLost():
                yield from self._told(event, now)
            case MetricObserved():
                yield from self._metric(event)
            case SettingsObserved():
                yield from self._settings(event, now)
            case UserEdited():
                yield from self._edited(event, now)
            case TuningSwitched():
                yield from self._switched(event, now)
            case ApplyRefused():
                yield from self._refused(event, now)
            case _:
                yield from self._goodput(event, now)

    def _told(self, event: KnowledgeRecalled | LeaderChanged | EventsLost, now: float) -> Iterator[Effect]:
        """Take in what the daemons say of themselves and of earlier jobs."""
        match event:
            case EventsLost():
                count(self.counters.lost, event.source, event.count)
            case LeaderChanged():
                self.leaders.append(Leader(host=event.host, term=event.term, since_s=now, why=event.why))
                del self.leaders[:-_REMEMBERED_LEADERS]
            case KnowledgeRecalled():
                self.observers.recalled = event.knowledge
                yield Tell(text=f"recalled: {event.knowledge.sentence()}")

    def _look(self, node: NodeObserved, now: float) -> None:
        applied = self.applied
        settings = applied.values or self.settings
        if self.observers.add_node(node, now, is_cached=is_cached(settings)):
            self._held = Held(applied.cached, settings, 0, applied.dataset_bytes)

    def _metric(self, metric: MetricObserved) -> Iterator[Effect]:
        """Say when a metric begins to diverge, and when it has recovered; the job is not touched."""
        if not self.observers.add_metric(metric, self.job):
            return
        found = self.intents.divergence
        if found.sign is None:
            yield Tell(text=f"{found.sentence()} any more")
        else:
            back = f"; SCR_CURRENT={found.back_to} goes back to it" if found.back_to else ""
            yield Tell(text=f"{found.sentence()}{back}", level="warning")

    def _digest(self, digest: TraceDigest, now: float) -> Iterator[Effect]:
        self.counters.add_digest(digest)
        self.observers.add_digest(digest, now)
        if self.job is None and self.observing.elsewhere(digest.events):
            yield Observe(on=False)

    def _settings(self, job: SettingsObserved, now: float) -> Iterator[Effect]:
        """A run of the job begins: the first one's settings are the baseline."""
        self.observing.set_budget(job.observe_budget)
        self._end_looks(inf)
        self.observers.begin_run(job, now)
        self._run = run = self._run.next(job) if self._run else JobRun(job)
        mutability = RunMutability(parameters=job.mutability, found=self.applied.begin_run(job, now))
        from .tune.tuner import Tuner  # noqa: PLC0415 - loads numpy, which who has no job does not need

        tuner = self.tuner = self.tuner or Tuner(mutability.found, mutability, on=self._on)
        if run.new_because:
            outcome = tuner.restart(run.own, mutability, run.new_because, now)
        else:
            outcome = tuner.begin_run(mutability, now)
        for text in self.contradictions:
            yield Tell(text=text, level="warning")
        outcomes = [outcome, tuner.require(self._required, now)]
        yield from self._effects(run, tuner, outcomes, publish=True)

    def _edited(self, edit: UserEdited, now: float) -> Iterator[Effect]:
        """The user's values become the baseline; but what their environment sets stays active."""
        if self._run is None or self.tuner is None:
            return
        tuner, outcomes, before = self.tuner, [], self._run.job
        run, back = self._run.released(edit.released)
        changes, refused = run.permitted(edit)
        if changes or edit.released:
            self._run = run.edited(changes, is_pin=edit.is_pin)
            own = {**self._run.own, **in_force(tuner.baseline, before, self._run.job)}
            outcomes.append(tuner.edit(own, {**back, **changes}, edit, now))
            outcomes.append(tuner.require(self._required, now))
        outcomes += [tuner.reject_edit(why, now) for why in refused]
        yield from self._effects(self._run, tuner, outcomes, publish=True)

    def _switched(self, event: TuningSwitched, now: float) -> Iterator[Effect]:
        if event.on == self._on:
            return
        self._on = event.on
        if self.tuner is not None and self._run is not None:
            outcomes = [self.tuner.switch(on=event.on, now=now)]
            if not event.on and (back := users_own(self._run.own, self.tuner.baseline)).changes:
                outcomes.append(self.tuner.require([(back, None)], now))
            yield from self._effects(self._run, self.tuner, outcomes, publish=True)
        if event.on:
            yield Tell(text="scrtune on: tuning continues from your own settings")

    def _refused(self, event: ApplyRefused, now: float) -> Iterator[Effect]:
        if self.tuner is None or self._run is None:
            return
        self.applied.restore(event.in_force)
        outcome = self.tuner.refused(event, self.applied.values, now)
        yield from self._effects(self._run, self.tuner, [outcome])

    def _goodput(self, event: GoodputEvent, now: float) -> Iterator[Effect]:
        if (problem := self._filter.problem(event, now)) is not None:
            count(self.counters.dropped, problem)
            return
        if isinstance(event, OutputCompleted):
            self._end_looks(event.start_s)
        known = self.contradictions if isinstance(event, RestartCompleted) else ()
        self.observers.add_event(event, self.settings)
        yield from self._account_for(event, now)
        yield from self._observe(event)
        if isinstance(event, RestartCompleted):
            yield from self._restarted(known, now)

    def _end_looks(self, start_s: float) -> None:
        """An output that began at `start_s` has ended: go back to what was held before looks during it."""
        if not self.observers.nodes.end_looks(start_s):
            self._held = self._held_before
        self._held_before = self._held

    def _restarted(self, known: Sequence[str], now: float) -> Iterator[Effect]:
        """A checkpoint was read, which may contradict what the user said, or ask for a longer history."""
        for text in self.contradictions:
            if text not in known:
                yield Tell(text=text, level="warning")
        if self.tuner is not None and self._run is not None:
            yield from self._effects(self._run, self.tuner, [self.tuner.require(self._required, now)])

    def _observe(self, event: GoodputEvent) -> Iterator[Effect]:
        was_on = self.observing.observation.on
        match event:
            case JobStarted():
                self.observing.started(event)
            case OutputCompleted():
                self.observing.output(event, self.observers.buffers(self.job))
        seen = self.observing.observation
        is_again = isinstance(event, JobStarted) and seen.outputs > 0  # all ranks, whatever was traced last
        if seen.on != was_on or is_again:
            yield Observe(on=seen.on)

    def _account_for(self, event: GoodputEvent, now: float) -> Iterator[Effect]:
        self.ledger.handle(event)
        if not (isinstance(event, JobStarted) and event.writer):  # of a launch that rank 0 has told, too
            self.observers.failures.handle(event)
        costs = self._meter.handle(event)
        self.costs += costs
        del self.costs[:-_REMEMBERED_COSTS]
        for cost in costs:
            self.ledger.charge(FLUSH_SLOWDOWN, cost.slowdown_s)
        if self.tuner is not None and self._run is not None:
            yield from self._effects(self._run, self.tuner, [*self._tune(self.tuner, event, costs, now)])
            for cost in self._meter.amended:
                self.tuner.amend(cost)

    def _tune(
        self, tuner: "Tuner", event: GoodputEvent, costs: Sequence[CheckpointCost], now: float
    ) -> Iterator[Outcome]:
        if isinstance(event, OutputCompleted):
            apply_s = self.applied.apply(event, tuner, was_flushed=tuner.datasets.is_last_flushed)
            tuner.budget.charge_apply(apply_s)
            yield tuner.output(event, now)
        if isinstance(event, OutputCompleted | FlushCompleted) and not event.valid:
            what = "output" if isinstance(event, OutputCompleted) else "flush"
            yield tuner.failed(f"the {what} of dataset {event.dataset} failed", event.generation, now)
        if isinstance(event, FlushCompleted):
            tuner.flushed(event)
        for cost in costs:
            if cost.generation == tuner.generation:
                self.observers.add_cost(cost, tuner.settings)
            if isinstance(event, JobEnded):
                continue  # the last flush had the node to itself, which says nothing of others
            if self.job is not None and self._is_asked:
                yield tuner.add(cost, lambda: self.situation, now, may_try=self.job.tuning)
                if self.on and is_ours(self.job) and (paced := interval(self.situation).proposal):
                    yield tuner.require([(paced, None)], now)

    def _effects(
        self, run: JobRun, tuner: "Tuner", outcomes: Sequence[Outcome], *, publish: bool = False
    ) -> Iterator[Effect]:
        if publish or any(each.changed for each in outcomes):
            yield RewriteConfig(advice=run.publish(tuner))
        for outcome in outcomes:
            yield from (Tell(text=decision.text) for decision in outcome.decisions)
            self.ledger.charge(TUNING, outcome.tuning_s)
