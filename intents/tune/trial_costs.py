"""What trials cost: of each that was taken back, what its checkpoints cost more than before.

A trial that was kept has cost nothing. While one is on nothing is told of it yet; when it is taken back all
is, and what ended late, or ran under it until a launch could take it back, follows checkpoint by checkpoint.

*The settings before* cost what their last six checkpoints did: those next to the trial and those in its
turns, which slow noise meets as it meets the candidate's. Differences are signed: of noise alone half of the
trials cost something and half save it, and were only the former counted, trying would look dear where it
costs nothing. What is left of noise is that of trials which luck had kept, or taken back for want of proof.

Where SCR_FLUSH is above 1 some checkpoints are flushed and some not. Each is held against its own kind, so
that it does not matter where in a flush cycle a trial ends; where the settings before had none of that kind,
as those that bypass the cache have none with a flush, against all of theirs.
"""

from collections import deque
from statistics import fmean
from typing import NamedTuple

from ...goodput.checkpoint_cost import CheckpointCost
from ..events import Values
from .decisions import Decision, Verdict

_REMEMBERED_COSTS = 6
"""Of each kind. In simulated jobs eight came no nearer to the truth; two were off by half as much again."""

_REMEMBERED = 64
"""Generations: a checkpoint of an older one is heard of no more."""


class TrialCost(NamedTuple):
    """What `checkpoints` of the trial that began with `generation` cost more; below 0 what they saved."""

    generation: int
    checkpoints: int
    cost_s: float


class TrialCosts:
    """Follows trials by the decisions, the settings in force and what checkpoints cost. Memory is bounded."""

    def __init__(self) -> None:
        self._trial: _Trial | None = None
        self._under: dict[int, _Trial] = {}
        self._generation = self._since = 0
        self._usual = _Costs()
        self._told: list[TrialCost] = []

    def take(self) -> list[TrialCost]:
        """What trials turned out to have cost since the last call."""
        told, self._told = self._told, []
        return told

    def decide(self, decision: Decision) -> None:
        """Take in what became of a change."""
        match decision.verdict:
            case Verdict.TRIAL:
                self._trial = _Trial(decision.generation, decision.changes)
            case Verdict.REVERTED:
                self._take_back()
            case Verdict.ACCEPTED if self._trial is not None:
                self._begin(self._trial.costs, decision.generation)
            case Verdict.BASELINE | Verdict.REQUIRED:
                self._take_back()  # a run under other settings ends a trial without a word
                self._begin(_Costs(), decision.generation)

    def activate(self, generation: int, settings: Values) -> None:
        """`settings` are those of `generation`: with what is on trial, or those that it may replace."""
        if generation == self._generation:
            return
        self._generation = generation
        if self._trial is not None and self._trial.changes.items() <= settings.items():
            self._under[generation] = self._trial
            if len(self._under) > _REMEMBERED:
                del self._under[next(iter(self._under))]

    def add(self, cost: CheckpointCost) -> None:
        """Take in what a checkpoint cost."""
        trial = self._under.get(cost.generation)
        if trial is not None and trial.instead_s is not None:
            more_s = cost.cost_s - trial.instead_s.get(cost.flushed, cost.cost_s)
            self._told.append(TrialCost(trial.generation, 1, more_s))
        elif trial is not None:
            trial.costs.add(cost)
        elif cost.generation >= self._since:
            self._usual.add(cost)

    def _take_back(self) -> None:
        """From now on the trial's checkpoints are held against what they would have cost instead."""
        trial = self._trial
        if trial is not None and trial.instead_s is None:
            trial.instead_s = self._usual.usual_s
            more_s = trial.costs.more_than(trial.instead_s)
            self._told.append(TrialCost(trial.generation, trial.costs.checkpoints, more_s))

    def _begin(self, usual: "_Costs", generation: int) -> None:
        """From `generation` on a trial may replace other settings, which cost `usual`."""
        self._usual, self._since, self._trial = usual, generation, None


class _Costs:
    """What checkpoints cost under the same settings, those with a flush and those without told apart."""

    def __init__(self) -> None:
        self._count: dict[bool, int] = {}
        self._sum_s: dict[bool, float] = {}
        self._last_s: dict[bool, deque[float]] = {}

    def add(self, cost: CheckpointCost) -> None:
        kind = cost.flushed
        self._count[kind] = self._count.get(kind, 0) + 1
        self._sum_s[kind] = self._sum_s.get(kind, 0.0) + cost.cost_s
        self._last_s.setdefault(kind, deque(maxlen=_REMEMBERED_COSTS)).append(cost.cost_s)

    @property
    def checkpoints(self) -> int:
        """How many there are."""
        return sum(self._count.values())

    @property
    def usual_s(self) -> dict[bool, float]:
        """What a checkpoint of each kind costs; of a kind that there is none of, what any does."""
        every = [cost_s for last in self._last_s.values() for cost_s in last]
        return {kind: fmean(self._last_s.get(kind, every)) for kind in (True, False)} if every else {}

    def more_than(self, instead_s: dict[bool, float]) -> float:
        """Seconds that all of them cost more than `instead_s` each."""
        return sum(
            self._sum_s[kind] - count * instead_s[kind]
            for kind, count in self._count.items()
            if kind in instead_s
        )


class _Trial:
    """One that is on, while nothing is known of what its checkpoints would have cost instead; or was."""

    def __init__(self, generation: int, changes: Values) -> None:
        self.generation = generation
        self.changes = changes
        self.costs = _Costs()
        self.instead_s: dict[bool, float] | None = None
