"""The contents of a report on a job: its account over time, its events in lanes, its steps and checkpoints.

A long job is thinned out here, so that no display has to: every bar says how many events it stands for.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import fmean
from typing import TypeVar

import msgspec
import numpy as np

from . import buckets
from .checkpoint_cost import CheckpointCost
from .events import GoodputEvent, OutputCompleted
from .job_events import JobEvents, are_synthetic
from .ledger.ledger import Account, Ledger, Window
from .readers.launcher_log import EstimatedLoss, estimated_loss
from .report_lanes import BARS, Disruption, Lane, disruptions, lanes
from .steps.summary import StepSummary, step_summary
from .steps.table import StepTable, step_table

_T = TypeVar("_T")

SLICES = 240
"""Windows of time whose buckets are shown one by one."""
POINTS = 400
"""Most steps, or checkpoints, that are shown one by one."""
_PERCENTILES = (5, 50, 95, 99)
_PARTS = tuple(f"checkpoint_{part}" for part in ("write", "encode", "flush", "wait"))


class StepPoint(msgspec.Struct, frozen=True):
    """The times of `count` neighbouring steps: median, 5 % and 95 % quantile, and the longest."""

    time_s: float
    median_s: float
    low_s: float
    high_s: float
    most_s: float
    count: int = 1


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The step times of a job (s): in short, by percentiles, the longest, and over time."""

    summary: StepSummary
    percentiles_s: dict[int, float]
    most_s: float
    points: tuple[StepPoint, ...]


class CostPoint(msgspec.Struct, frozen=True):
    """The mean cost of `count` checkpoints from `dataset` on, by bucket (s), and the start of the first."""

    time_s: float
    dataset: int
    parts: dict[str, float]
    count: int = 1

    @property
    def cost_s(self) -> float:
        """The mean cost of one checkpoint."""
        return sum(self.parts.values())


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the report on one job.

    `slices` are windows of the ledger; what flushes took from the steps is where they did
    (:func:`placed_slowdown`). `costs` are of the checkpoints whose cost is known, `events` counts the entries
    read. Unless it `tells_steps`, the account counts the work between outputs. `estimated` is what of the
    account is an estimate.
    """

    job_name: str
    account: Account
    slices: tuple[Window, ...]
    lanes: tuple[Lane, ...]
    disruptions: tuple[Disruption, ...]
    steps: Steps | None
    costs: tuple[CostPoint, ...]
    events: int
    tells_steps: bool = True
    estimated: EstimatedLoss | None = None

    @property
    def spent(self) -> list[tuple[str, float]]:
        """The buckets of the account with their seconds, largest first."""
        return sorted(self.account.buckets.items(), key=lambda item: -item[1])

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints that `costs` are of."""
        return sum(point.count for point in self.costs)

    @property
    def cost_parts(self) -> dict[str, float]:
        """The cost of all these checkpoints by bucket, in seconds."""
        names = self.costs[0].parts if self.costs else ()
        return {name: sum(point.parts[name] * point.count for point in self.costs) for name in names}


def report(  # noqa: PLR0913 - the parts of a job
    job_name: str,
    events: JobEvents,
    ledger: Ledger,
    now: float,
    costs: Sequence[CheckpointCost],
    *,
    reference_step_s: float | None = None,
    read: int | None = None,
    by_number: bool = False,
) -> Report:
    """Return the report on a job until `now` (epoch seconds); `read` log entries are behind the events."""
    account = ledger.account(now, reference_step_s=reference_step_s)
    edges = [account.start_s + account.wall_s * each / SLICES for each in range(SLICES + 1)]
    slices = [
        ledger.window(start_s, end_s, now, reference_step_s=reference_step_s)
        for start_s, end_s in pairwise(edges)
    ]
    steps, has_steps = step_table(events, by_number=by_number), not are_synthetic(events)
    wasted = ledger.are_wasted(steps.job.start_s.tolist(), steps.job.number.tolist())
    return Report(
        job_name=job_name,
        account=account,
        slices=placed_slowdown(slices, costs) if account.wall_s > 0 else (),
        lanes=tuple(lanes(events, steps.job, wasted, account.wall_s / BARS, has_steps=has_steps)),
        disruptions=tuple(disruptions(events)),
        steps=_steps(steps, events) if has_steps else None,
        costs=tuple(_cost_points(costs, events.others)),
        events=len(events) if read is None else read,
        tells_steps=has_steps,
        estimated=estimated_loss(events),
    )


