"""From what was told to where the time went. Loads numpy: a ledger does so when it is first asked.

What a job's time was spent on follows from the *set* of its events. This class keeps what follows from those
it knows, and brings it up to date with new ones: in order, and even a little late, that touches only the end
of the time line. Very late ones (the start of a run before things that were heard of already, a start that
comes behind dozens of later ones of its kind) make it work out everything anew.
"""

from itertools import takewhile

import numpy as np

from . import buckets
from .buckets import Codes
from .claims import NEVER, Claims, Doubt, Longs, joined
from .columns import Stream, Told
from .runs import Background, Runs
from .step_ranges import StepRanges
from .streams import (
    extremes,
    forget,
    intervals,
    nanoseconds,
    runs_of,
    settle,
    skew,
    sort,
    steps,
    tokens_of,
)
from .sweep import Rules
from .timeline import Timeline

Key = tuple[str, int]
News = dict[Key, tuple[Longs, Longs]]
"""Tokens that are new, by stream."""

_LARGE = 4096
_SLACK = 1.25
_FEW = 1000
_PIECE = 65_536


class Reckoning:
    """What follows from everything told so far. `streams` are the ledger's own, by writer and kind.

    With `remembered` at most about so many claims are kept: what the older ones came to is settled.
    """

    def __init__(self, codes: Codes, streams: dict[Key, Stream], remembered: int | None) -> None:
        self.first: int | None = None
        self.last = -NEVER
        self.floor: int | None = None
        self.runs = Runs(
            Background(
                startup=codes[buckets.STARTUP],
                other=codes[buckets.OTHER],
                recovery=codes[buckets.RECOVERY],
                queue_wait=codes[buckets.QUEUE_WAIT],
                allocation_end=codes[buckets.ALLOCATION_END],
            )
        )
        self.made = StepRanges()
        self._codes, self._streams, self._remembered = codes, streams, remembered
        self._step = codes[buckets.STEP]
        self._between = [codes[name] for name in sorted(buckets.NOT_THE_RUNS_OWN)]
        self._timeline = Timeline()
        self._points: Longs = np.zeros(0, np.int64)
        self._steps_before: list[int] = []
        self._settled_row: Longs = np.zeros(len(codes), np.int64)
        self._background = self.runs.background()
        self._restarts: set[int] = set()
        self._forget_what_follows()

    def _forget_what_follows(self) -> None:
        self._lives: Longs = np.array(sorted({*self.runs.starts, *self._restarts}), np.int64)
        self._least: Longs = np.full(len(self._lives) + 1, NEVER, np.int64)
        self._wasted_from: Longs = self._least.copy()
        self._closing: dict[str, dict[int, int]] = {}
        self._unsettled: dict[Key, tuple[Claims, list[Doubt]]] = {}
        self._open: set[Key] = set()
        """Streams with an interval that never ended: until when depends on what else its writer tells."""
        self._latest_word = self._latest_step = -NEVER
        for stream in self._streams.values():
            stream.settled, stream.settled_until = 0, -NEVER
        if self.floor is None:
            self.made = StepRanges()
        self.runs.anew()

    def take(self, told: Told) -> None:
        """Take in what was told since the last time, and what the streams have got since."""
        fresh = {
            key: len(each.times) - each.sorted_to for key, each in self._streams.items() if _has_news(each)
        }
        if not len(told) and not fresh:
            return
        anew = len(told.start) + sum(fresh.values()) > max(_LARGE, len(self._timeline) // 4)
        news: News = {}
        if not anew:
            news = {key: tokens_of(self._streams[key], self._streams[key].sorted_to) for key in fresh}
            anew = self._is_late(told, news)
        words = [*told.points, *self._moments(told)]
        points = np.array(words, np.int64)
        self._points = np.append(self._points, points)
        claims = _claims(told)
        if anew:
            self._work_out(joined([self._timeline.told(), claims]))
        else:
            anyhow = bool(told.starts or told.restarts or told.ends)
            self._advance(claims, news, points, anyhow=anyhow)
        self._reach()
        self._forget()

    def rules(self) -> Rules:
        """What a sweep has to know."""
        code = self._codes
        times, codes = self._background
        return Rules(
            weakest_first=code.weakest_first(),
            size=len(code),
            background_at=np.array(times, np.int64),
            background=np.array(codes, np.int64),
            lives=self._lives,
            wasted_from=self._wasted_from,
            any_wasted=bool((self._wasted_from < NEVER).any()),
            step=self._step,
            productive=code[buckets.PRODUCTIVE],
            wasted=code[buckets.WASTED_PROGRESS],
            startup=code[buckets.STARTUP],
            other=code[buckets.OTHER],
            aside=code[buckets.ASYNC_LOADING],
            first=NEVER if self.first is None else self.first,
            last=self.last,
        )

    def spent(self, until: int) -> list[int]:
        """Nanoseconds by code from the first event to `until`, which may lie ahead of all of them."""
        size = len(self._codes)
        if self.first is None or until <= self.first:
            return [0] * size
        rules = self.rules()
        whole = until >= self.last
        row = self._timeline.total(rules) if whole else self._timeline.until(until, rules)
        made: list[int] = [*row.tolist(), *[0] * (size - len(row))]
        for code, held in enumerate(self._settled_row.tolist()):
            made[code] += held
        if whole and not self.runs.is_over:
            made[self._background[1][-1]] += until - self.last
        return made

    def skew(self) -> int:
        """How far the clocks of those who tell of steps are apart, in nanoseconds."""
        return skew([each for each in self._streams.values() if each.kind == self._step])

    def _is_late(self, told: Told, news: News) -> bool:
        starts = set(told.starts) - set(self.runs.starts)
        restarts = set(told.restarts) - self._restarts
        if starts and min(starts) <= self._latest_word:
            return True
        if starts | restarts and min(starts | restarts) <= self._latest_step:
            return True
        run_began = self.runs.starts[-1] if self.runs.starts else -NEVER
        if any(time < run_began for time, _ in told.ends):
            return True
        settled: dict[str, int] = {}
        for stream in self._streams.values():
            settled[stream.writer] = max(settled.get(stream.writer, -NEVER), stream.settled_until)
        return any(
            int(time.min()) < max(run_began, settled[writer]) for (writer, _), (time, _) in news.items()
        )

    def _moments(self, told: Told) -> list[int]:
        """Take in what happened at once; returns when that says that a run was alive."""
        starts = sorted(set(told.starts) - set(self.runs.starts))
        restarts = set(told.restarts) - self._restarts
        if starts:
            self.runs.started(starts)
        if starts or restarts:
            self._restarts |= restarts
            self._lives = np.array(sorted({*self.runs.starts, *self._restarts}), np.int64)
            missing = np.full(len(self._lives) + 1 - len(self._least), NEVER, np.int64)
            self._least = np.append(self._least, missing)
        for time, badly in told.ends:
            self.runs.ended(time, badly=badly)
        for time in told.halts:
            self.runs.halted(time)
        for time, code in told.marks:
            self.runs.mark(time, code)
        times = [*told.starts, *told.restarts, *told.halts]
        times += [time for time, _ in (*told.ends, *told.marks)]
        self._seen(np.array(times, np.int64))
        return [*starts, *told.halts, *(time for time, _ in told.ends)]

    def _seen(self, times: Longs) -> None:
        """The account spans all of `times`."""
        if not len(times):
            return
        earliest, latest = int(times.min()), int(times.max())
        if self.first is None:
            self.first = earliest
        elif earliest < self.first:
            if self.floor is not None:
                self._settled_row[self._codes[buckets.STARTUP]] += self.first - earliest
            self._timeline.touch(earliest, self.first)
            self.first = earliest
        if latest > self.last:
            self._timeline.touch(max(self.last, self.first), latest)
            self.last = latest

    def _work_out(self, claims: Claims) -> None:
        self._forget_what_follows()
        for stream in self._streams.values():
            sort(stream, 0)
        news = {key: tokens_of(stream) for key, stream in self._streams.items()}
        self._absorb(claims, news, self._points)
        for time in self._steps_before:
            self.runs.step(self.runs.of(time), time)
        for stream in self._streams.values():
            settle(stream, len(self._streams))
        sure, doubts = [claims], []
        for key, stream in self._streams.items():
            derived, doubtful = self._derive(stream, 0, news.pop(key))
            if stream.settled:
                border = int(tokens_of(stream, stream.settled)[0][0])
                early = derived.start < border
                sure.append(derived.where(early).derived())
                derived = derived.where(~early)
                doubts += [each for each in doubtful if each.start < border]
                doubtful = [each for each in doubtful if each.start >= border]
            self._unsettled[key] = (derived, doubtful)
        self._timeline.load(joined(sure), doubts, -NEVER if self.floor is None else self.floor)
        self._lay_over()

    def _advance(self, claims: Claims, news: News, points: Longs, *, anyhow: bool) -> None:
        """Add to what is known; of the streams those whose writers said something, all of them `anyhow`."""
        for row in zip(*(column.tolist() for column in claims), strict=True):
            self._timeline.add(row)
        self._absorb(claims, news, points)
        writers = {writer for writer, _ in news}
        settled = {key: self._streams[key].settled for key in news}
        for key in news:
            sort(self._streams[key], settled[key])
            settle(self._streams[key], len(self._streams))
        for key, stream in self._streams.items():
            open_ended = key[1] == self._step or key in self._open
            if not (anyhow or key in news or (open_ended and key[0] in writers)):
                continue
            begin = settled.get(key, stream.settled)
            derived, doubts = self._derive(stream, begin)
            if stream.settled > begin:
                border = int(tokens_of(stream, stream.settled)[0][0])
                early = derived.start < border
                for row in zip(*(each.tolist() for each in derived.where(early).derived()), strict=True):
                    self._timeline.add(row)
                for doubt in doubts:
                    if doubt.start < border:
                        self._timeline.doubt(doubt)
                derived = derived.where(~early)
                doubts = [each for each in doubts if each.start >= border]
            self._unsettled[key] = (derived, doubts)
        self._lay_over()

    def _lay_over(self) -> None:
        parts = self._unsettled.values()
        claims = joined([Claims.of([]), *(each for each, _ in parts)])
        self._timeline.overlay(claims, [doubt for _, doubts in parts for doubt in doubts])

    def _absorb(self, claims: Claims, news: News, points: Longs) -> None:
        """What claims and tokens say of runs and lives."""
        own = np.ones(len(claims.kind), np.bool_)
        for code in self._between:
            own &= claims.kind != code
        times = [each for each, _ in news.values()]
        words = np.concatenate([claims.start[own], claims.end[own], points, *times])
        self._seen(words)
        self._seen(claims.start)
        self._seen(claims.end)
        starts = np.array(self.runs.starts, np.int64)
        for run, latest in extremes(starts, words, np.maximum):
            self.runs.word(run, latest)
            self._latest_word = max(self._latest_word, latest)
        for (writer, _), (time, _) in news.items():
            closing = self._closing.setdefault(writer, {})
            for run, latest in extremes(starts, time, np.maximum):
                closing[run] = max(closing.get(run, -NEVER), latest)
        is_step = claims.kind == self._step
        told = [(time, step) for (_, kind), (time, step) in news.items() if kind == self._step]
        begun = np.concatenate([claims.start[is_step], *(time for time, _ in told)])
        number = np.concatenate([claims.step[is_step], *(step for _, step in told)])
        self.made.add(claims.step[is_step], claims.step[is_step] + 1)
        for run, first in extremes(starts, begun, np.minimum):
            self.runs.step(run, first)
        if len(begun):
            self._latest_step = max(self._latest_step, int(begun.max()))
            np.minimum.at(self._least, np.searchsorted(self._lives, begun, side="right"), number)
        self._judge_waste()

    def _judge_waste(self) -> None:
        later = np.append(self._least[1:], NEVER)
        made: Longs = np.minimum.accumulate(later[::-1])[::-1]
        before = np.append(self._wasted_from, np.full(len(made) - len(self._wasted_from), NEVER, np.int64))
        self._wasted_from = made
        changed = np.flatnonzero(made != before)
        if len(changed):
            bounds = [-NEVER, *self._lives.tolist(), NEVER]
            step = int(np.minimum(made, before)[changed].min())
            self._timeline.wasted_from(bounds[int(changed[0])], bounds[int(changed[-1]) + 1], step)

    def _derive(
        self, stream: Stream, begin: int, tokens: tuple[Longs, Longs] | None = None
    ) -> tuple[Claims, list[Doubt]]:
        """What the tokens from `begin` on stand for."""
        context = max(0, begin - 1) if stream.kind == self._step else begin
        tokens = tokens_of(stream, context) if tokens is None else tokens
        starts = np.array(self.runs.starts, np.int64)
        run = runs_of(starts, tokens[0])
        closing = self._last_words(stream.writer, run)
        if stream.kind == self._step:
            return self._derive_steps(tokens, run, closing, begin - context)

        def next_step(index: Longs) -> tuple[Longs, Longs]:
            stepping = self._streams.get((stream.writer, self._step))
            if stepping is None:
                return np.full(len(index), NEVER, np.int64), np.full(len(index), -1, np.int64)
            begun = np.array([stream.times[context + each] for each in index.tolist()])
            following = np.searchsorted(np.frombuffer(stepping.times), begun, side="right")
            told = [stepping.times[each] if each < len(stepping.times) else np.inf for each in following]
            known = np.isfinite(told)
            time = np.where(known, nanoseconds(np.where(known, told, 0.0)), NEVER)
            return time, np.where(known, runs_of(starts, time), -1)

        claims, is_open = intervals(tokens, run, closing, next_step, stream.kind)
        (self._open.add if is_open else self._open.discard)((stream.writer, stream.kind))
        return claims, []

    def _derive_steps(
        self, tokens: tuple[Longs, Longs], run: Longs, closing: Longs, begin: int
    ) -> tuple[Claims, list[Doubt]]:
        """A piece at a time: a step depends on the one before it and the two behind it."""
        claims, doubts = [Claims.of([])], []
        for first in range(begin, len(run), _PIECE):
            low, behind = max(0, first - 1), min(first + _PIECE, len(run))
            piece = slice(low, behind + 2)
            made, doubtful, numbers = steps(
                (tokens[0][piece], tokens[1][piece]),
                run[piece],
                closing[piece],
                (first - low, behind - low),
                self._step,
            )
            claims.append(made)
            doubts += doubtful
            self.made.add(*numbers)
        return joined(claims), doubts

    def _last_words(self, writer: str, run: Longs) -> Longs:
        """When `writer` was last heard of in each run of `run`, or the run said that it ended."""
        known = self._closing.get(writer, {})
        few = len(run) <= _FEW
        present = set(run.tolist()) if few else range(len(self.runs.starts) + 1)
        words = {each: max(known.get(each, -NEVER), self.runs.end_of(each)) for each in present}
        if few:
            return np.array([words[each] for each in run.tolist()], np.int64)
        made: Longs = np.array(list(words.values()), np.int64)[run]
        return made

    def _reach(self) -> None:
        """Bring the background up to date."""
        if not self.runs.changed:
            return
        self.runs.changed = False
        before, made = self._background, self.runs.background()
        self._background = made
        old, new = list(zip(*before, strict=True)), list(zip(*made, strict=True))
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
        changed = old[same:] + new[same:]
        if changed and self.first is not None:
            self._timeline.touch(max(self.first, min(time for time, _ in changed)), self.last)

    def _forget(self) -> None:
        """Settle what is oldest, when there is more than is remembered."""
        if self._remembered is None or len(self._timeline) <= _SLACK * self._remembered:
            return
        self._timeline.total(self.rules())
        forgotten = self._timeline.forget(self._remembered)
        if forgotten is None:
            return
        self.floor, held = forgotten
        size = max(len(self._settled_row), len(held))
        row = np.zeros(size, np.int64)
        row[: len(self._settled_row)] += self._settled_row
        row[: len(held)] += held
        self._settled_row = row
        firsts = (time for time in self.runs.first_step if time is not None and time < self.floor)
        lasts = [time for time in self.runs.last_word if time is not None and time < self.floor]
        self._steps_before = list(firsts)
        self._points = np.append(self._points[self._points >= self.floor], np.array(lasts, np.int64))
        for stream in self._streams.values():
            forget(stream, self.floor)


def _has_news(stream: Stream) -> bool:
    return len(stream.times) > stream.sorted_to


def _claims(told: Told) -> Claims:
    return Claims(
        np.array(told.start, np.int64),
        np.array(told.end, np.int64),
        np.array(told.kind, np.int64),
        np.array(told.step, np.int64),
    )
