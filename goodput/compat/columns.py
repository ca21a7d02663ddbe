"""Arithmetic of the peer's rules over columns: productive time, badput, and both without exclusions.

Times are epoch seconds, and spans seconds.
"""

from collections.abc import Iterable, Sequence
from math import modf

import numpy as np
from numpy.typing import NDArray

from .goodput_utils import BadputTimes, BadputType
from .rules import CompatAccount, CompatError
from .table import Intervals, Rows, Seconds, Segment, Span, Whole

_ROUNDING_S = 1e-5
"""Sums of up to millions of steps, each to the microsecond, may be so much too large."""
_PAIRED = {"device_init": BadputType.TPU_INITIALIZATION, "training_prep": BadputType.TRAINING_PREP}
_ELASTIC = {
    "elastic_scale_up": BadputType.ELASTIC_SCALE_UP,
    "elastic_slice_down": BadputType.ELASTIC_SLICE_DOWN,
    "elastic_reinit": BadputType.ELASTIC_REINITIALIZATION,
}


def account_of(rows: Rows, now: float, *, elastic: bool = False) -> CompatAccount:
    """Account for a job until its last end, or until `now` if it never ended. Raises :class:`CompatError`."""
    if rows.job_start_s is None:
        raise CompatError(
            "no start of the job among the events: record_job_start_time was not called, or the log or the "
            "job name is another one"
        )
    return _account(rows, _total_s(rows, now), elastic=elastic)


def window_of(rows: Rows, *, elastic: bool = False) -> CompatAccount:
    """Account for what is from the first row to the last. Raises :class:`CompatError`."""
    if not len(rows.starts_s):
        raise CompatError("no events in the window")
    first_s, last_s = rows.starts_s[[0, -1]].tolist()
    if first_s >= last_s:
        raise CompatError("the window's first event is not before its last one: no time to account for")
    return _account(rows, _whole_us(last_s) - _whole_us(first_s), elastic=elastic)


def _total_s(rows: Rows, now: float) -> float:
    end_s = now if rows.job_end_s is None else rows.job_end_s
    return _whole_us(end_s) - _whole_us(rows.job_start_s or 0.0)


def _whole_us(time_s: float) -> float:
    """Return the time as a datetime would have it."""
    fraction_s, whole_s = modf(time_s)
    return (int(whole_s) * 1_000_000 + round(fraction_s * 1e6)) / 1_000_000


def _account(rows: Rows, total_s: float, *, elastic: bool) -> CompatAccount:
    productive_s, badput_s, max_step, last_step = _spent(rows)
    if elastic:
        _add_elastic(badput_s, rows)
    if total_s == 0:
        raise CompatError("the job took no time at all: its start and its end are the same moment")
    if not 0 <= productive_s <= total_s:
        raise CompatError(
            f"{productive_s!r} s of productive time in {total_s!r} s: {_why(productive_s, total_s)}"
        )
    return CompatAccount(
        total_s=total_s,
        productive_s=productive_s,
        badput_s=_completed(badput_s, productive_s, total_s),
        max_productive_step=max_step,
        last_step=last_step,
        disruptions=max(0, len(rows.segments) - 1),
        elastic=elastic,
    )


def _why(productive_s: float, total_s: float) -> str:
    """Say why the productive time is none."""
    if productive_s < 0:
        return "saves take more than the steps that count there: those that the next number follows"
    if productive_s - total_s < _ROUNDING_S:
        return "no more than a rounding error, but that is an error there, too"
    return "steps lie outside the job's time, or are of several writers, or are recorded out of order"


def _completed(badput_s: BadputTimes, productive_s: float, total_s: float) -> BadputTimes:
    """Return badput with what is below 0 or above the total as 0, and what is left of the total as OTHER."""
    possible: BadputTimes = {}
    known_s = 0.0
    for badput, spent_s in badput_s.items():
        parts_s = spent_s if isinstance(spent_s, dict) else {"": spent_s}
        parts_s = {name: part_s if 0 <= part_s <= total_s else 0.0 for name, part_s in parts_s.items()}
        possible[badput] = parts_s if isinstance(spent_s, dict) else parts_s[""]
        known_s += 0.0 if badput is BadputType.DATA_LOADING_ASYNC else sum(parts_s.values())
    return {**possible, BadputType.OTHER: max(0.0, total_s - productive_s - known_s)}


