"""How far the clocks of those who tell of steps are apart, by when they say that the same steps began."""

from collections.abc import Iterable

import numpy as np

from ..ledger.claims import NEVER, Longs
from ..ledger.pending_events import NO_STEP, WHOLE, Key, Stream
from .streams import tokens_of

_STEPS = 64
_TOKENS = 8192
"""At most so many are looked at, but for two of each writer."""


class Clocks:
    """The last steps of each of the writers that `streams` tell of; `step` is the kind of their starts."""

    def __init__(self, streams: dict[Key, Stream], step: int) -> None:
        self._streams, self._step = streams, step
        self._rows: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._times: Longs = np.zeros((0, _STEPS), np.int64)
        self._steps: Longs = np.zeros((0, _STEPS), np.int64)

    def moved(self, keys: Iterable[Key]) -> None:
        """These streams have got tokens."""
        self._changed.update((writer, None) for writer, kind, _ in keys if kind in (self._step, WHOLE))

    def skew(self, since: int) -> int:
        """Nanoseconds between the clocks that are farthest apart, by what was told from `since` on.

        Each writer is held against the median time at which a step began by the word of all who told of it;
        the median over the last 64 steps is how far its clock is from theirs. Who told of none of these is
        left out.
        """
        if len(self._rows) + len(self._changed) < 2:  # noqa: PLR2004 - two clocks are needed to compare them
            return 0
        self._look()
        step = np.where(self._times >= since, self._steps, NO_STEP).ravel()
        told = np.flatnonzero(step != NO_STEP)
        if not len(told):
            return 0
        numbers, place, count = np.unique(step[told], return_inverse=True, return_counts=True)
        chosen = (place >= len(numbers) - _STEPS) & (count[place] > 1)
        if not chosen.any():
            return 0
        time = self._times.ravel()[told[chosen]]
        writer = told[chosen] // self._times.shape[1]
        off = time - _medians(place[chosen], time)
        _, first = np.unique(writer, return_index=True)
        offsets = _medians(writer, off)[first]
        return int(offsets.max() - offsets.min())

    def _look(self) -> None:
        """Read the last steps of those that have new ones."""
        for writer in self._changed:
            self._rows.setdefault(writer, len(self._rows))
        width = min(_STEPS, max(2, 1 << (_TOKENS // max(1, len(self._rows))).bit_length() - 1))
        changed: Iterable[str] = self._changed
        if len(self._rows) > len(self._times) or width < self._times.shape[1]:
            shape = 2 * len(self._rows), width
            self._times, self._steps = np.zeros(shape, np.int64), np.full(shape, NO_STEP)
            changed = self._rows
        for writer in changed:
            stream = self._streams.get((writer, self._step, "")) or self._streams[writer, WHOLE, ""]
            times, steps = _last(stream, width)
            row = self._rows[writer]
            self._times[row, : len(times)], self._steps[row, : len(times)] = times, steps
            self._steps[row, len(times) :] = NO_STEP
        self._changed.clear()


def _last(stream: Stream, count: int) -> tuple[Longs, Longs]:
    """The last steps of a stream, at most `count`: each number once, the last time that it was told."""
    each = 2 if stream.kind == WHOLE else 1
    times, steps = tokens_of(stream, max(0, len(stream.times) - each * count))
    told = steps != NO_STEP
    steps, index = np.unique(steps[told][::-1], return_index=True)
    return times[told][::-1][index][-count:], steps[-count:]


def _medians(group: Longs, value: Longs) -> Longs:
    """For each value the median of its group."""
    order = np.lexsort((value, group))
    ordered = group[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-NEVER) != 0)
    count = np.diff(first, append=len(group))
    median = (value[order[first + (count - 1) // 2]] + value[order[first + count // 2]]) // 2
    made = np.empty_like(value)
    made[order] = np.repeat(median, count)
    return made
