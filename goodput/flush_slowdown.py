"""What a flush takes from the steps beside it: how much longer they are than those without one."""

from collections import deque
from collections.abc import Collection, Iterable
from itertools import pairwise
from math import inf, sqrt
from statistics import fmean, median
from typing import NamedTuple

from .between_outputs import WAITING_DOUBT, BetweenOutputs
from .events import FlushCompleted, OutputCompleted

_RECENT = 1024
_REFERENCE_STEPS = 256
_HICCUP = 3.0
_REFERENCE_INTERVALS = 12
_FEW_STEPS, _MANY_STEPS, _FEW_INTERVALS = 4, 16, 3
_UNKNOWN_SHARE = 0.1
"""SD by which steps of one interval may be longer than those of another, before three intervals are known."""
_MEDIAN_DIFFERENCE, _MEAN_DIFFERENCE = 0.954, 1.128
"""Of the absolute difference of two draws with SD 1: 0.6745 x sqrt(2), and 2 / sqrt(pi)."""
_OF_A_MEDIAN = 1.25
"""Times the error of a mean: sqrt(pi / 2), of what is distributed normally."""
_SHORTEST_S = 1e-9


class EndedFlush(NamedTuple):
    """A flush that has ended, what it took from the steps beside it, the SD of that, and of its reference."""

    flush: FlushCompleted
    slowdown_s: float
    error_s: float
    reference_error_s: float


class _Stretch(NamedTuple):
    """Steps that follow each other: `busy_s` is their time together."""

    start_s: float
    end_s: float
    busy_s: float
    steps: int = 1

    def overlap_s(self, flush: FlushCompleted) -> float:
        return max(0.0, min(self.end_s, flush.end_s) - max(self.start_s, flush.start_s))

    def excess_s(self, flush: FlushCompleted, reference_s: float) -> float:
        """Faster than the reference is a credit: noise must cancel out over the steps of a flush."""
        together_s = self.overlap_s(flush)
        return max(-together_s, min(together_s, self.busy_s - self.steps * reference_s))

    def joined(self, later: "_Stretch") -> "_Stretch":
        start_s, end_s = min(self.start_s, later.start_s), max(self.end_s, later.end_s)
        return _Stretch(start_s, end_s, self.busy_s + later.busy_s, self.steps + later.steps)


class _Reference(NamedTuple):
    """What a step takes without a flush beside it, with its standard error."""

    step_s: float
    error_s: float


