"""Step times, their deviation and the slices in use, by the rules of ml-goodput-measurement 0.2.3."""

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

import numpy as np
from numpy.typing import ArrayLike

from ..events import GoodputEvent, SlicesObserved, StepCompleted, StepStarted
from ..steps.estimators import Seconds, deviations_s, peers_ideal_s
from ..yield_hook import YieldHook, never_yield
from .rules import CompatError

_PIECE = 16_384


class CompatStepTimes:
    """How long each step took: from its begin to that of the next number, if that is what came next."""

    def __init__(self) -> None:
        self.times_s: dict[int, float] = {}
        self.seen = 0
        self._last: tuple[int, float] | None = None

    def extend(self, events: Iterable[GoodputEvent]) -> None:
        """Take in the next events."""
        told = [event for event in events if type(event) is StepStarted or type(event) is StepCompleted]
        self.seen += len(told)
        steps = [event.step for event in told]
        times_s = [event.time_s if isinstance(event, StepStarted) else event.start_s for event in told]
        if self._last is not None:
            steps.insert(0, self._last[0])
            times_s.insert(0, self._last[1])
        self.times_s |= {
            step: until_s - from_s
            for step, later, from_s, until_s in zip(steps, steps[1:], times_s, times_s[1:], strict=False)
            if later == step + 1
        }
        if steps:
            self._last = (steps[-1], times_s[-1])


def compat_step_deviation(
    times_s: dict[int, float], ideal_step_time_s: float | None = None
) -> tuple[float, dict[int, float]]:
    """The ideal step time, and how far each step is from it; both in seconds.

    Raises :class:`CompatError` if there are no step times, or none that an ideal can be made of.
    """
    if not times_s:
        raise CompatError("no step times: no step was followed by the one with the next number")
    told_s = list(times_s.values())
    ideal_s = _ideal_s(told_s, ideal_step_time_s)
    return ideal_s, dict(zip(times_s, deviations_s(told_s, ideal_s).tolist(), strict=True))


def compat_deviations_from(
    first: int,
    times_s: dict[int, float],
    ideal_step_time_s: float | None = None,
    yield_hook: YieldHook = never_yield,
) -> tuple[list[int], Seconds]:
    """The same, but for the `first` steps of `times_s`, as columns, and in pieces: steps and deviations."""
    new = len(times_s) - first
    if new <= 0:
        return [], np.empty(0)
    steps = list(islice(reversed(times_s), new))[::-1]
    columns: list[Seconds] = []
    values = iter(times_s.values())
    for begin in range(0, len(times_s), _PIECE):
        size = min(_PIECE, len(times_s) - begin)
        columns.append(np.fromiter(islice(values, size), dtype=np.float64, count=size))
        yield_hook()
    told_s = np.concatenate(columns)
    ideal_s = _ideal_s(told_s, ideal_step_time_s)
    return steps, deviations_s(told_s[first:], ideal_s)


def _ideal_s(times_s: ArrayLike, configured_s: float | None) -> float:
    ideal_s = peers_ideal_s(times_s) if configured_s is None else configured_s
    if not ideal_s:
        raise CompatError(
            "no ideal step time: by this policy a step must last a second; pass configured_ideal_step_time"
        )
    return ideal_s


def slice_efficiency(
    events: Iterable[GoodputEvent], start_s: float, end_s: float
) -> tuple[float, float] | None:
    """Active and available slices as shares of all, 0 to 1: means over the time from `start_s` to `end_s`.

    Before the first observation nothing is active. None if `events` tell of no slices.
    """
    seen = sorted(
        (event for event in events if isinstance(event, SlicesObserved)), key=lambda event: event.time_s
    )
    if not seen:
        return None
    if end_s <= start_s:
        return 0.0, 0.0
    before = [slices for slices in seen if slices.time_s <= start_s][-1:]
    during = before + [slices for slices in seen if start_s < slices.time_s < end_s]
    times_s = [max(slices.time_s, start_s) for slices in during] + [end_s]
    shares = [(max(slices.total, 1), slices) for slices in during]
    active = _mean([slices.active / total for total, slices in shares], times_s, end_s - start_s)
    available = _mean([slices.available / total for total, slices in shares], times_s, end_s - start_s)
    return active, available


def _mean(shares: Sequence[float], times_s: Sequence[float], total_s: float) -> float:
    spans_s = (until_s - from_s for from_s, until_s in pairwise(times_s))
    return sum(share * span_s for share, span_s in zip(shares, spans_s, strict=True)) / total_s
