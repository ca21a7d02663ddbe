"""Derive from all facts of a job where its time went.

The function of the whole job is :class:`Derived` of all its facts behind `Settled()`. What lies before a
horizon can be settled: nanoseconds by bucket, and the little that what comes later depends on.
"""

from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from .. import buckets
from ..buckets import Codes
from .attempts import Attempts, begins_within, named_rollbacks, nameless_rollbacks
from .claims import (
    NONE,
    BucketClaims,
    Flags,
    Longs,
    Spans,
    StepClaims,
    distinct,
    is_changed,
    is_last,
    joined,
    last_of_each,
    where,
)
from .facts import Facts, Form, rows, what
from .launches import NEVER
from .pairing import REACH, interval_claims, needed_borders
from .runs import Runs
from .step_claims import SKEW_STEPS, last_steps, skew, step_claims
from .sweep import Claimed, Timeline

_NEIGHBOURS = 6
"""What a step stands for depends on fewer of its writer's before it."""


class Limits(NamedTuple):
    """How much is looked at in one piece: but for `reach` that changes only what it costs."""

    tail: int = 4096
    """Claims that are not settled, at least; of twice as many, half are."""
    reach: int = REACH
    skew: int = SKEW_STEPS


class Settled(NamedTuple):
    """What follows from the facts before `at`, beside facts that are kept, as far as later ones depend on it.

    The run at that moment lies behind `runs` others. Of each attempt that began there are the least number of
    its steps (`least`), and the highest that counts (`most`); `steps_made` are millionths. Saves are counted
    up to the end of the last.
    """

    at: int = -NEVER
    row: Longs = np.zeros(1, np.int64)
    steps_made: int = 0
    first: int = NEVER
    runs: int = 0
    attempts: Longs = NONE
    least: Longs = np.full(1, NEVER)
    most: Longs = np.full(1, -NEVER)
    made: Spans = Spans()
    saves: tuple[int, int] = (0, -NEVER)


