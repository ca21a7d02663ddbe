"""Arithmetic of the peer's rules over columns: segments, exclusions, step times and slices.

Times are epoch seconds, and spans seconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..events import GoodputEvent, SlicesObserved, StepCompleted, StepStarted
from ..job_events import JobEvents
from .goodput_utils import BadputTimes, BadputType
from .rules import CompatAccount, CompatError, Segment, Walk, complete, overlap, total_s

Seconds: TypeAlias = NDArray[np.float64]
Span: TypeAlias = tuple[float, float]

_SHORTEST_STEP_S = 1.0
_DEVIATIONS = 3.0


def spent(walk: Walk) -> tuple[float, BadputTimes, int, int]:
    """Return productive seconds, badput, the last step that counts and the last one recorded.

    Badput is in the order in which the peer comes to it.
    """
    badput_s: BadputTimes = {}
    customs = Customs(walk.customs)
    productive_s = 0.0
    for number, segment in enumerate(walk.segments):
        if walk.loaded_after == number:
            badput_s[BadputType.DATA_LOADING_SYNC] = walk.sync_loading_s
        productive_s += _close(segment, customs, badput_s)[0]
        if segment.recovery is not None:
            start_s, end_s = segment.recovery
            _add(badput_s, BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, end_s - start_s)
    if walk.loaded_after is not None:
        badput_s[BadputType.DATA_LOADING_SYNC] = walk.sync_loading_s
    save_s = _mean_by_name(walk.saves)
    badput_s |= {
        BadputType.TPU_INITIALIZATION: walk.paired_s.get("device_init", 0.0),
        BadputType.TRAINING_PREP: walk.paired_s.get("training_prep", 0.0),
        BadputType.DATA_LOADING_ASYNC: walk.loading_s - walk.sync_loading_s + walk.async_loading_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: save_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME: _mean_by_name(walk.restores),
    }
    if not walk.steps:
        return 0.0, badput_s, 0, 0
    latest = int(np.argmax(np.array(walk.steps)))
    last_step = walk.steps[latest]
    segment_s, max_step = _close(Segment(walk.steps, walk.times_s, last_step), customs, badput_s)
    productive_s += segment_s
    if walk.job_end_s is not None:
        productive_s += walk.job_end_s - walk.times_s[latest]
        max_step = last_step
    return productive_s - save_s, badput_s, max_step, last_step


class Customs:
    """Custom events as columns: each takes its time from the step it lies wholly inside of."""

    def __init__(self, customs: Sequence[tuple[float, float, str]]) -> None:
        self.start_s = np.array([custom[0] for custom in customs], dtype=float)
        self.end_s = np.array([custom[1] for custom in customs], dtype=float)
        self.names = sorted({custom[2] for custom in customs})
        numbers = {name: number for number, name in enumerate(self.names)}
        self.name_numbers = np.array([numbers[custom[2]] for custom in customs], dtype=int)
        self._by_start = np.argsort(self.start_s, kind="stable")
        self._sorted_start_s = self.start_s[self._by_start]

    def within(self, times_s: Seconds, counted: NDArray[np.bool_]) -> tuple[Seconds, dict[str, float]]:
        """Return seconds in each `counted` step (shape ``len(times_s) - 1``), and by name, as first met."""
        steps, customs = self._pairs(times_s)
        steps, customs = steps[counted[steps]], customs[counted[steps]]
        spent_s = self.end_s[customs] - self.start_s[customs]
        by_step_s = np.bincount(steps, weights=spent_s, minlength=len(counted))
        by_name_s = np.bincount(self.name_numbers[customs], weights=spent_s, minlength=len(self.names))
        met = self.name_numbers[customs[np.lexsort((customs, steps))]]
        return np.asarray(by_step_s, dtype=float), {
            self.names[number]: float(by_name_s[number]) for number in dict.fromkeys(met.tolist())
        }

    def _pairs(self, times_s: Seconds) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return which step (by position) holds which custom event."""
        if np.all(times_s[1:] >= times_s[:-1]):
            # only those that begin within these steps, or many disruptions would cost their product
            first, last = np.searchsorted(self._sorted_start_s, (times_s[0], times_s[-1]))
            customs = np.sort(self._by_start[first:last])
            steps = np.searchsorted(times_s, self.start_s[customs], side="right") - 1
            inside = self.end_s[customs] <= times_s[steps + 1]
            return steps[inside], customs[inside]
        # steps that run backwards may hold an event more than once
        held = [
            np.flatnonzero((times_s[:-1] <= start_s) & (end_s <= times_s[1:]))
            for start_s, end_s in zip(self.start_s, self.end_s, strict=True)
        ]
        none = np.empty(0, dtype=np.intp)
        return np.concatenate([none, *held]), np.repeat(np.arange(len(held)), [len(found) for found in held])


