"""The runs of a job, and what the time is that no claim covers: start-up, a pause, recovery, a queue."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ledger.claims import NEVER, Longs
from .launches import Launches

End = tuple[int, bool, str]
"""When, whether it was a bad one, and who says so."""


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

    def __init__(self, background: Background, launches: Launches) -> None:
        self.starts: list[int] = []
        self.starts_at: Longs = np.zeros(0, np.int64)
        """The same, for many at once."""
        self.first_step: list[int | None] = [None]
        self.last_word: list[int | None] = [None]
        self._stale = 0
        """The background is not up to date from this run on."""
        self._behind = [0]
        """How many entries of the background lie before those of each run whose own are known, and in all."""
        self._ends: list[End] = []
        self._halts: list[int] = []
        self._marks: list[tuple[int, int]] = []
        self._code, self._launches = background, launches

    def started(self, times: set[int]) -> None:
        """Runs began at `times`, behind everything heard so far."""
        self._changed(len(self.starts))
        self.starts += sorted(times)
        self.starts_at = np.append(self.starts_at, sorted(times))
        self.first_step += [None] * len(times)
        self.last_word += [None] * len(times)

    def anew(self) -> None:
        """Forget the words and steps of every run; ends and marks remain, the starts are the launches'."""
        self.starts = list(self._launches.begins)
        self.starts_at = np.array(self.starts, np.int64)
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

    def ended(self, end: End) -> None:
        """The application ended, as one of its writers says."""
        at = bisect_left(self._ends, end)
        if self._ends[at : at + 1] != [end]:
            self._ends.insert(at, end)
            self._changed(max(0, self.of(end[0]) - 1))

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
        run = len(self.starts)
        if not self._has_ended(run):
            return False
        last = self._ends_in(run)[-1][0]
        return not any(time >= last for time, code in self._marks if code == self._code.queue_wait)

    def end_of(self, run: int, writer: str) -> int:
        """When `writer` said last that `run` ended, or else anybody; long ago when nobody did."""
        ends = self._ends_in(run)
        own = [time for time, _, who in ends if who == writer] or [time for time, _, _ in ends]
        return own[-1] if own else -NEVER

    def end_after(self, time: int) -> int:
        """When somebody first said, behind `time`, that a run ended."""
        index = bisect_left(self._ends, (time + 1,))
        return self._ends[index][0] if index < len(self._ends) else NEVER

    def _has_ended(self, run: int) -> bool:
        """Whether all said so who told of its start, or somebody without a name."""
        who = {writer for _, _, writer in self._ends_in(run)}
        return bool(who) and ("" in who or self._launches.writers(run) <= who)

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
        is_over = self._has_ended(run) or (run < len(self.starts) and (run > 0 or first is not None))
        if is_over:
            made.append((silent, self._verdict(run, silent, marks)))
        is_queued = is_waiting = False
        for time, code in marks:
            if code == self._code.recovery:
                if time > silent and not is_over and not is_waiting:
                    made.append((time, code))
            elif (
                not is_queued or code == self._code.queue_wait
            ):  # the allocation ends until the job is queued
                made.append((max(time, silent), code))
                is_waiting = True
                is_queued |= code == self._code.queue_wait
        return made

    def _verdict(self, run: int, silent: int, marks: list[tuple[int, int]]) -> int:
        """What follows the end of a run: nothing special when it ended well, else recovery."""
        ended_well = self._has_ended(run) and not any(badly for _, badly, _ in self._ends_in(run))
        ended_well |= len(_within(self._halts, *self._span(run))) > 0
        ended_well |= any(code == self._code.allocation_end for _, code in marks)
        failed = any(time > silent and code == self._code.recovery for time, code in marks)
        return self._code.other if ended_well and not failed else self._code.recovery

    def _ends_in(self, run: int) -> list[End]:
        """One that is told of the time at which the next run began is this one's."""
        begin, end = self._span(run)
        return [self._ends[index] for index in _within(self._ends, (begin + (run > 1),), (end + (run > 0),))]

    def _span(self, run: int) -> tuple[int, int]:
        begin = self.starts[run - 1] if run else -NEVER
        return begin, self.starts[run] if run < len(self.starts) else NEVER


def _within(ordered: Sequence[Any], begin: Any, end: Any) -> range:
    return range(bisect_left(ordered, begin), bisect_left(ordered, end))
