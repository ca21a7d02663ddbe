"""One change on trial and its verdict, and the limits on how often a rule may have one."""

from collections import Counter
from collections.abc import Sequence
from math import exp

import msgspec

from ..events import Value, Values
from ..rules.situation import Proposal
from .comparison import Comparison, compare
from .decisions import Verdict

BLOCK = 2
"""Consecutive observations under the same settings."""
MAX_PAIRS = 6
MOST_SWITCHES = 2 * MAX_PAIRS // BLOCK
"""Changes of settings in a trial that is reverted at the end."""
ABORT_RATIO = 1.6
NOISIEST_ABORT_RATIO = 3.0
RUNS_SPREAD = 0.29
"""SD of log costs between two runs, as :func:`compare` takes it: autocorrelated noise (15 %, 0.7 from one
checkpoint to the next) does not average out within one run, so that the means of six checkpoints each differ
by 0.17: sqrt(6 / 2) x 0.17."""
_OUTLIER = 2.8
"""Standard deviations: 1.6 times the baseline where costs scatter by 0.17, as simulated."""
TRIES = 3


class Trial(msgspec.Struct, kw_only=True):
    """The settings `candidate` against the `incumbent`, by the costs of checkpoints `before` and `after`.

    It began with `generation`. In a trial `since_launch` the candidate is active from the beginning of a run
    and is compared with the run before.
    """

    generation: int
    proposal: Proposal
    incumbent: Values
    candidate: Values
    baseline_s: float
    spread: float
    before: list[float]
    after: list[float] = msgspec.field(default_factory=list)
    since_launch: bool = False

    def abort_reason(self, cost_s: float) -> str:
        """Return why one observation of `cost_s` ends the trial at once; empty when it does not."""
        limit = min(NOISIEST_ABORT_RATIO, max(ABORT_RATIO, exp(_OUTLIER * self.spread)))
        if cost_s <= limit * self.baseline_s:
            return ""
        return f"one observation cost {cost_s / max(1e-9, self.baseline_s):.2f} x the baseline"

    def is_ripe(self, block: Sequence[float]) -> bool:
        """Return whether a verdict is due, `block` being the observations since the last switch."""
        return len(self.after) >= len(self.before) if self.since_launch else len(block) >= BLOCK

    @property
    def comparison(self) -> Comparison | None:
        """The comparison so far; None before the first observation."""
        return self._compared() if self.after else None

    def judgement(self) -> tuple[Verdict, str] | None:
        """Return the verdict and its reason; None when it takes another block.

        The change is accepted when its whole 90 % interval is a gain: of six pairs that takes 9 % or more.
        """
        result = self._compared()
        measured = f"{result.text}, against the run before" if self.since_launch else result.text
        if result.high < 1:
            return Verdict.ACCEPTED, f"{measured}, cheaper with probability {result.p_better:.2f}"
        if result.ratio >= 1:
            return Verdict.REVERTED, f"not better: {measured}"
        if self.since_launch or result.pairs >= MAX_PAIRS:
            return Verdict.REVERTED, f"no proof of a gain: {measured}"
        return None

    def _compared(self) -> Comparison:
        return compare(self.before, self.after, self.spread, across_runs=self.since_launch)


class RuleCooldown:
    """The rules that may propose a trial: each three times, and never to undo an accepted change.

    `tries` counts the trials of each rule. A rule whose change was reverted is `closed` until another change
    is accepted.
    """

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()
        self.closed: set[str] = set()
        self._replaced: set[tuple[str, Value]] = set()

    def may(self, proposal: Proposal) -> bool:
        """Return whether `proposal` may have a trial: A, then B, then A again is not tried."""
        is_open = proposal.rule not in self.closed and self.tries[proposal.rule] < TRIES
        return is_open and self._replaced.isdisjoint(proposal.changes.items())

    def won(self, previous: Values) -> None:
        """Open all rules after an accepted change, which replaced `previous`."""
        self.closed.clear()
        self._replaced.update(previous.items())

    def reset(self) -> None:
        """Open all rules: the user's settings are active again."""
        self.closed.clear()
        self._replaced.clear()
