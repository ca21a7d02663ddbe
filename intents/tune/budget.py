"""The trial budget: a ledger of what trials may still cost, against the cost of the user's own settings.

One checkpoint to begin with, 2 % of the baseline's cost for each checkpoint, and all that tuned checkpoints
save or lose against it; the time of applying settings is deducted. `docs/tuning.md` states the bound that
follows.

Source: conservative bandits with a budget (Kazerouni 2017, arXiv 1611.06426).
"""

from collections import deque
from collections.abc import Sequence
from statistics import fmean

ALLOWANCE = 0.02
FIRST_CREDIT = 1.0
BASELINE_OBSERVATIONS = 3
DRIFT_OBSERVATIONS = 5
INDIFFERENT = 0.02
_REMEMBERED_COSTS = 6


class TrialBudget:
    """`left_s` may still be lost; `baseline_s` is the cost of a checkpoint under the user's settings.

    `baseline_s` is 0 until three observations were made.
    """

    def __init__(self) -> None:
        self.left_s = 0.0
        self.baseline_s = 0.0
        self.baseline_costs: deque[float] = deque(maxlen=_REMEMBERED_COSTS)

    @property
    def is_measured(self) -> bool:
        """True when the user's settings were observed often enough since :meth:`remeasure`."""
        return len(self.baseline_costs) >= BASELINE_OBSERVATIONS

    def remeasure(self) -> None:
        """Measure the baseline's cost again; until then the old mean counts."""
        self.baseline_costs.clear()

    def observe_baseline(self, cost_s: float) -> None:
        """Enter one observation under the user's settings."""
        first = self.baseline_s == 0
        self.baseline_costs.append(cost_s)
        if not first or self.is_measured:
            self.baseline_s = fmean(self.baseline_costs)
            self.left_s += FIRST_CREDIT * self.baseline_s if first else 0.0

    def why_back(self, tuned: Sequence[float], usual_s: float) -> str:
        """Return why tuned settings are given up: too expensive, or no budget left; empty when they are not.

        `tuned` are the last observations under them, `usual_s` counts when there are none.
        """
        recent_s = fmean(tuned) if tuned else usual_s
        is_worse = len(tuned) >= DRIFT_OBSERVATIONS and recent_s > (1 + INDIFFERENT) * self.baseline_s
        if not is_worse and self.left_s > 0:
            return ""
        return (
            f"checkpoints cost {recent_s:.3f} s now, {self.baseline_s:.3f} s under your settings"
            f" (trial budget {self.left_s:.3f} s)"
        )

    def charge(self, cost_s: float, *, is_tuned: bool) -> None:
        """Enter one checkpoint; its cost counts when it ran under other settings than the user's."""
        if self.baseline_s == 0:
            return
        self.left_s += ALLOWANCE * self.baseline_s
        if is_tuned:
            self.left_s += self.baseline_s - cost_s

    def charge_apply(self, apply_s: float) -> None:
        """Deduct the seconds of applying settings, to a change or back."""
        self.left_s -= max(0.0, apply_s)
