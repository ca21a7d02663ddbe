"""The runs of a job, and what the time is that no claim covers: start-up, a pause, recovery, a queue."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .claims import Longs

LONG_AGO = -(1 << 62)


class Background(NamedTuple):
    """The codes of what nobody claims."""

    startup: int
    other: int
    recovery: int
    queue_wait: int
    allocation_end: int


class Runs:
    """When each run began, made its first step and was last heard of; run 0 lies before the first start.

    Everything here follows from the set of what was told, not from its order.
    """

    def __init__(self, background: Background) -> None:
        self.starts: list[int] = []
        self.starts_at: Longs = np.zeros(0, np.int64)
        """The same, for many at once."""
        self.first_step: list[int | None] = [None]
        self.last_word: list[int | None] = [None]
        self._stale = 0
        """The background is not up to date from this run on."""
        self._behind = [0]
        """How many entries of the background lie before those of each run whose own are known, and in all."""
        self._ends: list[tuple[int, bool]] = []
        self._halts: list[int] = []
        self._marks: list[tuple[int, int]] = []
        self._code = background

    def unknown(self, times: Iterable[int]) -> set[int]:
        """Those of `times` at which no run that is known began."""
        return {time for time in times if not _within(self.starts, time, time + 1)}

    def started(self, times: set[int]) -> None:
        """Runs began at `times`, none of which is known, behind everything heard so far."""
        self._changed(len(self.starts))
        if self.starts and min(times) < self.starts[-1]:
            self.starts = sorted({*self.starts, *times})
            self.starts_at = np.array(self.starts, np.int64)
        else:
            self.starts += sorted(times)
            self.starts_at = np.append(self.starts_at, sorted(times))
        missing = len(self.starts) + 1 - len(self.last_word)
        self.first_step += [None] * missing
        self.last_word += [None] * missing

    def anew(self) -> None:
        """Forget the words and steps of every run; starts, ends and marks remain."""
        self.first_step = [None] * (len(self.starts) + 1)
        self.last_word = [None] * (len(self.starts) + 1)
        self._changed(0)

    def of(self, time: int) -> int:
        """The run that was under way at `time`."""
        return bisect_right(self.starts, time)

    def word(self, run: int, time: int) -> None:
        """`run` was alive at `time`."""
        known = self.last_word[run]
        if known is None or time > known:
            self.last_word[run] = time
            if run < len(self.starts) or self._marks or self._ends:
                self._changed(run)

    def step(self, run: int, time: int) -> None:
        """`run` made a step at `time`."""
        known = self.first_step[run]
        if known is None or time < known:
            self.first_step[run] = time
            self._changed(run)

    def ended(self, time: int, *, badly: bool) -> None:
        """The application ended."""
        insort(self._ends, (time, badly))
        self._changed(self.of(time))

    def halted(self, time: int) -> None:
        """SCR ended the application."""
        insort(self._halts, time)
        self._changed(self.of(time))

    def mark(self, time: int, code: int) -> None:
        """A node failed, an allocation ended or the job was queued: unclaimed time is `code` from then."""
        insort(self._marks, (time, code))
        self._changed(self.of(time))

    @property
    def is_over(self) -> bool:
        """Whether the last run said that it ended, and the job does not wait for another one."""
        ends = self._ends_in(len(self.starts))
        queued = (time for time, code in self._marks if code == self._code.queue_wait)
        return bool(ends) and not any(time >= ends[-1][0] for time in queued)

    def end_of(self, run: int) -> int:
        """When `run` said last that it ended; long ago when it never did."""
        ends = self._ends_in(run)
        return ends[-1][0] if ends else LONG_AGO

    def background(self) -> tuple[int, list[tuple[int, int]]]:
        """From when on the unclaimed time is what code, oldest first: what is new since the last time.

        So many entries stay as they were; those behind them are replaced by what is returned.
        """
        stays = self._behind[self._stale]
        made: list[tuple[int, int]] = []
        del self._behind[self._stale + 1 :]
        for run in range(self._stale, len(self.starts) + 1):
            for time, code in self._of_run(run):
                if made and time <= made[-1][0]:
                    made[-1] = made[-1][0], code
                else:
                    made.append((time, code))
            self._behind.append(stays + len(made))
        self._stale = len(self.starts) + 1
        return stays, made

    def _changed(self, run: int) -> None:
        self._stale = min(self._stale, run)

    def _of_run(self, run: int) -> list[tuple[int, int]]:
        begin, end = self._span(run)
        made = [(begin, self._code.startup)]
        first, silent = self.first_step[run], self.last_word[run]
        if first is not None:
            made.append((first, self._code.other))
        if silent is None:
            silent = begin
        marks = [self._marks[index] for index in _within(self._marks, (begin,), (end,))]
        is_over = bool(self._ends_in(run)) or (run < len(self.starts) and (run > 0 or first is not None))
        if is_over:
            made.append((silent, self._verdict(run, silent, marks)))
        is_waiting = False
        for time, code in marks:
            if code != self._code.recovery:
                made.append((max(time, silent), code))
                is_waiting = True
            elif time > silent and not is_over and not is_waiting:
                made.append((time, code))
        return made

    def _verdict(self, run: int, silent: int, marks: list[tuple[int, int]]) -> int:
        """What follows the end of a run: nothing special when it ended well, else recovery."""
        ends = self._ends_in(run)
        ended_well = bool(ends) and not any(badly for _, badly in ends)
        ended_well |= len(_within(self._halts, *self._span(run))) > 0
        ended_well |= any(code == self._code.allocation_end for _, code in marks)
        failed = any(time > silent and code == self._code.recovery for time, code in marks)
        return self._code.other if ended_well and not failed else self._code.recovery

    def _ends_in(self, run: int) -> list[tuple[int, bool]]:
        begin, end = self._span(run)
        return [self._ends[index] for index in _within(self._ends, (begin,), (end,))]

    def _span(self, run: int) -> tuple[int, int]:
        begin = self.starts[run - 1] if run else LONG_AGO
        return begin, self.starts[run] if run < len(self.starts) else -LONG_AGO


def _within(ordered: Sequence[Any], begin: Any, end: Any) -> range:
    return range(bisect_left(ordered, begin), bisect_left(ordered, end))
