"""What a job's steps took, in short, and each one's distance from the ideal."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..compat.columns import ideal_step_time_s, step_times_s
from ..events import GoodputEvent
from ..job_events import JobEvents
from ..synthetic_steps import are_synthetic
from ..validation import span
from .estimators import deviations_s, ideal_s
from .stragglers import CannotTellError, stragglers
from .table import StepTable, step_table
from .types import SlowStep, StepSummary, Straggler

ROLLING = 100
"""Of so many steps is the rolling deviation."""
_SLOWEST = 5


def step_summary(
    events: Sequence[GoodputEvent], window: tuple[float, float] | None = None
) -> StepSummary | None:
    """The step times that `events` tell of, or those of the steps that began in `window` (epoch seconds).

    None when no step is known to have ended, and of an application without any (:mod:`..synthetic_steps`).
    """
    if are_synthetic(events):
        return None
    table = step_table(events)
    if window is not None:
        table = table.between(*window)
        events = [event for event in events if window[0] <= span(event)[0] < window[1]]
    rows = table.job
    ideal = ideal_s(rows.times_s)
    if ideal is None:
        return None
    peers, no_peers = _peers(events)
    found, no_stragglers = stragglers_of(table)
    distances_s = deviations_s(rows.took_s, ideal)
    last = _last(rows.steps)
    return StepSummary(
        steps=rows.total,
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
        deviations_s=dict(zip(rows.number.tolist(), distances_s.tolist(), strict=True)),
    )


def _last(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the last :data:`ROLLING` steps each row has; of sparse numbers a row has many."""
    behind = np.cumsum(steps[::-1].astype(np.float64))[::-1] - steps
    return np.clip(ROLLING - behind, 0, np.minimum(steps, ROLLING)).astype(np.int64)


def stragglers_of(table: StepTable) -> tuple[tuple[Straggler, ...], str]:
    """The ranks that hold the others up, or why it cannot be told."""
    try:
        return stragglers(table), ""
    except CannotTellError as error:
        return (), str(error)


def _peers(events: Sequence[GoodputEvent]) -> tuple[float | None, str]:
    times_s = step_times_s(JobEvents(events))
    if not len(times_s):
        return None, "no step is followed by the one with the next number"
    found = ideal_step_time_s(times_s)
    return found, "" if found is not None else "it leaves out steps that last less than a second"


def _slowest(table: StepTable) -> tuple[SlowStep, ...]:
    rows = table.job
    return tuple(
        SlowStep(
            step=int(rows.number[index]),
            steps=int(rows.steps[index]),
            took_s=float(rows.took_s[index]),
            start_s=float(rows.start_s[index]),
            run=int(rows.run[index]),
            writer=table.writers[rows.writer[index]],
        )
        for index in np.argsort(-rows.took_s, kind="stable")[:_SLOWEST].tolist()
    )