def _spent(rows: Rows) -> tuple[float, BadputTimes, int, int]:
    """Return productive seconds, badput, the last step that counts and the last one recorded.

    Badput is in the order in which the peer comes to it. Of loads of data the first one after a start or a
    disruption is synchronous, and the last one before the step that shows a disruption.
    """
    badput_s: BadputTimes = {}
    segments, customs = rows.segments, Customs(rows.intervals("custom").lasting)
    loads = rows.intervals("data_loading")
    loads_s, closed = loads.lengths_s, max(0, len(segments) - 1)
    first, last = _ends_of_runs(loads.segment)
    sync_s = _sum(loads_s[first]) + _sum(loads_s[last[loads.segment[last] < closed]])
    productive_s = 0.0
    for number, segment in enumerate(segments[:-1]):
        if number in loads.segment[:1]:
            badput_s[BadputType.DATA_LOADING_SYNC] = sync_s
        productive_s += _close(segment, customs, badput_s)[0]
        if segment.recovery is not None:
            start_s, end_s = segment.recovery
            _add(badput_s, BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, end_s - start_s)
    if len(loads_s):
        badput_s[BadputType.DATA_LOADING_SYNC] = sync_s
    for kind, badput in _PAIRED.items():
        badput_s[badput] = _sum(rows.intervals(kind).lengths_s)
    async_s = _sum(rows.intervals("data_loading_async").lengths_s)
    save_s = _mean_by_name(rows.intervals("checkpoint_save"))
    badput_s |= {
        BadputType.DATA_LOADING_ASYNC: _sum(loads_s) - sync_s + async_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: save_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME: _mean_by_name(rows.intervals("checkpoint_restore")),
    }
    if not segments:
        return 0.0, badput_s, 0, 0
    segment = segments[-1]
    segment_s, max_step = _close(segment, customs, badput_s)
    productive_s += segment_s
    if rows.job_end_s is not None:
        max_step = segment.resumed_at
        productive_s += rows.job_end_s - float(segment.times_s[np.argmax(segment.steps)])
    return productive_s - save_s, badput_s, max_step, segment.resumed_at


def _ends_of_runs(numbers: Whole) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where runs of equal numbers begin, and where they end."""
    changes = np.flatnonzero(np.diff(numbers)) + 1
    if not len(numbers):
        return changes, changes
    return np.concatenate([[0], changes]), np.concatenate([changes - 1, [len(numbers) - 1]])


def _add_elastic(badput_s: BadputTimes, rows: Rows) -> None:
    spans = {kind: rows.intervals(kind).lasting for kind in (*_ELASTIC, *_PAIRED)}
    # waits in their order of arrival, as there
    for kind in sorted(_ELASTIC, key=lambda kind: (kind == "elastic_reinit", spans[kind].rows[:1].tolist())):
        if len(spans[kind].rows):
            badput_s[_ELASTIC[kind]] = _sum(spans[kind].lengths_s)
    # what a re-initialisation has in it is not counted twice
    for kind, badput in _PAIRED.items():
        overlap_s = sum(_overlap(*each, spans["elastic_reinit"]) for each in spans[kind])
        if overlap_s > 0:
            badput_s[badput] = max(0.0, _sum(rows.intervals(kind).lengths_s) - overlap_s)


def _overlap(start_s: float, end_s: float, spans: Iterable[Span]) -> float:
    """Return how many of the seconds from `start_s` to `end_s` lie in each of the `spans`, summed."""
    return sum((max(0.0, min(end_s, until_s) - max(start_s, from_s)) for from_s, until_s in spans), 0.0)


class Customs:
    """Custom events as columns: each takes its time from the step it lies wholly inside of."""

    def __init__(self, customs: Intervals) -> None:
        self.start_s, self.end_s = customs.starts_s, customs.ends_s
        self.names = list(dict.fromkeys(customs.names))
        numbers = {name: number for number, name in enumerate(self.names)}
        self.name_numbers = np.array([numbers[name] for name in customs.names], dtype=int)
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
    the step the work went on at was wasted. Work that went on at step 0 has no segment before it.
    """
    if segment.resumed_at == 0:
        return 0.0, 0
    kept, counted = _kept_and_counted(segment)
    spans_s = np.diff(segment.times_s)
    wasted_s = _sum(spans_s[~kept])
    if not counted.any():
        _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
        return 0.0, 0
    in_customs_s, by_name_s = customs.within(segment.times_s, counted)
    steps, took_s = segment.steps[:-1][counted], np.maximum(0.0, spans_s - in_customs_s)[counted]
    first = steps == segment.steps.min()
    startup_s = _startup_s(took_s, first)
    if not first.all():
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
    _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
    _add_customs(badput_s, by_name_s)
    if first.all():  # there, a segment of one step comes in another order
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
    return _sum(took_s) - startup_s, int(steps[-1])


def _startup_s(took_s: Seconds, first: NDArray[np.bool_]) -> float:
    """Return the first step's excess over the mean of the others."""
    first_s, others = float(took_s[first].sum()), int((~first).sum())
    return max(0.0, first_s - (_sum(took_s) - first_s) / others) if others else 0.0


