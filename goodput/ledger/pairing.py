"""Pair the starts and ends of intervals, which writers report one by one."""

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from ..events import Interval
from ..job_events import JobEvents
from .claims import BucketClaims, Flags, Longs, is_changed, is_last, last_of_each, where
from .facts import Facts
from .launches import run_starts

REACH = 32
"""So many starts and ends may lie within an interval: a later end belongs to another one."""


def whole_intervals(events: JobEvents, kinds: Collection[str] | None = None) -> list[Interval]:
    """Return a job's intervals (of `kinds`) that have both ends: reported whole, or by starts and ends."""
    made = [each for each in events.others if isinstance(each, Interval)]
    made = [each for each in made if kinds is None or each.kind in kinds]
    columns = [(key, each) for key, each in events.borders.items() if kinds is None or key[0] in kinds]
    runs_s = np.array(run_starts(events) if columns else [], np.float64)
    for (kind, name, writer), each in columns:
        times_s, begins = (np.array(column) for column in each.columns)
        order = np.lexsort((begins, times_s))
        order = order[is_changed(times_s[order], begins[order])]
        place = np.flatnonzero(_are_plain(np.zeros_like(order), times_s[order]))
        times_s, begins = times_s[order[place]], begins[order[place]]
        run = np.searchsorted(runs_s, times_s, side="right")
        ended_by = _ends_of(begins == 1, np.zeros_like(place), run, place, REACH)
        for begin in np.flatnonzero(ended_by >= 0).tolist():
            start_s, end_s = float(times_s[begin]), float(times_s[ended_by[begin]])
            made.append(Interval(kind=kind, name=name, writer=writer, start_s=start_s, end_s=end_s))
    return made


def interval_claims(
    borders: Facts,
    run: Longs,
    last_words: Callable[[Longs, Longs], Longs],
    next_step: Callable[[Longs, Longs, Longs], Longs],
    reach: int,
) -> tuple[BucketClaims, Flags]:
    """Return what starts and ends stand for, and which of it is open; `run` is that of each border.

    A start without an end lasts until the next start of its stream, or the writer's `next_step` (by writer,
    run and time), in the same run; at the end of that until the writer's `last_words` (by writer and run). A
    start and an end at the same time change nothing.
    """
    stream = _streams(borders)
    place = np.flatnonzero(_are_plain(stream, borders.time))
    borders, stream, run = where(borders, place), stream[place], run[place]
    time, begins = borders.time, borders.number & 1 == 1
    ended_by = _ends_of(begins, stream, run, place, reach)
    start = np.flatnonzero(begins)
    end, is_open = time[ended_by[start]], ended_by[start] < 0
    if is_open.any():
        never = start[is_open]
        writer = borders.number[never] >> 1
        until = np.maximum(time[never], last_words(writer, run[never]))
        until = np.where(is_last(stream, run)[never], until, np.append(time[1:], 0)[never])
        end[is_open] = np.minimum(until, next_step(writer, run[never], time[never]))
    return BucketClaims(time[start], end, borders.code[start]), is_open


def needed_borders(borders: Facts, in_run: Flags, reach: int) -> Flags:
    """Return which of early borders later ones may belong to: those near, and starts without an end."""
    stream = _streams(borders)
    needed = last_of_each(stream, reach + 2) & in_run
    are_plain = _are_plain(stream, borders.time)
    needed[:-1] |= needed[1:] & ~are_plain[1:] & (borders.time[1:] == borders.time[:-1])
    plain = np.flatnonzero(are_plain)
    needed[plain[is_last(stream[plain]) & (borders.number[plain] & 1 == 1)]] = True
    return needed


def _streams(borders: Facts) -> Longs:
    """Return the stream of each as a small number."""
    return np.cumsum(is_changed(borders.what, borders.who))


def _ends_of(begins: Flags, stream: Longs, run: Longs, place: Longs, reach: int) -> Longs:
    """Return the index of the end of each start, or -1 for a start without one, and for ends.

    An end that follows a start is its end, also where a run began between: who lived through that only spoke
    before another reported the start. One that is left over belongs to the latest start before it that
    has none, in the same run and at most `reach` away by `place`.
    """
    found = np.full(len(begins), -1, np.int64)
    follows = np.flatnonzero(begins[:-1] & ~begins[1:] & (stream[1:] == stream[:-1]))
    found[follows] = follows + 1
    left = ~begins
    left[follows + 1] = False
    alone = begins & (found < 0)
    if not left.any() or not alone.any():
        return found
    unended: list[int] = []
    for index in np.flatnonzero(left | alone).tolist():
        if begins[index]:
            unended.append(index)
        elif unended:
            start = unended.pop()
            is_near = run[start] == run[index] and place[index] - place[start] <= reach
            if is_near and stream[start] == stream[index]:
                found[start] = index
            else:  # those before it are farther away still
                unended.clear()
    return found


def _are_plain(stream: Longs, times: npt.NDArray[np.generic]) -> Flags:
    """Return which are none of a start and an end at the same time: such a pair changes nothing."""
    return is_changed(stream, times) & is_last(stream, times)
