"""The steps of a job as columns: every rank's word on them, and what follows for the job.

What is told follows from the set of events, not from their order of arrival.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..events import GoodputEvent, StepCompleted, StepStarted
from ..job_events import STEP_LIMIT
from ..ledger.attempts import nameless_rollbacks
from ..ledger.claims import nanoseconds
from ..ledger.launches import run_starts
from .estimators import Seconds

_MANY = 1_000_000

_WRITER, _NUMBER = attrgetter("writer"), attrgetter("step")
_Whole = NDArray[np.int64]


class StepRows(NamedTuple):
    """A row stands for `steps` steps from `number` on, the first from `start_s`; each `took_s`.

    `writer` is an index of the table's writers, `run` counts the starts of runs up to then, `attempt` how
    often the numbers went back within the run. `is_whole` says that both ends were told.
    """

    run: _Whole
    attempt: _Whole
    number: _Whole
    steps: _Whole
    writer: _Whole
    start_s: Seconds
    took_s: Seconds
    is_whole: NDArray[np.bool_]

    def where(self, chosen: NDArray[Any]) -> "StepRows":
        """The rows of a mask, or of indices."""
        return StepRows(*(column[chosen] for column in self))

    def new_step(self) -> NDArray[np.bool_]:
        """Where each step begins, of rows in the order of run, attempt and number."""
        return _changes(self.run, self.attempt, self.number)

    def by_writer(self) -> "StepRows":
        """One row for each writer's word on a step; of what ranks tell under one name the longest."""
        rows = self.where(np.lexsort((-self.took_s, self.writer, self.number, self.attempt, self.run)))
        return rows.where(_changes(rows.run, rows.attempt, rows.number, rows.writer))

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
    """All that was told of a job's steps: `ranks` by rank, and `job` with each step once, by start.

    Of several ranks' word on a step the slowest counts; a step that was computed again is another one.
    """

    writers: tuple[str, ...]
    ranks: StepRows
    job: StepRows

    def between(self, start_s: float, end_s: float) -> "StepTable":
        """The steps that began from `start_s` until `end_s` (epoch seconds)."""
        ranks, job = (
            rows.where((rows.start_s >= start_s) & (rows.start_s < end_s)) for rows in (self.ranks, self.job)
        )
        return StepTable(self.writers, ranks, job)


def step_table(events: Sequence[GoodputEvent]) -> StepTable:
    """The steps that `events` tell of; times that are no numbers, or run backwards, are passed over.

    A step whose end was not told lasts to its writer's next one in the same run, whatever lies between; with
    sparse numbers each of the steps on the way has its share. Where a writer tells of steps by both ends, its
    starts say nothing more.
    """
    begun = [event for event in events if type(event) is StepStarted]
    made = [event for event in events if type(event) is StepCompleted]
    codes: dict[str, int] = {}
    runs = np.array(run_starts(events), np.float64)
    columns = _columns(made, codes, ("start_s", "end_s")), _columns(begun, codes, ("time_s",))
    nameless = codes.get("", -1)
    whole, starts = _by_both_ends(columns[0], runs, nameless), _by_starts(columns[1], runs, nameless)
    known = np.unique(_group(whole))
    starts = starts.where(~np.isin(_group(starts), known))
    ranks = StepRows(*(np.concatenate(both) for both in zip(whole, starts, strict=True)))
    return StepTable(tuple(codes), ranks, _of_the_job(ranks))


def _columns(events: list[Any], codes: dict[str, int], times: tuple[str, ...]) -> list[Any]:
    """Writer, number and `times` of the events that make sense; new writers are added to `codes`."""
    numbers = list(map(_NUMBER, events))
    if numbers and (min(numbers) <= -STEP_LIMIT or max(numbers) >= STEP_LIMIT):
        return _columns([event for event in events if -STEP_LIMIT < event.step < STEP_LIMIT], codes, times)
    writers = list(map(_WRITER, events))
    for name in dict.fromkeys(writers):
        codes.setdefault(name, len(codes))
    writer = np.fromiter(map(codes.__getitem__, writers), np.int64, len(events))
    number = np.array(numbers, dtype=np.int64)
    told_s = [np.fromiter(map(attrgetter(name), events), np.float64, len(events)) for name in times]
    good = np.isfinite(told_s).all(axis=0) & (told_s[-1] >= told_s[0])
    return [column[good] for column in (writer, number, *told_s)]