def _close(segment: Segment, customs: Customs, badput_s: BadputTimes) -> tuple[float, int]:
    """Add the steps between two disruptions: return productive seconds and the last step that counts.

    A step lasts until the next step number begins; where a number is missing, nothing counts. What lies past
    the step the work went on at was wasted. The first step's excess over the mean of the others is start-up.
    Work that went on at step 0 has no segment before it.
    """
    if segment.resumed_at == 0:
        return 0.0, 0
    steps, times_s, kept, counted = _steps_of(segment)
    spans_s = np.diff(times_s)
    wasted_s = _sum(spans_s[~kept])
    if not counted.any():
        _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
        return 0.0, 0
    in_customs_s, by_name_s = customs.within(times_s, counted)
    took_s = np.maximum(0.0, spans_s - in_customs_s)[counted]
    all_s = _sum(took_s)
    first = steps[:-1][counted] == steps.min()
    first_s, others = float(took_s[first].sum()), int((~first).sum())
    startup_s = max(0.0, first_s - (all_s - first_s) / others) if others else 0.0
    if others:
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
    _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
    _add_customs(badput_s, by_name_s)
    if not others:  # there, a segment of one step is told in another order
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
    return all_s - startup_s if others else first_s, int(steps[:-1][counted][-1])


def _steps_of(segment: Segment) -> tuple[NDArray[np.int64], Seconds, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return steps, their times, and which of the spans between are kept, and which count."""
    # copies: an array whose memory is looked at cannot grow
    steps = np.array(segment.steps, dtype=np.int64)
    kept = steps[1:] <= segment.resumed_at
    return steps, np.array(segment.times_s, dtype=np.float64), kept, kept & (np.diff(steps) == 1)


def _add(badput_s: BadputTimes, badput: BadputType, seconds: float) -> None:
    before_s = badput_s.get(badput, 0.0)
    if not isinstance(before_s, dict):
        badput_s[badput] = before_s + seconds


def _add_customs(badput_s: BadputTimes, by_name_s: dict[str, float]) -> None:
    custom_s = badput_s.setdefault(BadputType.CUSTOM_BADPUT_EVENTS, {})
    if isinstance(custom_s, dict):
        for name, spent_s in by_name_s.items():
            custom_s[name] = custom_s.get(name, 0.0) + spent_s


def _mean_by_name(durations_s: dict[str, list[float]]) -> float:
    """Sum over checkpoints; what several writers say of the same one is averaged."""
    return sum((sum(told_s) / len(told_s) for told_s in durations_s.values()), 0.0)


def _sum(seconds: Seconds) -> float:
    """Sum from first to last, so that the last bit, too, is what the peer has.

    It decides whether a job that did nothing but train has more productive time than time.
    """
    return float(np.cumsum(seconds)[-1]) if len(seconds) else 0.0


# --- exclusions


@dataclass
class _LoadsWalk(Walk):
    """Also keeps the loads of data, with how many segments were closed before each."""

    loads: list[tuple[float, float, int]] = field(default_factory=list)

    def _interval(self, kind: str, start_s: float, end_s: float, name: str) -> None:
        if kind == "data_loading":
            self.loads.append((start_s, end_s, len(self.segments)))
        super()._interval(kind, start_s, end_s, name)


def account_without(
    events: Iterable[GoodputEvent], spans: Iterable[Span], now: float, *, elastic: bool = False
) -> tuple[CompatAccount, dict[int, float]]:
    """Account for a job as if the time in `spans` had not been; also what each step took then.

    By the peer's rules, which are others here: saves, restores and elastic waits count as nothing, a custom
    event also where a step begins in it. The total may be 0, and the productive time above it.
    """
    walk = _LoadsWalk()
    for event in events:
        walk.handle(event)
    left_out = _Exclusions(_united(spans))
    loads_s = [(number, left_out.rest_s(start_s, end_s)) for start_s, end_s, number in walk.loads]
    sync_s = sum(dict(reversed(loads_s)).values())  # the first one of each segment
    badput_s: BadputTimes = {}
    took_s: dict[int, float] = {}
    productive_s, max_step, last_step = 0.0, 0, 0
    segments = list(walk.segments)
    if walk.steps:
        last_step = max(walk.steps)
        segments.append(Segment(walk.steps, walk.times_s, last_step))
    for number, segment in enumerate(segments):
        if number == walk.loaded_after:
            badput_s[BadputType.DATA_LOADING_SYNC] = sync_s
        segment_s, reached = left_out.close(segment, walk.customs, badput_s, took_s)
        productive_s += segment_s
        max_step = max(max_step, reached)
        if segment.recovery is not None:
            recovery_s = left_out.rest_s(*segment.recovery)
            _add(badput_s, BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, recovery_s)
    if walk.steps and walk.job_end_s is not None:
        productive_s += left_out.rest_s(walk.times_s[walk.steps.index(last_step)], walk.job_end_s)
        max_step = last_step
    if walk.loads:
        badput_s[BadputType.DATA_LOADING_SYNC] = sync_s
    for badput, kind in (
        (BadputType.TPU_INITIALIZATION, "device_init"),
        (BadputType.TRAINING_PREP, "training_prep"),
    ):
        badput_s[badput] = sum((left_out.rest_s(*each) for each in walk.spans.get(kind, ())), 0.0)
    badput_s[BadputType.DATA_LOADING_ASYNC] = sum((load_s for _, load_s in loads_s), 0.0) - sync_s
    has_start = walk.first_job_start_s is not None
    total = max(0.0, total_s(walk, now) - left_out.excluded_s) if has_start else 0.0
    complete(badput_s, productive_s, total)
    account = CompatAccount(
        total_s=total,
        productive_s=productive_s,
        badput_s=badput_s,
        max_productive_step=max_step,
        last_step=last_step,
        disruptions=len(walk.segments),
        elastic=elastic,
        excluded_s=left_out.excluded_s,
    )
    return account, took_s


def _united(spans: Iterable[Span]) -> list[Span]:
    """Return the spans by time, those that touch as one."""
    united: list[Span] = []
    for start_s, end_s in sorted(spans):
        if united and start_s <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end_s))
        else:
            united.append((start_s, end_s))
    return united


class _Exclusions:
    """Takes spans out of all that it is asked about, and sums up what it took in `excluded_s`."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self.excluded_s = 0.0

    def rest_s(self, start_s: float, end_s: float) -> float:
        """Return what is left of a span."""
        excluded_s = overlap(start_s, end_s, self._spans)
        self.excluded_s += excluded_s
        return max(0.0, end_s - start_s - excluded_s)

    def close(
        self,
        segment: Segment,
        customs: Sequence[tuple[float, float, str]],
        badput_s: BadputTimes,
        step_took_s: dict[int, float],
    ) -> tuple[float, int]:
        """Add the steps between two disruptions: return productive seconds and the last step that counts."""
        steps, times_s, kept, counted = _steps_of(segment)
        excluded_s = sum((_overlaps(times_s, *each) for each in self._spans), np.zeros(len(kept)))
        self.excluded_s += _sum(excluded_s)
        left_s = np.diff(times_s) - excluded_s
        wasted_s = _sum(np.maximum(0.0, left_s[~kept]))
        if not counted.any():
            _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
            return 0.0, 0
        by_name_s: dict[str, float] = {}
        for start_s, end_s, name in customs:
            within_s = _overlaps(times_s, start_s, end_s) * counted
            left_s -= within_s
            by_name_s[name] = by_name_s.get(name, 0.0) + _sum(within_s)
        took_s = np.maximum(0.0, left_s)[counted]
        numbers = steps[:-1][counted].tolist()
        all_s, first = _sum(took_s), steps[:-1][counted] == steps.min()
        first_s, others = float(took_s[first].sum()), len(took_s) - 1
        mean_s = _sum(took_s[~first]) / others if others else first_s
        startup_s = max(0.0, first_s - mean_s)
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
        _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
        _add_customs(badput_s, by_name_s)
        took_s[first] = min(first_s, mean_s)
        step_took_s |= dict(zip(numbers, took_s.tolist(), strict=True))
        return all_s - startup_s, numbers[-1]


def _overlaps(times_s: Seconds, start_s: float, end_s: float) -> Seconds:
    """Return how much of each span between two times lies between `start_s` and `end_s`."""
    return np.maximum(0.0, np.minimum(times_s[1:], end_s) - np.maximum(times_s[:-1], start_s))


# --- step times


def ideal_step_time_s(times_s: ArrayLike) -> float | None:
    """Return the peer's ideal step time, or None when no step counts.

    Steps of less than a second are dropped; of the others the mean of those up to median + 3 MAD.
    """
    times = np.asarray(times_s, dtype=np.float64)
    kept = times[times >= _SHORTEST_STEP_S]
    if not kept.size:
        return None
    middle_s = np.median(kept)
    limit_s = middle_s + _DEVIATIONS * np.median(np.abs(kept - middle_s))
    return float(kept[kept <= limit_s].mean())


def step_times_s(events: JobEvents, window: Span | None = None) -> Seconds:
    """Return how long each step took by the peer's rules, of a window from its start up to before its end.

    From its begin to that of the next number, if that is what came next by time; of a step that was
    computed again the last time counts, in the place of the first.
    """
    columns = [(each.numbers, each.times_s) for each in events.step_starts.values()]
    columns += [(each.numbers, each.starts_s) for each in events.whole_steps.values()]
    steps = np.concatenate([np.empty(0, np.int64), *(np.array(numbers) for numbers, _ in columns)])
    starts_s = np.concatenate([np.empty(0), *(np.array(times_s) for _, times_s in columns)])
    order = np.argsort(starts_s, kind="stable")
    steps, starts_s = steps[order], starts_s[order]
    if window is not None:
        inside = (window[0] <= starts_s) & (starts_s < window[1])
        steps, starts_s = steps[inside], starts_s[inside]
    consecutive = np.flatnonzero(np.diff(steps) == 1)
    took_s, numbers = (starts_s[1:] - starts_s[:-1])[consecutive], steps[consecutive]
    first = np.unique(numbers, return_index=True)[1]
    last = len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]
    return took_s[last[np.argsort(first)]]


