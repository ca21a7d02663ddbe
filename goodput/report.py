"""What a report of a job shows: its account over time, its events in lanes, its steps and its checkpoints.

A long job is thinned out here, so that what shows it need not care: what lies closer together than a pixel is
one bar, and every bar says how many events it stands for.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TypeVar

import msgspec
import numpy as np

from . import buckets
from .checkpoint_cost import CheckpointCost
from .events import GoodputEvent, OutputCompleted
from .ledger.ledger import Account, Ledger, Window
from .report_lanes import BARS, STEPS, Disruption, Lane, disruptions, lanes, runs_of
from .steps.estimators import deviations_s, ideal_s
from .steps.facts import Straggler
from .steps.summary import stragglers_of
from .steps.table import StepRows, StepTable, step_table
from .synthetic_steps import are_synthetic

_T = TypeVar("_T")

SLICES = 240
"""Parts of the job's time whose buckets are told one by one."""
WORK = "work between outputs"
"""The lane of an application that tells of no steps."""
POINTS = 400
"""Most steps, or checkpoints, that are told one by one."""
_PERCENTILES = (5, 50, 95, 99)


class StepPoint(msgspec.Struct, frozen=True):
    """`count` step times from number `step` on: median, 5 % and 95 % quantile, and most of what one took."""

    time_s: float
    step: int
    median_s: float
    low_s: float
    high_s: float
    most_s: float
    count: int = 1


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """What the job's steps took; of several ranks' word on one step the slowest counts.

    `ideal_s` is what one should take (:func:`.estimators.ideal_s`), `deviation_s` how far they are from that,
    on average. `no_stragglers` says why it cannot be told which ranks hold the others up. `bins` are the
    edges of the histogram (s), `heights` its counts: `beyond` steps lie behind the last edge and are in the
    last bin.
    """

    count: int
    mean_s: float
    ideal_s: float
    deviation_s: float
    stragglers: tuple[Straggler, ...]
    no_stragglers: str
    percentiles_s: dict[int, float]
    most_s: float
    points: tuple[StepPoint, ...]
    bins: tuple[float, ...]
    heights: tuple[int, ...]
    beyond: int


class CostPoint(msgspec.Struct, frozen=True):
    """Mean of `count` checkpoints from `dataset` on: seconds by bucket, and when the first began."""

    time_s: float
    dataset: int
    parts: dict[str, float]
    count: int = 1

    @property
    def cost_s(self) -> float:
        """What one cost."""
        return sum(self.parts.values())


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown of one job.

    `slices` are windows of the ledger, which add up to the account: what is estimated for the whole job, like
    the slowdown by flushes, is spread over it there; what steps took beyond a reference is each slice's own,
    and no less than 0, so that it may add up to more. `costs` are of the checkpoints whose cost is known.
    `events` are the entries that were read. Where not `tells_steps` the account's steps are the work between
    outputs of an application that tells of none (:mod:`.synthetic_steps`), and there are no `steps`. A halt
    that was planned is no disruption.
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

    @property
    def start_s(self) -> float:
        """When the job began, epoch seconds."""
        return self.account.start_s

    @property
    def checkpoints(self) -> int:
        """How many checkpoints `costs` are of."""
        return sum(point.count for point in self.costs)

    @property
    def resolution_s(self) -> float:
        """What lies closer together may be one bar."""
        return self.account.wall_s / BARS


def report(  # noqa: PLR0913 - what it is made of
    job_name: str,
    events: Sequence[GoodputEvent],
    ledger: Ledger,
    now: float,
    costs: Sequence[CheckpointCost],
    *,
    reference_step_s: float | None = None,
    read: int | None = None,
) -> Report:
    """What there is to show of a job until `now` (epoch seconds); `events` as they came.

    `read` is how many entries they were made of, if that is another number.
    """
    account = ledger.account(now, reference_step_s=reference_step_s)
    edges = [account.start_s + account.wall_s * each / SLICES for each in range(SLICES + 1)]
    slices = tuple(
        ledger.window(start_s, end_s, now, reference_step_s=reference_step_s)
        for start_s, end_s in pairwise(edges)
    )
    steps, runs, tells_steps = step_table(events), runs_of(events), not are_synthetic(events)
    wasted = ledger.are_wasted(steps.job.start_s.tolist(), steps.job.number.tolist())
    shown = tuple(lanes(events, steps.job, wasted, runs, account.wall_s / BARS))
    return Report(
        job_name=job_name,
        account=account,
        slices=slices if account.wall_s > 0 else (),
        lanes=shown if tells_steps else tuple(map(_as_work, shown)),
        disruptions=tuple(disruptions(events, runs)),
        steps=_steps(steps) if tells_steps else None,
        costs=tuple(_cost_points(costs, events)),
        events=len(events) if read is None else read,
        tells_steps=tells_steps,
    )