def _by_both_ends(columns: list[Any], runs_s: Seconds, nameless: int) -> StepRows:
    writer, number, start_s, end_s = columns
    run = np.searchsorted(runs_s, start_s, side="right")
    order = np.lexsort((end_s, number, start_s, run, writer))
    order = order[_changes(*(column[order] for column in (writer, number, start_s, end_s)))]
    writer, run, number, start_s, end_s = (each[order] for each in (writer, run, number, start_s, end_s))
    back = np.diff(number) <= 0
    _mark_nameless(back, writer == nameless, (start_s, number), runs_s)
    ones = np.ones(len(number), dtype=np.int64)
    attempt = _attempts(back, writer, run)
    return StepRows(run, attempt, number, ones, writer, start_s, end_s - start_s, ones.astype(bool))


def _by_starts(columns: list[Any], runs_s: Seconds, nameless: int) -> StepRows:
    writer, number, start_s = columns
    run = np.searchsorted(runs_s, start_s, side="right")
    order = np.lexsort((number, start_s, run, writer))
    order = order[_changes(*(column[order] for column in (writer, number, start_s)))]
    writer, run, number, start_s = (each[order] for each in (writer, run, number, start_s))
    back = np.diff(number) <= 0
    _mark_nameless(back, writer == nameless, (start_s, number), runs_s)
    attempt = _attempts(back, writer, run)
    order = np.lexsort((start_s, number, attempt, run, writer))  # of ranks without a name the first counts
    order = order[_changes(*(column[order] for column in (writer, run, attempt, number)))]
    writer, run, number, attempt = (each[order] for each in (writer, run, number, attempt))
    start_s = start_s[order]
    count = np.diff(number, append=0)
    goes_on = np.append(~_changes(writer, run)[1:], np.zeros(min(1, len(number)), dtype=bool)) & (count > 0)
    took_s = np.diff(start_s, append=0.0)[goes_on] / count[goes_on]
    rows = StepRows(run, attempt, number, count, writer, start_s, start_s, np.zeros(len(number), dtype=bool))
    return rows.where(goes_on)._replace(took_s=took_s)


def _mark_nameless(
    back: NDArray[np.bool_], which: NDArray[np.bool_], told: tuple[Seconds, _Whole], runs_s: Seconds
) -> None:
    """Of those without a name, ranks in turns are no going back: the ledger's rule says what is."""
    rows = np.flatnonzero(which)
    if not len(rows):
        return
    time, number = nanoseconds(told[0][rows]), told[1][rows]
    once = np.flatnonzero(_changes(time, number))
    found = rows[
        once[nameless_rollbacks(number[once], np.searchsorted(nanoseconds(runs_s), time[once], side="right"))]
    ]
    back[rows[1:] - 1] = False
    back[found - 1] = True


def _attempts(back: NDArray[np.bool_], writer: _Whole, run: _Whole) -> _Whole:
    """How often the numbers of a writer went back before, within its run; `back` is from one to the next."""
    new = _changes(writer, run)
    backs = np.cumsum(np.append(np.zeros(min(1, len(writer)), dtype=bool), back) & ~new)
    return backs - np.maximum.accumulate(np.where(new, backs, 0))


def _of_the_job(ranks: StepRows) -> StepRows:
    """Each step once: the slowest rank's, up to the next number that anybody tells of."""
    rows = ranks.where(np.lexsort((-ranks.took_s, ranks.number, ranks.attempt, ranks.run)))
    rows = rows.where(rows.new_step())
    last = np.append(_changes(rows.run, rows.attempt)[1:], np.ones(min(1, len(rows.run)), dtype=bool))
    room = np.where(last, rows.steps, np.diff(rows.number, append=0))
    rows = rows._replace(steps=np.minimum(rows.steps, room))
    return rows.where(np.argsort(rows.start_s, kind="stable"))


def _group(rows: StepRows) -> _Whole:
    """One number for each writer's part of each run."""
    return rows.writer * (1 << 32) + rows.run


def _changes(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Where any of the columns has another value than in the row before; the first row is one."""
    changed = np.ones(len(columns[0]), dtype=bool)
    if len(changed):
        changed[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changed
