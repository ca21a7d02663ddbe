"""What checkpoints cost, also of writers that know nothing of SCR: they only say when they were saving."""

from collections.abc import Iterable, Sequence

from ..checkpoint_cost import CheckpointCost, CheckpointCosts
from ..events import GoodputEvent, OutputCompleted
from ..ledger.launches import run_starts

_SAVE = "checkpoint_save"


def costs_of(events: Sequence[GoodputEvent]) -> list[CheckpointCost]:
    """What each checkpoint cost; of writers that know nothing of SCR, each save."""
    found: list[CheckpointCost] = []
    if any(type(event) is OutputCompleted for event in events):  # else a million steps need no look at each
        meter = CheckpointCosts()
        found = [cost for event in events for cost in meter.handle(event)]
        found += meter.ended()
    return found or costs_of_saves(events)


def costs_of_saves(events: Iterable[GoodputEvent]) -> list[CheckpointCost]:
    """What each save blocked. Saves that overlap, of several ranks or one inside the other, are one.

    A save that has no end says nothing and is left out; so is what passed between two runs.
    """
    from ..ledger.pairing import whole_intervals  # noqa: PLC0415 - numpy: who has no saves shall not pay for it

    costs: list[CheckpointCost] = []
    events = list(events)
    runs = run_starts(events)
    previous_s: float | None = None
    for start_s, end_s in _united((each.start_s, each.end_s) for each in whole_intervals(events, {_SAVE})):
        new_run = previous_s is None or any(previous_s < run_s <= start_s for run_s in runs)
        costs.append(
            CheckpointCost(
                dataset=len(costs) + 1,
                generation=0,
                time_s=end_s,
                blocking_s=end_s - start_s,
                interval_s=0.0 if new_run or previous_s is None else start_s - previous_s,
            )
        )
        previous_s = start_s
    return costs


def _united(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    united: list[tuple[float, float]] = []
    for start_s, end_s in sorted(intervals):
        if united and start_s <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end_s))
        elif end_s > start_s:
            united.append((start_s, end_s))
    return united
