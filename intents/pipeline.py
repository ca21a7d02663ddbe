"""The one place where state changes: events in, effects out. Live, replay and tests drive the same class.

``handle(event, now)`` is a pure function of the events so far: fed the same journal it makes the same
decisions. Whoever calls it owns the clock, the files and the sockets.
"""

import msgspec

from ..goodput.checkpoint_cost import CheckpointCost, CheckpointCosts
from ..goodput.ledger import Account, Ledger
from .affinity import AffinityObserver
from .buffers import BufferObserver
from .effects import Advice, Effect, RewriteConfig, Tell
from .events import Event, EventsLost, NodeObserved, Settings, SettingsObserved, TraceDigest
from .flush import FlushObserver
from .guards import veto
from .policy import proposals
from .redundancy import observe as observe_redundancy
from .situation import Intents, Proposal, Situation, changes_text
from .tuner import Decision, Tuner

LEVERS: Settings = {"SCRTUNE_FLUSH_THREADS": 0, "SCRTUNE_FLUSH_CPUS": ""}
"""The levers that SCR has no name for, at rest: AXL's own number of threads, their inherited mask."""

_REMEMBERED_COSTS = 10_000


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
    """Everything known about one job, and what follows from it."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.ledger = Ledger()
        self.costs: list[CheckpointCost] = []
        self.job: SettingsObserved | None = None
        self.node: NodeObserved | None = None
        self.tuner: Tuner | None = None
        self.processes: set[tuple[str, int]] = set()
        self._meter = CheckpointCosts()
        self._affinity = AffinityObserver()
        self._buffers = BufferObserver()
        self._flush = FlushObserver()
        self._cycle: list[CheckpointCost] = []

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event in at `now` (epoch seconds); returns what the shell must do, in order."""
        self.counters.events += 1
        match event:
            case TraceDigest():
                self._digest(event)
            case NodeObserved():
                self.node = event
                self._affinity.add(event, now)
            case EventsLost():
                _count(self.counters.lost, {event.source: event.count})
            case SettingsObserved():
                return self._settings(event, now)
            case _:
                self.ledger.handle(event)
                cost = self._meter.handle(event)
                return self._cost(cost, now) if cost is not None else []
        return []

    @property
    def intents(self) -> Intents:
        """The intents as they stand."""
        scheme = str(self.settings.get("SCR_COPY_TYPE", "XOR")) if self.tuner else None
        return Intents(
            affinity=self._affinity.observe(),
            buffers=self._buffers.observe(),
            redundancy=observe_redundancy(self.job, scheme),
            flush=self._flush.observe(),
        )

    @property
    def settings(self) -> Settings:
        """The settings in force; the levers alone before the job has said what it runs under."""
        return self.tuner.settings if self.tuner else LEVERS

    @property
    def situation(self) -> Situation:
        """What the rules see."""
        return Situation(intents=self.intents, settings=self.settings, job=self.job, node=self.node)

    @property
    def decisions(self) -> list[Decision]:
        """Every decision so far, oldest first."""
        return self.tuner.decisions if self.tuner else []

    @property
    def advice(self) -> Advice:
        """What every rank applies at the next SCR_Start_output: what the user set, and what was tuned."""
        if self.tuner is None or self.job is None:
            return Advice()
        explicit = {name for name, source in self.job.sources.items() if source != "default"}
        names = explicit | self.tuner.touched
        reason = Advice().reason
        if self.decisions:
            last = self.decisions[-1]
            reason = f"{last.verdict.value}: {last.rule} ({changes_text(last.changes)})"
        return Advice(
            generation=self.tuner.generation,
            settings={name: value for name, value in self.settings.items() if name in names},
            reason=reason,
        )

    def proposals(self) -> tuple[Proposal, ...]:
        """What the rules would propose now, guard rails applied; nothing of it has been tried."""
        now = self.situation
        return tuple(proposal for proposal in proposals(now) if veto(proposal, now) is None)

    def account(self, now: float) -> Account:
        """Where the job's time went until `now`."""
        return self.ledger.account(now)

    def _digest(self, digest: TraceDigest) -> None:
        counters = self.counters
        counters.trace_lines += digest.lines
        counters.trace_events += digest.events
        counters.unresolved += digest.unresolved
        _count(counters.dropped, digest.dropped)
        _count(counters.generations, digest.generations)
        self.processes.update(digest.processes)
        self._buffers.add(digest)

    def _settings(self, job: SettingsObserved, now: float) -> list[Effect]:
        """A run of the job begins: the first one's settings are the anchor.

        A later run finds what was tuned in the config file that we wrote. Then it goes on from there, and
        the user's own settings stay what they were; any other difference is the user's word and a new anchor.
        """
        if self.tuner is not None and self.job is not None and self._is_ours(job.settings):
            self.job = msgspec.structs.replace(job, settings=self.job.settings, sources=self.job.sources)
        else:
            self.job = job
            self.tuner = Tuner({**LEVERS, **job.settings})
        self._cycle.clear()
        situation = self.situation
        for proposal in proposals(situation):
            if proposal.required and veto(proposal, situation) is None:
                self.tuner.require(proposal, now)
        return [RewriteConfig(advice=self.advice)]

    def _is_ours(self, settings: Settings) -> bool:
        """Whether a new run's settings are those in force (the levers are in no file: they do not count)."""
        return all(value == self.settings.get(name) for name, value in settings.items() if name not in LEVERS)

    def _cost(self, cost: CheckpointCost, now: float) -> list[Effect]:
        self.costs.append(cost)
        del self.costs[:-_REMEMBERED_COSTS]
        self.ledger.charge_slowdown(cost.slowdown_s)
        job, tuner = self.job, self.tuner
        if job is None or tuner is None or cost.generation != tuner.generation:
            return []
        self._flush.add(cost)
        self._cycle.append(cost)
        if not job.tuning or len(self._cycle) < self._flush_cycle():
            return []
        observed_s = sum(each.cost_s for each in self._cycle) / len(self._cycle)
        self._cycle.clear()
        logged = len(tuner.decisions)
        changed = tuner.observe(observed_s, now, lambda: self._propose(tuner, now))
        told: list[Effect] = [Tell(text=decision_text(each)) for each in tuner.decisions[logged:]]
        return [RewriteConfig(advice=self.advice), *told] if changed else told

    def _flush_cycle(self) -> int:
        """Checkpoints from one flush to the next: only a whole cycle's cost can be compared."""
        flush_every = self.settings.get("SCR_FLUSH", 1)
        cached = self.settings.get("SCR_CACHE_BYPASS", 1) == 0
        return max(1, flush_every) if cached and isinstance(flush_every, int) else 1

    def _propose(self, tuner: Tuner, now: float) -> Proposal | None:
        """The best proposal that no guard rail stops and that was not judged before."""
        situation = self.situation
        for proposal in proposals(situation):
            if proposal.key in tuner.banned:
                continue
            if reason := veto(proposal, situation):
                tuner.veto(proposal, reason, now)
                continue
            return proposal
        return None


def decision_text(decision: Decision) -> str:
    """One decision as a line of the log."""
    return (
        f"generation {decision.generation}, {decision.verdict.value}: {decision.rule}:"
        f" {changes_text(decision.changes)}: {decision.because} [{decision.source}]"
    )


def _count(totals: dict[str, int] | dict[int, int], more: dict[str, int] | dict[int, int]) -> None:
    for key, count in more.items():
        totals[key] = totals.get(key, 0) + count  # type: ignore[index, arg-type]