def _kept_and_counted(segment: Segment) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which of the spans between steps were not done again, and which of them count."""
    kept = segment.steps[1:] <= segment.resumed_at
    return kept, kept & (np.diff(segment.steps) == 1)


def _add(badput_s: BadputTimes, badput: BadputType, seconds: float) -> None:
    before_s = badput_s.get(badput, 0.0)
    if not isinstance(before_s, dict):
        badput_s[badput] = before_s + seconds


def _add_customs(badput_s: BadputTimes, by_name_s: dict[str, float]) -> None:
    custom_s = badput_s.setdefault(BadputType.CUSTOM_BADPUT_EVENTS, {})
    if isinstance(custom_s, dict):
        for name, spent_s in by_name_s.items():
            custom_s[name] = custom_s.get(name, 0.0) + spent_s


def _mean_by_name(checkpoints: Intervals) -> float:
    """Sum over checkpoints; what several writers say of the same one is averaged.

    They are recorded as durations there: two epoch times give one back to the microsecond.
    """
    durations_s: dict[str, list[float]] = {}
    for name, (start_s, end_s) in zip(checkpoints.names, checkpoints, strict=True):
        durations_s.setdefault(name or f"#{len(durations_s)}", []).append(round(end_s - start_s, 6))
    return sum((sum(told_s) / len(told_s) for told_s in durations_s.values()), 0.0)


def _sum(seconds: Seconds) -> float:
    """Sum from first to last, so that the last bit, too, is what the peer has.

    It decides whether a job that did nothing but train has more productive time than time.
    """
    return float(np.cumsum(seconds)[-1]) if len(seconds) else 0.0


def account_without(
    rows: Rows, spans: Iterable[Span], now: float, *, elastic: bool = False
) -> tuple[CompatAccount, dict[int, float]]:
    """Account for a job as if the time in `spans` had not been; also what each step took then.

    By the peer's rules, which are others here: saves, restores and elastic waits count as nothing, a custom
    event also where a step begins in it. The total may be 0, and the productive time above it.
    """
    left_out = _Exclusions(_united(spans))
    badput_s: BadputTimes = {}
    took_s: dict[int, float] = {}
    segments, customs, loads = rows.segments, rows.intervals("custom").lasting, rows.intervals("data_loading")
    loads_s = np.array([left_out.rest_s(*each) for each in loads])
    sync_s = _sum(loads_s[_ends_of_runs(loads.segment)[0]])
    productive_s, max_step = 0.0, 0
    for number, segment in enumerate(segments):
        if number in loads.segment[:1]:
            badput_s[BadputType.DATA_LOADING_SYNC] = sync_s
        segment_s, reached = left_out.close(segment, customs, badput_s, took_s)
        productive_s += segment_s
        max_step = max(max_step, reached)
        if segment.recovery is not None:
            recovery_s = left_out.rest_s(*segment.recovery)
            _add(badput_s, BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, recovery_s)
    last_step = segments[-1].resumed_at if segments else 0
    if segments and rows.job_end_s is not None:
        begun_s = segments[-1].times_s[np.argmax(segments[-1].steps)]
        productive_s += left_out.rest_s(float(begun_s), rows.job_end_s)
        max_step = last_step
    if len(loads_s):
        badput_s[BadputType.DATA_LOADING_SYNC] = sync_s
    for kind, badput in _PAIRED.items():
        badput_s[badput] = sum((left_out.rest_s(*each) for each in rows.intervals(kind)), 0.0)
    badput_s[BadputType.DATA_LOADING_ASYNC] = _sum(loads_s) - sync_s
    has_start = rows.job_start_s is not None
    total_s = max(0.0, _total_s(rows, now) - left_out.excluded_s) if has_start else 0.0
    account = CompatAccount(
        total_s=total_s,
        productive_s=productive_s,
        badput_s=_completed(badput_s, productive_s, total_s),
        max_productive_step=max_step,
        last_step=last_step,
        disruptions=max(0, len(segments) - 1),
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
        excluded_s = _overlap(start_s, end_s, self._spans)
        self.excluded_s += excluded_s
        return max(0.0, end_s - start_s - excluded_s)

    def close(
        self,
        segment: Segment,
        customs: Intervals,
        badput_s: BadputTimes,
        step_took_s: dict[int, float],
    ) -> tuple[float, int]:
        """Add the steps between two disruptions: return productive seconds and the last step that counts."""
        kept, counted = _kept_and_counted(segment)
        times_s = segment.times_s
        excluded_s = sum((_overlaps(times_s, *each) for each in self._spans), np.zeros(len(kept)))
        self.excluded_s += _sum(excluded_s)
        left_s = np.diff(times_s) - excluded_s
        wasted_s = _sum(np.maximum(0.0, left_s[~kept]))
        if not counted.any():
            _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
            return 0.0, 0
        by_name_s: dict[str, float] = {}
        for name, (start_s, end_s) in zip(customs.names, customs, strict=True):
            within_s = _overlaps(times_s, start_s, end_s) * counted
            left_s -= within_s
            by_name_s[name] = by_name_s.get(name, 0.0) + _sum(within_s)
        steps, took_s = segment.steps[:-1][counted], np.maximum(0.0, left_s)[counted]
        first = steps == segment.steps.min()
        startup_s = _startup_s(took_s, first)
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
        _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
        _add_customs(badput_s, by_name_s)
        took_s[first] -= startup_s
        step_took_s |= dict(zip(steps.tolist(), took_s.tolist(), strict=True))
        return _sum(took_s), int(steps[-1])


def _overlaps(times_s: Seconds, start_s: float, end_s: float) -> Seconds:
    """Return how much of each span between two times lies between `start_s` and `end_s`."""
    inside_s: Seconds = np.minimum(times_s[1:], end_s) - np.maximum(times_s[:-1], start_s)
    return inside_s.clip(min=0.0)
