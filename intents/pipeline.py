"""The one place where state changes: events in, effects out. Live, replay and tests drive the same class.

``handle(event, now)`` is a pure function of the events so far: fed the same journal it makes the same
decisions. Whoever calls it owns the clock, the files and the sockets.
"""

from collections.abc import Iterator, Sequence

import msgspec

from ..goodput.checkpoint_cost import CheckpointCost, CheckpointCosts
from ..goodput.events import FlushCompleted, GoodputEvent, OutputCompleted
from ..goodput.ledger.ledger import FLUSH_SLOWDOWN, TUNING, Account, Ledger
from ..goodput.validation import defect
from .effects import Advice, Effect, RewriteConfig, Tell
from .events import (
    EDITED,
    ApplyRefused,
    Event,
    EventsLost,
    NodeObserved,
    SettingsObserved,
    TraceDigest,
    TuningSwitched,
    UserEdited,
    Values,
)
from .observe.affinity import AffinityObserver
from .observe.buffers import BufferObserver
from .observe.flush import FlushCycles, FlushObserver
from .observe.flush_times import FlushTimes
from .observe.redundancy import FLOORS
from .observe.redundancy import observe as observe_redundancy
from .observe.shared_files import SharedFiles, starts_past_the_cache
from .rules.guards import veto
from .rules.mutability import Reach
from .rules.policy import proposals
from .rules.situation import DEFAULTS, Intents, Proposal, Situation, changes_text, number
from .tune.decisions import NOT_MADE, Decision
from .tune.known_run import KnownRun
from .tune.switching import Switches, only_at_launch, too_dear
from .tune.trial_costs import TrialCosts
from .tune.tuner import Tuner

_REMEMBERED_COSTS = 10_000
_REMEMBERED_EVENTS = 1024
_REMEMBERED_NAMES = 65_536
_FROM_AN_EARLIER_JOB = (
    "SCR's config file still had what an earlier job was tuned to; your own settings are measured first"
)


class Counters(msgspec.Struct, kw_only=True):
    """What came in, and what was lost on the way."""

    events: int = 0
    trace_lines: int = 0
    trace_events: int = 0
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    generations: dict[int, int] = msgspec.field(default_factory=dict)
    unresolved: int = 0


