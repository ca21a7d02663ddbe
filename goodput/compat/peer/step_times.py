"""Step times by the peer's rules: how long each step took, the ideal one, and how far each is from it.

Times are epoch seconds, and spans seconds.
"""

import numpy as np
from numpy.typing import ArrayLike

from ...job_events import JobEvents
from .rules import CompatError
from .table import Rows, Seconds, Span, Whole, step_columns

_SHORTEST_STEP_S = 1.0
_DEVIATIONS = 3.0


def ideal_step_time_s(times_s: ArrayLike) -> float | None:
    """Return the peer's ideal step time, or None when no step counts.

    Steps of less than a second are dropped; of the others the mean of those up to median + 3 MAD.
    """
    times = np.asarray(times_s, dtype=np.float64)
    kept = times[times >= _SHORTEST_STEP_S]
    if not kept.size:
        return None
    middle_s = np.median(kept)
    limit_s = middle_s + _DEVIATIONS * np.median(np.abs(kept - middle_s))
    return float(kept[kept <= limit_s].mean())


def step_times_s(events: JobEvents, window: Span | None = None) -> Seconds:
    """Return how long each step took by the peer's rules, of a window from its start up to before its end."""
    columns = [(np.empty(0, np.int64), np.empty(0)), *step_columns(events)]
    steps, starts_s = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(starts_s, kind="stable")
    if window is not None:
        order = order[(window[0] <= starts_s[order]) & (starts_s[order] < window[1])]
    return step_times(steps[order], starts_s[order])[1]


def step_times(steps: Whole, starts_s: Seconds) -> tuple[Whole, Seconds]:
    """Return the steps, and how long each took: until the next one, if that has the next number.

    Of a step that was computed again the last time counts, in the place of the first.
    """
    followed = np.flatnonzero(np.diff(steps) == 1)
    numbers, took_s = steps[followed], np.diff(starts_s)[followed]
    if not (numbers[1:] > numbers[:-1]).all():
        last = dict(zip(numbers.tolist(), took_s.tolist(), strict=True))
        numbers, took_s = np.array(list(last)), np.array(list(last.values()))
    return numbers, took_s


def deviations_s(rows: Rows, ideal_s: float | None = None) -> tuple[float, Whole, Seconds]:
    """Return the ideal step time, the steps, and how far each is from it.

    Raises :class:`CompatError` if there are no step times, or none that an ideal can be made of.
    """
    steps, took_s = step_times(rows.steps, rows.times_s)
    if not len(steps):
        raise CompatError("no step times: no step was followed by the one with the next number")
    ideal = ideal_step_time_s(took_s) if ideal_s is None else ideal_s
    if not ideal:
        raise CompatError(
            "no ideal step time: by this policy a step must last a second; pass configured_ideal_step_time"
        )
    return ideal, steps, np.abs(took_s - ideal)
