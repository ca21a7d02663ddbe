"""Derive from all facts of a job where its time went.

The function of the whole job is :class:`Derived` of all its facts behind `Settled()`. What lies before a
horizon can be settled: nanoseconds by bucket, and the little that what comes later depends on.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import buckets
from .claims import (
    KINDS,
    OPEN,
    Claims,
    Doubts,
    Longs,
    Ranges,
    is_changed,
    joined,
    last_of_each,
    nanoseconds,
    reduced_by_key,
    where,
)
from .facts import NOBODY, Facts, StreamNames, Tokens, merged_facts
from .last_words import LastWords
from .launches import launches
from .pairing import REACH, interval_claims, needed_borders
from .runs import PENDING, Runs, begins_within, named_rollbacks, nameless_rollbacks
from .skew import STEPS, last_steps, skew
from .step_claims import step_claims
from .sweep import Rules, Timeline
from .times import NEVER

_CONTEXT = 10
"""What a step stands for, and whether steps go back there, depends on fewer of those before it."""


class Limits(NamedTuple):
    """How much is looked at in one piece: but for `reach` that changes only what it costs."""

    block: int = 2048
    """Claims that are swept together."""
    tail: int = 4096
    """Claims that are not settled, at least; of twice as many, half are."""
    reach: int = REACH
    skew: int = STEPS


class Settled(NamedTuple):
    """What follows from the facts before `at`, as far as it concerns what comes later.

    The run at that moment lies behind `runs` others. Its `first_step` is known, the last words of its writers
    (`words`: writers and times), and how often each stream went back in it (`backs`); of those without a name
    since when they counted on, and the highest number (`nameless`). Of each attempt that began there are the
    least number of its steps (`least`), and the highest that counts (`most`).
    """

    at: int = -NEVER
    row: Longs = np.zeros(1, np.int64)
    first: int = NEVER
    last: int = -NEVER
    runs: int = 0
    first_step: int = NEVER
    words: tuple[Longs, Longs] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    backs: Mapping[int, int] = {}
    nameless: tuple[tuple[int, int], tuple[int, int]] = ((-NEVER, -NEVER), (-NEVER, -NEVER))
    attempts: Longs = np.zeros(0, np.int64)
    least: Longs = np.full(1, NEVER)
    most: Longs = np.full(1, -NEVER)
    made: Ranges = Ranges()
    saved: Ranges = Ranges()


class Derived:
    """What follows from `facts` behind what is settled."""

    def __init__(self, facts: Facts, settled: Settled, names: StreamNames, limits: Limits) -> None:
        self.facts, self.settled = facts, settled
        self._names, self._codes, self._limits = names, names.codes, limits
        self._step, self._save = self._codes[buckets.STEP], self._codes[buckets.CHECKPOINT_OTHER]
        self.first, self.last = min(settled.first, facts.earliest), max(settled.last, facts.latest)
        closed = facts.closed
        whole = np.flatnonzero((closed.kind == self._step) & (closed.writer != NOBODY))
        columns = closed.writer, closed.start, closed.step
        whole = whole[np.lexsort([column[whole] for column in columns[::-1]])]
        self._whole = whole[is_changed(*(column[whole] for column in columns))]
        """Indices of the steps with both ends, by writer."""
        self._numbered = facts.steps, Tokens(*(column[self._whole] for column in columns))
        self._stream_writer, self._stream_kind = names.columns()
        self.runs = self._find_runs()
        self._numbered_runs = [self.runs.of(tokens.time) for tokens in self._numbered]
        self._border_runs = self.runs.of(facts.borders.time)
        self._at_run = int(self.runs.of(np.array([settled.at]))[0])
        self.runs.stepped(np.array([self._at_run]), np.array([settled.first_step]))
        self._words = LastWords(facts, self.runs, names, settled.words, self._at_run)
        self.runs.spoke(*self._words.of_runs())
        self._backs, self._early_backs = self._find_rollbacks()
        self.attempts, self._least = self._find_attempts()
        self.wasted_from = np.minimum.accumulate(np.append(self._least[1:], NEVER)[::-1])[::-1]
        self._inferred, self._doubts, self._made = self._infer()
        self.timeline = self._sweep()

    def __reduce__(self) -> tuple[type["Derived"], tuple[Facts, Settled, StreamNames, Limits]]:
        """Pickle what all else follows from: a third of it."""
        return Derived, (self.facts, self.settled, self._names, self._limits)

    @property
    def size(self) -> int:
        """How many claims lie behind what is settled."""
        return len(self._starts) - int(np.searchsorted(self._starts, self.settled.at))

    @property
    def steps(self) -> int:
        """How many steps were made, each once."""
        return self.settled.made.replaced(*self._made)[1].total

    @property
    def saves(self) -> int:
        """How many saves have both ends: those that overlap, of several writers, are one."""
        kept, more = self.settled.saved.replaced(*self._saved(NEVER))
        return kept + len(more.low)

    @cached_property
    def skew(self) -> int:
        """How far the clocks of those who report steps are apart, in nanoseconds."""
        since = int(self.attempts[-1]) if len(self.attempts) else -NEVER
        return skew(*self._numbered, since, self._limits.skew)

    def spent(self, until: int) -> Longs:
        """Return nanoseconds by code from the first event to `until`, which may lie ahead of all of them."""
        row = self.timeline.until(min(until, self.last))
        if until > self.last and not self.runs.is_over:
            row = row.copy()
            row[self._background[1, -1]] += until - self.last
        return row

    def are_wasted(self, begun_s: Sequence[float], number: Sequence[int]) -> list[bool]:
        """Return which of the steps with these numbers, begun at these times, were computed again."""
        attempt = np.searchsorted(self.attempts, nanoseconds(begun_s), side="right")
        verdict: list[bool] = (np.array(number, np.int64) >= self.wasted_from[attempt]).tolist()
        return verdict

    def agrees(self, before: "Derived") -> bool:
        """Return whether what is settled still holds, with more facts than those `before`."""
        if (self.settled.most >= self.wasted_from[: len(self.settled.most)]).any():
            return False
        settled = len(self.settled.attempts)
        if not np.isin(before.attempts[settled:], self.attempts[settled:]).all():
            return False
        mine, others = self.early, before.early
        return all(np.array_equal(one, other) for one, other in zip(mine, others, strict=True))

    def horizon(self, keep: int) -> int | None:
        """Return a moment with at least `keep` claims behind it up to which all can be settled, if any."""
        claims = self.timeline.claims
        starts, is_open = claims.start, where(claims, claims.kind & OPEN > 0)
        at = len(starts) - keep
        while at > 0:
            time = int(starts[at])
            run = self.runs[int(self.runs.of(starts[at : at + 1])[0])]
            if time <= max(self.timeline.begin, self.first):
                return None
            is_unsure = self.timeline.is_in_doubt(starts[at : at + 1])[0]
            is_unsure |= ((is_open.start < time) & (is_open.end > time)).any()
            if run.last_word >= time < self.last and not is_unsure:
                return time
            at -= max(1, keep // 16)
        return None

    def settle(self, at: int) -> tuple[Settled, Facts]:
        """Return what follows from the facts before `at`, and those that what comes later needs."""
        run = int(self.runs.of(np.array([at]))[0])
        is_same = run == self._at_run
        before = self.settled
        attempts = self.attempts[self.attempts < at]
        backs = dict(before.backs) if is_same else {}
        for its_run, stream, time in self._backs:
            if its_run == run and time < at:
                backs[stream] = backs.get(stream, 0) + 1
        early = [where(tokens, tokens.time < at) for tokens in self._numbered]
        claims = where(self.timeline.claims, slice(0, int(np.searchsorted(self._starts, at))))
        is_step = claims.kind & KINDS == self._step
        steps = [(claims.start[is_step], claims.step[is_step])]
        doubtful = self._doubts.start < at
        steps.append((self._doubts.start[doubtful], self._doubts.step[doubtful]))
        most = np.append(before.most, np.full(len(attempts) + 1 - len(before.most), -NEVER))
        for begun, number in steps:
            attempt = np.searchsorted(attempts, begun, side="right")
            counts = number < self.wasted_from[attempt]
            np.maximum.at(most, *reduced_by_key(np.maximum, attempt[counts], number[counts]))
        first_step = self.runs[run].first_step
        settled = Settled(
            at=at,
            row=self.timeline.until(at),
            first=self.first,
            last=self.last,
            runs=before.runs + max(0, run - 1),
            first_step=first_step if first_step < at else NEVER,
            words=self._words.of_writers(run, at),
            backs=backs,
            nameless=(self._nameless_at(0, at, run), self._nameless_at(1, at, run)),
            attempts=attempts,
            least=_least(attempts, before.least, early),
            most=most,
            made=before.made.plus(*self._made_before(at)),
            saved=before.saved.plus(*self._saved(at)),
        )
        return settled, merged_facts(self.facts.between(at, NEVER), self._edge(at, run))

    def _find_runs(self) -> Runs:
        facts, settled = self.facts, self.settled
        stepped: list[Longs] = []

        def next_step(time: int) -> int:
            if not stepped:
                times = [np.array([settled.first_step]), *(tokens.time for tokens in self._numbered)]
                stepped.append(np.sort(np.concatenate(times), kind="stable"))
            at = int(np.searchsorted(stepped[0], time))
            return int(stepped[0][at]) if at < len(stepped[0]) else NEVER

        ends = sorted(time for time, *_ in facts.moments.ends)
        begun = launches(facts.moments.starts, ends, next_step)
        runs = Runs(begun, facts.moments, settled.runs, self._codes)
        for tokens in self._numbered:
            runs.stepped(*reduced_by_key(np.minimum, runs.of(tokens.time), tokens.time))
        return runs

    def _find_rollbacks(self) -> tuple[list[tuple[int, int, int]], Longs]:
        """Return run, stream and time of each step that goes back; and when settled nameless ones did."""
        rows: list[tuple[int, int, int]] = []
        early = []
        for table, (tokens, run) in enumerate(zip(self._numbered, self._numbered_runs, strict=True)):
            back = named_rollbacks(tokens, run)
            nameless = int(np.searchsorted(tokens.stream, 1))
            back[:nameless] = False
            found = self._nameless(table)
            back[found] = True
            early.append(tokens.time[found[tokens.time[found] < self.settled.at]])
            back &= tokens.time >= self.settled.at
            columns = run[back], 2 * tokens.stream[back] + table, tokens.time[back]
            rows += zip(*(column.tolist() for column in columns), strict=True)
        return rows, np.concatenate(early)

    def _nameless(self, table: int) -> Longs:
        """Return the steps in a table of numbered ones with which the writer without a name goes back."""
        tokens, run = self._numbered[table], self._numbered_runs[table]
        behind = int(np.searchsorted(tokens.stream, 1))
        since, highest = self.settled.nameless[table]
        low = int(np.searchsorted(tokens.time[:behind], since))
        known = int(np.searchsorted(tokens.time[:behind], self.settled.at))
        first = max(1, known - PENDING - low)
        number = tokens.value[low:behind]
        return low + nameless_rollbacks(number, run[low:behind], first, -NEVER if low else highest)

    def _nameless_at(self, table: int, at: int, run: int) -> tuple[int, int]:
        """Return since when steps without a name count on, and the highest number before the edge."""
        tokens, runs = self._numbered[table], self._numbered_runs[table]
        behind = int(np.searchsorted(tokens.stream, 1))
        begin = int(np.searchsorted(runs[:behind], run))
        end = int(np.searchsorted(tokens.time[:behind], at))
        if end <= begin:
            return -NEVER, -NEVER
        since, highest = self.settled.nameless[table] if run == self._at_run else (-NEVER, -NEVER)
        found = self._nameless(table)
        low = max(begin, int(np.searchsorted(tokens.time[:behind], since)))
        low = int(max([low, *found[found < end - PENDING].tolist()]))
        edge = max(low, end - self._kept_steps)
        most = int(tokens.value[low:edge].max(initial=-NEVER))
        if low == begin and since > -NEVER:  # it began before what is at hand
            return since, max(most, highest)
        return int(tokens.time[low]), most

    def _find_attempts(self) -> tuple[Longs, Longs]:
        """Return when attempts began, and the lowest number of a step of each."""
        settled, restarts = self.settled, (time for (time,) in self.facts.moments.restarts)
        backs = begins_within(self._backs, self._at_run, settled.backs)
        begins = {time for time in (*self.runs.starts.tolist(), *restarts, *backs) if time >= settled.at}
        attempts = np.append(settled.attempts, np.array(sorted(begins), np.int64))
        return attempts, _least(attempts, settled.least, self._numbered)

    def _infer(self) -> tuple[Claims, Doubts, tuple[Longs, Longs]]:
        """Return what starts and ends stand for: claims, doubts, and ranges of steps' numbers."""
        (steps, whole), (run, _) = self._numbered, self._numbered_runs
        closing = steps.time.copy()
        last = np.append(is_changed(steps.stream, run)[1:], np.ones(min(1, len(run)), np.bool_))
        closing[last] = self._words.last(steps.stream[last], run[last])
        claims, doubts, behind = step_claims(steps, run, closing, self._step)
        intervals = interval_claims(
            self.facts.borders,
            self._border_runs,
            self._stream_kind,
            lambda stream, run: self._words.last(self._stream_writer[stream], run),
            self._next_step,
            self._limits.reach,
        )
        made = np.append(steps.value, whole.value), np.append(behind, whole.value + 1)
        return joined([claims, intervals]), doubts, made

    def _next_step(self, stream: Longs, run: Longs, time: Longs) -> Longs:
        """Return when, behind a time, the writer of a stream began its next step in the same run."""
        steps, runs = self._numbered[0], self._numbered_runs[0]
        writer = self._stream_writer[stream]
        made = np.full(len(stream), NEVER)
        for who in np.unique(writer).tolist():
            begin, behind = np.searchsorted(steps.stream, (who, who + 1))
            which = np.flatnonzero(writer == who)
            at = begin + np.searchsorted(steps.time[begin:behind], time[which], side="right")
            which, at = which[at < behind], at[at < behind]
            made[which] = np.where(runs[at] == run[which], steps.time[at], NEVER)
        return made

    @cached_property
    def early(self) -> tuple[Longs, ...]:
        """What is inferred of the time that is settled, from what is reported before it."""
        claims = where(self._inferred, self._inferred.start < self.settled.at)
        doubts = where(self._doubts, self._doubts.start < self.settled.at)
        return *claims, *doubts, self._early_backs

    def _saved(self, until: int) -> tuple[Longs, Longs]:
        """Return the first and last nanosecond of each save that began before."""
        claimed = Claims(*self.facts.closed[:4]), self._inferred
        saves = joined([where(each, (each.kind == self._save) & (each.start < until)) for each in claimed])
        return saves.start, np.maximum(saves.start, saves.end - 1)

    def _made_before(self, at: int) -> tuple[Longs, Longs]:
        early = np.concatenate([tokens.time for tokens in self._numbered]) < at
        return self._made[0][early], self._made[1][early]

    def _sweep(self) -> Timeline:
        claims = joined([Claims(*self.facts.closed[:4]), self._inferred])
        if (claims.start[1:] < claims.start[:-1]).any():
            claims = where(claims, np.argsort(claims.start, kind="stable"))
        doubts = where(self._doubts, np.argsort(self._doubts.start, kind="stable"))
        begin = max(self.settled.at, min(self.first, self.last))
        earliest = min([begin, *claims.start[:1].tolist(), *doubts.start[:1].tolist()])
        attempt = int(np.searchsorted(self.attempts, earliest, side="right"))
        code = self._codes
        self._background = self.runs.background()
        rules = Rules(
            weakest_first=code.weakest_first(),
            size=len(code),
            background_at=self._background[0],
            background=self._background[1],
            attempts=self.attempts[attempt:].copy(),
            wasted_from=self.wasted_from[attempt:].copy(),
            step=self._step,
            productive=code[buckets.PRODUCTIVE],
            wasted=code[buckets.WASTED_PROGRESS],
            startup=code[buckets.STARTUP],
            other=code[buckets.OTHER],
            aside=code[buckets.ASYNC_LOADING],
            made=code[buckets.STEPS_MADE],
            last=self.last,
        )
        return Timeline((claims, doubts), (begin, self.last), self.settled.row, rules, self._limits.block)

    @property
    def _starts(self) -> Longs:
        return self.timeline.claims.start

    @cached_property
    def _kept_steps(self) -> int:
        """How many steps of each writer what comes later needs."""
        writers = max(int(np.count_nonzero(is_changed(tokens.stream))) for tokens in self._numbered)
        return _CONTEXT if writers < 2 else max(_CONTEXT, last_steps(writers, self._limits.skew))  # noqa: PLR2004

    def _edge(self, at: int, run: int) -> Facts:
        """Return the facts before a moment on which depends what those behind it mean."""
        facts, kept = self.facts, self._kept_steps
        chosen = []
        for tokens, runs in zip(self._numbered, self._numbered_runs, strict=True):
            here = np.flatnonzero((tokens.time < at) & (runs == run))
            chosen.append(here[last_of_each(tokens.stream[here], kept)])
        across = (facts.closed.start < at) & (facts.closed.end > at)
        across[self._whole[chosen[1]]] = True
        borders = facts.borders
        early = np.flatnonzero(borders.time < at)
        near = needed_borders(where(borders, early), self._border_runs[early] == run, self._limits.reach)
        return Facts(
            where(facts.steps, chosen[0]),
            where(borders, early[near]),
            where(facts.closed, across),
            np.zeros(0, np.int64),
            facts.between(self.runs[run].begin, at).moments,
        )


def _least(attempts: Longs, known: Longs, tables: Sequence[Tokens]) -> Longs:
    """Return the lowest number of a step of each attempt."""
    least = np.append(known, np.full(len(attempts) + 1 - len(known), NEVER))
    for tokens in tables:
        attempt = np.searchsorted(attempts, tokens.time, side="right")
        at, number = reduced_by_key(np.minimum, attempt, tokens.value)
        np.minimum.at(least, at, number)
    return least
