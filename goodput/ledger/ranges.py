"""Ranges of whole numbers: a million steps in a row are one range."""

from array import array
from bisect import bisect_left

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
        self._low, self._behind = array("q"), array("q")
        self.count = 0

    def add(self, low: Longs, behind: Longs) -> None:
        """Add the numbers of each range [low, behind). Ranges that meet or overlap become one."""
        if not len(low) or (len(low) == 1 and self._low and self._extends(int(low[0]), int(behind[0]))):
            return
        kept, new_low, new_behind = self._merged(low, behind)
        replaced = _tail(self._behind, kept) - _tail(self._low, kept)
        self.count += int((new_behind - new_low).sum() - replaced.sum())
        del self._low[kept:], self._behind[kept:]
        self._low.frombytes(new_low.tobytes())
        self._behind.frombytes(new_behind.tobytes())

    def pieces_with(self, low: Longs, behind: Longs) -> int:
        """How many ranges there would be with these as well."""
        if not len(low):
            return len(self._low)
        kept, new_low, _ = self._merged(low, behind)
        return kept + len(new_low)

    def _merged(self, low: Longs, behind: Longs) -> tuple[int, Longs, Longs]:
        """So many ranges stay as they are; those that take the place of the others."""
        kept = bisect_left(self._behind, int(low.min()))
        low, behind = np.append(_tail(self._low, kept), low), np.append(_tail(self._behind, kept), behind)
        if (low[1:] < low[:-1]).any():
            order = np.argsort(low, kind="stable")
            low, behind = low[order], behind[order]
        reach = np.maximum.accumulate(behind)
        first = np.ones(len(low), np.bool_)
        first[1:] = low[1:] > reach[:-1]
        return kept, low[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(low) - 1)]

    def _extends(self, low: int, behind: int) -> bool:
        """The usual case: the step after the last one."""
        last = self._behind[-1]
        if not self._low[-1] <= low <= last:
            return False
        self._behind[-1] = max(last, behind)
        self.count += max(0, behind - last)
        return True


def _tail(column: "array[int]", begin: int) -> Longs:
    """To look at only: nothing can be added as long as it is kept."""
    return np.frombuffer(column, np.int64)[begin:]
