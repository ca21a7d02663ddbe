"""The trial budget: a ledger of what tuning may still cost, against the user's own settings.

A share of a checkpoint to begin with, 1.5 % of one for each checkpoint, and all that tuned checkpoints save
or lose against the user's own settings as they are believed to cost now; the time of applying settings is
deducted. At zero the user's settings come back: the bound is hard but for checkpoints that have begun.
`docs/tuning.md` states it in full. Source: conservative bandits with a budget (Kazerouni 2017, arXiv
1611.06426).
"""

FIRST_CREDIT = 0.45
ALLOWANCE = 0.015


class TrialBudget:
    """`left_s` may still be lost; it is 0 until the user's own settings were measured.

    What tuned checkpoints saved or lost follows what the user's own settings are believed to cost now: their
    first checkpoint may have been a spike, and what a flush takes from the steps is known late.
    """

    def __init__(self) -> None:
        self.overdraft_s = 0.0
        """What settings that are surely cheaper may lose while nothing is left: they fill it again."""
        self._first_s = 0.0
        self._is_open = False
        self._regime = 0
        self._own_s = self._doubt_s = 0.0
        """What one of the usual size is believed to cost, and how much less it may be."""
        self._tuned = self._booked_s = 0.0
        """Tuned checkpoints, of the usual size, and all that is booked besides what they would have cost."""
        self._doubted_s = 0.0
        """How much less those of earlier regimes may have saved."""

    @property
    def left_s(self) -> float:
        """What may still be lost."""
        return self._first_s + self.claimed_s

    @property
    def claimed_s(self) -> float:
        """What is left of all that came after the first credit, savings as they are believed."""
        return self._booked_s + self._tuned * self._own_s

    @property
    def earned_s(self) -> float:
        """Of that what was surely saved: it may be lost to find out."""
        return self.claimed_s - self._doubted_s - self._tuned * self._doubt_s

    def believe(self, own_s: float, doubt_s: float, regime: int = 0) -> None:
        """Take in what a checkpoint costs under the user's own settings, or `doubt_s` less.

        In another `regime` than before that says nothing of the checkpoints so far: they stay as they are.
        """
        if not self._is_open:
            self._is_open = True
            self._first_s = self.overdraft_s = FIRST_CREDIT * own_s
        if regime != self._regime:
            self._doubted_s += self._tuned * self._doubt_s
            self._booked_s, self._tuned, self._regime = self.claimed_s, 0.0, regime
        self._own_s, self._doubt_s = own_s, doubt_s

    def charge(self, cost_s: float, share: float, *, is_tuned: bool, had_begun: bool = False) -> None:
        """Enter a checkpoint of `share` of the usual size.

        What `had_begun` when the budget was used up is not what the overdraft is for.
        """
        own_s = share * self._own_s
        if self.left_s > 0:
            self._booked_s += ALLOWANCE * own_s
        else:
            loss_s = max(0.0, cost_s - own_s) if is_tuned and not had_begun else 0.0
            filled_s = min(max(0.0, self._first_s - self.overdraft_s), ALLOWANCE * own_s)
            self.overdraft_s += filled_s - loss_s
            self._booked_s += ALLOWANCE * own_s - filled_s
        if is_tuned:
            self._tuned += share
            self._booked_s -= cost_s

    def charge_apply(self, apply_s: float) -> None:
        """Deduct the seconds of applying settings, to a change or back: none before any is tried."""
        if self._is_open:
            self._booked_s -= max(0.0, apply_s)