class Pipeline:
    """Everything known about one job, and what follows from it.

    Memory is bounded, however long the job: the last 10,000 costs and 1,000 decisions are kept.
    """

    def __init__(self) -> None:
        self.counters = Counters()
        self.ledger = Ledger()
        self.costs: list[CheckpointCost] = []
        self.node: NodeObserved | None = None
        self.tuner: Tuner | None = None
        self.processes: set[tuple[str, int]] = set()
        self._run: KnownRun | None = None
        self._meter = CheckpointCosts()
        self._affinity = AffinityObserver()
        self._buffers = BufferObserver()
        self._flush = FlushObserver()
        self._flush_times = FlushTimes()
        self._cycles = FlushCycles()
        self._cycles_of = 0
        self._seen: dict[GoodputEvent, None] = {}
        self._switches = Switches()
        self._trial_costs = TrialCosts()
        self._sharing = SharedFiles()
        self._in_force: Values = {}
        self._on = True
        self._checkpoints = 0

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event in at `now` (epoch seconds); returns what the shell must do, in order."""
        self.counters.events += 1
        effects: Iterator[Effect] = iter(())
        match event:
            case TraceDigest():
                effects = self._digest(event, now)
            case NodeObserved():
                self.node = event
                self._affinity.add(event, now)
            case EventsLost():
                _count(self.counters.lost, {event.source: event.count})
            case SettingsObserved():
                effects = self._settings(event, now)
            case UserEdited():
                effects = self._edited(event, now)
            case TuningSwitched():
                effects = self._switched(event, now)
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
        """The intents as they stand."""
        scheme = str(self.settings["SCR_COPY_TYPE"]) if self.tuner else None
        return Intents(
            affinity=self._affinity.observe(),
            buffers=self._buffers.observe(),
            redundancy=observe_redundancy(self.job, scheme),
            flush=self._flush.observe(changes_text(self.settings)),
        )

    @property
    def settings(self) -> Values:
        """The settings in force; SCR's defaults before the job has said what it runs under."""
        return self.tuner.settings if self.tuner else DEFAULTS

    @property
    def situation(self) -> Situation:
        """What the rules see."""
        made = Situation(intents=self.intents, settings=self.settings, job=self.job, node=self.node)
        if self.tuner is None:
            return made
        return msgspec.structs.replace(
            made,
            reach=self.tuner.reach,
            checkpoints=self._checkpoints,
            reinit_s=self._switches.reinit_s,
            trial_budget_s=self.tuner.trial_budget_s,
            why_no_cache=self._sharing.why_no_cache(is_real=bool(self.tuner.reach.mutability)),
        )

    @property
    def on(self) -> bool:
        """Whether anything is tried: the job's own wish, and no ``scrtune off`` since."""
        return self._on and (self.job is None or self.job.tuning)

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decisions so far, oldest first."""
        return self.tuner.decisions if self.tuner else ()

    @property
    def advice(self) -> Advice:
        """What every rank applies at the next SCR_Start_output: what the user set, and what was tuned."""
        if self.tuner is None or self._run is None:
            return Advice()
        job, found = self._run.job, self.tuner.reach.found
        explicit = {name for name, source in job.sources.items() if source != "default"}
        other = {name for name, value in self.settings.items() if found.get(name) != value}
        names = explicit | self.tuner.touched | other
        own = {**DEFAULTS, **job.settings}
        made = (each for each in reversed(self.decisions) if each.verdict not in NOT_MADE)
        last = next(made, None)
        turn = ", compared with the settings before" if self.tuner.comparing else ""
        return Advice(
            generation=self.tuner.generation,
            settings={name: value for name, value in self.settings.items() if name in names},
            at_launch=self.tuner.at_launch,
            kept={
                name: value
                for name, value in self.tuner.kept.items()
                if (own.get(name) != value or job.sources.get(name) == EDITED)
                and not starts_past_the_cache({name: value}, job)
            },
            reason=last.short + turn if last else Advice().reason,
        )

    def proposals(self) -> tuple[Proposal, ...]:
        """What the rules would propose now, guard rails applied; nothing of it has been tried."""
        now = self.situation
        return tuple(each for each in proposals(now) if (veto(each, now) or too_dear(each, now)) is None)

    @property
    def start_s(self) -> float:
        """When the job began, epoch seconds; 0 before it was heard of."""
        return self.ledger.account(0.0).start_s

    def account(self, now: float) -> Account:
        """Where the job's time went until `now`."""
        return self.ledger.account(now)

    def _digest(self, digest: TraceDigest, now: float) -> Iterator[Effect]:
        counters = self.counters
        counters.trace_lines += digest.lines
        counters.trace_events += digest.events
        counters.unresolved += digest.unresolved
        _count(counters.dropped, digest.dropped)
        _count(counters.generations, digest.generations)
        if len(self.processes) < _REMEMBERED_NAMES:
            self.processes.update(digest.processes)
        self._buffers.add(digest)
        for flush in self._flush_times.digest(digest):
            yield from self._account_for(flush, now)

    def _settings(self, job: SettingsObserved, now: float) -> Iterator[Effect]:
        """A run of the job begins: the first one's settings are the baseline."""
        known = self._run
        self._run = KnownRun(job) if known is None else known.next(job)
        own = {**DEFAULTS, **self._run.job.settings}
        self._in_force = {**DEFAULTS, **job.settings, **job.advised}
        reach = Reach(mutability=job.mutability, found=self._in_force)
        if self.tuner is None or known is None:
            self.tuner = Tuner(self._in_force, reach=reach, on=self._on)
            if job.advised:
                self.tuner = self.tuner.successor(own, reach, _FROM_AN_EARLIER_JOB, now)
        elif reason := self._run.differs_from(known):
            self.tuner = self.tuner.successor(own, reach, reason, now)
        else:
            self.tuner.begin_run(reach, now)
        self._cycles.clear()
        self._sharing.begin_run()
        if job.floor and job.floor.upper() not in FLOORS:
            known_floors = ", ".join(sorted(FLOORS))
            text = (
                f"redundancy floor {job.floor!r} is not one of {known_floors}; the user's scheme is the floor"
            )
            yield Tell(text=text, level="warning")
        self._require(self.tuner, now)
        yield self._publish(self._run)
        yield from self._tell(self.tuner)

    def _publish(self, run: KnownRun) -> RewriteConfig:
        advice = self.advice
        for values in (advice.settings, advice.at_launch, advice.kept or {}):
            run.published(values)
        return RewriteConfig(advice=advice)

    def _switched(self, event: TuningSwitched, now: float) -> Iterator[Effect]:
        """``scrtune off`` and ``scrtune on``."""
        if event.on == self._on:
            return
        self._on = event.on
        if self.tuner is not None and self._run is not None:
            self.tuner.switch(on=event.on, now=now)
            self._cycles.clear()
            yield self._publish(self._run)
            yield from self._tell(self.tuner)
        if event.on:
            yield Tell(text="scrtune on: tuning goes on from your own settings")

    def _refused(self, event: ApplyRefused, now: float) -> Iterator[Effect]:
        """The ranks refused a decision: no cost under it will come."""
        if self.tuner is None or self._run is None:
            return
        before = self.tuner.generation
        if event.in_force:
            self._in_force = {**self._in_force, **event.in_force}
            self._sharing.went_back()
        self.tuner.refused(event.generation, event.why, self._in_force, now)
        if self.tuner.generation != before:
            self._cycles.clear()
            yield self._publish(self._run)
        yield from self._tell(self.tuner)

    def _edited(self, edit: UserEdited, now: float) -> Iterator[Effect]:
        """The user's word, as if the job had come with it; but what their environment sets stays in force."""
        if self._run is None or self.tuner is None:
            return
        job = self._run.job
        wanted = {**edit.changes, **{name: DEFAULTS[name] for name in edit.removed if name in DEFAULTS}}
        pinned = {name for name in wanted if job.sources.get(name) == "environment" and not job.override}
        overruled = (f"{name}: your environment sets it, which wins" for name in sorted(pinned))
        changes = {name: value for name, value in wanted.items() if name not in pinned}
        if changes:
            self._run = self._run.edited(changes)
            own = {**DEFAULTS, **self._run.job.settings}
            because = "what you write in the file that scrtune keeps wins: it is tuned no more"
            self.tuner = self.tuner.edited(own, changes, because, now)
            self._cycles.clear()
            self._require(self.tuner, now)
        for why in (*edit.refused, *overruled):
            rule = "your edit of the config file: " + why.partition(":")[0]
            stopped = Proposal(rule=rule, intent="your word", changes={}, because=why, source="user")
            self.tuner.veto(stopped, why, now)
        yield self._publish(self._run)
        yield from self._tell(self.tuner)

    def _require(self, tuner: Tuner, now: float) -> None:
        situation = self.situation
        for proposal in proposals(situation):
            if not proposal.required:
                continue
            if reason := veto(proposal, situation):
                tuner.veto(proposal, reason, now)
            else:
                tuner.require(proposal, now)

    def _goodput(self, event: GoodputEvent, now: float) -> Iterator[Effect]:
        if (problem := self._problem(event, now)) is not None:
            _count(self.counters.dropped, {problem: 1})
            return
        for each in self._flush_times.event(event):
            yield from self._account_for(each, now)

    def _account_for(self, event: GoodputEvent, now: float) -> Iterator[Effect]:
        self.ledger.handle(event)
        cost = self._meter.handle(event)
        if self.tuner is None or self._run is None:
            self._remember(cost)
            return
        before = (self.tuner.generation, self.tuner.kept)
        if isinstance(event, OutputCompleted):
            self._sharing.add(event)
            self._applied(self.tuner, event)
        if isinstance(event, OutputCompleted | FlushCompleted) and not event.valid:
            what = "output" if isinstance(event, OutputCompleted) else "flush"
            self.tuner.failed(f"the {what} of dataset {event.dataset} failed", event.generation, now)
        elif cost is not None:
            self._remember(cost)
            self._feed(self.tuner, cost, now, tuning=self._run.job.tuning)
        if (self.tuner.generation, self.tuner.kept) != before:
            yield self._publish(self._run)
        yield from self._tell(self.tuner)

    def _applied(self, tuner: Tuner, output: OutputCompleted) -> None:
        """Enter what putting settings in force took, before `output` began: it is a cost of tuning."""
        apply_s = max(0.0, min(output.apply_s, output.end_s - output.start_s))
        self._checkpoints += output.checkpoint and output.valid
        if (settings := tuner.settings_of(output.generation)) is not None:
            self._switches.add(self._in_force, settings, apply_s, tuner.reach)
            self._in_force = settings
        tuner.charge_apply(apply_s)

    def _problem(self, event: GoodputEvent, now: float) -> str | None:
        """Why an event is not counted: it cannot be true, or it was counted already."""
        if (problem := defect(event, now)) is not None:
            return f"events with {problem}"
        if event in self._seen:
            return "events that came twice"
        self._seen[event] = None
        if len(self._seen) > _REMEMBERED_EVENTS:
            del self._seen[next(iter(self._seen))]
        return None

    def _remember(self, cost: CheckpointCost | None) -> None:
        if cost is not None:
            self.costs.append(cost)
            del self.costs[:-_REMEMBERED_COSTS]
            self.ledger.charge(FLUSH_SLOWDOWN, cost.slowdown_s)
            self._trial_costs.add(cost)

    def _tell(self, tuner: Tuner) -> Iterator[Effect]:
        for decision in tuner.take_news():
            self._trial_costs.decide(decision)
            yield Tell(text=decision.text)
        self._trial_costs.in_force(tuner.generation, tuner.settings)
        for cost in self._trial_costs.take():
            self.ledger.charge(TUNING, cost.cost_s)
            tuner.log.charge(cost.generation, cost.checkpoints, cost.cost_s)

    def _feed(self, tuner: Tuner, cost: CheckpointCost, now: float, *, tuning: bool) -> None:
        """Tell the tuner what a checkpoint cost, and, at the end of a flush cycle, what the settings did."""
        if tuning:
            tuner.charge(cost.cost_s, cost.generation)
        if cost.generation != tuner.generation:
            return
        self._flush.add(cost, changes_text(tuner.settings))
        if self._cycles_of != tuner.generation:
            self._cycles.clear()
            self._cycles_of = tuner.generation
        observed_s = self._cycles.add(cost, self._flush_every())
        if tuning and observed_s is not None:
            tuner.observe(observed_s, now, lambda: self._propose(tuner, now))

    def _flush_every(self) -> int:
        """Checkpoints from one flush to the next."""
        is_cached = number(self.settings, "SCR_CACHE_BYPASS") == 0
        return max(1, number(self.settings, "SCR_FLUSH")) if is_cached else 1

    def _propose(self, tuner: Tuner, now: float) -> Proposal | None:
        """The best proposal that may be tried and that no guard rail stops."""
        situation = self.situation
        left = [tuner.left.beyond(tuner.settings)] if tuner.left else []
        for proposal in (*left, *(each for each in proposals(situation) if tuner.may_try(each))):
            if not proposal.changes:
                continue
            if reason := veto(proposal, situation):
                tuner.veto(proposal, reason, now)
            elif reason := too_dear(proposal, situation):
                tuner.veto(proposal, reason, now)
                if situation.job is None or not starts_past_the_cache(proposal.changes, situation.job):
                    tuner.pend(proposal, "the next run of the job begins with it, on trial", now)
            elif reason := only_at_launch(proposal, situation):
                tuner.pend(proposal, reason, now)
            else:
                return proposal
        return None


def _count(totals: dict[str, int] | dict[int, int], more: dict[str, int] | dict[int, int]) -> None:
    for key, count in more.items():
        if key in totals or len(totals) < _REMEMBERED_NAMES:
            totals[key] = totals.get(key, 0) + count  # type: ignore[index, arg-type]
