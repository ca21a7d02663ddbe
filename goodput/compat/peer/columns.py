"""Arithmetic of the peer's rules over columns: productive time, badput, and both without exclusions.

Times are epoch seconds, and spans seconds. Sums run from first to last, so that the last bit, too, is what
the peer has: it decides whether a job that did nothing but train has more productive time than time.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import modf

import numpy as np
from numpy.typing import NDArray

from ...events import SlicesObserved
from ..goodput_utils import BadputTimes, BadputType, SliceEfficiency
from .rules import CompatAccount, CompatError
from .table import Intervals, Rows, Seconds, Span, Whole

_ROUNDING_S = 1e-5
"""Sums of up to millions of steps, each to the microsecond, may be so much too large."""
_PAIRED = {"device_init": BadputType.TPU_INITIALIZATION, "training_prep": BadputType.TRAINING_PREP}
_CHECKPOINTS = {
    "checkpoint_save": BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    "checkpoint_restore": BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
}
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
    return _checked(_Pass(rows).account(_total_s(rows, now), elastic=elastic))


def window_of(rows: Rows, *, elastic: bool = False) -> CompatAccount:
    """Account for what is from the first row to the last. Raises :class:`CompatError`."""
    if not len(rows.starts_s):
        raise CompatError("no events in the window")
    first_s, last_s = rows.starts_s[[0, -1]].tolist()
    if first_s >= last_s:
        raise CompatError("the window's first event is not before its last one: no time to account for")
    return _checked(_Pass(rows).account(_whole_us(last_s) - _whole_us(first_s), elastic=elastic))


def account_without(
    rows: Rows, spans: Iterable[Span], now: float, *, elastic: bool = False
) -> tuple[CompatAccount, dict[int, float]]:
    """Account for a job as if the time in `spans` had not been; also what each step took then.

    By the peer's rules, which are others here: saves, restores and elastic waits count as nothing, a custom
    event also where a step begins in it. The total may be 0, and the productive time above it.
    """
    left = _Pass(rows, _united(spans))
    total_s = 0.0 if rows.job_start_s is None else max(0.0, _total_s(rows, now) - left.excluded_s)
    numbers, took_s = left.took_s
    return left.account(total_s, elastic=elastic), dict(zip(numbers.tolist(), took_s.tolist(), strict=True))


def slice_efficiency(observed: Iterable[SlicesObserved], start_s: float, end_s: float) -> SliceEfficiency:
    """Return active and available slices as shares of all: means from `start_s` to `end_s`.

    Before the first observation nothing is active. Empty if there is no observation.
    """
    seen = sorted(observed, key=lambda each: each.time_s)
    if not seen:
        return {}
    active = available = 0.0
    if end_s > start_s:
        during = [each for each in seen if each.time_s <= start_s][-1:]
        during += [each for each in seen if start_s < each.time_s < end_s]
        times_s = [*(max(each.time_s, start_s) for each in during), end_s]
        for each, (from_s, until_s) in zip(during, pairwise(times_s), strict=True):
            active += each.active / max(each.total, 1) * (until_s - from_s)
            available += each.available / max(each.total, 1) * (until_s - from_s)
        active, available = active / (end_s - start_s), available / (end_s - start_s)
    return {"stepping_slice_efficiency": active, "available_slice_efficiency": available}


def _total_s(rows: Rows, now: float) -> float:
    end_s = now if rows.job_end_s is None else rows.job_end_s
    return _whole_us(end_s) - _whole_us(rows.job_start_s or 0.0)


def _whole_us(time_s: float) -> float:
    """Return the time as a datetime would have it."""
    fraction_s, whole_s = modf(time_s)
    return (int(whole_s) * 1_000_000 + round(fraction_s * 1e6)) / 1_000_000


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


def _united(spans: Iterable[Span]) -> list[Span]:
    """Return the spans by time, those that touch as one."""
    united: list[Span] = []
    for start_s, end_s in sorted(spans):
        if united and start_s <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end_s))
        else:
            united.append((start_s, end_s))
    return united


def _sum(seconds: Seconds) -> float:
    return float(np.cumsum(seconds)[-1]) if len(seconds) else 0.0


def _overlaps_s(starts_s: Seconds, ends_s: Seconds, spans: Iterable[Span]) -> Seconds:
    """Return how much of each interval lies in each of the `spans`, summed."""
    overlaps_s = np.zeros(len(starts_s))
    for from_s, until_s in spans:
        overlaps_s += (np.minimum(ends_s, until_s) - np.maximum(starts_s, from_s)).clip(min=0.0)
    return overlaps_s


class _Steps:
    """What lies from one step's begin to the next one's, in columns; nothing lies between two segments.

    A step lasts until the next number begins, and counts then. What lies past the step that the work went on
    at was not `kept`.
    """

    def __init__(self, rows: Rows, used: NDArray[np.bool_]) -> None:
        at = np.flatnonzero((np.diff(rows.segment) == 0) & used[rows.segment[:-1]])
        self.segments = len(rows.first)
        self.segment, self.numbers, following = rows.segment[at], rows.steps[at], rows.steps[at + 1]
        self.starts_s, self.ends_s = rows.times_s[at], rows.times_s[at + 1]
        self.kept = following <= rows.resumed_at[self.segment]
        self.counts = self.kept & (following - self.numbers == 1)
        lowest = np.minimum.reduceat(rows.steps, rows.first) if self.segments else rows.steps
        self.is_lowest = self.numbers == lowest[self.segment]

    def sums(self, seconds: Seconds, where: NDArray[np.bool_] | slice = slice(None)) -> Seconds:
        """Return the sum of each segment."""
        return np.asarray(np.bincount(self.segment[where], seconds[where], self.segments), dtype=float)

    def without_inside(self, customs: Intervals, lasted_s: Seconds) -> tuple[Seconds, dict[str, float]]:
        """Take custom events off the steps that wholly hold them; return their sums by name."""
        steps, events = self._holding(customs)
        spent_s, names = customs.lengths_s[events], customs.keys[events]
        by_name_s = np.bincount(names, spent_s)
        lasted_s = lasted_s - np.bincount(steps, spent_s, len(lasted_s))
        return lasted_s, {
            customs.key_names[name]: float(by_name_s[name]) for name in np.unique(names).tolist()
        }

    def without_overlaps(self, customs: Intervals, lasted_s: Seconds) -> tuple[Seconds, dict[str, float]]:
        """Take what of custom events lies in a step off it; return their sums by name."""
        by_name_s: dict[str, Seconds] = {}
        for name, each in zip(customs.names, customs, strict=True):
            within_s = _overlaps_s(self.starts_s, self.ends_s, [each]) * self.counts
            lasted_s = lasted_s - within_s
            by_name_s[name] = by_name_s.get(name, 0.0) + self.sums(within_s)
        return lasted_s, {name: _sum(spent_s) for name, spent_s in by_name_s.items()}

    def _holding(self, customs: Intervals) -> tuple[Whole, Whole]:
        """Return which step that counts wholly holds which custom event, by the latter."""
        by_start = np.argsort(customs.starts_s, kind="stable")
        lasting = np.flatnonzero(self.starts_s < self.ends_s)
        starts_s, ends_s = self.starts_s[lasting], self.ends_s[lasting]
        bounds = [0, *(np.flatnonzero(starts_s[1:] < ends_s[:-1]) + 1).tolist(), len(lasting)]
        held = [(lasting[:0], by_start[:0])]
        for first, last in pairwise(bounds if len(lasting) and len(by_start) else ()):
            # of steps that do not overlap only the last one before its start can hold an event
            begun = np.searchsorted(customs.starts_s, (starts_s[first], ends_s[last - 1]), sorter=by_start)
            found = by_start[slice(*begun)]
            step = first + np.searchsorted(starts_s[first:last], customs.starts_s[found], side="right") - 1
            inside = (customs.ends_s[found] <= ends_s[step]) & self.counts[lasting[step]]
            held.append((lasting[step[inside]], found[inside]))
        steps, events = (np.concatenate(column) for column in zip(*held, strict=True))
        order = np.lexsort((steps, events))
        return steps[order], events[order]


class _Pass:
    """One pass over the rows of a job, as if the time in `left_out` had not been.

    With None nothing is left out, and the peer's rules are others.
    """

    def __init__(self, rows: Rows, left_out: Sequence[Span] | None = None) -> None:
        self._rows, self._left_out, self._is_whole = rows, left_out, left_out is None
        self._segments = len(rows.first)
        self._excluded_s = [np.zeros(1)]
        self._found: BadputTimes = {}
        self._productive_s = 0.0
        self._max_step, self._last_step = 0, int(rows.resumed_at[-1]) if self._segments else 0
        loads = rows.intervals("data_loading")
        loads_s = self._rest_s(loads.starts_s, loads.ends_s)
        self._take_steps()
        self._take_last_step()
        self._take_intervals(loads, loads_s)
        self.excluded_s = _sum(np.concatenate(self._excluded_s))

    def account(self, total_s: float, *, elastic: bool) -> CompatAccount:
        """Return the account of a job that took so long."""
        badput_s = {badput: self._found[badput] for badput in BadputType if badput in self._found}
        if elastic and self._is_whole:
            badput_s |= _elastic_s(self._rows)
        return CompatAccount(
            total_s=total_s,
            productive_s=self._productive_s,
            badput_s=_completed(badput_s, self._productive_s, total_s),
            max_productive_step=self._max_step,
            last_step=self._last_step,
            disruptions=max(0, self._segments - 1),
            elastic=elastic,
            excluded_s=self.excluded_s,
        )

    def _rest_s(self, starts_s: Seconds, ends_s: Seconds) -> Seconds:
        """Return how long each interval lasted, without what is left out."""
        if self._left_out is None:
            return ends_s - starts_s
        excluded_s = _overlaps_s(starts_s, ends_s, self._left_out)
        self._excluded_s.append(excluded_s)
        return np.asarray(np.maximum(0.0, ends_s - starts_s - excluded_s), dtype=float)

    def _take_steps(self) -> None:
        """Count steps, what of them was for nothing, and custom events."""
        # work that went on at step 0 has no segment before it
        used = self._rows.resumed_at != 0 if self._is_whole else np.ones(self._segments, dtype=bool)
        steps = _Steps(self._rows, used)
        lasted_s = self._take_recovery(steps)
        wasted_s = lasted_s if self._is_whole else np.maximum(0.0, lasted_s)
        if used.any():
            spent_s = _sum(steps.sums(wasted_s, ~steps.kept))
            self._found[BadputType.WASTED_PROGRESS_FROM_DISRUPTION] = spent_s
        without = steps.without_inside if self._is_whole else steps.without_overlaps
        lasted_s, customs_s = without(self._rows.intervals("custom").lasting, lasted_s)
        counted = steps.segment[steps.counts]
        if len(counted):
            self._found[BadputType.CUSTOM_BADPUT_EVENTS] = customs_s
        took_s = self._take_startup(steps, counted, np.maximum(0.0, lasted_s))
        self.took_s = steps.numbers[steps.counts], took_s[steps.counts]
        """Steps that count, and what they took, the first one of a segment without its startup."""
        reached = self.took_s[0][np.diff(counted, append=-1) != 0].tolist()
        if not self._is_whole:
            self._max_step = max([0, *reached])
        elif self._segments - 1 in counted[-1:]:
            self._max_step = reached[-1]

    def _take_startup(self, steps: _Steps, counted: Whole, took_s: Seconds) -> Seconds:
        """Take the program's start off each segment's first step: its excess over the mean of the others."""
        lowest, others = steps.counts & steps.is_lowest, steps.counts & ~steps.is_lowest
        count = steps.sums(np.ones(len(took_s)), others)
        all_s, lowest_s = steps.sums(took_s, steps.counts), steps.sums(took_s, lowest)
        startup_s = np.maximum(0.0, lowest_s - (all_s - lowest_s) / np.maximum(count, 1.0)) * (count > 0)
        took_s[lowest] -= startup_s[steps.segment[lowest]]
        productive_s = all_s - startup_s if self._is_whole else steps.sums(took_s, steps.counts)
        self._productive_s = _sum(productive_s)
        if len(counted):
            self._found[BadputType.PROGRAM_STARTUP] = _sum(startup_s)
        return took_s

    def _take_recovery(self, steps: _Steps) -> Seconds:
        """Count the recoveries behind segments; return how long steps lasted, without what is left out."""
        start_s, end_s = self._rows.recovery
        left_out = self._left_out or ()
        in_steps_s = _overlaps_s(steps.starts_s, steps.ends_s, left_out)
        in_recovery_s = _overlaps_s(start_s, end_s, left_out)
        by_segment_s = steps.sums(in_steps_s), np.append(in_recovery_s, 0.0)[: self._segments]
        self._excluded_s.append(np.column_stack(by_segment_s).ravel())
        recovered = np.flatnonzero(start_s < end_s)
        recovery_s = np.maximum(0.0, end_s - start_s - in_recovery_s)[recovered]
        if len(recovered):
            self._found[BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION] = _sum(recovery_s)
        return steps.ends_s - steps.starts_s - in_steps_s

    def _take_last_step(self) -> None:
        """Count the last step of a job that ended."""
        rows = self._rows
        if self._segments and rows.job_end_s is not None:
            first = rows.first[-1]
            begun_s = rows.times_s[[first + np.argmax(rows.steps[first:])]]
            self._productive_s += float(self._rest_s(begun_s, np.array([rows.job_end_s]))[0])
            self._max_step = self._last_step

    def _take_intervals(self, loads: Intervals, loads_s: Seconds) -> None:
        """Count loads, initialisation, preparation and checkpoints.

        Of loads the first one after a start or a disruption is synchronous, and the last one before the step
        that shows a disruption.
        """
        changes = np.diff(loads.segment, prepend=-1, append=self._segments or 1) != 0
        sync_s = _sum(loads_s[changes[:-1]])
        if self._is_whole:
            sync_s += _sum(loads_s[changes[1:] & (loads.segment < self._segments - 1)])
        if len(loads_s):
            self._found[BadputType.DATA_LOADING_SYNC] = sync_s
        for kind, badput in _PAIRED.items():
            pairs = self._rows.intervals(kind)
            self._found[badput] = _sum(self._rest_s(pairs.starts_s, pairs.ends_s))
        async_s = _sum(loads_s) - sync_s
        if self._is_whole:
            async_s += _sum(self._rows.intervals("data_loading_async").lengths_s)
            for kind, badput in _CHECKPOINTS.items():
                self._found[badput] = _mean_by_name(self._rows.intervals(kind))
            if self._segments:  # saves are within steps
                self._productive_s -= _mean_by_name(self._rows.intervals("checkpoint_save"))
        self._found[BadputType.DATA_LOADING_ASYNC] = async_s


def _elastic_s(rows: Rows) -> BadputTimes:
    """Return waits and re-initialisations, and what has no such in it anew: nothing is counted twice."""
    spans = {kind: rows.intervals(kind).lasting for kind in _ELASTIC}
    found: BadputTimes = {}
    for kind, badput in _ELASTIC.items():
        if len(spans[kind].rows):
            found[badput] = _sum(spans[kind].lengths_s)
    for kind, badput in _PAIRED.items():
        pairs = rows.intervals(kind)
        overlaps_s = _overlaps_s(pairs.lasting.starts_s, pairs.lasting.ends_s, spans["elastic_reinit"])
        if (overlap_s := _sum(overlaps_s)) > 0:
            found[badput] = max(0.0, _sum(pairs.lengths_s) - overlap_s)
    return found


def _mean_by_name(checkpoints: Intervals) -> float:
    """Sum over checkpoints; what several writers say of the same one is averaged.

    They are recorded as durations there: two epoch times give one back to the microsecond.
    """
    durations_s: dict[str, list[float]] = {}
    for name, (start_s, end_s) in zip(checkpoints.names, checkpoints, strict=True):
        durations_s.setdefault(name or f"#{len(durations_s)}", []).append(round(end_s - start_s, 6))
    return sum((sum(told_s) / len(told_s) for told_s in durations_s.values()), 0.0)


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
