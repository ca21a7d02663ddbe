"""The steps of a job as columns: every rank's steps, and what follows for the job.

The table follows from the set of events, not from their order of arrival.
"""

from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..job_events import STEP_LIMIT, JobEvents, StepStarts, WholeSteps
from ..ledger.attempts import nameless_rollbacks
from ..ledger.claims import is_changed, nanoseconds
from ..ledger.launches import run_starts
from .estimators import Seconds, usual_stride

_MANY = 1_000_000

_Whole = NDArray[np.int64]
_Mask = NDArray[np.bool_]


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

    def where(self, chosen: NDArray[Any]) -> "StepRows":
        """The rows of a mask, or of indices."""
        return StepRows(*(column[chosen] for column in self))

    def new_step(self) -> _Mask:
        """Where each step begins, of rows in the order of run, attempt and number."""
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
        """The steps that began from `start_s` until `end_s` (epoch seconds)."""
        ranks, job = (
            rows.where((rows.start_s >= start_s) & (rows.start_s < end_s)) for rows in (self.ranks, self.job)
        )
        return self._replace(ranks=ranks, job=job)


def step_table(events: JobEvents, *, by_number: bool = False) -> StepTable:
    """The steps in `events`; times that are no numbers, or run backwards, are passed over.

    A step without a recorded end lasts to its writer's next one in the same run, whatever lies between; with
    sparse numbers each of the steps on the way has its share. Where a writer records both ends of steps, its
    starts say nothing more. If the numbers go up by a regular stride, each recorded step is one step, unless
    steps are to be counted `by_number`.
    """
    writers = tuple(dict.fromkeys([*events.whole_steps, *events.step_starts]))
    runs_s = np.array(run_starts(events), np.float64)
    parts: list[StepRows] = []
    for code, name in enumerate(writers):
        whole = _whole(events.whole_steps.get(name, WholeSteps()), code, name, runs_s)
        begun = _begun(events.step_starts.get(name, StepStarts()), code, name, runs_s, np.unique(whole.run))
        parts += [part for part in (whole, begun) if len(part.run)]
    parts = parts or [_whole(WholeSteps(), 0, "", runs_s)]
    ranks = StepRows(*map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]
    job = _of_the_job(ranks, is_shared=len(parts) > 1)
    stride = 1 if by_number else usual_stride(job.steps)
    if stride > 1:
        count = np.maximum(1, np.rint(job.steps / stride)).astype(np.int64)
        job = job._replace(steps=count, took_s=job.took_s * stride)
    return StepTable(writers, ranks, job, stride)


def _whole(steps: WholeSteps, code: int, name: str, runs_s: Seconds) -> StepRows:
    """What one writer recorded by both ends."""
    run, attempt, number, start_s, end_s = _attempts(
        name, runs_s, steps.numbers, steps.starts_s, steps.ends_s
    )
    one, writer, is_whole = (np.broadcast_to(each, len(run)) for each in (1, code, True))
    return StepRows(run, attempt, number, one, writer, start_s, end_s - start_s, is_whole)


def _begun(begun: StepStarts, code: int, name: str, runs_s: Seconds, known: _Whole) -> StepRows:
    """What one writer recorded by starts in other runs than those `known` by both ends."""
    run, attempt, number, start_s = found = _attempts(name, runs_s, begun.numbers, begun.times_s)
    if not _goes_up(run, attempt, number):  # of ranks without a name the first counts
        order = np.lexsort((start_s, number, attempt, run))
        order = order[is_changed(run[order], attempt[order], number[order])]
        run, attempt, number, start_s = found = [each[order] for each in found]
    steps, took_s = np.diff(number), np.diff(start_s)
    goes_on = (run[1:] == run[:-1]) & (steps > 0) & (took_s >= 0) & ~np.isin(run[:-1], known)
    chosen = slice(None) if goes_on.all() else goes_on
    run, attempt, number, start_s, steps, took_s = (
        each[chosen] for each in (*(column[:-1] for column in found), steps, took_s)
    )
    writer, is_whole = (np.broadcast_to(each, len(run)) for each in (code, False))
    return StepRows(run, attempt, number, steps, writer, start_s, took_s / steps, is_whole)


def _attempts(name: str, runs_s: Seconds, numbers: "array[int]", *times: "array[float]") -> list[Any]:
    """Run and attempt of each of a writer's steps, and the columns, by their starts, each once."""
    number, *times_s = map(np.array, (numbers, *times))
    good = np.isfinite(times_s[-1] - times_s[0]) & (times_s[-1] >= times_s[0])
    good &= np.isfinite(times_s[0]) & (abs(number) < STEP_LIMIT)
    columns: list[Any] = [each if good.all() else each[good] for each in (number, *times_s)]
    if not _goes_up(columns[1]):
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


def _of_the_job(ranks: StepRows, *, is_shared: bool) -> StepRows:
    """Each step once: the slowest rank's, if they are several up to the next number that anybody recorded."""
    rows = ranks
    if not _goes_up(rows.run, rows.attempt, rows.number):
        rows = ranks.where(np.lexsort((-ranks.took_s, ranks.number, ranks.attempt, ranks.run)))
        rows = rows.where(rows.new_step())
    if is_shared:
        goes_on = np.append(~is_changed(rows.run, rows.attempt)[1:], [False] * min(1, len(rows.run)))
        room = np.where(goes_on, np.diff(rows.number, append=0), rows.steps)
        rows = rows._replace(steps=np.minimum(rows.steps, room))
    return rows if _goes_up(rows.start_s) else rows.where(np.argsort(rows.start_s, kind="stable"))


def _goes_up(*columns: NDArray[Any]) -> bool:
    """Whether rows are in the order of these columns, the first of which counts most, and each is another."""
    later = np.zeros(max(0, len(columns[0]) - 1), dtype=bool)
    for column in reversed(columns):
        later = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & later)
    return bool(later.all())
