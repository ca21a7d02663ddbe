"""The lives of a job, and from which step on the work of each was wasted."""

from collections.abc import Iterable

import numpy as np

from .claims import NEVER, Longs


class Lives:
    """A life begins where a run starts or goes back to a checkpoint; life 0 lies before the first of these.

    A step of an earlier life is wasted if its number is not below the lowest one of any later life.
    """

    def __init__(self) -> None:
        self.begins: Longs = np.zeros(0, np.int64)
        self.wasted_from: Longs = np.full(1, NEVER, np.int64)
        self._known: set[int] = set()
        self._least = self.wasted_from.copy()

    def unknown(self, times: Iterable[int]) -> set[int]:
        """Those of `times` at which no life that is known began."""
        return set(times) - self._known

    def begin(self, times: set[int]) -> None:
        """Lives began at `times`, none of which is known, behind all steps so far."""
        self._known |= times
        self.begins = np.array(sorted(self._known), np.int64)
        self._least = np.append(self._least, np.full(len(times), NEVER, np.int64))

    def anew(self) -> None:
        """Forget all steps; the lives remain."""
        self._least = np.full(len(self.begins) + 1, NEVER, np.int64)
        self.wasted_from = self._least.copy()

    def stepped(self, begun: Longs, number: Longs) -> None:
        """Steps with these numbers began at these times."""
        np.minimum.at(self._least, np.searchsorted(self.begins, begun, side="right"), number)

    def judge(self) -> tuple[int, int, int] | None:
        """Bring `wasted_from` up to date.

        Returns from when to when, and from which step on, the verdict is another one now; None if nowhere.
        """
        later = np.append(self._least[1:], NEVER)
        made: Longs = np.minimum.accumulate(later[::-1])[::-1]
        before = np.append(self.wasted_from, np.full(len(made) - len(self.wasted_from), NEVER, np.int64))
        self.wasted_from = made
        changed = np.flatnonzero(made != before)
        if not len(changed):
            return None
        bounds = [-NEVER, *self.begins.tolist(), NEVER]
        step = int(np.minimum(made, before)[changed].min())
        return bounds[int(changed[0])], bounds[int(changed[-1]) + 1], step
