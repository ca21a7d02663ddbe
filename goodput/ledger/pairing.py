"""Pair the starts and ends of intervals, which writers report one by one."""

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from ..events import Interval
from ..job_events import JobEvents
from .claims import OPEN, Claims, Flags, Longs, is_changed, last_of_each
from .facts import NO_STEP, Tokens
from .launches import run_starts

REACH = 32
"""So many starts and ends may lie within an interval: a later end belongs to another one."""


def whole_intervals(events: JobEvents, kinds: Collection[str] | None = None) -> list[Interval]:
    """Return the intervals of a job that have both ends: reported whole, or by starts and ends.

    Only those of `kinds`, where they are given.
    """
    made = [each for each in events.others if isinstance(each, Interval)]
    made = [each for each in made if kinds is None or each.kind in kinds]
    columns = [(key, each) for key, each in events.borders.items() if kinds is None or key[0] in kinds]
    runs_s = np.array(run_starts(events) if columns else [], np.float64)
    for (kind, name, writer), each in columns:
        times_s, begins = np.array(each.times_s, np.float64), np.array(each.begins, np.int64)
        order = np.lexsort((begins, times_s))
        order = order[is_changed(times_s[order], begins[order])]
        times_s, begins = times_s[order], begins[order]
        stream = np.zeros(len(begins), np.int64)
        place = np.flatnonzero(~_is_moment(stream, times_s))
        times_s, begins, stream = times_s[place], begins[place], stream[place]
        ended_by = _ends_of(begins == 1, stream, np.searchsorted(runs_s, times_s, side="right"), place, REACH)
        for begin in np.flatnonzero(ended_by >= 0).tolist():
            start_s, end_s = float(times_s[begin]), float(times_s[ended_by[begin]])
            made.append(Interval(kind=kind, name=name, writer=writer, start_s=start_s, end_s=end_s))
    return made


def interval_claims(  # noqa: PLR0913, PLR0917 - what else it depends on
    tokens: Tokens,
    run: Longs,
    kind: Longs,
    last_word: Callable[[Longs, Longs], Longs],
    next_step: Callable[[Longs, Longs, Longs], Longs],
    reach: int,
) -> Claims:
    """Return what starts and ends stand for; `run` is that of each token, `kind` that of each stream.

    A start without an end is marked `OPEN`. It lasts until the next start of its stream, or the writer's
    `next_step` (by stream, run and time), in the same run; at the end of that until the writer's `last_word`
    (by stream and run). A start and an end at the same time change nothing.
    """
    place = np.flatnonzero(~_is_moment(tokens.stream, tokens.time))
    stream, time, value = (column[place] for column in tokens)
    run = run[place]
    begins = value == 1
    ended_by = _ends_of(begins, stream, run, place, reach)
    start = np.flatnonzero(begins)
    end, ended = time[ended_by[start]], ended_by[start] >= 0
    never = start[~ended]
    if len(never):
        goes_on = np.zeros(len(time), np.bool_)
        goes_on[:-1] = (stream[1:] == stream[:-1]) & (run[1:] == run[:-1])
        until = np.maximum(time[never], last_word(stream[never], run[never]))
        until = np.where(goes_on[never], np.append(time[1:], 0)[never], until)
        end[~ended] = np.minimum(until, next_step(stream[never], run[never], time[never]))
    kinds = np.where(ended, kind[stream[start]], kind[stream[start]] | OPEN)
    return Claims(time[start], end, kinds, np.full(len(start), NO_STEP))


def needed_borders(tokens: Tokens, in_run: Flags, reach: int) -> Flags:
    """Return which of early tokens later ones may belong to: those near, and starts without an end."""
    moment = _is_moment(tokens.stream, tokens.time)
    needed = last_of_each(tokens.stream, reach + 2) & in_run
    needed[:-1] |= needed[1:] & moment[1:] & (tokens.time[1:] == tokens.time[:-1])
    plain = np.flatnonzero(~moment)
    needed[plain[last_of_each(tokens.stream[plain], 1) & (tokens.value[plain] == 1)]] = True
    return needed


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


def _is_moment(stream: Longs, times: npt.NDArray[np.generic]) -> Flags:
    """Return where a start and an end are reported at the same time: such a pair changes nothing."""
    again = ~is_changed(stream, times)
    moment: Flags = again | np.append(again[1:], np.zeros(min(1, len(again)), np.bool_))
    return moment
