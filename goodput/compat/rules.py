"""The rules of ml-goodput-measurement 0.2.3 over our events: the policy ``compat``.

The numbers are that library's, its faults included (`docs/goodput-compat.md`). Events count in their order of
arrival, as there; their writers do not matter. Times are epoch seconds. Productive time is summed step by
step, so that the last bit is the peer's, too: it decides whether a job that did nothing but train has more
productive time than time.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby, pairwise, zip_longest
from math import inf
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import msgspec

from .. import events as ev
from ..job_events import united
from ..validation import span
from .goodput_utils import BadputTimes, BadputType, SliceEfficiency, compute_ideal_step_time

Span: TypeAlias = tuple[float, float]

_ROUNDING_S = 1e-5
"""Sums of up to millions of steps, each to the microsecond, may be so much too large."""

BADPUT = {
    "device_init": BadputType.TPU_INITIALIZATION,
    "training_prep": BadputType.TRAINING_PREP,
    "startup": BadputType.PROGRAM_STARTUP,
    "data_loading": BadputType.DATA_LOADING_SYNC,
    "data_loading_async": BadputType.DATA_LOADING_ASYNC,
    "checkpoint_save": BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    "checkpoint_restore": BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
    "wasted_progress": BadputType.WASTED_PROGRESS_FROM_DISRUPTION,
    "recovery": BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION,
    "custom": BadputType.CUSTOM_BADPUT_EVENTS,
    "elastic_scale_up": BadputType.ELASTIC_SCALE_UP,
    "elastic_slice_down": BadputType.ELASTIC_SLICE_DOWN,
    "elastic_reinit": BadputType.ELASTIC_REINITIALIZATION,
    "other": BadputType.OTHER,
}
"""The peer's type of each of our kinds of time."""
_PAIRED = ("device_init", "training_prep")


class CompatError(ValueError):
    """These events have no goodput by the peer's rules; the text says what is wrong with them."""


class CompatAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a job by the peer's rules, in seconds; `badput_s` need not sum to the rest of `total_s`.

    `max_productive_step` is the last step that counts, `last_step` the last one that was recorded.
    `excluded_s` is no part of the total.
    """

    total_s: float = 0.0
    productive_s: float = 0.0
    badput_s: BadputTimes = {}
    max_productive_step: int = 0
    last_step: int = 0
    disruptions: int = 0
    elastic: bool = False
    excluded_s: float = 0.0

    @property
    def goodput_percent(self) -> float:
        """Productive time as percent of the total."""
        return self.productive_s / self.total_s * 100

    def breakdown(self) -> BadputTimes:
        """Return badput as percent of the total; what takes the whole of it counts as 0, as it does there."""
        nothing: dict[BadputType, dict[str, float]] = {BadputType.CUSTOM_BADPUT_EVENTS: {}}
        return {
            badput: _each(
                self.badput_s.get(badput, nothing.get(badput, 0.0)),
                lambda spent_s: spent_s / self.total_s * 100 if 0 < spent_s < self.total_s else 0.0,
            )
            for badput in BadputType
            if self.elastic or not badput.name.startswith("ELASTIC")
        }


class _Ended(NamedTuple):
    """An interval that ended, and the segment of steps that was open then."""

    start_s: float
    end_s: float
    name: str
    segment: int


class CompatEvents:
    """The events in their order: steps in segments, and intervals by kind as they end."""

    def __init__(self, events: Iterable[ev.GoodputEvent]) -> None:
        self.segments: list[dict[int, float]] = []
        """When steps began whose numbers all differ; the first step of the next one was there before."""
        self.restarts_s: list[float] = []
        """The newest start of the job when each of them began."""
        self.intervals: defaultdict[str, list[_Ended]] = defaultdict(list)
        self.slices: list[ev.SlicesObserved] = []
        self.job_start_s: float | None = None
        self.job_end_s: float | None = None
        self._newest_start_s = -inf
        self._open_s: dict[tuple[str, str], float] = {}
        for event in events:
            self._take(event)

    @property
    def steps(self) -> int:
        """How many steps there are, those that were computed again included."""
        return sum(map(len, self.segments))

    def step_times(self) -> dict[int, float]:
        """Return how long each step took: until the next one, if that has the next number."""
        begun = chain.from_iterable(steps.items() for steps in self.segments)
        return {
            step: next_s - start_s
            for (step, start_s), (following, next_s) in pairwise(begun)
            if following == step + 1
        }

    def total_s(self, now: float) -> float:
        """Return seconds from the first start to the last end, or to `now`. Raises CompatError."""
        if self.job_start_s is None:
            raise CompatError(
                "no start of the job among the events: record_job_start_time was not called, or the log or"
                " the job name is another one"
            )
        end_s = now if self.job_end_s is None else self.job_end_s
        return round(end_s, 6) - round(self.job_start_s, 6)  # the peer's times are whole microseconds

    def _take(self, event: ev.GoodputEvent) -> None:
        match event:
            case ev.StepStarted() | ev.StepCompleted():
                self._step(event.step, span(event)[0])
            case ev.IntervalStarted():
                self._open_s[event.kind, event.name.upper()] = event.time_s
            case ev.IntervalEnded():  # it ends the start before it
                start_s = self._open_s.pop((event.kind, event.name.upper()), None)
                if start_s is not None:
                    self._interval(event.kind, start_s, event.time_s, event.name)
            case ev.Interval():
                self._interval(event.kind, *span(event), event.name)
            case ev.OutputCompleted(checkpoint=True) | ev.RestartCompleted():
                is_output = isinstance(event, ev.OutputCompleted)
                self._interval("checkpoint_save" if is_output else "checkpoint_restore", *span(event))
            case ev.JobStarted():
                self._newest_start_s = event.time_s
                self.job_start_s = event.time_s if self.job_start_s is None else self.job_start_s
            case ev.JobEnded():
                self.job_end_s = event.time_s
            case ev.SlicesObserved():
                self.slices.append(event)

    def _step(self, step: int, start_s: float) -> None:
        if not self.segments or step in self.segments[-1]:  # a disruption
            self.segments.append({})
            self.restarts_s.append(self._newest_start_s)
        self.segments[-1][step] = start_s

    def _interval(self, kind: str, start_s: float, end_s: float, name: str = "") -> None:
        segment = max(0, len(self.segments) - 1)
        self.intervals[kind].append(_Ended(start_s, end_s, name.upper(), segment))


def compat_account(
    events: Iterable[ev.GoodputEvent] | CompatEvents, now: float, *, elastic: bool = False
) -> CompatAccount:
    """Account for a job until its last end, or until `now` (epoch seconds) if it never ended.

    `elastic` has waits and re-initialisations apart. Raises :class:`CompatError` where the peer raises
    ``ValueError``.
    """
    told = events if isinstance(events, CompatEvents) else CompatEvents(events)
    return _checked(_Sums(told).account(told.total_s(now), elastic=elastic))


def compat_window(
    events: Iterable[ev.GoodputEvent], start_s: float, end_s: float, *, elastic: bool = False
) -> CompatAccount:
    """Account for the events after `start_s` and up to `end_s` (epoch seconds) as if they were a job's all.

    Raises :class:`CompatError` if there are no two moments, or more productive time than that.
    """
    inside = [event for event in events if start_s < span(event)[0] <= end_s]
    if not inside:
        raise CompatError("no events in the window")
    first_s, last_s = span(inside[0])[0], span(inside[-1])[0]
    if first_s >= last_s:
        raise CompatError("the window's first event is not before its last one: no time to account for")
    total_s = round(last_s, 6) - round(first_s, 6)
    return _checked(_Sums(CompatEvents(inside)).account(total_s, elastic=elastic))


def account_without(
    told: CompatEvents, spans: Iterable[Span], now: float, *, elastic: bool = False
) -> tuple[CompatAccount, dict[int, float]]:
    """Account for a job as if the time in `spans` had not been; also what each step took then.

    By the peer's rules saves, restores and elastic waits count as nothing here. The total may be 0.
    """
    left = _Sums(told, united(spans))
    total_s = 0.0 if told.job_start_s is None else max(0.0, told.total_s(now) - left.excluded_s)
    return left.account(total_s, elastic=elastic), left.took_s


def step_deviations(told: CompatEvents, ideal_s: float | None = None) -> tuple[float, dict[int, float]]:
    """Return the ideal step time, and how far each step is from it. Raises CompatError without any."""
    took_s = told.step_times()
    if not took_s:
        raise CompatError("no step times: no step was followed by the one with the next number")
    ideal = compute_ideal_step_time([*took_s.values()]) if ideal_s is None else ideal_s
    if not ideal:
        raise CompatError(
            "no ideal step time: by this policy a step must last a second; pass configured_ideal_step_time"
        )
    return ideal, {step: abs(each_s - ideal) for step, each_s in took_s.items()}


def slice_efficiency(observed: Iterable[ev.SlicesObserved], start_s: float, end_s: float) -> SliceEfficiency:
    """Return active and available slices as shares of all, mean from `start_s` to `end_s`; or nothing."""
    seen = sorted(observed, key=lambda each: each.time_s)
    if not seen:
        return {}
    active = available = 0.0
    if end_s > start_s:
        times_s = [*(min(end_s, max(start_s, each.time_s)) for each in seen), end_s]
        for each, (from_s, until_s) in zip(seen, pairwise(times_s), strict=True):
            share = (until_s - from_s) / (end_s - start_s) / max(each.total, 1)
            active += each.active * share
            available += each.available * share
    return {"stepping_slice_efficiency": active, "available_slice_efficiency": available}


class _Sums:
    """What the rules make of a job, whole (None), or as if the time in `left_out` had not been."""

    def __init__(self, told: CompatEvents, left_out: Sequence[Span] | None = None) -> None:
        self._told, self._left_out, self._is_whole = told, left_out or (), left_out is None
        self._spent_s: defaultdict[str, float] = defaultdict(float)
        self._productive_s = self.excluded_s = 0.0
        self._max_step = 0
        self.took_s: dict[int, float] = {}
        """What the steps that count took, the first one of a segment without its startup."""
        customs = sorted(each for each in told.intervals["custom"] if each.start_s < each.end_s)
        self._customs_s = {} if self._is_whole else {each.name: 0.0 for each in customs}
        for steps, then, restart_s in zip_longest(told.segments, told.segments[1:], told.restarts_s[1:]):
            last_s = next(reversed(steps.values()))
            if restart_s is not None and last_s < restart_s:
                self._spent_s["recovery"] += self._rest_s(last_s, restart_s)
            if self._is_whole:
                self._max_step = 0
            resumed_at = next(iter(then or [max(steps)]))
            if resumed_at or not self._is_whole:  # before work that goes on at step 0 nothing counts
                self._take_steps(steps, resumed_at, customs)
        if told.segments and told.job_end_s is not None:  # then the last step counts, too
            steps = told.segments[-1]
            self._max_step = max(steps)
            self._productive_s += self._rest_s(steps[self._max_step], told.job_end_s)
        self._take_loads()
        for kind in _PAIRED:
            self._spent_s[kind] += sum((self._rest_s(*each[:2]) for each in told.intervals[kind]), 0.0)
        if self._is_whole:
            for kind in ("checkpoint_save", "checkpoint_restore"):
                self._spent_s[kind] += _mean_by_name(told.intervals[kind])
            if told.segments:  # saves are within steps
                self._productive_s -= self._spent_s["checkpoint_save"]

    def account(self, total_s: float, *, elastic: bool) -> CompatAccount:
        """Return the account of a job that took so long; less than nothing or more than all counts as 0."""
        spent_s: dict[str, float | dict[str, float]] = {**self._spent_s}
        if "startup" in spent_s:  # there are steps that count
            spent_s["custom"] = self._customs_s
        if elastic and self._is_whole:
            spent_s |= _elastic_s(self._told)
        badput_s = {
            badput: _each(spent_s[kind], lambda each_s: each_s if 0 <= each_s <= total_s else 0.0)
            for kind, badput in BADPUT.items()
            if kind in spent_s
        }
        known_s = sum(
            sum_s(each_s) for badput, each_s in badput_s.items() if badput != BadputType.DATA_LOADING_ASYNC
        )
        badput_s[BadputType.OTHER] = max(0.0, total_s - self._productive_s - known_s)
        segments = self._told.segments
        return CompatAccount(
            total_s=total_s,
            productive_s=self._productive_s,
            badput_s=badput_s,
            max_productive_step=self._max_step,
            last_step=max(segments[-1]) if segments else 0,
            disruptions=max(0, len(segments) - 1),
            elastic=elastic,
            excluded_s=self.excluded_s,
        )

    def _rest_s(self, start_s: float, end_s: float) -> float:
        """Return how long an interval lasted, without what is left out."""
        if self._is_whole:
            return end_s - start_s
        excluded_s = _overlap_s(start_s, end_s, self._left_out)
        self.excluded_s += excluded_s
        return max(0.0, end_s - start_s - excluded_s)

    def _take_steps(self, steps: dict[int, float], resumed_at: int, customs: Sequence[_Ended]) -> None:
        """Count a segment's steps: what was for nothing, custom events within, and the program's start.

        The start is the excess of the first step over the mean of the others.
        """
        wasted_s = all_s = startup_s = 0.0
        took_s: dict[int, float] = {}
        for (step, start_s), (following, end_s) in pairwise(steps.items()):
            lasted_s = self._rest_s(start_s, end_s)
            if following > resumed_at:
                wasted_s += lasted_s
            elif following == step + 1:
                held_s = self._take_customs(start_s, end_s, customs) if customs else 0.0
                took_s[step] = max(0.0, lasted_s - held_s)
                all_s += took_s[step]
        self._spent_s["wasted_progress"] += wasted_s
        if not took_s:
            return
        if (first := min(steps)) in took_s and len(took_s) > 1:
            startup_s = max(0.0, took_s[first] - (all_s - took_s[first]) / (len(took_s) - 1))
            took_s[first] -= startup_s
        self._spent_s["startup"] += startup_s
        self._productive_s += all_s - startup_s
        self._max_step = max(self._max_step, next(reversed(took_s)))
        self.took_s |= took_s

    def _take_customs(self, start_s: float, end_s: float, customs: Sequence[_Ended]) -> float:
        """Count what a step holds of custom events: of a whole job only those that lie wholly inside."""
        first = bisect_left(customs, (start_s,)) if self._is_whole else 0
        held_s = 0.0
        for custom in customs[first : bisect_left(customs, (end_s,))]:
            if not self._is_whole or custom.end_s <= end_s:
                inside_s = _overlap_s(start_s, end_s, [custom[:2]])
                self._customs_s[custom.name] = self._customs_s.get(custom.name, 0.0) + inside_s
                held_s += inside_s
        return held_s

    def _take_loads(self) -> None:
        """Count loads: the first after a start or disruption is synchronous, and the last before its step."""
        last, asynchronous_s = len(self._told.segments) - 1, 0.0
        for segment, loads in groupby(self._told.intervals["data_loading"], key=attrgetter("segment")):
            rests_s = [self._rest_s(each.start_s, each.end_s) for each in loads]
            synchronous_s = rests_s[0] + (rests_s[-1] if segment < last and self._is_whole else 0.0)
            self._spent_s["data_loading"] += synchronous_s
            asynchronous_s += sum(rests_s) - synchronous_s
        if self._is_whole:
            asynchronous_s += _lengths_s(self._told.intervals["data_loading_async"])
        self._spent_s["data_loading_async"] = asynchronous_s


def _elastic_s(told: CompatEvents) -> dict[str, float]:
    """Return waits and re-initialisations, and what has no such in it anew: nothing is counted twice."""
    lasting = {
        kind: [each for each in told.intervals[kind] if each.start_s < each.end_s]
        for kind in ("elastic_scale_up", "elastic_slice_down", "elastic_reinit")
    }
    found = {kind: _lengths_s(intervals) for kind, intervals in lasting.items() if intervals}
    again = [each[:2] for each in lasting["elastic_reinit"]]
    for kind in _PAIRED:
        overlap_s = sum(_overlap_s(each.start_s, each.end_s, again) for each in told.intervals[kind])
        if overlap_s > 0:
            found[kind] = max(0.0, _lengths_s(told.intervals[kind]) - overlap_s)
    return found


def _mean_by_name(checkpoints: Iterable[_Ended]) -> float:
    """Sum over checkpoints, to the microsecond; what several writers say of the same one is averaged."""
    durations_s: defaultdict[str, list[float]] = defaultdict(list)
    for each in checkpoints:
        durations_s[each.name or f"#{len(durations_s)}"].append(round(each.end_s - each.start_s, 6))
    return sum((sum(told_s) / len(told_s) for told_s in durations_s.values()), 0.0)


def _checked(account: CompatAccount) -> CompatAccount:
    """Return an account that has a goodput."""
    total_s, productive_s = account.total_s, account.productive_s
    if total_s == 0:
        raise CompatError("the job took no time at all: its start and its end are the same moment")
    if 0 <= productive_s <= total_s:
        return account
    why = "steps lie outside the job's time, or are of several writers, or are recorded out of order"
    if productive_s < 0:
        why = "saves take more than the steps that count there: those that the next number follows"
    elif productive_s - total_s < _ROUNDING_S:
        why = "no more than a rounding error, but that is an error there, too"
    raise CompatError(f"{productive_s!r} s of productive time in {total_s!r} s: {why}")


def sum_s(spent_s: float | dict[str, float]) -> float:
    """Return the seconds of a type of badput, of all its parts if it has such."""
    return sum(spent_s.values()) if isinstance(spent_s, dict) else spent_s


def _each(spent_s: float | dict[str, float], of: Callable[[float], float]) -> float | dict[str, float]:
    """Return `of` the seconds of a type of badput, or of each of its parts."""
    return {name: of(each) for name, each in spent_s.items()} if isinstance(spent_s, dict) else of(spent_s)


def _lengths_s(intervals: Iterable[_Ended]) -> float:
    return sum((each.end_s - each.start_s for each in intervals), 0.0)


def _overlap_s(start_s: float, end_s: float, spans: Iterable[Span]) -> float:
    """Return how much of an interval lies in each of the `spans`, summed."""
    return sum((max(0.0, min(end_s, until_s) - max(start_s, from_s)) for from_s, until_s in spans), 0.0)
