"""The lives of a job, and from which step on the work of each was wasted."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from ..ledger.claims import NEVER, Longs


class Lives:
    """A life begins where a run starts or goes back; life 0 lies before the first of these.

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

    def begin(self, times: set[int], least: Callable[[int, int], int]) -> None:
        """Lives began at `times`, none of which is known.

        `least` says which is the lowest number of the known steps that began between two times.
        """
        self._known |= times
        for time in sorted(times):
            life = int(np.searchsorted(self.begins, time))
            self.begins = np.insert(self.begins, life, time)
            self.wasted_from = np.insert(self.wasted_from, life, self.wasted_from[life])
            was, late = int(self._least[life]), least(time, self._bound(life + 2))
            early = least(self._bound(life), time) if late <= was < NEVER else was
            self._least = np.insert(self._least, life, early)
            self._least[life + 1] = late

    def anew(self, times: set[int]) -> None:
        """Forget all steps; the lives are those that began at `times`."""
        self._known = times
        self.begins = np.array(sorted(times), np.int64)
        self._least = np.full(len(self.begins) + 1, NEVER, np.int64)
        self.wasted_from = self._least.copy()

    def stepped(self, begun: Longs, number: Longs) -> None:
        """Steps with these numbers began at these times."""
        np.minimum.at(self._least, np.searchsorted(self.begins, begun, side="right"), number)

    def are_wasted(self, begun: Longs, number: Longs) -> npt.NDArray[np.bool_]:
        """Which steps with these numbers, begun at these times, a later life computed again."""
        wasted: npt.NDArray[np.bool_] = (
            number >= self.wasted_from[np.searchsorted(self.begins, begun, "right")]
        )
        return wasted

    def judge(self) -> tuple[int, int, int] | None:
        """Bring `wasted_from` up to date.

        Returns from when to when, and from which step on, the verdict is another one now; None if nowhere.
        """
        later = np.append(self._least[1:], NEVER)
        made: Longs = np.minimum.accumulate(later[::-1])[::-1]
        before, self.wasted_from = self.wasted_from, made
        changed = np.flatnonzero(made != before)
        if not len(changed):
            return None
        step = int(np.minimum(made, before)[changed].min())
        return self._bound(int(changed[0])), self._bound(int(changed[-1]) + 1), step

    def _bound(self, life: int) -> int:
        """When a life begins, and the one before it ends."""
        if not life:
            return -NEVER
        return int(self.begins[life - 1]) if life <= len(self.begins) else NEVER
