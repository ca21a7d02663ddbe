"""The trial budget: a ledger of what tuning may still cost, against the user's own settings.

A share of a checkpoint to begin with, 1 % of one for each checkpoint, and all that tuned checkpoints save or
lose against the user's own settings as they are believed to cost now; the time of applying settings is
deducted. At zero the user's settings come back: the bound is hard but for checkpoints that have begun.
`docs/tuning.md` states it in full. Source: conservative bandits with a budget (Kazerouni 2017, arXiv
1611.06426).
"""

FIRST_CREDIT = 0.45
ALLOWANCE = 0.01


class TrialBudget:
    """`left_s` may still be lost; it is 0 until the user's own settings were measured."""

    def __init__(self) -> None:
        self.left_s = 0.0
        self.overdraft_s = 0.0
        """What settings that are surely cheaper may lose while nothing is left: they fill it again."""
        self._first_s = self._doubted_s = 0.0
        self._is_open = False

    def open(self, own_s: float) -> None:
        """Begin with a share of the cost of a checkpoint under the user's own settings."""
        if not self._is_open:
            self._is_open = True
            self.left_s = self.overdraft_s = self._first_s = FIRST_CREDIT * own_s

    @property
    def claimed_s(self) -> float:
        """What is left of all that came after the first credit, savings as they are believed."""
        return self.left_s - self._first_s

    @property
    def earned_s(self) -> float:
        """Of that what was surely saved: it may be lost to find out."""
        return self.claimed_s - self._doubted_s

    def charge(
        self, cost_s: float, own_s: float, doubt_s: float = 0.0, *, is_tuned: bool, had_begun: bool = False
    ) -> None:
        """Enter one checkpoint, which would have cost `own_s` under the user's own settings.

        Or `doubt_s` less. What `had_begun` when the budget was used up is not what the overdraft is for.
        """
        if not self._is_open:
            return
        if self.left_s > 0:
            self.left_s += ALLOWANCE * own_s
        else:
            loss_s = max(0.0, cost_s - own_s) if is_tuned and not had_begun else 0.0
            filled_s = min(max(0.0, self._first_s - self.overdraft_s), ALLOWANCE * own_s)
            self.overdraft_s += filled_s - loss_s
            self.left_s += ALLOWANCE * own_s - filled_s
        if is_tuned:
            self.left_s += own_s - cost_s
            self._doubted_s += doubt_s

    def charge_apply(self, apply_s: float) -> None:
        """Deduct the seconds of applying settings, to a change or back."""
        self.left_s -= max(0.0, apply_s)
