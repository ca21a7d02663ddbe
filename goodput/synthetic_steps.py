"""Synthetic steps: numbers for the work between outputs (:mod:`scrtune.client.implicit_steps`).

Of an application that reports no steps, what lies between SCR's calls is its work. That has numbers, so that
the ledger finds what was lost and made again, but they mean nothing to people, and neither do their times.
"""

from operator import sub

from .events import (
    Interval,
    IntervalEnded,
    JobStarted,
    RestartCompleted,
    StepCompleted,
)
from .job_events import JobEvents

LEAP = 1 << 19
"""Numbers of steps that lie so far apart are synthetic: a dataset's number times 2**20, and more."""
_DATASET_BITS = 20
_BEGINS = (JobStarted, RestartCompleted)
_RESTORE = "checkpoint_restore"


def are_synthetic(events: JobEvents) -> bool:
    """Return whether the steps of a job are synthetic.

    Then numbers of a writer in a run lie too far apart, or they begin behind the dataset of a restart.
    """
    numbers = sorted(number for whole in events.whole_steps.values() for number in whole.numbers)
    if max(map(sub, numbers[1:], numbers), default=0) < LEAP:
        read = {each.dataset for each in events.others if isinstance(each, RestartCompleted) and each.valid}
        return any(dataset and numbers[:1] == [(dataset << _DATASET_BITS) + 1] for dataset in read)
    last: dict[str, int] = {}
    for event in events:
        if isinstance(event, StepCompleted):
            if abs(event.step - last.get(event.writer, event.step)) >= LEAP:
                return True
            last[event.writer] = event.step
        elif isinstance(event, _BEGINS) or (
            isinstance(event, (Interval, IntervalEnded)) and event.kind == _RESTORE
        ):
            last.clear()
    return False
