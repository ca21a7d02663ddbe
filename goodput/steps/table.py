"""The steps of a job as columns: every rank's, and what follows for the job; what a step should take.

The table follows from the set of events, not from their order of arrival. Times are seconds.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..job_events import STEP_LIMIT, JobEvents, Moments
from ..ledger.attempts import nameless_rollbacks
from ..ledger.claims import are_in_order, is_changed, joined, nanoseconds
from ..ledger.launches import run_starts

Seconds: TypeAlias = NDArray[np.float64]
_Whole = NDArray[np.int64]
_Mask = NDArray[np.bool_]

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

    run: _Whole
    attempt: _Whole
    number: _Whole
    steps: _Whole
    writer: _Whole
    start_s: Seconds
    took_s: Seconds
    is_whole: _Mask

    def where(self, chosen: Any) -> "StepRows":
        """Return the rows of a mask, or of indices."""
        return StepRows(*(column[chosen] for column in self))

    def new_step(self) -> _Mask:
        """Return where each step begins, of rows in the order of run, attempt and number."""
        return is_changed(self.run, self.attempt, self.number)

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

    def between(self, start_s: float, end_s: float) -> "StepTable":
        """Return the steps that began from `start_s` until `end_s` (epoch seconds)."""
        ranks, job = (
            rows.where((rows.start_s >= start_s) & (rows.start_s < end_s)) for rows in (self.ranks, self.job)
        )
        return self._replace(ranks=ranks, job=job)


def step_table(events: JobEvents, *, by_number: bool = False) -> StepTable:
    """Return the steps in `events`; times that are no numbers, or run backwards, are passed over.

    A step without a recorded end lasts to its writer's next one in the same run; with sparse numbers each of
    the steps on the way has its share. Where a writer records both ends of steps, its starts say nothing
    more. If the numbers go up by a regular stride, each recorded step is one step, unless `by_number`.
    """
    writers = tuple(dict.fromkeys([*events.whole_steps, *events.step_starts]))
    runs_s = np.array(run_starts(events), np.float64)
    empty = StepRows(*(np.zeros(0, kind) for kind in (*[np.int64] * 5, np.float64, np.float64, np.bool_)))
    parts = [empty]
    for code, name in enumerate(writers):
        known: _Whole = empty.run
        if (whole := events.whole_steps.get(name)) is not None:
            parts.append(_whole(_attempts(name, runs_s, whole), code))
            known = np.unique(parts[-1].run)
        if (begun := events.step_starts.get(name)) is not None:
            parts.append(_begun(_attempts(name, runs_s, begun), code, known))
    ranks = joined(parts)
    job = _of_the_job(ranks, is_shared=sum(len(each.run) > 0 for each in parts) > 1)
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


def _whole(steps: list[Any], code: int) -> StepRows:
    """Return what one writer recorded by both ends."""
    run, attempt, number, start_s, end_s = steps
    one, writer, is_whole = (np.broadcast_to(each, len(run)) for each in (1, code, True))
    return StepRows(run, attempt, number, one, writer, start_s, end_s - start_s, is_whole)


def _begun(begun: list[Any], code: int, known: _Whole) -> StepRows:
    """Return what one writer recorded by starts in other runs than those `known` by both ends."""
    run, attempt, number, start_s = begun
    if not are_in_order(run, attempt, number):  # of ranks without a name the first counts
        order = np.lexsort((start_s, number, attempt, run))
        order = order[is_changed(run[order], attempt[order], number[order])]
        run, attempt, number, start_s = begun = [each[order] for each in begun]
    steps, took_s = np.diff(number), np.diff(start_s)
    goes_on = (run[1:] == run[:-1]) & (steps > 0) & (took_s >= 0) & ~np.isin(run[:-1], known)
    chosen = slice(None) if goes_on.all() else goes_on
    run, attempt, number, start_s, steps, took_s = (
        each[chosen] for each in (*(column[:-1] for column in begun), steps, took_s)
    )
    writer, is_whole = (np.broadcast_to(each, len(run)) for each in (code, False))
    return StepRows(run, attempt, number, steps, writer, start_s, took_s / steps, is_whole)


def _attempts(name: str, runs_s: Seconds, steps: Moments) -> list[Any]:
    """Return run and attempt of each of a writer's steps, and the columns, by their starts, each once."""
    *times_s, number = map(np.array, steps.columns)
    good = np.isfinite(times_s[-1] - times_s[0]) & (times_s[-1] >= times_s[0])
    good &= np.isfinite(times_s[0]) & (abs(number) < STEP_LIMIT)
    columns: list[Any] = [each if good.all() else each[good] for each in (number, *times_s)]
    if not are_in_order(columns[1]):
        order = np.lexsort((*columns[2:], columns[0], columns[1]))
        order = order[is_changed(*(column[order] for column in columns))]
        columns = [column[order] for column in columns]
    number, start_s = columns[:2]
    run = np.searchsorted(runs_s, start_s, side="right")
    back = np.append(np.zeros(min(1, len(number)), bool), number[1:] <= number[:-1])
    if not name and back.any():  # ranks in turns are no going back: the ledger's rule says what is
        time, back[:] = nanoseconds(start_s), False
        once = np.flatnonzero(is_changed(time, number))
        back[once] = nameless_rollbacks(number[once], run[once])
    attempt = np.zeros(len(run), np.int64)
    if back.any():
        new_run = is_changed(run)
        backs = np.cumsum(back & ~new_run)
        attempt = backs - np.maximum.accumulate(np.where(new_run, backs, 0))
    return [run, attempt, *columns]


def _of_the_job(rows: StepRows, *, is_shared: bool) -> StepRows:
    """Return each step once: the slowest rank's, if several, up to the next number that anybody recorded."""
    if not are_in_order(rows.run, rows.attempt, rows.number):
        rows = rows.where(np.lexsort((-rows.took_s, rows.number, rows.attempt, rows.run)))
        rows = rows.where(rows.new_step())
    if is_shared:
        goes_on = np.append(~is_changed(rows.run, rows.attempt)[1:], [False] * min(1, len(rows.run)))
        room = np.where(goes_on, np.diff(rows.number, append=0), rows.steps)
        rows = rows._replace(steps=np.minimum(rows.steps, room))
    return rows if are_in_order(rows.start_s) else rows.where(np.argsort(rows.start_s, kind="stable"))
