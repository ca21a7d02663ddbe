"""Compute the time per bucket from the recorded events. Loads numpy: a ledger does so when first asked.

What a job's time was spent on follows from the *set* of its events. This class keeps what follows from those
it knows, and brings it up to date with new ones: in order, and even a little late, that touches only the end
of the time line. Very late ones (the start of a run before things that were heard of already, a start that
comes behind dozens of later ones of its kind) make it work out everything anew.
"""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from .. import buckets
from ..buckets import Codes
from ..runs.incremental_starts import Beginnings, News
from ..runs.launches import Launches
from ..runs.runs import Background, Runs
from ..runs.skew import Clocks
from ..runs.streams import extremes, forget, nanoseconds, put_in, settle, sort, tokens_of
from ..runs.writers import Writers
from .claims import DERIVED, NEVER, Claims, Longs, joined
from .pending_events import WHOLE, Key, Limits, PendingEvents, Stream
from .ranges import Ranges
from .sweep import Rules
from .timeline import ClaimTimeline

_SLACK = 1.25


class Reckoning:
    """What follows from everything told so far. `streams` are the ledger's own, by writer and kind.

    With `remembered` at most about so many claims are kept: what the older ones came to is settled.
    """

    def __init__(
        self, codes: Codes, streams: dict[Key, Stream], remembered: int | None, limits: Limits
    ) -> None:
        self.first: int | None = None
        self.last = -NEVER
        self.floor: int | None = None
        self._launches = Launches()
        self.runs = Runs(
            Background(
                startup=codes[buckets.STARTUP],
                other=codes[buckets.OTHER],
                recovery=codes[buckets.RECOVERY],
                queue_wait=codes[buckets.QUEUE_WAIT],
                allocation_end=codes[buckets.ALLOCATION_END],
            ),
            self._launches,
        )
        self.made, self._saved = Ranges(), Ranges()
        self._codes, self._streams, self._remembered = codes, streams, remembered
        self._limits = limits
        self._step, self._save = codes[buckets.STEP], codes[buckets.CHECKPOINT_OTHER]
        self._between = [codes[name] for name in sorted(buckets.NOT_THE_RUNS_OWN)]
        self._timeline = ClaimTimeline(limits.block)
        self._beginnings = Beginnings(streams, self._step, self._launches, self.runs)
        self._attempts = self._beginnings.attempts
        self._writers = Writers(streams, self._step, self.runs, self.made, limits.reach)
        self._clocks = Clocks(streams, self._step)
        self._points = array("q")
        self._settled_row: Longs = np.zeros(len(codes), np.int64)
        self._background: Longs = _columns(self.runs.background()[1])
        self._latest_word = -NEVER

    def _forget_what_follows(self) -> None:
        self._latest_word = -NEVER
        self._writers.anew()
        if self.floor is None:
            self.made.clear()
            self._saved.clear()

    def take(self, told: PendingEvents, spoke: Iterable[Key]) -> None:
        """Take in what was told since the last time, and what the streams that `spoke` have got since."""
        fresh = self._writers.fresh(spoke)
        if not len(told) and not fresh:
            return
        self._clocks.moved(fresh)
        anew = len(told.start) + sum(fresh.values()) > max(self._limits.anew, len(self._timeline) // 4)
        news: News = {}
        if not anew:
            news = {key: tokens_of(self._streams[key], self._streams[key].sorted_to) for key in fresh}
            anew = self._is_late(told, news)
        words = [*told.points, *self._moments(told)]
        self._points.extend(words)
        claims = _claims(told)
        read = {} if anew else self._in_order(news)
        if anew or not self._beginnings.advance(told, read, self._least_step):
            self._work_out(joined([self._timeline.told(), claims]), told)
        else:
            points = np.array(words, np.int64)
            self._advance(claims, news, points, read, anyhow=bool(told.ends))
        self._reach()
        self._forget()

    def rules(self) -> Rules:
        """What a sweep has to know."""
        code = self._codes
        times, codes = self._background
        return Rules(
            weakest_first=code.weakest_first(),
            size=len(code),
            background_at=times,
            background=codes,
            attempts=self._attempts.begins,
            wasted_from=self._attempts.wasted_from,
            any_wasted=bool((self._attempts.wasted_from < NEVER).any()),
            step=self._step,
            productive=code[buckets.PRODUCTIVE],
            wasted=code[buckets.WASTED_PROGRESS],
            startup=code[buckets.STARTUP],
            other=code[buckets.OTHER],
            aside=code[buckets.ASYNC_LOADING],
            made=code[buckets.STEPS_MADE],
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
            made[int(self._background[1, -1])] += until - self.last
        return made

    def are_wasted(self, begun_s: Sequence[float], number: Sequence[int]) -> list[bool]:
        """Which steps with these numbers, begun at these times, were computed again."""
        begun = nanoseconds(np.array(begun_s, np.float64))
        verdict: list[bool] = self._attempts.are_wasted(begun, np.array(number, np.int64)).tolist()
        return verdict

    def skew(self) -> int:
        """How far the clocks of those who tell of steps are apart, in nanoseconds."""
        return self._clocks.skew(int(self._attempts.begins[-1]) if len(self._attempts.begins) else -NEVER)

    def saves(self) -> int:
        """How many saves were told of, by both ends: those that overlap, of several writers, are one."""
        unsettled = [claims for claims, _ in self._writers.unsettled.get(self._save, {}).values()]
        return self._saved.pieces_with(*self._ended_saves(joined([Claims.of([]), *unsettled])))

    def _ended_saves(self, claims: Claims) -> tuple[Longs, Longs]:
        """From the first to the last nanosecond of each."""
        saves = claims.where(claims.kind & ~DERIVED == self._save)
        return saves.start, np.maximum(saves.start, saves.end - 1)

    def _is_late(self, told: PendingEvents, news: News) -> bool:
        starts = self._launches.unknown(told.starts)
        if min((time for time, _ in starts), default=NEVER) <= self._latest_word:
            return True
        if self._beginnings.are_late(told, news):
            return True
        run_began = self.runs.starts[-1] if self.runs.starts else -NEVER
        for (writer, kind, _), (time, _) in news.items():
            if kind == WHOLE:
                if self._writers.needs(writer, time[time < run_began].tolist()):
                    return True
            elif int(time.min()) < max(run_began, self._writers.settled_until(writer)):
                return True
        return False

    def _least_step(self, start: int, end: int) -> int:
        return self._timeline.least_step(start, end, self._step)

    def _moments(self, told: PendingEvents) -> list[int]:
        """Take in what happened at once; returns when that says that a run was alive."""
        for end in told.ends:
            self.runs.ended(end)
        for time in told.halts:
            self.runs.halted(time)
        for time, code in told.marks:
            self.runs.mark(time, code)
        self._seen(np.array([*told.restarts, *(time for time, _ in told.marks)], np.int64))
        starts = self._launches.unknown(told.starts)
        return [*told.halts, *(time for time, _ in starts), *(time for time, _, _ in told.ends)]

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

    def _in_order(self, news: News) -> dict[Key, int]:
        """Put what is new in order; returns from where on each stream has to be read again."""
        read = {}
        for key, (time, _) in news.items():
            stream = self._streams[key]
            if key[1] == WHOLE and int(time.min()) < stream.settled_until:
                holds = put_in(stream)
                read[key] = stream.settled if holds else 0
            else:
                read[key] = stream.settled
                sort(stream, read[key])
            self._settle(stream)
        return read

    def _settle(self, stream: Stream) -> None:
        nests = stream.kind not in (self._step, WHOLE)
        settle(stream, len(self._streams), self._limits, nests=nests)

    def _work_out(self, claims: Claims, told: PendingEvents) -> None:
        self._forget_what_follows()
        for stream in self._streams.values():
            sort(stream, 0)
            self._settle(stream)
        news = {key: tokens_of(stream) for key, stream in self._streams.items()}
        self._beginnings.anew(told, news)
        self._absorb(claims, news, np.array(self._points, np.int64))
        sure, doubts = [claims], []
        for key, stream in self._streams.items():
            settled, doubtful = self._writers.read(stream, 0, news.pop(key))
            self._saved.add(*self._ended_saves(settled))
            unsettled, more_doubtful = self._writers.unsettled_of(key)
            sure += [settled, unsettled]
            doubts += [*doubtful, *more_doubtful]
        self._timeline.load(joined(sure), doubts, -NEVER if self.floor is None else self.floor)

    def _advance(
        self, claims: Claims, news: News, points: Longs, read: dict[Key, int], *, anyhow: bool
    ) -> None:
        """Add to what is known; of the streams those whose writers said something, all of them `anyhow`."""
        self._timeline.extend(claims)
        self._absorb(claims, news, points)
        for key in self._streams if anyhow else self._writers.of({key[0] for key in news}):
            if anyhow or key in news or self._writers.is_open_ended(key):
                stream = self._streams[key]
                before = self._writers.unsettled_of(key)
                sure, doubts = self._writers.read(stream, read.get(key, stream.settled))
                self._saved.add(*self._ended_saves(sure))
                unsettled, more_doubts = self._writers.unsettled_of(key)
                self._timeline.exchange(before, (joined([sure, unsettled]), doubts + more_doubts))

    def _absorb(self, claims: Claims, news: News, points: Longs) -> None:
        """What claims and tokens say of runs and attempts."""
        self._seen(claims.start)
        self._seen(claims.end)
        self._seen(points)
        starts, words = self.runs.starts_at, points
        if len(claims.start):
            own = ~np.isin(claims.kind, self._between)
            words = np.concatenate([claims.start[own], claims.end[own], points])
        for run, latest in extremes(starts, words, np.maximum):
            self.runs.word(run, latest)
            self._latest_word = max(self._latest_word, latest)
        for (writer, kind, _), (time, _) in news.items():
            self._seen(time)
            self._latest_word = max(self._latest_word, int(time.max(initial=-NEVER)))
            for run, latest in extremes(starts, time, np.maximum) if kind not in self._between else ():
                self.runs.word(run, latest)
                self._writers.heard(writer, run, latest)
        is_step = claims.kind == self._step
        self.made.add(claims.step[is_step], claims.step[is_step] + 1)
        self._saved.add(*self._ended_saves(claims))
        stepped = [(claims.start[is_step], claims.step[is_step])]
        stepped += [tokens for (_, kind, _), tokens in news.items() if kind == self._step]
        for begun, number in stepped:
            self._attempts.stepped(begun, number)
            for run, first in extremes(starts, begun, np.minimum):
                self.runs.step(run, first)
        if changed := self._attempts.judge():
            self._timeline.wasted_from(*changed)

    def _reach(self) -> None:
        """Bring the background up to date."""
        stays, told = self.runs.background()
        if not told:
            return
        old, new = self._background[:, stays:], _columns(told)
        self._background = np.concatenate([self._background[:, :stays], new], axis=1)
        both = min(old.shape[1], new.shape[1])
        differs = np.flatnonzero((old[:, :both] != new[:, :both]).any(axis=0))
        same = int(differs[0]) if len(differs) else both
        changed = np.append(old[0, same:], new[0, same:])
        if len(changed) and self.first is not None:
            self._timeline.touch(max(self.first, int(changed.min())), self.last)

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
        lasts = (time for time in self.runs.last_word if time is not None and time < self.floor)
        self._beginnings.forget(self.floor)
        self._points = array("q", [*(time for time in self._points if time >= self.floor), *lasts])
        for stream in self._streams.values():
            forget(stream, self.floor)


def _columns(rows: list[tuple[int, int]]) -> Longs:
    made: Longs = np.array(rows, np.int64).reshape(-1, 2).T.copy()
    return made


def _claims(told: PendingEvents) -> Claims:
    return Claims(
        np.array(told.start, np.int64),
        np.array(told.end, np.int64),
        np.array(told.kind, np.int64),
        np.array(told.step, np.int64),
    )