class StepTimes:
    """How long each step took, of events in their order of arrival, which may come in pieces."""

    def __init__(self) -> None:
        self.times_s: dict[int, float] = {}
        self.seen = 0
        self._last: list[tuple[int, float]] = []

    def extend(self, events: Iterable[GoodputEvent]) -> None:
        """Take in the next events."""
        starts = [
            (event.step, event.time_s if isinstance(event, StepStarted) else event.start_s)
            for event in events
            if isinstance(event, (StepStarted, StepCompleted))
        ]
        self.seen += len(starts)
        starts = self._last + starts
        self.times_s |= {
            step: until_s - from_s
            for (step, from_s), (later, until_s) in pairwise(starts)
            if later == step + 1
        }
        self._last = starts[-1:]

    def deviations_s(self, ideal_s: float | None = None, first: int = 0) -> tuple[float, list[int], Seconds]:
        """Return the ideal step time, and how far steps are from it, but for the `first` ones, as columns.

        Raises :class:`CompatError` if there are no step times, or none that an ideal can be made of.
        """
        if not self.times_s:
            raise CompatError("no step times: no step was followed by the one with the next number")
        times_s = np.fromiter(self.times_s.values(), dtype=np.float64)
        ideal = ideal_step_time_s(times_s) if ideal_s is None else ideal_s
        if not ideal:
            raise CompatError(
                "no ideal step time: by this policy a step must last a second; pass configured_ideal_step_time"
            )
        return ideal, list(islice(self.times_s, first, None)), np.abs(times_s[first:] - ideal)


def slice_efficiency(slices: Iterable[SlicesObserved], start_s: float, end_s: float) -> Span | None:
    """Return active and available slices as shares of all, 0 to 1: means from `start_s` to `end_s`.

    Before the first observation nothing is active. None if there is no observation.
    """
    seen = sorted(slices, key=lambda each: each.time_s)
    if not seen:
        return None
    if end_s <= start_s:
        return 0.0, 0.0
    during = [each for each in seen if each.time_s <= start_s][-1:]
    during += [each for each in seen if start_s < each.time_s < end_s]
    times_s = [*(max(each.time_s, start_s) for each in during), end_s]
    lasted_s = [until_s - from_s for from_s, until_s in pairwise(times_s)]
    active = [each.active / max(each.total, 1) for each in during]
    available = [each.available / max(each.total, 1) for each in during]
    return _mean(active, lasted_s, end_s - start_s), _mean(available, lasted_s, end_s - start_s)


def _mean(shares: Sequence[float], lasted_s: Sequence[float], total_s: float) -> float:
    return sum(share * span_s for share, span_s in zip(shares, lasted_s, strict=True)) / total_s
