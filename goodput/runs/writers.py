"""State of each writer that records starts and ends one by one: its latest event, and what ends it."""

from collections.abc import Iterable

import numpy as np

from ..ledger.claims import DERIVED, NEVER, OPEN, Claims, Longs, joined
from ..ledger.pending_events import WHOLE, Key, Stream
from ..ledger.ranges import Ranges
from ..ledger.timeline import Derived
from ..steps.hangs import AROUND
from .runs import Runs
from .streams import intervals, nanoseconds, runs_of, steps, tokens_of

_PIECE = 8192
"""Columns of so many numbers stay in a core's own cache."""


class Writers:
    """What the `streams` of all writers stand for. Numbers of steps that they tell of are added to `made`.

    `unsettled` is what the last tokens of each stream stand for: more may come in between.
    """

    def __init__(self, streams: dict[Key, Stream], step: int, runs: Runs, made: Ranges, reach: int) -> None:
        self.unsettled: dict[int, dict[Key, Derived]] = {}
        """By kind and stream."""
        self._keys: dict[str, dict[Key, None]] = {}
        """The streams of each writer."""
        self._streams, self._step, self._runs, self._made = streams, step, runs, made
        self._reach = reach
        self._closing: dict[str, dict[int, int]] = {}
        self._open: set[Key] = set()
        """Streams with an interval that never ended: until when depends on what else its writer tells."""

    def anew(self) -> None:
        """Forget what the streams stand for."""
        self.unsettled, self._closing, self._open = {}, {}, set()
        self._keys = {}
        for key in self._streams:
            self._keys.setdefault(key[0], {})[key] = None
        for stream in self._streams.values():
            stream.settled, stream.settled_until = 0, -NEVER

    def fresh(self, spoke: Iterable[Key]) -> dict[Key, int]:
        """Of the streams that `spoke`: how many tokens each has got since it was last sorted."""
        made = {}
        for key in spoke:
            self._keys.setdefault(key[0], {})[key] = None
            made[key] = len(self._streams[key].times) - self._streams[key].sorted_to
        return made

    def of(self, writers: Iterable[str]) -> list[Key]:
        """The streams of `writers`."""
        return [key for writer in writers for key in self._keys[writer]]

    def settled_until(self, writer: str) -> int:
        """From when on a writer may be heard without changing what is settled."""
        streams = (self._streams[key] for key in self.of([writer]))
        return max((each.settled_until for each in streams if each.kind != WHOLE), default=-NEVER)

    def unsettled_of(self, key: Key) -> Derived:
        """What the last tokens of a stream stand for, as far as is known."""
        return self.unsettled.get(key[1], {}).get(key, (Claims.of([]), []))

    def heard(self, writer: str, run: int, time: int) -> None:
        """`writer` said something in `run` at `time`."""
        words = self._closing.setdefault(writer, {})
        words[run] = max(words.get(run, -NEVER), time)

    def needs(self, writer: str, times: Iterable[int]) -> bool:
        """Whether any of `times` is a new last word of a `writer` that its starts and ends may wait for."""
        if all(kind == WHOLE for _, kind, _ in self.of([writer])):
            return False
        known = self._closing.get(writer, {})
        return any(time > known.get(self._runs.of(time), -NEVER) for time in times)

    def is_open_ended(self, key: Key) -> bool:
        """Whether what a stream stands for may depend on what else its writer tells."""
        return key[1] == self._step or key in self._open

    def read(self, stream: Stream, begin: int, tokens: tuple[Longs, Longs] | None = None) -> Derived:
        """What those of the tokens from `begin` on that are settled stand for; what the others do is kept.

        `tokens` are all of the stream, where they are at hand.
        """
        if stream.kind == WHOLE:
            return Claims.of([]), []
        unsettled = self.unsettled.setdefault(stream.kind, {})
        derived, doubts = self._derive(stream, begin, tokens)
        if stream.settled <= begin:
            unsettled[stream.key] = derived, doubts
            return Claims.of([]), []
        border = int(tokens_of(stream, stream.settled)[0][0])
        early, late = derived.split(border)
        unsettled[stream.key] = late, [each for each in doubts if each.start >= border]
        return early, [each for each in doubts if each.start < border]

    def _derive(self, stream: Stream, begin: int, tokens: tuple[Longs, Longs] | None) -> Derived:
        context = max(0, begin - AROUND) if stream.kind == self._step else begin
        if tokens is None:
            tokens = tokens_of(stream, context)
        if stream.kind == self._step:
            return self._derive_steps(stream.writer, tokens, begin - context)
        starts = self._runs.starts_at

        def next_step(index: Longs) -> tuple[Longs, Longs]:
            stepping = self._streams.get((stream.writer, self._step, ""))
            if stepping is None:
                return np.full(len(index), NEVER, np.int64), np.full(len(index), -1, np.int64)
            begun = np.array([stream.times[context + each] for each in index.tolist()])
            following = np.searchsorted(np.frombuffer(stepping.times), begun, side="right")
            told = [stepping.times[each] if each < len(stepping.times) else np.inf for each in following]
            known = np.isfinite(told)
            time = np.where(known, nanoseconds(np.where(known, told, 0.0)), NEVER)
            return time, np.where(known, runs_of(starts, time), -1)

        run = runs_of(starts, tokens[0])
        closing = self._last_words(stream.writer, run)
        claims = intervals(tokens, (run, closing), next_step, stream.kind | DERIVED, self._reach)
        (self._open.add if (claims.kind & OPEN).any() else self._open.discard)(stream.key)
        return claims, []

    def _derive_steps(self, writer: str, tokens: tuple[Longs, Longs], begin: int) -> Derived:
        """A piece at a time: a step depends on those around it, and how long these took."""
        claims, doubts = [Claims.of([])], []
        starts = self._runs.starts_at
        for first in range(begin, len(tokens[0]), _PIECE):
            low, behind = max(0, first - AROUND), min(first + _PIECE, len(tokens[0]))
            time, step = (each[low : behind + AROUND + 1] for each in tokens)
            run = runs_of(starts, time)
            closing = self._last_words(writer, run)
            made, doubtful, numbers = steps(
                (time, step), run, closing, (first - low, behind - low), self._step | DERIVED
            )
            claims.append(made)
            doubts += doubtful
            self._made.add(*numbers)
        return joined(claims), doubts

    def _last_words(self, writer: str, run: Longs) -> Longs:
        """When `writer` was last heard of, or the run said that it ended: for each of `run`, in order."""
        if not len(run):
            return run
        known = self._closing.get(writer, {})
        first = np.append(0, np.flatnonzero(run[1:] != run[:-1]) + 1)
        words = [
            max(known.get(each, -NEVER), self._runs.end_of(each, writer)) for each in run[first].tolist()
        ]
        return np.repeat(np.array(words, np.int64), np.diff(first, append=len(run)))
