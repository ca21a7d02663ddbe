"""The cost of reverted trials: the extra seconds of their checkpoints over the settings before.

It is charged when a trial is reverted; checkpoints that end late, or run under it until a launch can revert
it, follow one by one. The settings before cost what their last six checkpoints did: those next to the trial
and those in its turns, which slow noise affects like the candidate's. Differences are signed: counting only
the positive ones would overstate the cost of trying.

Where SCR_FLUSH is above 1 each checkpoint is compared with its own kind, flushed or not, so that it does not
matter where in a flush cycle a trial ends; where the settings before had none of that kind, with all.
"""

from collections import Counter, defaultdict, deque
from statistics import fmean
from typing import NamedTuple

from ...goodput.checkpoint_cost import CheckpointCost
from ..events import Values
from .decisions import Decision, Verdict

_REMEMBERED_COSTS = 6
"""Of each kind. In simulated jobs eight came no nearer to the truth; two were off by half as much again."""

_REMEMBERED = 64
"""Generations: checkpoints of an older one are not expected."""


class TrialCost(NamedTuple):
    """The extra cost of `checkpoints` of the trial that began with `generation`; below 0 they saved it."""

    generation: int
    checkpoints: int
    cost_s: float


class TrialCosts:
    """Follows trials by decisions, active settings and costs of checkpoints. Memory is bounded."""

    def __init__(self) -> None:
        self._trial: _Tried | None = None
        self._under: dict[int, _Tried] = {}
        self._generation = self._since = 0
        self._usual = _Costs()
        self._new: list[TrialCost] = []

    def take(self) -> list[TrialCost]:
        """Return the costs of reverted trials since the last call."""
        new, self._new = self._new, []
        return new

    def decide(self, decision: Decision) -> None:
        """Take in a decision."""
        match decision.verdict:
            case Verdict.TRIAL:
                self._trial = _Tried(decision.generation, decision.changes)
            case Verdict.REVERTED:
                self._revert()
            case Verdict.ACCEPTED if self._trial is not None:
                self._begin(self._trial.costs, decision.generation)
            case Verdict.BASELINE | Verdict.REQUIRED:
                self._revert()  # a run under other settings reverts a trial
                self._begin(_Costs(), decision.generation)

    def activate(self, generation: int, settings: Values) -> None:
        """Take in that `settings` are active since `generation`: the candidate's, or the incumbent's."""
        if generation == self._generation:
            return
        self._generation = generation
        if self._trial is not None and self._trial.changes.items() <= settings.items():
            self._under[generation] = self._trial
            if len(self._under) > _REMEMBERED:
                del self._under[next(iter(self._under))]

    def add(self, cost: CheckpointCost) -> None:
        """Take in the cost of a checkpoint."""
        trial = self._under.get(cost.generation)
        if trial is not None and trial.instead_s is not None:
            more_s = cost.cost_s - trial.instead_s.get(cost.flushed, cost.cost_s)
            self._new.append(TrialCost(trial.generation, 1, more_s))
        elif trial is not None:
            trial.costs.add(cost)
        elif cost.generation >= self._since:
            self._usual.add(cost)

    def _revert(self) -> None:
        """Compare the trial's checkpoints with the settings before, from now on."""
        trial = self._trial
        if trial is not None and trial.instead_s is None:
            trial.instead_s = self._usual.usual_s
            self._new.append(trial.costs.beyond(trial.generation, trial.instead_s))

    def _begin(self, usual: "_Costs", generation: int) -> None:
        """Take in that a trial may replace other settings from `generation` on, with the costs `usual`."""
        self._usual, self._since, self._trial = usual, generation, None


class _Costs:
    """The costs of checkpoints under the same settings, by kind: with a flush, and without."""

    def __init__(self) -> None:
        self._count: Counter[bool] = Counter()
        self._sum_s: defaultdict[bool, float] = defaultdict(float)
        self._last_s: dict[bool, deque[float]] = {}

    def add(self, cost: CheckpointCost) -> None:
        self._count[cost.flushed] += 1
        self._sum_s[cost.flushed] += cost.cost_s
        self._last_s.setdefault(cost.flushed, deque(maxlen=_REMEMBERED_COSTS)).append(cost.cost_s)

    @property
    def usual_s(self) -> dict[bool, float]:
        """Mean cost of each kind; of a kind without checkpoints, that of all."""
        every = [cost_s for last in self._last_s.values() for cost_s in last]
        return {kind: fmean(self._last_s.get(kind, every)) for kind in (True, False)} if every else {}

    def beyond(self, generation: int, instead_s: dict[bool, float]) -> "TrialCost":
        """Return the cost of all of them beyond `instead_s` each."""
        known = {kind: count for kind, count in self._count.items() if kind in instead_s}
        cost_s = sum(self._sum_s[kind] - count * instead_s[kind] for kind, count in known.items())
        return TrialCost(generation, self._count.total(), cost_s)


class _Tried:
    """A trial; `instead_s` are the usual costs of the settings before, known when it is reverted."""

    def __init__(self, generation: int, changes: Values) -> None:
        self.generation = generation
        self.changes = changes
        self.costs = _Costs()
        self.instead_s: dict[bool, float] | None = None
