"""Which steps were made, as ranges of their numbers: a million steps in a row are one range."""

import numpy as np

from .claims import Longs


class StepRanges:
    """A set of step numbers. What it holds does not depend on the order in which steps were added."""

    def __init__(self) -> None:
        self.count = 0
        """How many numbers the set holds."""
        self.clear()

    def clear(self) -> None:
        """Take all numbers out."""
        self._low: Longs = np.zeros(0, np.int64)
        self._behind: Longs = np.zeros(0, np.int64)
        self.count = 0

    def add(self, low: Longs, behind: Longs) -> None:
        """Add the numbers of each range [low, behind)."""
        if len(low) == 1 and len(self._low) and self._extends(int(low[0]), int(behind[0])):
            return
        if not len(low):
            return
        low, behind = np.append(self._low, low), np.append(self._behind, behind)
        if (np.diff(low) < 0).any():
            order = np.argsort(low, kind="stable")
            low, behind = low[order], behind[order]
        reach = np.maximum.accumulate(behind)
        first = np.ones(len(low), np.bool_)
        first[1:] = low[1:] > reach[:-1]
        self._low = low[first]
        self._behind = reach[np.append(np.flatnonzero(first)[1:] - 1, len(low) - 1)]
        self.count = int((self._behind - self._low).sum())

    def _extends(self, low: int, behind: int) -> bool:
        """The usual case: the step after the last one."""
        last = int(self._behind[-1])
        if not int(self._low[-1]) <= low <= last:
            return False
        self._behind[-1] = max(last, behind)
        self.count += max(0, behind - last)
        return True
