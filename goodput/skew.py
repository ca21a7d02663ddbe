"""How far the clocks of those who tell of steps are apart, by when they say that the same steps began."""

from collections.abc import Iterable

import numpy as np

from .claims import Longs
from .columns import NO_STEP, WHOLE, Stream
from .streams import tokens_of

_STEPS = 64
_TOKENS = 16_384
"""At most so many are looked at, but for two of each writer."""


def skew(streams: Iterable[Stream], since: int) -> int:
    """Nanoseconds between the clocks that are farthest apart, by what was told from `since` on.

    Each writer is held against the median time at which a step began by the word of all who told of it; the
    median over the last 64 steps is how far its clock is from theirs. Who told of none of these is left out.
    """
    by_writer: dict[str, Stream] = {}
    for stream in streams:  # who tells of steps in both forms is heard once
        if stream.kind != WHOLE or stream.writer not in by_writer:
            by_writer[stream.writer] = stream
    if len(by_writer) < 2:  # noqa: PLR2004 - two clocks are needed to compare them
        return 0
    each = min(_STEPS, max(2, _TOKENS // len(by_writer)))
    told = [_last(stream, each, since) for stream in by_writer.values()]
    time = np.concatenate([times for times, _ in told])
    step = np.concatenate([steps for _, steps in told])
    writer = np.repeat(np.arange(len(told)), [len(times) for times, _ in told])
    if not len(step):
        return 0
    is_last = step >= np.unique(step)[-_STEPS:][0]
    time, step, writer = time[is_last], step[is_last], writer[is_last]
    number, place = np.unique(step, return_inverse=True)
    is_shared = np.bincount(place, minlength=len(number))[place] > 1
    if not is_shared.any():
        return 0
    time, place, writer = time[is_shared], place[is_shared], writer[is_shared]
    off = time - _medians(place, time)[place]
    _, writer = np.unique(writer, return_inverse=True)
    offsets = _medians(writer, off)
    return int(offsets.max() - offsets.min())


def _last(stream: Stream, count: int, since: int) -> tuple[Longs, Longs]:
    """The last `count` steps of a stream: each number once, the last time that it was told."""
    each = 2 if stream.kind == WHOLE else 1
    times, steps = tokens_of(stream, max(0, len(stream.times) - each * count))
    told = (times >= since) & (steps != NO_STEP)
    times, steps = times[told][::-1], steps[told][::-1]
    steps, index = np.unique(steps, return_index=True)
    return times[index], steps


def _medians(group: Longs, value: Longs) -> Longs:
    """The median of each group; `group` counts from 0 without a gap. It may have groups without a value."""
    order = np.lexsort((value, group))
    count = np.bincount(group)
    first = np.cumsum(count) - count
    ordered = value[order]
    low, high = first + np.maximum(count - 1, 0) // 2, first + count // 2
    last = len(value) - 1
    made: Longs = (ordered[np.minimum(low, last)] + ordered[np.minimum(high, last)]) // 2
    return made
