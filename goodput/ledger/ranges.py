"""Ranges of whole numbers: a million steps in a row are one range."""

from typing import NamedTuple

import numpy as np

from .claims import Longs


class Ranges(NamedTuple):
    """Numbers in ranges [low, behind), in order, that neither meet nor overlap; `total` of them in all."""

    low: Longs = np.zeros(0, np.int64)
    behind: Longs = np.zeros(0, np.int64)
    total: int = 0

    def plus(self, low: Longs, behind: Longs) -> "Ranges":
        """Return these ranges and more. Those that meet or overlap become one."""
        kept, more = self.replaced(low, behind)
        return Ranges(
            np.append(self.low[:kept], more.low), np.append(self.behind[:kept], more.behind), more.total
        )

    def replaced(self, low: Longs, behind: Longs) -> tuple[int, "Ranges"]:
        """Return how many of these ranges stay when more come, and those behind; `total` is that of all."""
        if not len(low):
            return len(self.low), Ranges(total=self.total)
        kept = int(np.searchsorted(self.behind, low.min()))
        gone = int((self.behind[kept:] - self.low[kept:]).sum())
        low, behind = np.append(self.low[kept:], low), np.append(self.behind[kept:], behind)
        if (low[1:] < low[:-1]).any():
            order = np.argsort(low, kind="stable")
            low, behind = low[order], behind[order]
        reach = np.maximum.accumulate(behind)
        first = np.ones(len(low), np.bool_)
        first[1:] = low[1:] > reach[:-1]
        low, behind = low[first], reach[np.append(first[1:], True)]
        return kept, Ranges(low, behind, self.total - gone + int((behind - low).sum()))
