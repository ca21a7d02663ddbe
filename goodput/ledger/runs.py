"""The runs of a job, from a launch to the last word before the next one, and what unclaimed time is."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .. import buckets
from ..buckets import Codes
from .claims import NONE, Longs, is_changed, joined, where
from .facts import NOBODY, Facts, Form
from .launches import launches
from .times import NEVER

End = tuple[int, int, int]
"""When, whether it was a bad one, and who says so."""


class LedgerRun:
    """A run from `begin` to the next one's; `first_step` is NEVER, `last_word` long ago if there is none."""

    # there are thousands, all made anew with each derivation
    __slots__ = ("begin", "behind", "ends", "first_step", "is_halted", "last_word", "marks", "writers")

    def __init__(self, begin: int, writers: set[int], behind: int) -> None:
        self.begin, self.writers, self.behind = begin, writers, behind
        self.first_step, self.last_word = NEVER, -NEVER
        self.ends: list[End] = []
        self.is_halted = False
        self.marks: list[tuple[int, int]] = []

    @property
    def has_ended(self) -> bool:
        """Whether all said so who reported its start, or somebody without a name."""
        who = {writer for _, _, writer in self.ends}
        return bool(who) and (0 in who or self.writers <= who)


class _Words(NamedTuple):
    """Writers, in which runs they were heard of, and when."""

    who: Longs = NONE
    run: Longs = NONE
    time: Longs = NONE


class LatestTimes:
    """The latest time of each writer in each run."""

    def __init__(self, who: Longs, run: Longs, time: Longs) -> None:
        order = np.lexsort((time, run, who))
        self.who, self.run, self.time = who[order], run[order], time[order]
        last = np.append(is_changed(self.who, self.run)[1:], np.ones(min(1, len(order)), np.bool_))
        self.who, self.run, self.time = self.who[last], self.run[last], self.time[last]
        self._writers = np.append(self.who[is_changed(self.who)], NEVER)
        self._width = int(self.run.max(initial=0)) + 1
        self._keys = np.append(self._key(self.who, self.run), NEVER)
        self._times = np.append(self.time, -NEVER)

    def of(self, who: Longs, run: Longs) -> Longs:
        """Return those of writers in runs; long ago, where there is none."""
        wanted = self._key(who, run)
        at = np.searchsorted(self._keys, wanted)
        is_known = (self._writers[np.searchsorted(self._writers, who)] == who) & (run < self._width)
        return np.where(is_known & (self._keys[at] == wanted), self._times[at], -NEVER)

    def _key(self, who: Longs, run: Longs) -> Longs:
        return np.searchsorted(self._writers, who) * self._width + run