def _as_work(lane: Lane) -> Lane:
    """A lane without the numbers of steps that are none."""
    if lane.name not in (STEPS, buckets.WASTED_PROGRESS):
        return lane
    bars = tuple(msgspec.structs.replace(bar, label="") for bar in lane.bars)
    return msgspec.structs.replace(lane, name=WORK if lane.name == STEPS else lane.name, bars=bars)


def _steps(table: StepTable) -> Steps | None:
    took = table.job.times_s
    ideal = ideal_s(took)
    if ideal is None:
        return None
    percentiles = dict(zip(_PERCENTILES, np.percentile(took, _PERCENTILES).tolist(), strict=True))
    found, no_stragglers = stragglers_of(table)
    # the few that take many times as long would leave all others in one bin
    limit = min(float(took.max()), max(1.3 * percentiles[50], 1.15 * percentiles[99]))
    shown = np.minimum(took, limit)
    heights, edges = np.histogram(shown, bins=min(48, max(8, int(np.sqrt(len(took))) * 2)))
    return Steps(
        count=table.job.total,
        mean_s=float(took.mean()),
        ideal_s=ideal,
        deviation_s=float(deviations_s(took, ideal).mean()),
        stragglers=found,
        no_stragglers=no_stragglers,
        percentiles_s=percentiles,
        most_s=float(took.max()),
        points=tuple(_step_points(table.job)),
        bins=tuple(edges.tolist()),
        heights=tuple(heights.tolist()),
        beyond=int((took > limit).sum()),
    )


def _step_points(rows: StepRows) -> Iterator[StepPoint]:
    for part in _grouped(range(len(rows.number))):
        first, took = part[0], rows.took_s[part[0] : part[-1] + 1]
        low_s, middle_s, high_s = np.percentile(took, (5, 50, 95)).tolist()
        start_s, step = float(rows.start_s[first]), int(rows.number[first])
        yield StepPoint(start_s, step, middle_s, low_s, high_s, float(took.max()), len(part))


def _cost_points(costs: Sequence[CheckpointCost], events: Iterable[GoodputEvent]) -> Iterator[CostPoint]:
    starts: dict[int, list[float]] = {}
    for event in events:
        if isinstance(event, OutputCompleted):
            starts.setdefault(event.dataset, []).append(event.start_s)

    def start_of(cost: CheckpointCost) -> float:  # later runs may count their datasets anew
        known = [start_s for start_s in starts.get(cost.dataset, ()) if start_s <= cost.time_s]
        return max(known, default=cost.time_s - cost.blocking_s)

    for part in _grouped(sorted(costs, key=lambda cost: cost.time_s)):
        rows = [_cost_parts(cost) for cost in part]
        parts = {name: fmean(row[name] for row in rows) for name in rows[0]}
        yield CostPoint(start_of(part[0]), part[0].dataset, parts, len(part))


def _cost_parts(cost: CheckpointCost) -> dict[str, float]:
    parts = {
        buckets.CHECKPOINT_WRITE: cost.write_s,
        buckets.CHECKPOINT_ENCODE: cost.encode_s,
        buckets.CHECKPOINT_FLUSH: cost.blocked_on_flush_s,
        buckets.CHECKPOINT_WAIT: cost.wait_s,
    }
    total_s = sum(parts.values())
    share = min(1.0, cost.blocking_s / total_s) if total_s else 0.0
    parts = {name: part_s * share for name, part_s in parts.items()}
    parts[buckets.CHECKPOINT_OTHER] = max(0.0, cost.blocking_s - sum(parts.values()))
    parts[buckets.FLUSH_SLOWDOWN] = max(0.0, cost.slowdown_s)
    return parts


def _grouped(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    size = max(1, -(-len(items) // POINTS))
    for index in range(0, len(items), size):
        yield items[index : index + size]
