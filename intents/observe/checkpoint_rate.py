"""Intent 10 of the LLNL study: how often checkpoints come, what one takes, and how often the job fails."""

from collections import deque
from statistics import fmean

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.interval.failures import Failures
from ...units import count_text
from ...units import rounded_duration_text as _time
from ..intent import Evidence, Intent

_REMEMBERED = 256


class CheckpointRate(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The distribution of the seconds from one checkpoint's start to the next one's, under any settings.

    `cost_s` is the mean of what one took from the job (blocking and slowdown); `failures` are those seen in
    `observed_s` of running.
    """

    title, number = "checkpoint rate", 10

    evidence: Evidence = Evidence()
    p10_s: float = 0.0
    median_s: float = 0.0
    p90_s: float = 0.0
    cost_s: float = 0.0
    failures: int = 0
    observed_s: float = 0.0

    def _text(self) -> str:
        failed = f"{count_text(self.failures, 'failure')} in {_time(self.observed_s)}"
        if not self.evidence.count:
            return f"no two checkpoints yet; {failed}"
        return (
            f"one every {_time(self.median_s)} (p10 {_time(self.p10_s)}, p90 {_time(self.p90_s)}), which"
            f" takes {self.cost_s:.3f} s; {failed}"
        )


class CheckpointRateObserver:
    """Collects the last 256 checkpoints."""

    def __init__(self) -> None:
        self._costs: deque[CheckpointCost] = deque(maxlen=_REMEMBERED)

    def add(self, cost: CheckpointCost) -> None:
        """Take in one checkpoint."""
        if cost.interval_s > 0:
            self._costs.append(cost)

    def observe(self, failures: Failures) -> CheckpointRate:
        """Return the intent, with the `failures` of the job so far."""
        seen = CheckpointRate(failures=failures.total, observed_s=failures.observed_s)
        if not self._costs:
            return seen
        intervals_s = sorted(cost.interval_s for cost in self._costs)
        last = len(intervals_s) - 1
        p10_s, median_s, p90_s = (intervals_s[round(share * last)] for share in (0.1, 0.5, 0.9))
        start_s, end_s = self._costs[0].time_s, self._costs[-1].time_s
        source = "the application's checkpoints"
        return msgspec.structs.replace(
            seen,
            evidence=Evidence(count=last + 1, window_s=end_s - start_s, end_s=end_s, source=source),
            p10_s=p10_s,
            median_s=median_s,
            p90_s=p90_s,
            cost_s=fmean(cost.cost_s for cost in self._costs),
        )
