"""The one place where state changes: events in, effects out. Live, replay and tests drive the same class.

``handle(event, now)`` is a pure function of the events so far: fed the same journal it makes the same
decisions. The caller owns the clock, the files and the sockets.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..goodput.account import Account
from ..goodput.buckets import FLUSH_SLOWDOWN, TUNING
from ..goodput.checkpoint_cost import CheckpointCost, CheckpointCosts
from ..goodput.events import (
    FlushCompleted,
    GoodputEvent,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    StepCompleted,
)
from ..goodput.interval.failures import FailureWatch
from ..goodput.ledger.ledger import Ledger
from .contradictions import contradictions
from .counters import Counters, EventFilter
from .effects import Advice, Effect, Observe, RewriteConfig, Tell
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
    Values,
)
from .mutability import RunMutability
from .observe.intents import Intents, Observers, Surroundings
from .observe.nodes import NodeEvidence
from .observe.observation import Observation, Observing
from .rules.derived.interval import in_force, interval, users_own
from .rules.explain import LeverView
from .rules.pace import absurd
from .rules.parameter import DerivedParameter
from .rules.parameters import declared, derived
from .rules.situation import Held, Proposal, Situation
from .settings import DEFAULTS, is_cached
from .tune.active_settings import AppliedSettings
from .tune.decisions import Decision, Outcome
from .tune.job_run import JobRun
from .tune.knowledge import Knowledge

if TYPE_CHECKING:
    from .tune.tuner import Tuner

__all__ = ["Counters", "Pipeline"]

_REMEMBERED_COSTS = 10_000
_REMEMBERED_LEADERS = 100
_MOST_PROCESSES = 65_536


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """The node whose daemon decided from `since_s` (epoch seconds) on, and why it did."""

    host: str
    term: int
    since_s: float
    why: str


class Pipeline:
    """The state of one job, and the decisions that follow from it. Memory is bounded."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.ledger = Ledger()
        self.costs: list[CheckpointCost] = []
        self.allocation: AllocationObserved | None = None
        self.tuner: Tuner | None = None
        self.processes: set[tuple[str, int]] = set()
        self.recalled: Knowledge | None = None
        """What earlier jobs taught."""
        self.leaders: list[Leader] = []
        """Whose daemon decided since when, the last ones; none in a job of one node."""
        self._run: JobRun | None = None
        self._filter = EventFilter()
        self._meter = CheckpointCosts()
        self._failures = FailureWatch()
        self._observers = Observers()
        self._applied = AppliedSettings()
        self._observing = Observing()
        self._on = True
        self._held: Held | None = None
        self._now_s = 0.0

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event in at `now` (epoch seconds); returns the effects for the shell, in order."""
        self.counters.events += 1
        self._now_s = now
        effects: Iterator[Effect] = iter(())
        match event:
            case TraceDigest():
                effects = self._digest(event, now)
            case NodeObserved() | StorageProbed() | NodeLeft():
                self._node(event, now)
            case StorageTargetsObserved() | AllocationObserved() | LeaderChanged() | EventsLost():
                self._note(event, now)
            case MetricObserved():
                effects = self._metric(event)
            case SettingsObserved():
                effects = self._settings(event, now)
            case UserEdited():
                effects = self._edited(event, now)
            case TuningSwitched():
                effects = self._switched(event, now)
            case KnowledgeRecalled():
                self.recalled = event.knowledge
                effects = iter([Tell(text=f"recalled: {event.knowledge.sentence()}")])
            case ApplyRefused():
                effects = self._refused(event, now)
            case _:
                effects = self._goodput(event, now)
        return list(effects)

    @property
    def job(self) -> SettingsObserved | None:
        """The job as its last run described it, with the user's own settings."""
        return self._run.job if self._run else None

    @property
    def intents(self) -> Intents:
        """The intents so far."""
        failures = self._failures.failures
        around = Surroundings(
            failures=failures, allocation=self.allocation, recalled=self.recalled, now_s=self._now_s
        )
        return self._observers.observe(self.job, self.settings, around)

    @property
    def observation(self) -> Observation:
        """What was traced, what that cost, and whether it goes on."""
        return self._observing.observation

    @property
    def settings(self) -> Values:
        """The active settings; SCR's defaults before the job has described itself."""
        return self.tuner.settings if self.tuner else DEFAULTS

    @property
    def situation(self) -> Situation:
        """The input of the rules."""
        mutability = self.tuner.mutability if self.tuner else RunMutability()
        return Situation(
            intents=self.intents,
            own=self.tuner.baseline if self.tuner else DEFAULTS,
            settings=self.settings,
            job=self.job,
            node=self.node,
            held=self._held_now,
            probe=self.probe,
            allocation=self.allocation,
            recalled=self.recalled,
            failures=self._failures.failures,
            felt_s=self.tuner.felt_s if self.tuner else 0.0,
            mutability=mutability,
            start_s=self._applied.start_s,
            checkpoints=self._applied.checkpoints,
            obeyed=self._applied.obeyed,
            reinit_s=self._applied.reinit_s,
            why_no_cache=self._applied.shared_files.why_no_cache(is_real=bool(mutability.parameters)),
            why_no_bypass=self._applied.shared_files.why_no_bypass,
        )

    @property
    def node(self) -> NodeObserved | None:
        """Memory and room in the cache: the least of all nodes."""
        return self._observers.nodes.look

    @property
    def probe(self) -> StorageProbed | None:
        """The rates of the storage: the lowest of all nodes."""
        return self._observers.nodes.probe

    def is_probed(self, host: str) -> bool:
        """Return whether the storage of `host` was probed."""
        return self._observers.nodes.is_probed(host)

    @property
    def nodes(self) -> tuple[NodeEvidence, ...]:
        """What each node has said of itself, by host."""
        return self._observers.nodes.evidence()

    @property
    def targets(self) -> StorageTargetsObserved | None:
        """What the prefix directory is on."""
        return self._observers.targets

    @property
    def on(self) -> bool:
        """True when changes are tried: the job wants it, and there was no ``scrtune off`` since."""
        return self._on and (self.job is None or self.job.tuning)

    @property
    def pinned(self) -> set[str]:
        """The parameters that ``scrtune pin`` fixes."""
        return self._run.pinned if self._run else set()

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decisions so far, oldest first."""
        return self.tuner.decisions if self.tuner else ()

    @property
    def advice(self) -> Advice:
        """The settings that every rank applies at the next SCR_Start_output."""
        return self._run.advice(self.tuner) if self._run and self.tuner else Advice()

    @property
    def knowledge(self) -> Knowledge | None:
        """What this job and earlier ones taught; None before there was a checkpoint."""
        learnt = self.tuner.knowledge(self.recalled, self._applied.last_s) if self.tuner else None
        if learnt is None:
            return None
        seen, before = self._failures.failures, self.recalled or Knowledge(jobs=0, checkpoints=0)
        node_s = before.node_s + seen.observed_s * seen.nodes
        return replace(learnt, failures=before.failures + seen.total, node_s=node_s)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the user said that cannot be, and what counts instead."""
        return contradictions(self.job, self.intents) if self.job else ()

    @property
    def applied_s(self) -> float:
        """Seconds that applying settings took so far."""
        return self._applied.applied_s

    @property
    def start_s(self) -> float:
        """Beginning of the job, epoch seconds; 0 before its first event."""
        return self.ledger.account(0.0).start_s

    def proposals(self) -> tuple[Proposal, ...]:
        """Return what would be proposed now, guard rails applied; none of it has been tried.

        What the user's declaration demands comes first. Nothing where the job is only observed.
        """
        if self.tuner is None or not self._is_asked:
            return ()
        situation = self.situation
        demanded = (each for each, veto in declared(situation) if veto is None)
        paced = interval(situation).proposal
        return (*demanded, *([paced] if paced else []), *self.tuner.proposals(situation))

    def parameters(self) -> tuple[DerivedParameter, ...]:
        """Return the parameters that follow from the intents without a trial; none in an observed job."""
        return derived(self.situation) if self._is_asked else ()

    def levers(self) -> tuple[LeverView, ...]:
        """Return why each lever is as it is; nothing where the job is only observed."""
        if self.tuner is None or not self._is_asked:
            return ()
        situation = self.situation
        return (*self.tuner.levers(situation), interval(situation).view)

    @property
    def _is_asked(self) -> bool:
        """True when it is asked what settings would be better."""
        return self.job is not None and (self.job.tuning or self.job.recommend)

    @property
    def _required(self) -> list[tuple[Proposal, str | None]]:
        """What the user's declaration demands and no launch will bring, where settings may be changed."""
        if self.tuner is None or not (self.job and self.job.tuning):
            return []
        coming = self.tuner.at_launch
        return [
            (each, veto)
            for each, veto in declared(self.situation)
            if any(coming.get(name) != value for name, value in each.changes.items())
        ]

    @property
    def pace(self) -> str:
        """How absurdly often checkpoints come, or that none does, and what to set; else empty."""
        return absurd(self.job, self.settings, self.costs, self._failures.failures)

    @property
    def divergence(self) -> str:
        """How the watched metric diverges; empty while it does not."""
        found = self.intents.divergence
        return found.sentence() if found.sign else ""

    def account(self, now: float) -> Account:
        """Return where the job's time went until `now`."""
        return self.ledger.account(now)

    def _note(
        self, event: StorageTargetsObserved | AllocationObserved | LeaderChanged | EventsLost, now: float
    ) -> None:
        match event:
            case EventsLost():
                self.counters.add_lost(event)
            case StorageTargetsObserved():
                self._observers.targets = event
            case AllocationObserved():
                self.allocation = event
            case LeaderChanged():
                self.leaders.append(Leader(host=event.host, term=event.term, since_s=now, why=event.why))
                del self.leaders[:-_REMEMBERED_LEADERS]

    def _node(self, event: NodeObserved | StorageProbed | NodeLeft, now: float) -> None:
        match event:
            case NodeObserved():
                self._look(event, now)
            case StorageProbed():
                self._observers.add_probe(event, now)
            case NodeLeft():
                self._observers.nodes.forget(event.host)

    def _look(self, node: NodeObserved, now: float) -> None:
        applied = self._applied
        settings = applied.values or self.settings
        if is_holding := is_cached(settings):
            each_bytes = self._observers.flush(self.settings).checkpoint_bytes
            self._held = Held(applied.cached, settings, 0, each_bytes)
        self._observers.add_node(node, now, is_cached=is_holding)

    def _metric(self, metric: MetricObserved) -> Iterator[Effect]:
        """Say when a metric begins to diverge, and when it has recovered; the job is not touched."""
        if not self._observers.add_metric(metric, self.job):
            return
        found = self.intents.divergence
        if found.sign is None:
            yield Tell(text=f"{found.sentence()} any more")
        else:
            back = f"; SCR_CURRENT={found.back_to} goes back to it" if found.back_to else ""
            yield Tell(text=f"{found.sentence()}{back}", level="warning")

    @property
    def _held_now(self) -> Held | None:
        if self._held is None:
            return None
        return replace(self._held, free_bytes=self._observers.nodes.free_with_datasets)

    def _digest(self, digest: TraceDigest, now: float) -> Iterator[Effect]:
        self.counters.add_digest(digest)
        self.processes.update(islice(digest.processes, max(0, _MOST_PROCESSES - len(self.processes))))
        self._observers.add_digest(digest, now)
        if self.job is None and self._observing.elsewhere(digest.events):
            yield Observe(on=False)

    def _settings(self, job: SettingsObserved, now: float) -> Iterator[Effect]:
        """A run of the job begins: the first one's settings are the baseline."""
        self._observing.set_budget(job.observe_budget)
        self._observers.begin_run(job, now)
        self._run = run = self._run.next(job) if self._run else JobRun(job)
        mutability = RunMutability(parameters=job.mutability, found=self._applied.begin_run(job, now))
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
            outcomes.append(tuner.edit(own, {**back, **changes}, now))
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
        self._applied.restore(event.in_force)
        outcome = self.tuner.refused(event, self._applied.values, now)
        yield from self._effects(self._run, self.tuner, [outcome])

    def _goodput(self, event: GoodputEvent, now: float) -> Iterator[Effect]:
        if (problem := self._filter.problem(event, now)) is not None:
            self.counters.add_dropped(problem)
            return
        known = self.contradictions if isinstance(event, RestartCompleted) else ()
        self._observers.add_event(event, self.settings)
        yield from self._account_for(event, now)
        yield from self._observe(event)
        if isinstance(event, RestartCompleted):
            yield from self._restarted(known, now)

    def _restarted(self, known: Sequence[str], now: float) -> Iterator[Effect]:
        """A checkpoint was read, which may contradict what the user said, or ask for a longer history."""
        for text in self.contradictions:
            if text not in known:
                yield Tell(text=text, level="warning")
        if self.tuner is not None and self._run is not None:
            yield from self._effects(self._run, self.tuner, [self.tuner.require(self._required, now)])

    def _observe(self, event: GoodputEvent) -> Iterator[Effect]:
        was_on = self.observation.on
        match event:
            case JobStarted():
                self._observing.started(event)
            case OutputCompleted():
                self._observing.output(event, self.intents.buffers)
        if self.observation.on != was_on:
            yield Observe(on=self.observation.on)

    def _account_for(self, event: GoodputEvent, now: float) -> Iterator[Effect]:
        self.ledger.handle(event)
        if not (isinstance(event, JobStarted) and event.writer):  # of a launch that rank 0 has told, too
            self._failures.handle(event)
        costs = self._meter.handle(event)
        self.costs += costs
        del self.costs[:-_REMEMBERED_COSTS]
        for cost in costs:
            self.ledger.charge(FLUSH_SLOWDOWN, cost.slowdown_s)
        if self.tuner is not None and self._run is not None:
            yield from self._effects(self._run, self.tuner, [*self._tune(self.tuner, event, costs, now)])

    def _tune(
        self, tuner: "Tuner", event: GoodputEvent, costs: Sequence[CheckpointCost], now: float
    ) -> Iterator[Outcome]:
        if isinstance(event, OutputCompleted):
            tuner.charge_apply(self._applied.apply(event, tuner))
            tuner.output(event)
        if isinstance(event, OutputCompleted | FlushCompleted) and not event.valid:
            what = "output" if isinstance(event, OutputCompleted) else "flush"
            yield tuner.failed(f"the {what} of dataset {event.dataset} failed", event.generation, now)
        if isinstance(event, FlushCompleted):
            tuner.flushed(event)
        if isinstance(event, StepCompleted):
            yield tuner.overdue(event.end_s, now)
        for cost in costs:
            if cost.generation == tuner.generation:
                self._observers.add_cost(cost, tuner.settings)
            if self.job is not None and self._is_asked:
                yield tuner.add(cost, lambda: self.situation, now, may_try=self.job.tuning)
                paced = interval(self.situation).proposal
                if paced is not None and self.on:
                    yield tuner.require([(paced, None)], now)

    def _effects(
        self, run: JobRun, tuner: "Tuner", outcomes: Sequence[Outcome], *, publish: bool = False
    ) -> Iterator[Effect]:
        if publish or any(each.changed for each in outcomes):
            yield RewriteConfig(advice=run.publish(tuner))
        for outcome in outcomes:
            yield from (Tell(text=decision.text) for decision in outcome.decisions)
            self.ledger.charge(TUNING, outcome.tuning_s)
