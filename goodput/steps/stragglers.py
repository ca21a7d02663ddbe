"""Ranks that hold the others up: who takes longer for the same steps.

Only times that a rank spent itself say so: told with both ends (:class:`.events.StepCompleted`), before it
waits for the others. From start to start all ranks of a synchronous job take the same time, whoever was late.
"""

import numpy as np

from .estimators import Seconds
from .table import StepRows, StepTable
from .types import Straggler

_ENOUGH_STEPS = 8
_RATIO = 1.1


class CannotTellError(Exception):
    """Whether a rank holds the others up does not show; the text says why."""


def stragglers(table: StepTable) -> tuple[Straggler, ...]:
    """Who took 1.1 times as long as the others, or longer, in most of eight or more steps; worst first.

    A rank is held against the median of the other ranks *at the same step*, so that steps that are slow for
    all are nobody's fault. Raises :class:`CannotTellError` where no two ranks can be compared.
    """
    rows, usual_s = _shared(table.ranks)
    ratios = rows.took_s / usual_s
    steps = np.bincount(rows.writer, minlength=len(table.writers))
    slow = np.bincount(rows.writer[ratios >= _RATIO], minlength=len(table.writers))
    if not (steps >= _ENOUGH_STEPS).any():
        raise CannotTellError(_why(table))
    found = []
    for code in np.flatnonzero((steps >= _ENOUGH_STEPS) & (2 * slow > steps)).tolist():
        own = rows.writer == code
        found.append(
            Straggler(
                writer=table.writers[code],
                ratio=float(np.median(ratios[own])),
                excess_s=float(np.median((rows.took_s - usual_s)[own])),
                took_s=float(np.median(rows.took_s[own])),
                steps=int(steps[code]),
                slow=int(slow[code]),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.ratio, each.writer)))


def _shared(ranks: StepRows) -> tuple[StepRows, Seconds]:
    """What several ranks told of with both ends, and what the others took (median, s) at the same step."""
    rows = ranks.where(ranks.is_whole).by_writer()
    rows = rows.where(np.lexsort((rows.took_s, rows.number, rows.attempt, rows.run)))
    first = np.flatnonzero(rows.new_step())
    told = np.diff(first, append=len(rows.number))
    first, told = np.repeat(first, told), np.repeat(told, told)
    is_shared = told > 1
    place = (np.arange(len(told)) - first)[is_shared]  # among those of the step, the fastest first
    first, told = first[is_shared], told[is_shared]
    middles = ((told - 2) // 2, (told - 1) // 2)  # of the others
    others_s = sum(rows.took_s[first + middle + (middle >= place)] for middle in middles) / 2
    rows = rows.where(is_shared)
    return rows.where(others_s > 0), others_s[others_s > 0]


def _why(table: StepTable) -> str:
    if not table.ranks.is_whole.any():
        return "steps are told by their starts only, and from start to start all ranks take as long"
    if len(np.unique(table.ranks.writer[table.ranks.is_whole])) == 1:
        return "only one writer tells what its steps took; a Recorder on every rank tells them apart"
    return f"no two ranks tell of {_ENOUGH_STEPS} steps in common"