class Derived:
    """What follows from `facts` behind what is settled."""

    def __init__(self, facts: Facts, settled: Settled, codes: Codes, limits: Limits) -> None:
        self.facts, self.settled, self._codes, self._limits = facts, settled, codes, limits
        self.first = min(settled.first, int(facts.time.min(initial=NEVER)))
        self.last = int(facts.end.max(initial=-NEVER))
        self.runs = Runs(facts, settled.runs, codes)
        self._at_run = self.runs.at(settled.at)
        steps = self._steps
        self._run_of_step = self.runs.of(steps.time)
        backs = where(steps, self._go_back(steps))
        self._backs, self._nameless = where(backs, backs.time >= settled.at), where(backs, backs.who == 0)
        self.attempts = Attempts(self._attempt_begins(), settled.least, steps)
        self._infer(steps)
        begin = max(settled.at, min(self.first, self.last))
        self.timeline = Timeline(self._claimed, (begin, self.last), settled.row, codes)

    def __reduce__(self) -> tuple[type["Derived"], tuple[Facts, Settled, Codes, Limits]]:
        """Pickle what all else follows from: a third of it."""
        return Derived, (self.facts, self.settled, self._codes, self._limits)

    @property
    def size(self) -> int:
        """How many claims lie behind what is settled."""
        return sum(int((each.start >= self.settled.at).sum()) for each in self._claimed[:3])

    @property
    def steps(self) -> int:
        """How many steps were made, each once."""
        return sum(each.length for each in self.settled.made.plus(self._made))

    def saves(self, until: int = NEVER) -> tuple[int, int]:
        """Return how many saves with both ends began before a moment, and their last end.

        Those that overlap, of several writers, are one.
        """
        count, reached = self.settled.saves
        at, (start, end, code) = self.settled.at, self._whole
        is_save = (code == self._codes[buckets.CHECKPOINT_OTHER]) & (start >= at) & (start < until)
        start, last = start[is_save], np.maximum(start, end - 1)[is_save]
        apart = Spans(np.append(at, start), np.append(reached, last)).union()
        return count + len(apart.start) - 1, int(apart.end[-1])

    @cached_property
    def skew(self) -> int:
        """How far the clocks of those who report steps are apart, in nanoseconds."""
        return skew(self._steps, int(self.attempts.begins.max(initial=-NEVER)), self._limits.skew)

    def end_at(self, now: int) -> int:
        """Return when the job ended; until it says so, the later of its last event and `now`."""
        return self.last if self.runs.is_over else max(self.last, now)

    def agrees(self, before: "Derived") -> bool:
        """Return whether what is settled still holds, with more facts than those `before`."""
        known = len(self.settled.most)
        if (self.settled.most >= self.attempts.wasted_from[:known]).any():
            return False
        if not np.isin(before.attempts.begins[known - 1 :], self.attempts.begins[known - 1 :]).all():
            return False
        return all(map(np.array_equal, self.early, before.early))

    def horizon(self, keep: int) -> int | None:
        """Return a moment with at least `keep` claims behind it up to which all can be settled, if any."""
        starts = np.sort(np.concatenate([each.start for each in self._claimed[:3]]))
        starts = starts[: max(0, len(starts) - keep + 1)]
        starts = starts[starts > max(self.timeline.begin, self.first)]
        at_last = Spans(np.array([self.last - 1]), np.array([NEVER]))
        doubts = Spans(*self._claimed.doubts[:2])
        silences = Spans(*np.array([(run.last_word, run.behind) for run in self.runs.all], np.int64).T)
        unsure = joined([self._open, doubts, silences, at_last])
        starts = starts[~unsure.are_around(starts)]
        return int(starts[-1]) if len(starts) else None

    def settle(self, at: int) -> tuple[Settled, Facts]:
        """Return what follows from the facts before `at`, and those that what comes later needs."""
        run, before = self.runs.at(at), self.settled
        attempts = self.attempts.begins[self.attempts.begins < at]
        settled = Settled(
            at=at,
            row=self.timeline.until(at),
            steps_made=before.steps_made + self.timeline.steps_made(at),
            first=self.first,
            runs=before.runs + max(0, run - 1),
            attempts=attempts,
            least=self.attempts.least[: len(attempts) + 1],
            most=self._most(at, len(attempts) + 1),
            made=joined(before.made.plus(where(self._made, self._steps.time < at))),
            saves=self.saves(at),
        )
        return settled, self.facts.between(at, NEVER).merged(*self._edge(at, run))

    @property
    def _steps(self) -> Facts:
        """The starts and ends of steps, each once; not kept, for with one told of twice it is a copy."""
        steps = self.facts.of(Form.STEP_STARTED, Form.STEP_COMPLETED)
        is_new = is_changed(steps.what, steps.who, steps.time, steps.number)
        return steps if is_new.all() else where(steps, is_new)

    def _go_back(self, steps: Facts) -> Flags:
        """Return which of the `steps` go back within their run."""
        number, run, stream = steps.number, self._run_of_step, _stream(steps)
        back = named_rollbacks(stream, run, number)
        for nameless in (0, 1):
            its = stream == nameless
            back[its] = nameless_rollbacks(number[its], run[its])
        return back

    def _attempt_begins(self) -> Longs:
        known, backs = self.facts.of(Form.WENT_BACK), self._backs
        runs = self.runs.of(backs.time)
        within = begins_within(runs, _stream(backs), backs.time, self._at_run, (known.who, known.number))
        begins = np.concatenate([self.runs.starts, self.facts.of(Form.RESTARTED).time, within])
        return np.append(self.settled.attempts, distinct(begins[begins >= self.settled.at]))

    def _infer(self, steps: Facts) -> None:
        """Find what starts and ends stand for."""
        begun, whole = (steps.of(form) for form in (Form.STEP_STARTED, Form.STEP_COMPLETED))
        run = self._run_of_step[: begun.size]
        ends = is_last(begun.who, run)
        closing = self.runs.last_words(begun.who[ends], run[ends])
        claims, doubts, found = step_claims(begun.time, begun.number, ends, closing)
        behind = claims.number + claims.steps
        self._made = Spans(np.append(begun.number, whole.number), np.append(behind, whole.number + 1))
        self._open = Spans(*where(claims, ends)[:2])
        if len(found):
            claims = StepClaims(*(np.delete(column, found) for column in claims))
        borders = self.facts.of(Form.BORDER)
        inferred, is_open = interval_claims(
            borders,
            self.runs.of(borders.time),
            self.runs.last_words,
            partial(self._next_step, begun),
            self._limits.reach,
        )
        self._open = joined([self._open, Spans(*where(inferred, is_open)[:2])])
        whole_intervals, known = self.facts.of(Form.INTERVAL), self.facts.of(Form.STEP_COMPLETED)
        reported = BucketClaims(whole_intervals.time, whole_intervals.end, whole_intervals.code)
        self._whole = joined([reported, where(inferred, ~is_open)])
        self._claimed = Claimed(
            joined([reported, inferred]),
            joined([claims, StepClaims(known.time, known.end, known.number, np.ones_like(known.number))]),
            doubts,
            self.attempts,
            self.runs.background(),
        )
        at = self.settled.at
        early = [*(where(each, each.start < at) for each in (claims, inferred, doubts))]
        self.early = [*(column for each in early for column in each), is_open[inferred.start < at]]
        self.early += where(self._nameless, self._nameless.time < at)

    def _next_step(self, begun: Facts, who: Longs, run: Longs, time: Longs) -> Longs:
        """Return when, behind a time, a writer began the next of the steps `begun` in the same run."""
        runs = self._run_of_step
        made = np.full(len(who), NEVER)
        for writer in distinct(who).tolist():
            begin, behind = np.searchsorted(begun.who, (writer, writer + 1))
            which = np.flatnonzero(who == writer)
            at = begin + np.searchsorted(begun.time[begin:behind], time[which], side="right")
            which, at = which[at < behind], at[at < behind]
            made[which] = np.where(runs[at] == run[which], begun.time[at], NEVER)
        return made

    def _most(self, at: int, count: int) -> Longs:
        """Return the highest number of a step before a moment that counts, of each of the first attempts."""
        most = np.append(self.settled.most, np.full(count - len(self.settled.most), -NEVER))
        for steps in (self._claimed.steps, self._claimed.doubts):
            early = steps.start < at
            time, number = steps.start[early], steps.number[early]
            counts = ~self.attempts.are_wasted(time, number)
            np.maximum.at(most, self.attempts.of(time[counts]), number[counts])
        return most

    def _edge(self, at: int, run: int) -> list[Facts]:
        """Return the facts before a moment on which depends what those behind it mean."""
        early, began = where(self.facts, self.facts.time < at), self.runs.all[run].begin
        in_run = (Form.STARTED, Form.ENDED, Form.HALTED, Form.MARKED)
        steps = self._steps
        kept = max(_NEIGHBOURS, last_steps(len(distinct(steps.who)), self._limits.skew))
        steps = where(steps, (steps.time < at) & (self._run_of_step == run))
        borders = early.of(Form.BORDER)
        needed = needed_borders(borders, self.runs.of(borders.time) == run, self._limits.reach)
        words = self.runs.spoken(early, at)
        words = where(words, words.run == run)
        first = np.array([self.runs.all[run].first_step])
        known = self.facts.of(Form.WENT_BACK) if run == self._at_run else Facts()
        backs = _stream(self._backs.between(began, at))
        stream, place = np.unique(np.append(known.who, backs), return_inverse=True)
        count = np.zeros(len(stream), np.int64)
        np.add.at(count, place, np.append(known.number, np.ones_like(backs)))
        return [
            where(early, early.end > at),
            *(early.of(form).between(began, at) for form in in_run),
            where(steps, last_of_each(_stream(steps), kept)),
            where(borders, needed),
            rows(what(Form.WORD), words.who, words.time),
            rows(what(Form.STEPPED), 0, first[first < at]),
            rows(what(Form.WENT_BACK), stream, np.full(len(stream), at - 1), count),
        ]


def _stream(steps: Facts) -> Longs:
    """Return the stream of each: twice the writer, and one more if both ends are recorded."""
    stream: Longs = 2 * steps.who + (steps.form == Form.STEP_COMPLETED)
    return stream