class FlushSlowdown:
    """How much longer the recent steps of a job took while a flush was under way.

    A flush is announced when it starts and measured when it has ended, for its true end is only known later.
    Where (nearly) every step is beside a flush, what they take without is what is left when rank 0 does not
    wait for a core. Memory is bounded: beside thousands of steps, neighbouring ones are remembered as one
    stretch.
    """

    def __init__(self) -> None:
        self._recent: list[_Stretch] = []
        self._undisturbed: deque[float] = deque(maxlen=_REFERENCE_STEPS)
        self._intervals: deque[_Stretch] = deque(maxlen=_REFERENCE_INTERVALS)
        """The undisturbed steps between the last outputs."""
        self._whole: deque[_Stretch] = deque(maxlen=_REFERENCE_INTERVALS)
        """All steps between these."""
        self._unjudged: deque[_Stretch] = deque(maxlen=_REFERENCE_STEPS)
        self._running: dict[int, float] = {}
        self.between = BetweenOutputs()
        """What rank 0 told of the time between outputs."""

    def add(self, start_s: float, end_s: float) -> None:
        """Take a step in. While a flush may be running it waits for that flush's verdict."""
        step = _Stretch(start_s, end_s, max(0.0, end_s - start_s))
        self._remember(step)
        if self._whole:
            self._whole[-1] = self._whole[-1].joined(step)
        if self._running:
            self._unjudged.append(step)
        else:
            self._is_undisturbed(step)

    def is_within(self, time_s: float) -> bool:
        """Return whether `time_s` lies within a step that has not ended yet, as far as steps are known."""
        return bool(self._recent) and self._recent[-1].end_s < time_s

    @property
    def reference(self) -> _Reference | None:
        """What the last steps took without a flush beside them, or without a wait for a core; None: unknown.

        Of many it is the mean, in which a hiccup counts as three medians; of few the median of the later
        half, for a job's first steps are slow as a rule, and no surer than waits for a core agree with it.
        """
        known = self._undisturbed
        if len(known) >= _MANY_STEPS:
            limit_s = _HICCUP * median(known)
            error_s = _scatter_s(known) / sqrt(len(known))
            return _Reference(fmean(min(each, limit_s) for each in known), error_s)
        told = self._unhindered()
        if len(known) < _FEW_STEPS:
            return told or (_Reference(median(known), inf) if known else None)
        later = list(known)[len(known) // 2 :]
        step_s, error_s = median(later), _OF_A_MEDIAN * _scatter_s(later) / sqrt(len(later))
        return _Reference(step_s, max(error_s, abs(told.step_s - step_s) / 2 if told else 0.0))

    def _unhindered(self) -> _Reference | None:
        """Return what the steps of the last gaps took, less the share that rank 0 waited for a core."""
        gaps, waited = self.between.gaps, self.between.waiting_share
        steps = [each for each in self._recent if gaps and each.start_s >= gaps[0].start_s]
        if not steps:
            return None
        usual_s = sum(each.busy_s for each in steps) / sum(each.steps for each in steps)
        return _Reference(usual_s * (1 - waited), WAITING_DOUBT * waited * usual_s)

    def output(self, output: OutputCompleted) -> None:
        """Take an output in, of whatever kind: an interval ends, and another begins."""
        self.between.add(output)
        for intervals in (self._intervals, self._whole):
            if not intervals or intervals[-1].steps:
                intervals.append(_Stretch(output.end_s, output.end_s, 0.0, 0))

    def flush_started(self, dataset: int, start_s: float) -> None:
        """From now on steps may be disturbed by the flush of `dataset`: SCR runs one at a time."""
        self._running = {dataset: start_s}

    def flush_completed(self, flush: FlushCompleted) -> EndedFlush:
        """Return `flush` with the seconds that the steps beside it took longer, at most while both ran."""
        self._running.pop(flush.dataset, None)
        reference, slowdown_s = self.reference, 0.0
        errors_s = self._errors_s(flush, reference)
        if reference is not None:
            beside = [s for s in self._recent if s.end_s > flush.start_s and s.start_s < flush.end_s]
            slowdown_s = sum((each.excess_s(flush, reference.step_s) for each in beside), 0.0)
        self._judge(flush)
        return EndedFlush(flush, slowdown_s, *errors_s)

    def _errors_s(self, flush: FlushCompleted, reference: _Reference | None) -> tuple[float, float]:
        """Return the SD of the estimate for `flush`, and of its reference: of few steps it may be all wrong.

        Slowly growing steps do not scatter, neighbours do. Steps of one interval may be alike that of others
        are not: phases of a solver, or what other jobs do.
        """
        is_known = len(self._undisturbed) >= _FEW_STEPS
        steps = self._undisturbed if is_known else [each.busy_s / each.steps for each in self._recent]
        if len(steps) < _FEW_STEPS:
            return flush.flush_s, 0.0
        beside = flush.flush_s / max(_SHORTEST_S, fmean(steps)) + 1
        error_s = max(_scatter_s(steps) * sqrt(beside), beside * self._between_intervals_s(fmean(steps)))
        return error_s, min(flush.flush_s, beside * reference.error_s) if reference else flush.flush_s

    def _between_intervals_s(self, step_s: float) -> float:
        """Return the SD between intervals of undisturbed steps, which take `step_s` on the mean.

        Of fewer than three intervals with any it is that of all steps, by the median, for what a flush takes
        from them changes with the settings; of fewer than three in all it is a tenth.
        """
        means_s = [each.busy_s / each.steps for each in self._intervals if each.steps]
        if len(means_s) >= _FEW_INTERVALS:
            return fmean(_differences_s(means_s)) / _MEAN_DIFFERENCE
        means_s = [each.busy_s / each.steps for each in self._whole if each.steps]
        return _scatter_s(means_s) if len(means_s) >= _FEW_INTERVALS else _UNKNOWN_SHARE * step_s

    def _is_undisturbed(self, step: _Stretch) -> None:
        self._undisturbed.append(step.busy_s)
        if self._intervals:
            self._intervals[-1] = self._intervals[-1].joined(step)

    def _remember(self, step: _Stretch) -> None:
        if len(self._recent) >= _RECENT:
            if self._running:
                self._recent = list(map(_Stretch.joined, self._recent[::2], self._recent[1::2]))
            else:
                del self._recent[: _RECENT // 2]
        self._recent.append(step)

    def _judge(self, flush: FlushCompleted) -> None:
        """Steps that waited for `flush` and turn out undisturbed count for the reference again."""
        for _ in range(len(self._unjudged)):
            if (step := self._unjudged.popleft()).overlap_s(flush) > 0:
                continue
            if any(step.end_s > start_s for start_s in self._running.values()):
                self._unjudged.append(step)
            else:
                self._is_undisturbed(step)


def _scatter_s(seconds: Collection[float]) -> float:
    return median(_differences_s(seconds)) / _MEDIAN_DIFFERENCE


def _differences_s(seconds: Iterable[float]) -> list[float]:
    return [abs(b - a) for a, b in pairwise(seconds)]
