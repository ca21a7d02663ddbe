"""One change on trial: what it is compared with, and what the comparison says."""

from collections.abc import Sequence
from math import exp

import msgspec

from ..events import Values
from ..rules.situation import Proposal
from .comparison import Comparison, compare
from .decisions import Verdict

BLOCK = 2
"""Observations under the same settings, one after the other."""
MAX_PAIRS = 6
MOST_SWITCHES = 2 * MAX_PAIRS // BLOCK
"""How often settings change in a trial that is taken back in the end."""
ABORT_RATIO = 1.6
NOISIEST_ABORT_RATIO = 3.0
RUNS_SPREAD = 0.29
"""Between two runs, the SD of log costs as :func:`compare` wants it: noise with memory (15 %, 0.7 from one
checkpoint to the next) does not average out within one run, so that the means of six checkpoints each differ
by 0.17: sqrt(6 / 2) x 0.17."""
_OUTLIER = 2.8
"""Standard deviations: where costs scatter by 0.17, as simulated, 1.6 times the baseline."""


class Trial(msgspec.Struct, kw_only=True):
    """The settings `candidate` against the `incumbent`, by what checkpoints cost `before` and `after`.

    It began with `generation`. A trial `since_launch` has its candidate from the beginning of a run, and is
    compared with the run before.
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

    def outrage(self, cost_s: float) -> str:
        """Why one observation is enough to end it, if it is."""
        limit = min(NOISIEST_ABORT_RATIO, max(ABORT_RATIO, exp(_OUTLIER * self.spread)))
        if cost_s <= limit * self.baseline_s:
            return ""
        return f"one cost {cost_s / max(1e-9, self.baseline_s):.2f} x the baseline"

    def is_ripe(self, block: Sequence[float]) -> bool:
        """Whether there is something to compare, `block` being the observations since the last switch."""
        return len(self.after) >= len(self.before) if self.since_launch else len(block) >= BLOCK

    @property
    def comparison(self) -> Comparison | None:
        """What it says so far, all of it; None before the first observation."""
        return self._compared() if self.after else None

    def judgement(self) -> tuple[Verdict, str] | None:
        """What becomes of it, and why; None when it takes another block to tell.

        It stays when its 90 % interval is one of gains: of six pairs that takes 9 % or more.
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
