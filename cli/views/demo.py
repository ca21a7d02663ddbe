"""What the demo measured: `scrtune demo`."""

from collections.abc import Sequence
from statistics import median

import msgspec
from typing_extensions import Self

from ...daemon.views import ExplainView, StatusView
from ...goodput.checkpoint_cost import CheckpointCost


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Median, least and most over `count` checkpoints; seconds, or a share."""

    count: int
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of `values`; all 0 if there are none."""
        if not values:
            return cls(count=0, median=0.0, least=0.0, most=0.0)
        return cls(count=len(values), median=median(values), least=min(values), most=max(values))


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the before/after table.

    `interval_goodput` is the share of each checkpoint interval that is left to compute, `goodput` the
    ledger's, over the whole run or over the checkpoints of this column.
    """

    name: str
    job_id: str
    blocking_s: Spread
    flush_s: Spread
    slowdown_s: Spread
    cost_s: Spread
    interval_goodput: Spread
    goodput: float

    @classmethod
    def of(cls, name: str, job_id: str, costs: Sequence[CheckpointCost], goodput: float) -> Self:
        """Return the column of checkpoints that cost `costs`."""
        return cls(
            name=name,
            job_id=job_id,
            blocking_s=Spread.of([cost.blocking_s for cost in costs]),
            flush_s=Spread.of([cost.flush_s for cost in costs]),
            slowdown_s=Spread.of([cost.slowdown_s for cost in costs]),
            cost_s=Spread.of([cost.cost_s for cost in costs]),
            interval_goodput=Spread.of(
                [1 - cost.cost_s / cost.interval_s for cost in costs if cost.interval_s > 0]
            ),
            goodput=goodput,
        )


class DemoView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole demo."""

    engine: str
    ranks: int
    columns: tuple[Column, ...]
    explain: ExplainView
    status: StatusView
    ratio: float
    helped: bool
    seconds: float