def _steps(table: StepTable, events: JobEvents) -> Steps | None:
    rows = table.job
    if (summary := step_summary(events, table=table)) is None:
        return None
    *shares_s, most_s = np.percentile(rows.times_s, (*_PERCENTILES, 100)).tolist()
    points = []
    for starts_s, took_s in zip(
        *(_grouped(each.tolist()) for each in (rows.start_s, rows.took_s)), strict=True
    ):
        median_s, low_s, high_s, longest_s = np.percentile(took_s, (50, 5, 95, 100)).tolist()
        points.append(StepPoint(starts_s[0], median_s, low_s, high_s, longest_s, len(took_s)))
    percentiles_s = dict(zip(_PERCENTILES, shares_s, strict=True))
    return Steps(summary=summary, percentiles_s=percentiles_s, most_s=most_s, points=tuple(points))


def _cost_points(costs: Sequence[CheckpointCost], events: Iterable[GoodputEvent]) -> Iterator[CostPoint]:
    starts: dict[int, list[float]] = defaultdict(list)
    for event in events:
        if isinstance(event, OutputCompleted):
            starts[event.dataset].append(event.start_s)
    for part in _grouped(sorted(costs, key=attrgetter("time_s"))):
        first, rows = part[0], [_cost_parts(cost) for cost in part]
        # later runs may count their datasets anew
        known = (start_s for start_s in starts[first.dataset] if start_s <= first.time_s)
        start_s = max(known, default=first.time_s - first.blocking_s)
        parts = {name: fmean(row[name] for row in rows) for name in rows[0]}
        yield CostPoint(start_s, first.dataset, parts, len(part))


def _cost_parts(cost: CheckpointCost) -> dict[str, float]:
    parts_s = (cost.write_s, cost.encode_s, cost.blocked_on_flush_s, cost.wait_s)
    share = min(1.0, cost.blocking_s / sum(parts_s)) if sum(parts_s) else 0.0
    parts = {name: part_s * share for name, part_s in zip(_PARTS, parts_s, strict=True)}
    parts[buckets.CHECKPOINT_OTHER] = max(0.0, cost.blocking_s - sum(parts.values()))
    parts[buckets.FLUSH_SLOWDOWN] = max(0.0, cost.slowdown_s)
    return parts


def _grouped(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    size = max(1, -(-len(items) // POINTS))
    return (items[index : index + size] for index in range(0, len(items), size))


def placed_slowdown(slices: Sequence[Window], costs: Iterable[CheckpointCost]) -> tuple[Window, ...]:
    """Return `slices`, which follow each other, with the slowdown that they have together where flushes were.

    A slice cannot have more than the steps in it took; what does not fit goes to all others.
    """
    spread = np.array([each.buckets[buckets.FLUSH_SLOWDOWN] for each in slices])
    room = spread + [each.buckets[buckets.PRODUCTIVE] for each in slices]
    edges = np.array([*(each.start_s for each in slices), slices[-1].end_s])
    wanted = np.zeros(len(slices))
    for cost in costs:
        share = np.clip((edges - cost.time_s) / max(cost.flush_s, 1e-9) + 1, 0.0, 1.0)
        wanted += max(0.0, cost.slowdown_s) * np.diff(share)
    total_s, wanted_s = float(spread.sum()), float(wanted.sum())
    if total_s <= 0 or wanted_s <= 0:
        return tuple(slices)
    placed = np.minimum(wanted * total_s / wanted_s, room)
    left = room - placed
    placed += left * (total_s - float(placed.sum())) / max(float(left.sum()), 1e-9)
    return tuple(
        msgspec.structs.replace(
            each, buckets={**each.buckets, buckets.FLUSH_SLOWDOWN: took_s, buckets.PRODUCTIVE: has_s - took_s}
        )
        for each, took_s, has_s in zip(slices, placed.tolist(), room.tolist(), strict=True)
    )
