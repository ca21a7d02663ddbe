"""The attempts of a job, and from which step on the work of each was wasted."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from ..ledger.claims import NEVER, Longs


class Attempts:
    """An attempt begins where a run starts or goes back; attempt 0 lies before the first of these.

    A step of an earlier attempt is wasted if its number is not below the lowest one of any later attempt.
    """

    def __init__(self) -> None:
        self.begins: Longs = np.zeros(0, np.int64)
        self.wasted_from: Longs = np.full(1, NEVER, np.int64)
        self._known: set[int] = set()
        self._least = self.wasted_from.copy()

    def unknown(self, times: Iterable[int]) -> set[int]:
        """Those of `times` at which no attempt that is known began."""
        return set(times) - self._known

    def begin(self, times: set[int], least: Callable[[int, int], int]) -> None:
        """Attempts began at `times`, none of which is known.

        `least` says which is the lowest number of the known steps that began between two times.
        """
        self._known |= times
        for time in sorted(times):
            attempt = int(np.searchsorted(self.begins, time))
            self.begins = np.insert(self.begins, attempt, time)
            self.wasted_from = np.insert(self.wasted_from, attempt, self.wasted_from[attempt])
            was, late = int(self._least[attempt]), least(time, self._bound(attempt + 2))
            early = least(self._bound(attempt), time) if late <= was < NEVER else was
            self._least = np.insert(self._least, attempt, early)
            self._least[attempt + 1] = late

    def anew(self, times: set[int]) -> None:
        """Forget all steps; the attempts are those that began at `times`."""
        self._known = times
        self.begins = np.array(sorted(times), np.int64)
        self._least = np.full(len(self.begins) + 1, NEVER, np.int64)
        self.wasted_from = self._least.copy()

    def stepped(self, begun: Longs, number: Longs) -> None:
        """Steps with these numbers began at these times."""
        np.minimum.at(self._least, np.searchsorted(self.begins, begun, side="right"), number)

    def are_wasted(self, begun: Longs, number: Longs) -> npt.NDArray[np.bool_]:
        """Which steps with these numbers, begun at these times, a later attempt computed again."""
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

    def _bound(self, attempt: int) -> int:
        """When an attempt begins, and the one before it ends."""
        if not attempt:
            return -NEVER
        return int(self.begins[attempt - 1]) if attempt <= len(self.begins) else NEVER
