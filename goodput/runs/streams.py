"""Starts and ends that come one by one, and the stretches of time they stand for.

A stream is what one writer tells of its steps, or of one kind of interval. What a start stands for follows
from its neighbours in time, so that it does not matter in which order they were heard.
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ledger.claims import MOST_SPARSE, NEVER, OPEN, SPARSE, Claims, Doubt, Longs
from ..ledger.pending_events import NO_STEP, NS, STARTS, WHOLE, Limits, Stream, to_ns
from ..steps.hangs import AROUND, HUNG
from . import pairing

_MANY = 16
"""Of more streams than that, fewer tokens of each are left unsettled."""
_FEW = 64
"""So many late tokens are put in one by one."""
_NEAR = 6
"""Where steps go back depends on fewer of those around."""


_NEIGHBOURS = np.array([-4, -3, -2, -1, 1, 2, 3, 4])

Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def tokens_of(stream: Stream, begin: int = 0) -> tuple[Longs, Longs]:
    """Times in nanoseconds and values of the tokens from `begin` on."""
    times, values = _view(stream, begin)
    return nanoseconds(times), values.copy()


def sort(stream: Stream, begin: int) -> None:
    """Put the tokens from `begin` on in order; what was said twice counts once."""
    if not _is_in_order(stream, begin):
        times, values = (each.copy() for each in _view(stream, begin))
        order = np.lexsort((values, times))
        times, values = times[order], values[order]
        new = np.ones(len(times), np.bool_)
        new[1:] = (np.diff(times) != 0) | (np.diff(values) != 0)
        del stream.times[begin:], stream.values[begin:]
        stream.times.frombytes(times[new].tobytes())
        stream.values.frombytes(values[new].tobytes())
    stream.sorted_to = len(stream.times)


def _is_in_order(stream: Stream, begin: int) -> bool:
    times, _ = _view(stream, begin)
    return bool((times[1:] > times[:-1]).all())


def _view(stream: Stream, begin: int) -> tuple[Doubles, Longs]:
    """Times and values to look at: nothing can be added as long as they are kept."""
    times: Doubles = np.frombuffer(stream.times, np.float64)
    values: Longs = np.frombuffer(stream.values, np.int64)
    return times[begin:], values[begin:]


def put_in(stream: Stream) -> bool:
    """Put new tokens of what was told whole in order, of which some belong among those that are settled.

    Returns whether all that was known of where steps go back still holds.
    """
    begin = stream.sorted_to
    if len(stream.times) - begin > _FEW:
        sort(stream, 0)
        return False
    news = sorted(zip(stream.times[begin:], stream.values[begin:], strict=True))
    del stream.times[begin:], stream.values[begin:]
    holds = True
    for time, value in news:
        at = bisect_left(stream.times, time)
        while at < len(stream.times) and stream.times[at] == time and stream.values[at] < value:
            at += 1
        if at < len(stream.times) and (stream.times[at], stream.values[at]) == (time, value):
            continue
        stream.times.insert(at, time)
        stream.values.insert(at, value)
        if at < stream.settled:
            stream.settled += 1
            holds &= value == NO_STEP or _goes_up(stream, at)
    stream.sorted_to = len(stream.times)
    return holds


def _goes_up(stream: Stream, at: int) -> bool:
    """Whether the settled steps around a token go up: so many that no place where they go back is near."""
    before = [step for step in stream.values[max(0, at - _FEW) : at] if step != NO_STEP][-_NEAR:]
    behind = [step for step in stream.values[at : min(at + _FEW, stream.settled)] if step != NO_STEP]
    around = [*before, *behind[: _NEAR + 1]]
    is_far = len(behind) > _NEAR and (len(before) == _NEAR or at <= _FEW)
    return is_far and all(a < b for a, b in pairwise(around))


def settle(stream: Stream, streams: int, limits: Limits, *, nests: bool) -> None:
    """All but the last tokens are settled from now on: only one that comes very late changes them.

    There are so many `streams`: of many, fewer tokens are left unsettled. Intervals may lie in each other:
    of what `nests`, those that may still end are left unsettled.
    """
    unsettled = limits.unsettled if streams <= _MANY else limits.unsettled_of_many
    if stream.kind == WHOLE:
        unsettled = limits.unsettled_whole
    settled = len(stream.times) - unsettled
    border = settled + (unsettled // 2 if stream.kind == WHOLE else AROUND)
    if nests and settled > stream.settled:
        settled = pairing.settled(stream, settled, border, limits.reach)
    while settled > 0 and stream.times[settled] == stream.times[settled - 1]:
        settled -= 1
    if settled > stream.settled:
        stream.settled = settled
        stream.settled_until = to_ns(stream.times[border]) + 1


def forget(stream: Stream, floor: int) -> None:
    """Let settled tokens from before `floor` go, but for the one that the next needs."""
    gone = int(np.searchsorted(tokens_of(stream)[0][: stream.settled], floor)) - 1
    if gone > 0:
        del stream.times[:gone], stream.values[:gone]
        stream.settled -= gone
        stream.sorted_to -= gone


def steps(
    tokens: tuple[Longs, Longs], run: Longs, closing: Longs, which: tuple[int, int], kind: int
) -> tuple[Claims, list[Doubt], tuple[Longs, Longs]]:
    """What the starts of steps with an index in [`which`) stand for: claims, doubts, and ranges of numbers.

    A step lasts until the next one of its writer starts; the last one of a run until `closing`. Steps may be
    sparse: one that is followed by number n + 10 stands for ten, and a run's last one is compared with the
    others as if it were one like the one before. `run` says in which run each token is. The tokens have
    `AROUND` before those in question, and `AROUND` + 1 behind them.
    """
    time, step = tokens
    count = len(time)
    same = np.zeros(count, np.bool_)
    same[:-1] = run[1:] == run[:-1]
    end = np.where(same, np.append(time[1:], 0), np.maximum(time, closing))
    jump = np.append(step[1:], 0) - step
    covers = np.where(same & (jump > 0), jump, 1)
    is_first = np.ones(count, np.bool_)
    is_first[1:] = ~same[:-1]
    sparse, last = covers.copy(), np.flatnonzero(~same & ~is_first)
    sparse[last] = covers[last - 1]
    rate = (end - time) / sparse
    chosen = slice(*which)
    limits = _usual(rate, same, run, is_first, chosen)
    in_doubt = np.array(list(limits), np.int64)
    limit = np.rint(np.array(list(limits.values())) * sparse[in_doubt]).astype(np.int64)
    first, stands_for = is_first[in_doubt].astype(np.int64), covers[in_doubt]
    columns = (time[in_doubt], end[in_doubt], step[in_doubt], limit, first, stands_for)
    doubts = [Doubt(*row) for row in zip(*(each.tolist() for each in columns), strict=True)]
    is_sure = np.ones(count, np.bool_)
    is_sure[in_doubt] = False
    time, end, step, covers = time[chosen], end[chosen], step[chosen], covers[chosen]
    kinds = kind + (np.minimum(covers - 1, MOST_SPARSE) << SPARSE)
    claims = Claims(time, end, kinds, step).where(is_sure[chosen])
    return claims, doubts, (step, step + covers)


def _usual(rate: Doubles, same: Flags, run: Longs, is_first: Flags, chosen: slice) -> dict[int, float]:
    """The chosen steps that last out of all proportion, and what one usually lasts there.

    That is the median of up to four steps on either side in the same run, but for its last one, whose end is
    not known. Of a run's first step, which compiles, it is that of the next four.
    """
    known = np.where(same, rate, np.inf)
    padded = np.concatenate([np.full(AROUND, np.inf), known, np.full(AROUND, np.inf)])
    two = np.minimum(padded[:-1], padded[1:])
    four = np.minimum(two[:-2], two[2:])
    least = np.minimum(four[: len(rate)], four[AROUND + 1 :])
    suspects = (rate > HUNG * least) | (is_first & (rate > 0))
    found = np.flatnonzero(suspects[chosen]) + chosen.start
    if not len(found):
        return {}
    near = found[:, np.newaxis] + _NEIGHBOURS
    inside = (near >= 0) & (near < len(rate))
    near = np.where(inside, near, found[:, np.newaxis])
    times = np.where(inside & same[near] & (run[near] == run[found][:, np.newaxis]), rate[near], np.inf)
    times.sort(axis=1)
    count = np.isfinite(times).sum(axis=1)
    rows = np.arange(len(found))
    usual = (times[rows, np.maximum(count - 1, 0) // 2] + times[rows, np.minimum(count // 2, 7)]) / 2
    usual = np.where(count > 0, usual, 0.0)
    long = (usual > 0) & (rate[found] > np.where(is_first[found], 1, HUNG) * usual)
    return dict(zip(found[long].tolist(), usual[long].tolist(), strict=True))


def intervals(
    tokens: tuple[Longs, Longs],
    spoken: tuple[Longs, Longs],
    next_step: Callable[[Longs], tuple[Longs, Longs]],
    kind: int,
    reach: int,
) -> Claims:
    """What the starts and ends of one kind and name of interval stand for.

    `spoken` has of each token its run, and the writer's last word in that (`closing`).

    An end belongs to a start as :func:`.pairing.ends_of` says. A start without an end is marked
    `OPEN`. It lasts until the next start of its kind or of a step (`next_step`: time and run, for indexes of
    tokens), and at the end of a run until the writer's last word (`closing`). A start and an end at the same
    time change nothing.
    """
    times, mask = tokens
    run, closing = spoken
    index = np.flatnonzero(~pairing.is_moment(times))
    if len(index) < len(times):
        times, mask, run, closing = times[index], mask[index], run[index], closing[index]
    ended_by = pairing.ends_of(mask, run, index, reach)
    ended = ended_by >= 0
    end = np.maximum(times, closing)
    end[:-1] = np.where(run[1:] == run[:-1], times[1:], end[:-1])
    end[ended] = times[ended_by[ended]]
    started = mask == STARTS
    never = np.flatnonzero(started & ~ended)
    if len(never):
        step_at, step_run = next_step(index[never])
        end[never] = np.where(step_run == run[never], np.minimum(end[never], step_at), end[never])
    kinds = np.where(ended[started], kind, kind | OPEN)
    return Claims(times[started], end[started], kinds, np.full(len(kinds), -NEVER, np.int64))


def nanoseconds(seconds: Doubles) -> Longs:
    """Whole nanoseconds."""
    made = seconds * NS
    return np.rint(made, out=made).astype(np.int64)


def runs_of(starts: Longs, times: Longs) -> Longs:
    """In which run each of `times` lies, which are in order."""
    if len(times) < len(starts):
        return np.searchsorted(starts, times, side="right").astype(np.int64)
    edges = np.searchsorted(times, starts)
    made: Longs = np.repeat(np.arange(len(starts) + 1), np.diff(edges, prepend=0, append=len(times)))
    return made


def extremes(starts: Longs, times: Longs, which: Any) -> list[tuple[int, int]]:
    """The latest (or earliest) of `times` in each run that has any."""
    nothing = NEVER if which is np.minimum else -NEVER
    if not len(starts):
        return [(0, int(which.reduce(times)))] if len(times) else []
    made = np.full(len(starts) + 1, nothing, np.int64)
    which.at(made, np.searchsorted(starts, times, side="right"), times)
    told = np.flatnonzero(made != nothing)
    return list(zip(told.tolist(), made[told].tolist(), strict=True))
