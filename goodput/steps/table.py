"""The steps of a job as columns: every rank's, and what follows for the job; what a step should take.

The table follows from the set of events, not from their order of arrival. Times are seconds.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..job_events import STEP_LIMIT, JobEvents, Moments
from ..ledger.attempts import nameless_rollbacks
from ..ledger.claims import Flags, Longs, are_in_order, is_changed, joined, last_of_each, nanoseconds, where
from ..ledger.launches import run_starts

Seconds: TypeAlias = NDArray[np.float64]

_MANY = 1_000_000
_DEVIATIONS = 3.0
_SIGMAS_PER_MAD = 1.4826
_PEERS_SHORTEST_S = 1.0
_REGULAR = 0.9
_ENOUGH = 3


class StepRows(NamedTuple):
    """A row stands for `steps` steps from `number` on, the first from `start_s`; each `took_s`.

    `writer` is an index of the table's writers, `run` counts the starts of runs up to then, `attempt` how
    often the numbers went back within the run. `is_whole` says that both ends were recorded.
    """

    run: Longs
    attempt: Longs
    number: Longs
    steps: Longs
    writer: Longs
    start_s: Seconds
    took_s: Seconds
    is_whole: Flags

    @property
    def total(self) -> int:
        """How many steps they are."""
        return int(self.steps.sum(dtype=np.float64))

    @property
    def times_s(self) -> Seconds:
        """A time for each step; of more than a million steps a sample, in which each row has its share."""
        share = max(1, self.total // _MANY)
        return np.repeat(self.took_s, np.maximum(1, self.steps // share))


class StepTable(NamedTuple):
    """All recorded steps: `ranks` by rank, and `job` with each step once, by start.

    Of several ranks' times of a step the slowest counts; a step that was computed again is another one. In
    `job` every `stride`-th number is a step.
    """

    writers: tuple[str, ...]
    ranks: StepRows
    job: StepRows
    stride: int = 1


def step_table(events: JobEvents, *, by_number: bool = False) -> StepTable:
    """Return the steps in `events`; times that are no numbers, or run backwards, are passed over.

    A step without a recorded end lasts to its writer's next one in the same run; with sparse numbers each of
    the steps on the way has its share. Where a writer records both ends of steps, its starts say nothing
    more. If the numbers go up by a regular stride, each recorded step is one step, unless `by_number`.
    """
    writers = tuple(dict.fromkeys([*events.whole_steps, *events.step_starts]))
    runs_s = np.array(run_starts(events), np.float64)
    parts = [_recorded(Moments(), 0, runs_s)]
    for writer, name in enumerate(writers):
        if name in events.step_starts:
            parts.append(_recorded(events.step_starts[name], writer, runs_s))
        if name in events.whole_steps:
            parts.append(_recorded(events.whole_steps[name], writer, runs_s, is_whole=True))
    ranks = _of_ranks(joined(parts), nameless=writers.index("") if "" in writers else -1)
    job = _of_the_job(ranks)
    stride = 1 if by_number else usual_stride(job.steps)
    if stride > 1:
        count = np.maximum(1, np.rint(job.steps / stride)).astype(np.int64)
        job = job._replace(steps=count, took_s=job.took_s * stride)
    return StepTable(writers, ranks, job, stride)


def ideal_s(times_s: ArrayLike) -> float | None:
    """Return the ideal step time, of steps of any length, or None without a step.

    The mean of those within three robust standard deviations (1.4826 MAD each) of the median, on *either*
    side: a step that was cut short says as little as a hiccup does. Rousseeuw and Croux 1993.
    """
    times = np.asarray(times_s, dtype=np.float64)
    if not times.size:
        return None
    distances_s = np.abs(times - np.median(times))
    reach_s = _DEVIATIONS * _SIGMAS_PER_MAD * np.median(distances_s)
    return float(times[distances_s <= reach_s].mean())


def peers_ideal_s(times_s: ArrayLike) -> float | None:
    """Return the ideal step time by ml-goodput-measurement's rule, or None when no step counts.

    Steps of less than a second are dropped; of the others the mean of those up to median + 3 MAD.
    """
    times = np.asarray(times_s, dtype=np.float64)
    kept = times[times >= _PEERS_SHORTEST_S]
    if not kept.size:
        return None
    middle_s = np.median(kept)
    limit_s = middle_s + _DEVIATIONS * np.median(np.abs(kept - middle_s))
    return float(kept[kept <= limit_s].mean())


def usual_stride(counts: ArrayLike) -> int:
    """Return how many numbers nine in ten recorded steps are apart; 1 of fewer than three, or without a rule.

    One recorded in ten and one that counts ten (frames, samples) have the same numbers: either way the
    recorded step is what there are times of.
    """
    recorded = np.asarray(counts)
    usual = int(np.median(recorded)) if recorded.size >= _ENOUGH else 1
    return usual if np.count_nonzero(recorded == usual) >= _REGULAR * recorded.size else 1


def _recorded(steps: Moments, writer: int, runs_s: Seconds, *, is_whole: bool = False) -> StepRows:
    """Return what one writer recorded by both ends, or by starts, which take no time; but what cannot be."""
    start_s, end_s, number = map(np.array, (steps.starts_s, steps.ends_s, steps.numbers))
    run, took_s = np.searchsorted(runs_s, start_s, side="right"), end_s - start_s
    zero, one, code, whole = (np.broadcast_to(each, len(run)) for each in (0, 1, writer, is_whole))
    rows = StepRows(run, zero, number, one, code, start_s, took_s, whole)
    good = np.isfinite(start_s) & np.isfinite(took_s) & (took_s >= 0) & (abs(number) < STEP_LIMIT)
    return rows if good.all() else where(rows, good)


def _of_ranks(rows: StepRows, nameless: int) -> StepRows:
    """Return the steps of each writer, each word once; those with a start alone last to its next one."""
    words = (rows.writer, rows.is_whole, rows.start_s, rows.number, rows.took_s)
    if not are_in_order(*words):
        order = np.lexsort(words[::-1])
        rows = where(rows, order[is_changed(*(each[order] for each in words))])
    group: Longs = np.cumsum(is_changed(rows.writer, rows.is_whole, rows.run))
    rows = rows._replace(attempt=_attempts(rows, group, rows.writer == nameless))
    if not are_in_order(group, rows.attempt, rows.number):  # of ranks without a name the first start counts
        order = np.lexsort((rows.start_s, rows.number, rows.attempt, group))
        rows, group = where(rows, order), group[order]
        kept = rows.is_whole | is_changed(group, rows.attempt, rows.number)
        rows, group = where(rows, kept), group[kept]
    steps = np.where(rows.is_whole, 1, np.diff(rows.number, append=0))
    took_s = np.where(rows.is_whole, rows.took_s, np.diff(rows.start_s, append=0.0))
    place = rows.writer * (int(rows.run.max(initial=0)) + 1) + rows.run
    goes_on = ~last_of_each(group, 1) & (steps > 0) & (took_s >= 0) & ~np.isin(place, place[rows.is_whole])
    took_s /= np.maximum(steps, 1)
    return where(rows._replace(steps=steps, took_s=took_s), rows.is_whole | goes_on)


def _attempts(rows: StepRows, group: Longs, is_nameless: Flags) -> Longs:
    """Return how often the numbers went back before each row of its group."""
    is_first = is_changed(group)
    back = ~is_first
    back[1:] &= rows.number[1:] <= rows.number[:-1]
    if (back & is_nameless).any():  # ranks in turns are no going back: the ledger's rule says what is
        once = np.flatnonzero(is_nameless & is_changed(group, nanoseconds(rows.start_s), rows.number))
        back &= ~is_nameless
        back[once] = nameless_rollbacks(rows.number[once], group[once])
    backs = np.cumsum(back)
    return backs - np.maximum.accumulate(np.where(is_first, backs, 0))


def _of_the_job(rows: StepRows) -> StepRows:
    """Return each step once: the slowest rank's, up to the next number that anybody recorded."""
    if not are_in_order(rows.run, rows.attempt, rows.number):
        rows = where(rows, np.lexsort((-rows.took_s, rows.number, rows.attempt, rows.run)))
        rows = where(rows, is_changed(rows.run, rows.attempt, rows.number))
    is_last = last_of_each(np.cumsum(is_changed(rows.run, rows.attempt)), 1)
    room = np.where(is_last, rows.steps, np.diff(rows.number, append=0))
    rows = rows._replace(steps=np.minimum(rows.steps, room))
    return rows if are_in_order(rows.start_s) else where(rows, np.argsort(rows.start_s, kind="stable"))
