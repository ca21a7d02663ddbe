"""The runs of a job, its attempts, and what the time is that no claim covers: start-up, a pause, recovery.

A run begins with a launch. Where the numbers of steps go back within one the job begins again: that is an
attempt, and nobody has to say so.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

import numpy as np

from .. import buckets
from ..buckets import Codes
from .claims import Flags, Longs
from .facts import Moments, Tokens
from .launches import Launch
from .times import NEVER

_COUNTED_ON = 4
"""So many steps must follow each other, each time, before a number without a name is believed to go back."""
PENDING = 4
"""The last so many steps without a name may still turn out to go back."""

End = tuple[int, bool, str]
"""When, whether it was a bad one, and who says so."""


class LedgerRun:
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
        """Whether all said so who reported its start, or somebody without a name."""
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
        self._runs = list(map(LedgerRun, [(-NEVER, set()), *launches], behind))
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

    def __getitem__(self, run: int) -> LedgerRun:
        return self._runs[run]

    def ends(self) -> Iterable[tuple[int, End]]:
        """Return the ends that were reported, with their runs, in order."""
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

    def _verdict(self, run: LedgerRun, silent: int) -> int:
        """Return what follows the end of a run: nothing special when it ended well, else recovery."""
        recovery, allocation_end = (self._codes[each] for each in (buckets.RECOVERY, buckets.ALLOCATION_END))
        ended_well = run.has_ended and not any(badly for _, badly, _ in run.ends)
        ended_well |= bool(run.halts) or any(code == allocation_end for _, code in run.marks)
        failed = any(time > silent and code == recovery for time, code in run.marks)
        return self._codes[buckets.OTHER] if ended_well and not failed else recovery


def named_rollbacks(steps: Tokens, run: Longs) -> Flags:
    """Return which steps, by stream in order of time, are not above their writer's last in the run."""
    stream, _, number = steps
    back = np.zeros(len(number), np.bool_)
    back[1:] = (number[1:] <= number[:-1]) & (stream[1:] == stream[:-1]) & (run[1:] == run[:-1])
    return back


def nameless_rollbacks(number: Longs, run: Longs, first: int = 1, highest: int = -NEVER) -> Longs:
    """Return indices of the steps, from `first` on, with which the only writer without a name goes back.

    Of numbers that several may report without a name, one must lie at least two below the highest of its
    attempt, which must be the last one, and the steps before it and behind it must each count on. The attempt
    began with the first of them, or before it, with a `highest` number there.
    """
    down = np.flatnonzero(number[first:] < number[first - 1 : -1]) + first
    down = down[down + 2 < len(number)]
    stride = np.diff(number)
    down = down[(stride[down] > 0) & (stride[down] == stride[down + 1])]
    found: list[int] = []
    low = upto = 0
    for at in down.tolist():
        begins = int(np.searchsorted(run, run[at]))
        if begins > low:
            low, upto, highest = begins, begins, -NEVER
        highest = max(highest, int(number[upto:at].max(initial=-NEVER)))
        upto = at
        count = min(highest - int(number[at]), _COUNTED_ON)
        last, early = at + count, max(low, at - 1 - count)
        if count < 2 or number[at - 1] != highest or last >= len(number):  # noqa: PLR2004 - by two at least
            continue
        counts_on = _counts_on(stride[early : at - 1]) and _counts_on(stride[at:last])
        if counts_on and run[last] == run[at]:
            found.append(at)
            low, highest = at, -NEVER
    return np.array(found, np.int64)


def begins_within(
    backs: Iterable[tuple[int, int, int]], known_run: int, known: Mapping[int, int]
) -> Iterable[int]:
    """Return when attempts begin within runs, where streams go `back` (run, stream and time, in order).

    The first time that any stream goes back within a run is the begin of the job's second attempt in that
    run, the second time that of the third, and so on. In `known_run` streams went back so often before.
    """
    most = max(known.values(), default=0)
    count = {(known_run, stream): times for stream, times in known.items()}
    found: dict[tuple[int, int], int] = {}
    for run, stream, time in backs:
        nth = count.get((run, stream), 0)
        count[run, stream] = nth + 1
        if run != known_run or nth >= most:
            found[run, nth] = min(time, found.get((run, nth), time))
    return found.values()


def _counts_on(stride: Longs) -> bool:
    return bool((stride > 0).all() and (stride == stride[:1]).all())
