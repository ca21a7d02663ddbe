"""What a job's steps took, in short: ideal, deviations, the slowest, and ranks that hold the others up.

Only times that a rank spent itself show who holds the others up: recorded by both ends, before it waits for
the others. From start to start all ranks of a synchronous job take the same time, whoever was late.
"""

import numpy as np
from numpy.typing import NDArray

from ..job_events import JobEvents, are_synthetic
from ..ledger.claims import is_changed
from .table import Seconds, StepRows, StepTable, ideal_s, peers_ideal_s, step_table
from .types import SlowStep, StepDeviations, StepSummary, Straggler

ROLLING = 100
"""Of so many steps is the rolling deviation."""
_SLOWEST = 5
_ENOUGH_STEPS = 8
_RATIO = 1.1


def step_summary(
    events: JobEvents, window: tuple[float, float] | None = None, *, by_number: bool = False
) -> StepSummary | None:
    """Return the step times in `events`, or those of the steps that began in `window` (epoch seconds).

    None when no step is known to have ended, and of an application without any
    (:func:`..job_events.are_synthetic`). `by_number` is as in :func:`.table.step_table`.
    """
    return (
        None if are_synthetic(events) else summary_of(step_table(events, by_number=by_number), events, window)
    )


def summary_of(
    table: StepTable, events: JobEvents, window: tuple[float, float] | None = None
) -> StepSummary | None:
    """Return the same of the `table` of steps of these events."""
    table = table.between(*window) if window is not None else table
    rows = table.job
    ideal = ideal_s(rows.times_s)
    if ideal is None:
        return None
    peers, no_peers = _peers_ideal(events, window)
    found, no_stragglers = stragglers(table)
    distances_s = np.abs(rows.took_s - ideal)
    last = _last(rows.steps)
    return StepSummary(
        steps=rows.total,
        stride=table.stride,
        mean_s=float(np.average(rows.took_s, weights=rows.steps)),
        ideal_s=ideal,
        peers_ideal_s=peers,
        no_peers_ideal=no_peers,
        deviation_s=float(np.average(distances_s, weights=rows.steps)),
        rolling_deviation_s=float(np.average(distances_s, weights=last)),
        rolling=int(last.sum()),
        slowest=_slowest(table),
        stragglers=found,
        no_stragglers=no_stragglers,
        deviations_s=StepDeviations(rows.number, distances_s),
    )


def _peers_ideal(events: JobEvents, window: tuple[float, float] | None) -> tuple[float | None, str]:
    """Return the ideal step time that ml-goodput-measurement would give, or why it gives none.

    For it a step lasts until the next one, if that has the next number, whoever reports them.
    """
    columns = [(each.numbers, each.starts_s) for each in events.steps]
    numbers, starts_s = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(starts_s, kind="stable")
    if window is not None:
        order = order[(window[0] <= starts_s[order]) & (starts_s[order] < window[1])]
    times_s = np.diff(starts_s[order])[np.diff(numbers[order]) == 1]
    if (ideal := peers_ideal_s(times_s)) is not None:
        return ideal, ""
    if len(times_s):
        return None, "it leaves out steps that last less than a second"
    return None, "no step is followed by the one with the next number"


def stragglers(table: StepTable) -> tuple[tuple[Straggler, ...], str]:
    """Return who took 1.1 times as long as the others in most of eight or more steps; or why nobody.

    A rank is held against the median of the other ranks *at the same step*, so that steps that are slow for
    all are nobody's fault.
    """
    whole = table.ranks.is_whole
    if not whole.any():
        return (), "only the starts of steps are recorded, and from start to start all ranks take as long"
    if len(np.unique(table.ranks.writer[whole])) == 1:
        return (), "only one writer records what its steps took; a Recorder on every rank distinguishes them"
    rows, usual_s = _shared(table.ranks)
    columns = rows.took_s / usual_s, rows.took_s - usual_s, rows.took_s
    steps = np.bincount(rows.writer, minlength=len(table.writers))
    slow = np.bincount(rows.writer[columns[0] >= _RATIO], minlength=len(table.writers))
    if not (steps >= _ENOUGH_STEPS).any():
        return (), f"no two ranks recorded {_ENOUGH_STEPS} steps in common"
    found = []
    for code in np.flatnonzero((steps >= _ENOUGH_STEPS) & (2 * slow > steps)).tolist():
        ratio, excess_s, took_s = (float(np.median(each[rows.writer == code])) for each in columns)
        counts = {"steps": int(steps[code]), "slow": int(slow[code])}
        writer = table.writers[code]
        found.append(Straggler(writer=writer, ratio=ratio, excess_s=excess_s, took_s=took_s, **counts))
    return tuple(sorted(found, key=lambda each: (-each.ratio, each.writer))), ""


def _shared(ranks: StepRows) -> tuple[StepRows, Seconds]:
    """Return what several ranks recorded by both ends, and the others' median (s) at the same step."""
    rows = ranks.where(ranks.is_whole)
    rows = rows.where(np.lexsort((-rows.took_s, rows.writer, rows.number, rows.attempt, rows.run)))
    rows = rows.where(is_changed(rows.run, rows.attempt, rows.number, rows.writer))  # a word of each writer
    rows = rows.where(np.lexsort((rows.took_s, rows.number, rows.attempt, rows.run)))
    first = np.flatnonzero(rows.new_step())
    count = np.diff(first, append=len(rows.number))
    first, count = np.repeat(first, count), np.repeat(count, count)
    is_shared = count > 1
    place = (np.arange(len(count)) - first)[is_shared]  # among those of the step, the fastest first
    first, count = first[is_shared], count[is_shared]
    middles = ((count - 2) // 2, (count - 1) // 2)  # of the others
    others_s = sum(rows.took_s[first + middle + (middle >= place)] for middle in middles) / 2
    rows = rows.where(is_shared)
    return rows.where(others_s > 0), others_s[others_s > 0]


def _last(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of the last :data:`ROLLING` steps each row has; of sparse numbers a row has many."""
    made = np.zeros_like(steps)
    tail = slice(-ROLLING, None)
    behind = np.cumsum(steps[tail][::-1].astype(np.float64))[::-1] - steps[tail]
    made[tail] = np.clip(ROLLING - behind, 0, np.minimum(steps[tail], ROLLING))
    return made


def _slowest(table: StepTable) -> tuple[SlowStep, ...]:
    rows = table.job
    least_s = np.partition(rows.took_s, -_SLOWEST)[-_SLOWEST] if len(rows.took_s) > _SLOWEST else 0.0
    slow = [*np.flatnonzero(rows.took_s > least_s), *np.flatnonzero(rows.took_s == least_s)[:_SLOWEST]]
    slow = sorted(slow, key=lambda index: (-rows.took_s[index], index))[:_SLOWEST]
    columns = (each[slow].tolist() for each in (rows.number, rows.steps, rows.took_s, rows.start_s, rows.run))
    writers = [table.writers[code] for code in rows.writer[slow]]
    return tuple(
        SlowStep(step=number, steps=steps, took_s=took_s, start_s=start_s, run=run, writer=writer)
        for number, steps, took_s, start_s, run, writer in zip(*columns, writers, strict=True)
    )