class Runs:
    """The runs in `facts`, behind so many others; run 0 lies before the first of them."""

    def __init__(self, facts: Facts, before: int, codes: Codes) -> None:
        stepped: list[Longs] = []
        self._steps = (facts.of(Form.STEP_STARTED), facts.of(Form.STEP_COMPLETED), facts.of(Form.STEPPED))

        def next_step(time: int) -> int:
            if not stepped:
                stepped.append(np.sort(np.concatenate([each.time for each in self._steps]), kind="stable"))
            at = int(np.searchsorted(stepped[0], time))
            return int(stepped[0][at]) if at < len(stepped[0]) else NEVER

        starts, ends = facts.of(Form.STARTED), facts.of(Form.ENDED)
        begun = launches(
            zip(starts.time.tolist(), starts.who.tolist(), strict=True),
            np.sort(ends.time).tolist(),
            next_step,
        )
        self.starts: Longs = np.array([begin for begin, _ in begun], np.int64)
        self._codes, self._before, self._facts = codes, before, facts
        begins = self.starts.tolist()
        self.all = [
            LedgerRun(*each, behind)
            for each, behind in zip([(-NEVER, set()), *begun], [*begins, NEVER], strict=True)
        ]
        for end in sorted(zip(ends.time.tolist(), ends.number.tolist(), ends.who.tolist(), strict=True)):
            is_first = not before and begins[:1] == [end[0]]  # else one of that time is of the run before
            self.all[1 if is_first else bisect_left(begins, end[0])].ends.append(end)
        for time in facts.of(Form.HALTED).time.tolist():
            self.all[bisect_right(begins, time)].is_halted = True
        marks = facts.of(Form.MARKED)
        for mark in sorted(zip(marks.time.tolist(), marks.number.tolist(), strict=True)):
            self.all[bisect_right(begins, mark[0])].marks.append(mark)
        self._add_times()

    def _add_times(self) -> None:
        first, last = np.full(len(self.all), NEVER), np.full(len(self.all), -NEVER)
        for steps in self._steps:
            run = self.of(steps.time)
            begins = np.flatnonzero(is_changed(steps.who, run))
            np.minimum.at(first, run[begins], steps.time[begins])
        self._words = LatestTimes(*self.spoken(NEVER))
        np.maximum.at(last, self._words.run, self._words.time)
        for at, each in enumerate(self.all):
            each.first_step, each.last_word = int(first[at]), int(last[at])
        ends = [(at, who, time) for at, run in enumerate(self.all) for time, _, who in run.ends]
        run, who, time = np.array(ends, np.int64).reshape(-1, 3).T
        self._ends, self._any_end = LatestTimes(who, run, time), LatestTimes(np.zeros_like(run), run, time)

    def __len__(self) -> int:
        return self._before + len(self.starts)

    def of(self, times: Longs) -> Longs:
        """Return in which run each of `times` lies."""
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        return np.searchsorted(self.starts, times, side="right").astype(np.int64)

    def at(self, time: int) -> int:
        """Return in which run a moment lies."""
        return int(np.searchsorted(self.starts, time, side="right"))

    def spoken(self, until: int) -> _Words:
        """Return all words before a moment that may be a writer's last in a run."""
        facts = self._facts
        between = [self._codes[name] for name in buckets.NOT_THE_RUNS_OWN]
        steps, borders, intervals = (
            facts.of(form) for form in (Form.STEP_COMPLETED, Form.BORDER, Form.INTERVAL)
        )
        is_own = ~np.isin(intervals.code, between)
        is_word = ~np.isin(borders.code, between)
        words = [
            (steps.who, steps.time),
            (steps.who, steps.end),
            (borders.number[is_word] >> 1, borders.time[is_word]),
            (intervals.who[is_own], intervals.time[is_own]),
            (intervals.who[is_own], intervals.end[is_own]),
            *((each.who, each.time) for each in (facts.of(Form.STEP_STARTED), facts.of(Form.WORD))),
        ]
        for form in (Form.STARTED, Form.ENDED, Form.HALTED):
            time = facts.of(form).time
            words.append((np.full(len(time), NOBODY), time))
        found = [_Words()]
        for who, time in words:
            each = _Words(who, self.of(time), time)
            if until < NEVER:
                each = where(each, time < until)
            first = np.flatnonzero(is_changed(each.who, each.run))
            if len(first):
                latest = np.maximum.reduceat(each.time, first)
                found.append(_Words(each.who[first], each.run[first], latest))
        return joined(found)

    def last_words(self, who: Longs, run: Longs) -> Longs:
        """Return when writers were last heard of in runs, or said that these ended, or else anybody did."""
        ended = self._ends.of(who, run)
        ended = np.where(ended > -NEVER, ended, self._any_end.of(np.zeros_like(run), run))
        return np.maximum(self._words.of(who, run), ended)

    @property
    def is_over(self) -> bool:
        """Whether the last run said that it ended, and the job does not wait for another one."""
        run, queued = self.all[-1], self._codes[buckets.QUEUE_WAIT]
        return run.has_ended and not any(
            time >= run.ends[-1][0] and code == queued for time, code in run.marks
        )

    def background(self) -> tuple[Longs, Longs]:
        """Return from when on the unclaimed time is what code: times and codes, oldest first."""
        made: list[tuple[int, int]] = []
        for at in range(len(self.all)):
            for time, code in self._background_of(at):
                if made and time <= made[-1][0]:
                    made[-1] = made[-1][0], code
                else:
                    made.append((time, code))
        times, codes = np.array(made, np.int64).T
        return times, codes

    def _background_of(self, at: int) -> Iterator[tuple[int, int]]:
        run, codes = self.all[at], self._codes
        queue_wait, recovery = codes[buckets.QUEUE_WAIT], codes[buckets.RECOVERY]
        has_stepped = run.first_step < NEVER
        yield run.begin, codes[buckets.STARTUP]
        if has_stepped:
            yield run.first_step, codes[buckets.OTHER]
        silent = max(run.last_word, run.begin)
        is_followed = run.behind < NEVER and (self._before + at > 0 or has_stepped)
        is_over = run.has_ended or is_followed
        if is_over:
            yield silent, self._verdict(run, silent)
        is_queued = is_waiting = False
        for time, code in run.marks:
            if code == recovery:
                if time > silent and not is_over and not is_waiting:
                    yield time, code
            elif not is_queued or code == queue_wait:  # the allocation ends until the job is queued
                yield max(time, silent), code
                is_waiting = True
                is_queued |= code == queue_wait

    def _verdict(self, run: LedgerRun, silent: int) -> int:
        """Return what follows the end of a run: nothing special when it ended well, else recovery."""
        recovery, allocation_end = (self._codes[each] for each in (buckets.RECOVERY, buckets.ALLOCATION_END))
        ended_well = run.has_ended and not any(badly for _, badly, _ in run.ends)
        ended_well |= run.is_halted or any(code == allocation_end for _, code in run.marks)
        failed = any(time > silent and code == recovery for time, code in run.marks)
        return self._codes[buckets.OTHER] if ended_well and not failed else recovery
