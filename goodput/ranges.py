"""Ranges of whole numbers: a million steps in a row are one range."""

import numpy as np

from .claims import Longs


class Ranges:
    """A set of numbers in ranges. What it holds does not depend on the order in which they were added."""

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
        """Add the numbers of each range [low, behind). Ranges that meet or overlap become one."""
        if not len(low) or (len(low) == 1 and len(self._low) and self._extends(int(low[0]), int(behind[0]))):
            return
        kept, new_low, new_behind = self._merged(low, behind)
        self.count += int((new_behind - new_low).sum() - (self._behind[kept:] - self._low[kept:]).sum())
        self._low = np.append(self._low[:kept], new_low)
        self._behind = np.append(self._behind[:kept], new_behind)

    def pieces_with(self, low: Longs, behind: Longs) -> int:
        """How many ranges there would be with these as well."""
        if not len(low):
            return len(self._low)
        kept, new_low, _ = self._merged(low, behind)
        return kept + len(new_low)

    def _merged(self, low: Longs, behind: Longs) -> tuple[int, Longs, Longs]:
        """So many ranges stay as they are; those that take the place of the others."""
        kept = int(np.searchsorted(self._behind, low.min()))
        low, behind = np.append(self._low[kept:], low), np.append(self._behind[kept:], behind)
        if (low[1:] < low[:-1]).any():
            order = np.argsort(low, kind="stable")
            low, behind = low[order], behind[order]
        reach = np.maximum.accumulate(behind)
        first = np.ones(len(low), np.bool_)
        first[1:] = low[1:] > reach[:-1]
        return kept, low[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(low) - 1)]

    def _extends(self, low: int, behind: int) -> bool:
        """The usual case: the step after the last one."""
        last = int(self._behind[-1])
        if not int(self._low[-1]) <= low <= last:
            return False
        self._behind[-1] = max(last, behind)
        self.count += max(0, behind - last)
        return True
