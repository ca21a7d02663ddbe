"""The runs of a job, from a launch to the last word before the next one, and what unclaimed time is."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from .. import buckets
from ..buckets import Codes
from .claims import NONE, Longs, is_changed, is_last, joined, where
from .facts import NOBODY, Facts, Form
from .launches import NEVER, launches

_LASTING = (Form.STEP_COMPLETED, Form.INTERVAL)
_OF_RUNS = (Form.STARTED, Form.ENDED, Form.HALTED)
"""Words of nobody in particular."""

End = tuple[int, int, int]
"""When, whether it was a bad one, and who says so."""


class LedgerRun(msgspec.Struct):
    """A run from `begin` to the next one's; `first_step` is NEVER, `last_word` long ago if there is none."""

    begin: int
    writers: set[int]
    behind: int
    first_step: int
    last_word: int
    ends: list[End] = []
    is_halted: bool = False
    marks: list[tuple[int, int]] = []

    @property
    def has_ended(self) -> bool:
        """Whether all said so who reported its start, or somebody without a name."""
        who = {writer for _, _, writer in self.ends}
        return bool(who) and (0 in who or self.writers <= who)


class Words(NamedTuple):
    """Writers, in which runs they were heard of, and when."""

    who: Longs = NONE
    run: Longs = NONE
    time: Longs = NONE

    def latest(self, who: Longs, run: Longs) -> Longs:
        """Return when writers were last heard of in runs; long ago, where they were not."""
        writers, runs = np.append(self.who, who), np.append(self.run, run)
        order = np.lexsort((runs, writers))
        place = np.empty_like(order)
        place[order] = np.cumsum(is_changed(writers[order], runs[order])) - 1
        made = np.full(len(place), -NEVER)
        np.maximum.at(made, place[: len(self.who)], self.time)
        return made[place[len(self.who) :]]


class Runs:
    """The runs in `facts`, behind so many others; run 0 lies before the first of them."""

    def __init__(self, facts: Facts, before: int, codes: Codes) -> None:
        self._codes, self._before = codes, before
        steps = [facts.of(Form.STEP_STARTED, Form.STEP_COMPLETED), facts.of(Form.STEPPED)]
        starts, ends = facts.of(Form.STARTED), facts.of(Form.ENDED)
        begun = launches(
            zip(starts.time.tolist(), starts.who.tolist(), strict=True),
            np.sort(ends.time).tolist(),
            lambda: np.sort(np.concatenate([each.time for each in steps]), kind="stable"),
        )
        begins = [begin for begin, _ in begun]
        self.starts: Longs = np.array(begins, np.int64)
        first, last = np.full(len(begins) + 1, NEVER), np.full(len(begins) + 1, -NEVER)
        for each in steps:
            run = self.of(each.time)
            at = np.flatnonzero(is_changed(each.what, each.who, run))
            np.minimum.at(first, run[at], each.time[at])
        self._words = self.spoken(facts, NEVER)
        np.maximum.at(last, self._words.run, self._words.time)
        rest = zip([*begins, NEVER], first.tolist(), last.tolist(), strict=True)
        self.all = [LedgerRun(*run, *each) for run, each in zip([(-NEVER, set()), *begun], rest, strict=True)]
        for time in facts.of(Form.HALTED).time.tolist():
            self.all[bisect_right(begins, time)].is_halted = True
        marks = facts.of(Form.MARKED)
        for mark in sorted(zip(marks.time.tolist(), marks.number.tolist(), strict=True)):
            self.all[bisect_right(begins, mark[0])].marks.append(mark)
        ended = []
        for end in sorted(zip(ends.time.tolist(), ends.number.tolist(), ends.who.tolist(), strict=True)):
            is_first = not before and begins[:1] == [end[0]]  # else one of that time is of the run before
            ended.append((end[2], 1 if is_first else bisect_left(begins, end[0]), end[0]))
            self.all[ended[-1][1]].ends.append(end)
        self._ends = Words(*np.array(ended, np.int64).reshape(-1, 3).T)
        self._any_end = np.full(len(self.all), -NEVER)
        np.maximum.at(self._any_end, self._ends.run, self._ends.time)

    def __len__(self) -> int:
        return self._before + len(self.starts)

    def of(self, times: Longs) -> Longs:
        """Return in which run each of `times` lies."""
        return np.searchsorted(self.starts, times, side="right")

    def at(self, time: int) -> int:
        """Return in which run a moment lies."""
        return int(np.searchsorted(self.starts, time, side="right"))

    def spoken(self, facts: Facts, until: int) -> Words:
        """Return all words in `facts` before a moment that may be a writer's last in a run."""
        between = [self._codes[name] for name in buckets.NOT_THE_RUNS_OWN]
        words = []
        for form in (*_LASTING, Form.STEP_STARTED, Form.BORDER, Form.WORD, *_OF_RUNS):
            rows = facts.of(form)
            if form in (Form.BORDER, Form.INTERVAL):
                rows = where(rows, ~np.isin(rows.code, between))
            who = np.full(rows.size, NOBODY) if form in _OF_RUNS else rows.who
            who = rows.number >> 1 if form == Form.BORDER else who
            words.append((who, rows.time))
            if form in _LASTING:
                words.append((who, rows.end))
        found = [Words()]
        for who, time in words:
            each = Words(who, self.of(time), time)
            if until < NEVER:
                each = where(each, time < until)
            first = np.flatnonzero(is_changed(each.who, each.run))
            if len(first):
                latest = np.maximum.reduceat(each.time, first)
                found.append(Words(each.who[first], each.run[first], latest))
        return joined(found)

    def last_words(self, who: Longs, run: Longs) -> Longs:
        """Return when writers were last heard of in runs, or said that these ended, or else anybody did."""
        ended = self._ends.latest(who, run)
        ended = np.where(ended > -NEVER, ended, self._any_end[run])
        return np.maximum(self._words.latest(who, run), ended)

    @property
    def is_over(self) -> bool:
        """Whether the last run said that it ended, and the job does not wait for another one."""
        run, queued = self.all[-1], self._codes[buckets.QUEUE_WAIT]
        return run.has_ended and not any(
            time >= run.ends[-1][0] and code == queued for time, code in run.marks
        )

    def background(self) -> tuple[Longs, Longs]:
        """Return from when on the unclaimed time is what code: times and codes, oldest first."""
        rows = [row for at in range(len(self.all)) for row in self._background_of(at)]
        times, codes = np.array(rows, np.int64).T
        times = np.maximum.accumulate(times)
        last = is_last(times)
        return times[last], codes[last]

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
