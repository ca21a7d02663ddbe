"""What is known of one job, and what follows from it: the questions that the pipeline's state answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..goodput.checkpoint_cost import CheckpointCost
from ..goodput.ledger.ledger import Account, Ledger
from .contradictions import contradictions
from .counters import Counters
from .effects import Advice
from .events import SettingsObserved, Values
from .mutability import RunMutability
from .observe.intents import Intents, Observers
from .observe.observation import Observing
from .rules.derived.interval import interval
from .rules.explain import LeverView
from .rules.pace import PaceAdvice, absurd
from .rules.parameter import DerivedParameter
from .rules.parameters import declared, derived
from .rules.situation import Held, Proposal, Situation
from .settings import DEFAULTS, is_cached
from .tune.applied_settings import AppliedSettings
from .tune.decisions import Decision
from .tune.job_run import JobRun
from .tune.knowledge import Knowledge

if TYPE_CHECKING:
    from .tune.tuner import Tuner


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """The node whose daemon decided from `since_s` (epoch seconds) on, and why it did."""

    host: str
    term: int
    since_s: float
    why: str


class JobState:
    """The state of one job. It changes in :class:`scrtune.intents.pipeline.Pipeline` alone."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.ledger = Ledger()
        self.costs: list[CheckpointCost] = []
        self.tuner: Tuner | None = None
        self.leaders: list[Leader] = []
        """Whose daemon decided since when, the last ones; none in a job of one node."""
        self._run: JobRun | None = None
        self.observers = Observers()
        """What is known of the job's nodes, storage and allocation."""
        self.applied = AppliedSettings()
        self.observing = Observing()
        self._on = True
        self._held: Held | None = None
        self._held_before: Held | None = None
        """At the end of the last output."""
        self._now_s = 0.0

    @property
    def job(self) -> SettingsObserved | None:
        """The job as its last run described it, with the user's own settings."""
        return self._run.job if self._run else None

    @property
    def intents(self) -> Intents:
        """The intents so far."""
        return self.observers.observe(self.job, self.settings, self._now_s)

    @property
    def settings(self) -> Values:
        """The active settings; SCR's defaults before the job has described itself."""
        return self.tuner.settings if self.tuner else DEFAULTS

    @property
    def situation(self) -> Situation:
        """The input of the rules."""
        tuner, seen, applied = self.tuner, self.observers, self.applied
        mutability = tuner.mutability if tuner else RunMutability()
        own = tuner.baseline if tuner else DEFAULTS
        held = replace(self._held, free_bytes=seen.nodes.free_with_datasets) if self._held else None
        return Situation(
            intents=self.intents,
            own=own,
            settings=self.settings,
            job=self.job,
            node=seen.nodes.look,
            held=held,
            probe=seen.nodes.probe,
            allocation=seen.allocation,
            recalled=seen.recalled,
            failures=seen.failures.failures,
            felt_s=tuner.felt_s if tuner else 0.0,
            mutability=mutability,
            start_s=applied.start_s,
            checkpoints=applied.checkpoints,
            obeyed=applied.obeyed,
            reinit_s=applied.reinit_s,
            why_no_cache=applied.shared_files.why_no_cache(
                to_be_seen=bool(mutability.parameters) and not is_cached(own)
            ),
            why_no_bypass=applied.shared_files.why_no_bypass,
        )

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
        recalled, seen = self.observers.recalled, self.observers.failures.failures
        learnt = self.tuner.knowledge(recalled, self.applied.last_s) if self.tuner else None
        if learnt is None:
            return None
        before = recalled or Knowledge(jobs=0, checkpoints=0)
        node_s = before.node_s + seen.observed_s * seen.nodes
        return replace(learnt, failures=before.failures + seen.total, node_s=node_s)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the user said that cannot be, and what counts instead."""
        return contradictions(self.job, self.intents) if self.job else ()

    @property
    def pace(self) -> PaceAdvice:
        """Whether checkpoints come absurdly often, or not at all."""
        return absurd(self.job, self.settings, self.costs, self.observers.failures.failures)

    @property
    def divergence(self) -> str:
        """How the watched metric diverges; empty while it does not."""
        found = self.intents.divergence
        return found.sentence() if found.sign else ""

    def account(self, now: float) -> Account:
        """Return where the job's time went until `now`."""
        return self.ledger.account(now)

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
