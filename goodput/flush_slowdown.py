"""How much longer the steps of a job take while a flush runs beside them."""

from collections import deque
from itertools import pairwise
from math import sqrt
from statistics import fmean, median

import msgspec

from .events import FlushCompleted, StepCompleted

_REMEMBERED = 1024
_REFERENCE_STEPS = 256
_HICCUP = 3.0
_FEW_STEPS = 4
_MEDIAN_DIFFERENCE = 0.954
"""Median of the absolute difference of two draws with SD 1: 0.6745 x sqrt(2)."""
_SHORTEST_S = 1e-9


class _Stretch(msgspec.Struct, frozen=True):
    """Steps that follow each other: `busy_s` is their time together."""

    start_s: float
    end_s: float
    busy_s: float
    steps: int = 1

    def overlap_s(self, start_s: float, end_s: float) -> float:
        return max(0.0, min(self.end_s, end_s) - max(self.start_s, start_s))

    def joined(self, later: "_Stretch") -> "_Stretch":
        return _Stretch(
            min(self.start_s, later.start_s),
            max(self.end_s, later.end_s),
            self.busy_s + later.busy_s,
            self.steps + later.steps,
        )


class FlushSlowdown:
    """The recent steps of one job, told apart by whether a flush was under way.

    A flush is announced when it starts (:meth:`flush_started`) and measured when it ends
    (:meth:`flush_completed`), because its true end is only known later. Memory is bounded: of a flush that
    thousands of steps run beside, neighbouring steps are remembered as one stretch.
    """

    def __init__(self) -> None:
        self._recent: list[_Stretch] = []
        self._undisturbed: deque[float] = deque(maxlen=_REFERENCE_STEPS)
        self._unjudged: deque[_Stretch] = deque(maxlen=_REFERENCE_STEPS)
        self._running: dict[int, float] = {}

    def add(self, step: StepCompleted) -> None:
        """Take a step in. While a flush may be running it waits for that flush's verdict."""
        alone = _Stretch(step.start_s, step.end_s, max(0.0, step.end_s - step.start_s))
        self._remember(alone)
        if self._running:
            self._unjudged.append(alone)
        else:
            self._undisturbed.append(alone.busy_s)

    def is_within(self, time_s: float) -> bool:
        """Return whether `time_s` lies within a step that has not ended yet, as far as steps are known."""
        return bool(self._recent) and self._recent[-1].end_s < time_s

    @property
    def reference_s(self) -> float | None:
        """Mean of the last steps without a flush beside them; None when there were none.

        The mean, because only against it noise adds up to nothing, however skewed it is: against the median
        every flush would be charged for the slow steps that happen anyway. A hiccup counts as three medians.
        """
        if not self._undisturbed:
            return None
        limit_s = _HICCUP * median(self._undisturbed)
        return fmean(min(each, limit_s) for each in self._undisturbed)

    def error_s(self, flush: FlushCompleted) -> float:
        """Return the SD of the estimate for `flush`: of its steps, and of their reference.

        The scatter of steps is taken from neighbours: a job whose steps grow slowly longer does not scatter.
        """
        steps = self._undisturbed
        if len(steps) < _FEW_STEPS:
            return flush.flush_s
        scatter_s = median(abs(b - a) for a, b in pairwise(steps)) / _MEDIAN_DIFFERENCE
        beside = flush.flush_s / max(_SHORTEST_S, fmean(steps)) + 1
        return float(scatter_s * sqrt(beside + beside**2 / len(steps)))

    def flush_started(self, dataset: int, start_s: float) -> None:
        """From now on steps may be disturbed by the flush of `dataset`.

        SCR runs one flush at a time: an earlier one that was never reported as ended has ended unheard.
        """
        self._running = {dataset: start_s}

    def flush_completed(self, flush: FlushCompleted) -> float:
        """Seconds that the steps beside this flush took longer than the reference.

        The estimate is not biased, so that it falls below 0 now and then. A step's excess counts up to the
        time that it and the flush ran together.
        """
        self._running.pop(flush.dataset, None)
        reference_s = self.reference_s
        slowdown_s = 0.0
        if reference_s is not None:
            slowdown_s = sum(_excess_s(each, flush, reference_s) for each in self._recent)
        self._judge(flush)
        return slowdown_s

    def _remember(self, step: _Stretch) -> None:
        if len(self._recent) >= _REMEMBERED:
            if self._running:
                pairs = zip(self._recent[::2], self._recent[1::2], strict=True)
                self._recent = [first.joined(second) for first, second in pairs]
            else:
                del self._recent[: _REMEMBERED // 2]
        self._recent.append(step)

    def _judge(self, flush: FlushCompleted) -> None:
        """Steps that waited for `flush` and turn out undisturbed count for the reference again."""
        waiting = []
        for step in self._unjudged:
            if step.overlap_s(flush.start_s, flush.end_s) > 0:
                continue
            if any(step.end_s > start_s for start_s in self._running.values()):
                waiting.append(step)
            else:
                self._undisturbed.append(step.busy_s)
        self._unjudged = deque(waiting, maxlen=_REFERENCE_STEPS)


def _excess_s(stretch: _Stretch, flush: FlushCompleted, reference_s: float) -> float:
    """What is faster than the reference gives credit: noise must cancel out over the steps of a flush."""
    together_s = stretch.overlap_s(flush.start_s, flush.end_s)
    if together_s <= 0:
        return 0.0
    excess_s = stretch.busy_s - stretch.steps * reference_s
    return max(-together_s, min(together_s, excess_s))
