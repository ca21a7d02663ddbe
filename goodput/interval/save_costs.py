"""What checkpoints cost, also of writers that know nothing of SCR: they only say when they were saving."""

from collections.abc import Iterable
from itertools import pairwise
from math import inf
from operator import itemgetter

from ..checkpoint_cost import CheckpointCost, CheckpointCosts
from ..events import GoodputEvent, OutputCompleted
from ..job_events import JobEvents
from ..ledger.launches import run_starts
from ..validation import span

_SAVE = "checkpoint_save"


def costs_of(events: JobEvents) -> list[CheckpointCost]:
    """What each checkpoint cost; of writers that know nothing of SCR, each save."""
    return _costs_of_outputs(events) or costs_of_saves(events)


def _costs_of_outputs(events: JobEvents) -> list[CheckpointCost]:
    if not any(type(event) is OutputCompleted for event in events.others):
        return []
    timeline: list[tuple[float, float, GoodputEvent | None]] = [
        (end_s, start_s, None)
        for whole in events.whole_steps.values()
        for start_s, end_s in zip(whole.starts_s, whole.ends_s, strict=True)
    ]
    timeline += [(span(event)[1], 0.0, event) for event in events.others]
    costs = CheckpointCosts()
    found: list[CheckpointCost] = []
    for end_s, start_s, event in sorted(timeline, key=itemgetter(0)):
        found += costs.step(start_s, end_s) if event is None else costs.handle(event)
    return found + costs.ended()


def costs_of_saves(events: JobEvents) -> list[CheckpointCost]:
    """What each save blocked. Saves that overlap, of several ranks or one inside the other, are one.

    A save that has no end says nothing and is left out; so is what passed between two runs.
    """
    from ..ledger.pairing import whole_intervals  # noqa: PLC0415 - numpy: who has no saves shall not pay for it

    saves = _united((each.start_s, each.end_s) for each in whole_intervals(events, {_SAVE}))
    runs = run_starts(events) if saves else []
    costs: list[CheckpointCost] = []
    for (before_s, _), (start_s, end_s) in pairwise([(inf, inf), *saves]):
        is_first = before_s == inf or any(before_s < run_s <= start_s for run_s in runs)
        costs.append(
            CheckpointCost(
                dataset=len(costs) + 1,
                generation=0,
                time_s=end_s,
                blocking_s=end_s - start_s,
                interval_s=0.0 if is_first else start_s - before_s,
            )
        )
    return costs


def _united(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    united: list[tuple[float, float]] = []
    for start_s, end_s in sorted(intervals):
        if united and start_s <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end_s))
        elif end_s > start_s:
            united.append((start_s, end_s))
    return united
