"""The runs of a job, and what the time is that no claim covers: start-up, a pause, recovery, a queue."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np

from .. import buckets
from ..buckets import Codes
from .claims import NEVER, Longs
from .facts import Moments
from .launches import Launch

End = tuple[int, bool, str]
"""When, whether it was a bad one, and who says so."""


class Run:
    """A run from `begin` to the next one's; `first_step` is NEVER, `last_word` long ago if there is none."""

    __slots__ = ("begin", "behind", "ends", "first_step", "halts", "last_word", "marks", "writers")

    def __init__(self, launch: Launch, behind: int) -> None:
        self.begin, self.writers = launch
        self.behind = behind
        self.first_step, self.last_word = NEVER, -NEVER
        self.ends: list[End] = []
        self.halts: list[int] = []
        self.marks: list[tuple[int, int]] = []

    @property
    def has_ended(self) -> bool:
        """Whether all said so who told of its start, or somebody without a name."""
        who = {writer for _, _, writer in self.ends}
        return bool(who) and ("" in who or self.writers <= who)


class Runs:
    """The runs that begin with `launches`, behind so many others; run 0 lies before the first of them.

    Two columns of steps and words have the first step and the last word of each.
    """

    def __init__(self, launches: list[Launch], moments: Moments, before: int, codes: Codes) -> None:
        self.starts: Longs = np.array([begin for begin, _ in launches], np.int64)
        begins = [begin for begin, _ in launches]
        behind = [*begins, NEVER]
        self._runs = list(map(Run, [(-NEVER, set()), *launches], behind))
        self._codes, self._before = codes, before
        for end in sorted(moments.ends):  # of the time at which the next run began it is this one's
            is_first = not before and begins[:1] == [end[0]]
            self._runs[1 if is_first else bisect_left(begins, end[0])].ends.append(end)
        for (time,) in moments.halts:
            self._runs[bisect_right(begins, time)].halts.append(time)
        for mark in sorted(moments.marks):
            self._runs[bisect_right(begins, mark[0])].marks.append(mark)

    def __len__(self) -> int:
        return self._before + len(self.starts)

    def of(self, times: Longs) -> Longs:
        """Return in which run each of `times` lies."""
        return np.searchsorted(self.starts, times, side="right").astype(np.int64)

    def stepped(self, runs: Longs, times: Longs) -> None:
        """Take in when steps began in runs."""
        for run, time in zip(runs.tolist(), times.tolist(), strict=True):
            self._runs[run].first_step = min(self._runs[run].first_step, time)

    def spoke(self, runs: Longs, times: Longs) -> None:
        """Take in when runs were alive."""
        for run, time in zip(runs.tolist(), times.tolist(), strict=True):
            self._runs[run].last_word = max(self._runs[run].last_word, time)

    def __getitem__(self, run: int) -> Run:
        return self._runs[run]

    def ends(self) -> Iterable[tuple[int, End]]:
        """Return the ends that were told, with their runs, in order."""
        return ((at, end) for at, run in enumerate(self._runs) for end in run.ends)

    @property
    def is_over(self) -> bool:
        """Whether the last run said that it ended, and the job does not wait for another one."""
        run, queued = self._runs[-1], self._codes[buckets.QUEUE_WAIT]
        return run.has_ended and not any(
            time >= run.ends[-1][0] and code == queued for time, code in run.marks
        )

    def background(self) -> Longs:
        """Return from when on the unclaimed time is what code: times and codes, oldest first."""
        made: list[tuple[int, int]] = []
        for at in range(len(self._runs)):
            for time, code in self._background_of(at):
                if made and time <= made[-1][0]:
                    made[-1] = made[-1][0], code
                else:
                    made.append((time, code))
        rows: Longs = np.array(made, np.int64).T
        return rows

    def _background_of(self, at: int) -> list[tuple[int, int]]:
        run, codes = self._runs[at], self._codes
        queue_wait, recovery = codes[buckets.QUEUE_WAIT], codes[buckets.RECOVERY]
        has_stepped = run.first_step < NEVER
        made = [(run.begin, codes[buckets.STARTUP])]
        if has_stepped:
            made.append((run.first_step, codes[buckets.OTHER]))
        silent = max(run.last_word, run.begin)
        is_followed = run.behind < NEVER and (self._before + at > 0 or has_stepped)
        is_over = run.has_ended or is_followed
        if is_over:
            made.append((silent, self._verdict(run, silent)))
        is_queued = is_waiting = False
        for time, code in run.marks:
            if code == recovery:
                if time > silent and not is_over and not is_waiting:
                    made.append((time, code))
            elif not is_queued or code == queue_wait:  # the allocation ends until the job is queued
                made.append((max(time, silent), code))
                is_waiting = True
                is_queued |= code == queue_wait
        return made

    def _verdict(self, run: Run, silent: int) -> int:
        """Return what follows the end of a run: nothing special when it ended well, else recovery."""
        recovery, allocation_end = (self._codes[each] for each in (buckets.RECOVERY, buckets.ALLOCATION_END))
        ended_well = run.has_ended and not any(badly for _, badly, _ in run.ends)
        ended_well |= bool(run.halts) or any(code == allocation_end for _, code in run.marks)
        failed = any(time > silent and code == recovery for time, code in run.marks)
        return self._codes[buckets.OTHER] if ended_well and not failed else recovery
