"""What a job's steps took, in short: ideal, deviations, the slowest, and ranks that hold the others up.

Only times that a rank spent itself show who holds the others up: recorded by both ends, before it waits for
the others. From start to start all ranks of a synchronous job take the same time, whoever was late.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from ..job_events import JobEvents, are_synthetic
from ..ledger.claims import Flags, Longs, is_changed, where
from .table import Seconds, StepRows, StepTable, ideal_s, peers_ideal_s, step_table

ROLLING = 100
"""Of so many steps is the rolling deviation."""
_SLOWEST = 5
_ENOUGH_STEPS = 8
_RATIO = 1.1


class StepDeviations:
    """Each step's number and distance from the ideal (s), of a step that was computed again the last one."""

    def __init__(self, numbers: Longs, seconds: Seconds) -> None:
        self._columns = numbers, seconds

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(*(column.tolist() for column in self._columns), strict=True)


class SlowStep(msgspec.Struct, frozen=True):
    """A step that took long: its number, when it began (epoch seconds), in which run, by which writer.

    With sparse numbers it stands for `steps` steps from that number on, each of which took so long.
    """

    step: int
    steps: int
    took_s: float
    start_s: float
    run: int
    writer: str = ""


class Straggler(msgspec.Struct, frozen=True):
    """`writer` took `took_s` a step, `excess_s` longer than the others, `ratio` times as long (medians, s).

    It was so in `slow` of the `steps` that it and at least one other rank recorded.
    """

    writer: str
    ratio: float
    excess_s: float
    took_s: float
    steps: int
    slow: int


class StepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The step times of a job, or of a window of it; all in seconds.

    `peers_ideal_s` is the ideal by ml-goodput-measurement's rules, `no_peers_ideal` says why it gives none.
    `deviation_s` is the mean distance of a step from the ideal, `rolling_deviation_s` that of the last
    `rolling` ones. `no_stragglers` says why it cannot be said who holds the others up.
    """

    steps: int
    stride: int = 1
    mean_s: float
    ideal_s: float
    peers_ideal_s: float | None
    no_peers_ideal: str
    deviation_s: float
    rolling_deviation_s: float
    rolling: int
    slowest: tuple[SlowStep, ...]
    stragglers: tuple[Straggler, ...]
    no_stragglers: str
    deviations_s: StepDeviations


def step_summary(
    events: JobEvents,
    window: tuple[float, float] | None = None,
    *,
    by_number: bool = False,
    table: StepTable | None = None,
) -> StepSummary | None:
    """Return the step times in `events`, or those of the steps that began in `window` (epoch seconds).

    None when no step is known to have ended, and of an application without any
    (:func:`..job_events.are_synthetic`). `by_number` is as in :func:`.table.step_table`, `table` what that
    returns, if the caller has it.
    """
    if are_synthetic(events):
        return None
    table = table or step_table(events, by_number=by_number)
    if window is not None:
        ranks, job = (where(each, _is_within(each.start_s, window)) for each in (table.ranks, table.job))
        table = table._replace(ranks=ranks, job=job)
    rows = table.job
    ideal = ideal_s(rows.times_s)
    if ideal is None:
        return None
    peers, no_peers = _peers_ideal(events, window)
    found, no_stragglers = stragglers(table)
    distances_s = np.abs(rows.took_s - ideal)
    behind = np.cumsum(rows.steps[::-1], dtype=np.float64)[::-1] - rows.steps
    last = np.clip(ROLLING - behind, 0, rows.steps)  # of sparse numbers a row has many
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
        slowest=tuple(_slow_steps(table)),
        stragglers=found,
        no_stragglers=no_stragglers,
        deviations_s=StepDeviations(rows.number, distances_s),
    )


def _is_within(times_s: Seconds, window: tuple[float, float]) -> Flags:
    inside: Flags = (window[0] <= times_s) & (times_s < window[1])
    return inside


def _peers_ideal(events: JobEvents, window: tuple[float, float] | None) -> tuple[float | None, str]:
    """Return the ideal step time that ml-goodput-measurement would give, or why it gives none.

    For it a step lasts until the next one, if that has the next number, whoever reports them.
    """
    columns = [(each.numbers, each.starts_s) for each in events.steps]
    numbers, starts_s = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(starts_s, kind="stable")
    if window is not None:
        order = order[_is_within(starts_s[order], window)]
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
        counts = int(steps[code]), int(slow[code])
        found.append(Straggler(table.writers[code], ratio, excess_s, took_s, *counts))
    return tuple(sorted(found, key=lambda each: (-each.ratio, each.writer))), ""


def _shared(ranks: StepRows) -> tuple[StepRows, Seconds]:
    """Return what several ranks recorded by both ends, and the others' median (s) at the same step."""
    rows = where(ranks, ranks.is_whole)
    rows = where(rows, np.lexsort((-rows.took_s, rows.writer, rows.number, rows.attempt, rows.run)))
    rows = where(rows, is_changed(rows.run, rows.attempt, rows.number, rows.writer))  # a word of each writer
    rows = where(rows, np.lexsort((rows.took_s, rows.number, rows.attempt, rows.run)))
    first = np.flatnonzero(is_changed(rows.run, rows.attempt, rows.number))
    count = np.diff(first, append=len(rows.number))
    first, count = np.repeat(first, count), np.repeat(count, count)
    is_shared = count > 1
    place = (np.arange(len(count)) - first)[is_shared]  # among those of the step, the fastest first
    first, count = first[is_shared], count[is_shared]
    middles = ((count - 2) // 2, (count - 1) // 2)  # of the others
    others_s = sum(rows.took_s[first + middle + (middle >= place)] for middle in middles) / 2
    return where(where(rows, is_shared), others_s > 0), others_s[others_s > 0]


def _slow_steps(table: StepTable) -> Iterator[SlowStep]:
    took_s = table.job.took_s
    least_s = np.partition(took_s, -_SLOWEST)[-_SLOWEST] if len(took_s) > _SLOWEST else 0.0
    slow = np.flatnonzero(took_s >= least_s)
    rows = where(table.job, slow[np.argsort(-took_s[slow], kind="stable")[:_SLOWEST]])
    columns = (rows.number, rows.steps, rows.took_s, rows.start_s, rows.run, rows.writer)
    for number, steps, took_s, start_s, run, code in zip(*(each.tolist() for each in columns), strict=True):
        yield SlowStep(number, steps, took_s, start_s, run, table.writers[code])
