"""The slowdown by flushes in the slices of time in which it happened.

The ledger charges it to the job as a whole, and spreads it over all steps. Here each slice gets what its own
flushes took, as far as it has steps; all slices together keep what the ledger has.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from .account import Window
from .buckets import FLUSH_SLOWDOWN, PRODUCTIVE
from .checkpoint_cost import CheckpointCost
from .events import FlushCompleted, GoodputEvent


class SlowedSteps(NamedTuple):
    """What the flush from `start_s` to `end_s` (epoch seconds) took from the steps, in seconds."""

    start_s: float
    end_s: float
    took_s: float


def flush_slowdowns(costs: Iterable[CheckpointCost], events: Iterable[GoodputEvent]) -> Iterator[SlowedSteps]:
    """Yield what the flush of each checkpoint took from the steps, if anything, and when."""
    flushes: dict[int, list[FlushCompleted]] = defaultdict(list)
    for event in events:
        if isinstance(event, FlushCompleted):
            flushes[event.dataset].append(event)
    for cost in costs:
        if cost.slowdown_s > 0:  # later runs may count their datasets anew: the flush that is nearest
            its = flushes.get(cost.dataset, ())
            flush = min(its, key=lambda flush: abs(flush.end_s - cost.time_s), default=None)
            start_s, end_s = (
                (flush.start_s, flush.end_s) if flush else (cost.time_s - cost.flush_s, cost.time_s)
            )
            yield SlowedSteps(start_s, end_s, cost.slowdown_s)


def placed_slowdown(slices: Sequence[Window], found: Iterable[SlowedSteps]) -> tuple[Window, ...]:
    """Return `slices`, which follow each other, with the slowdown that they have together as it was `found`.

    A slice cannot have more than the steps in it took; what does not fit goes to all others, as before.
    """
    spread = np.array([each.buckets[FLUSH_SLOWDOWN] for each in slices])
    room = spread + [each.buckets[PRODUCTIVE] for each in slices]
    edges = np.array([*(each.start_s for each in slices), slices[-1].end_s])
    wanted = np.zeros(len(slices))
    for each in found:
        length_s = max(each.end_s - each.start_s, 1e-9)
        wanted += each.took_s * np.diff(np.clip((edges - each.start_s) / length_s, 0.0, 1.0))
    total_s, wanted_s = float(spread.sum()), float(wanted.sum())
    if total_s <= 0 or wanted_s <= 0:
        return tuple(slices)
    placed = np.minimum(wanted * total_s / wanted_s, room)
    left = room - placed
    placed += left * (total_s - float(placed.sum())) / max(float(left.sum()), 1e-9)
    return tuple(
        msgspec.structs.replace(
            each, buckets={**each.buckets, FLUSH_SLOWDOWN: took_s, PRODUCTIVE: has_s - took_s}
        )
        for each, took_s, has_s in zip(slices, placed.tolist(), room.tolist(), strict=True)
    )
