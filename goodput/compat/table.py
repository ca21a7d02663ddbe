"""The events of a job in their order of arrival, as columns: steps in segments, and intervals in pairs.

Times are epoch seconds. A row has the number of its step, or of what it is an interval of.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    SlicesObserved,
    StepCompleted,
    StepStarted,
)
from ..job_events import JobEvents
from ..validation import span

Seconds: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
Span: TypeAlias = tuple[float, float]


class _Kind(IntEnum):
    OTHER = 0
    STEP = 1
    JOB_START = 2
    JOB_END = 3
    BEGIN = 4
    END = 5
    WHOLE = 6


_KINDS: dict[type, _Kind] = {
    StepStarted: _Kind.STEP,
    StepCompleted: _Kind.STEP,
    JobStarted: _Kind.JOB_START,
    JobEnded: _Kind.JOB_END,
    IntervalStarted: _Kind.BEGIN,
    IntervalEnded: _Kind.END,
    Interval: _Kind.WHOLE,
    OutputCompleted: _Kind.WHOLE,
    RestartCompleted: _Kind.WHOLE,
}


@dataclass(frozen=True)
class Segment:
    """Steps by number and when they began, up to where the work went on at `resumed_at`; no step twice.

    `recovery` is from the last step's begin to the newest start of the job, if that is after it.
    """

    steps: Whole
    times_s: Seconds
    resumed_at: int
    recovery: Span | None = None


@dataclass(frozen=True)
class Intervals:
    """Intervals of one kind in the order of the `rows` that they ended in, while `segment` was open."""

    starts_s: Seconds
    ends_s: Seconds
    keys: Whole
    key_names: list[str]
    rows: Whole
    segment: Whole

    def __iter__(self) -> Iterator[Span]:
        return zip(self.starts_s.tolist(), self.ends_s.tolist(), strict=True)

    @property
    def lengths_s(self) -> Seconds:
        """How long each was."""
        return self.ends_s - self.starts_s

    @property
    def lasting(self) -> "Intervals":
        """Those that ended after they began."""
        kept = np.flatnonzero(self.starts_s < self.ends_s)
        starts_s, ends_s, keys = self.starts_s[kept], self.ends_s[kept], self.keys[kept]
        return Intervals(starts_s, ends_s, keys, self.key_names, self.rows[kept], self.segment[kept])

    @property
    def names(self) -> list[str]:
        """The name of each."""
        return [self.key_names[key] for key in self.keys.tolist()]


class EventTable:
    """Takes events in, by arrival; those of a :class:`~..job_events.JobEvents` it is made of by time."""

    def __init__(self, events: Iterable[GoodputEvent] = ()) -> None:
        self.slices: list[SlicesObserved] = []
        self._kinds, self._numbers = array("b"), array("q")
        self._starts_s, self._ends_s = array("d"), array("d")
        self._keys: dict[tuple[str, str], int] = {}
        if isinstance(events, JobEvents):
            self._take_columns(events)
        else:
            self.extend(events)

    def __len__(self) -> int:
        return len(self._kinds)

    def extend(self, events: Iterable[GoodputEvent]) -> None:
        """Take in the next events."""
        for event in events:
            kind, number = self._row(event)
            start_s, end_s = span(event)
            self._kinds.append(kind)
            self._numbers.append(number)
            self._starts_s.append(start_s)
            self._ends_s.append(end_s)

    def rows(self, window: Span | None = None) -> "Rows":
        """Return what was taken in, or what of it is after the start of a window and up to its end."""
        # copies: an array whose memory is looked at cannot grow
        starts_s = np.array(self._starts_s)
        inside = slice(None) if window is None else (window[0] < starts_s) & (starts_s <= window[1])
        return Rows(
            np.array(self._kinds)[inside],
            np.array(self._numbers)[inside],
            starts_s[inside],
            np.array(self._ends_s)[inside],
            list(self._keys),
        )

    def _take_columns(self, events: JobEvents) -> None:
        self.extend(events.others)
        for (kind, name, _), borders in events.borders.items():
            kinds = np.where(np.array(borders.begins), _Kind.BEGIN, _Kind.END)
            self._append(kinds, self._key(kind, name), borders.times_s)
        for begun in events.step_starts.values():
            self._append(_Kind.STEP, begun.numbers, begun.times_s)
        for whole in events.whole_steps.values():
            self._append(_Kind.STEP, whole.numbers, whole.starts_s)
        order = np.argsort(np.array(self._starts_s), kind="stable")
        for column in (self._kinds, self._numbers, self._starts_s, self._ends_s):
            column[:] = array(column.typecode, np.array(column)[order].tobytes())

    def _append(self, kinds: ArrayLike, numbers: ArrayLike, times_s: "array[float]") -> None:
        for column, values in ((self._kinds, kinds), (self._numbers, numbers)):
            column.frombytes(np.broadcast_to(np.asarray(values, column.typecode), len(times_s)).tobytes())
        self._starts_s.extend(times_s)
        self._ends_s.extend(times_s)

    def _row(self, event: GoodputEvent) -> tuple[_Kind, int]:
        if isinstance(event, SlicesObserved):
            self.slices.append(event)
        kind = _KINDS.get(type(event), _Kind.OTHER)
        match event:
            case StepStarted() | StepCompleted():
                return kind, event.step
            case IntervalStarted() | IntervalEnded() | Interval():
                return kind, self._key(event.kind, event.name)
            case OutputCompleted():
                return (kind, self._key("checkpoint_save", "")) if event.checkpoint else (_Kind.OTHER, 0)
            case RestartCompleted():
                return kind, self._key("checkpoint_restore", "")
        return kind, 0

    def _key(self, kind: str, name: str) -> int:
        return self._keys.setdefault((kind, name.upper() if kind == "custom" else name), len(self._keys))


class Rows:
    """Rows of an :class:`EventTable`."""

    def __init__(
        self,
        kinds: NDArray[np.int8],
        numbers: Whole,
        starts_s: Seconds,
        ends_s: Seconds,
        keys: list[tuple[str, str]],
    ) -> None:
        self.starts_s = starts_s
        self._kinds, self._numbers, self._ends_s = kinds, numbers, ends_s
        self._keys = keys
        self._step_rows = np.flatnonzero(kinds == _Kind.STEP)
        self.steps, self.times_s = numbers[self._step_rows], starts_s[self._step_rows]

    @property
    def job_start_s(self) -> float | None:
        """When the job started first."""
        return next(iter(self.starts_s[self._kinds == _Kind.JOB_START].tolist()), None)

    @property
    def job_end_s(self) -> float | None:
        """When it ended last."""
        return next(iter(self.starts_s[self._kinds == _Kind.JOB_END][::-1].tolist()), None)

    @cached_property
    def _bounds(self) -> list[int]:
        """The first step of each segment: a step number that is seen again is a disruption."""
        order = np.argsort(self.steps, kind="stable")
        again = np.flatnonzero(np.diff(self.steps[order]) == 0)
        seen_at = dict(zip(order[again + 1].tolist(), order[again].tolist(), strict=True))
        bounds = [0]
        for step in sorted(seen_at):
            if seen_at[step] >= bounds[-1]:
                bounds.append(step)
        return bounds

    @cached_property
    def segments(self) -> list[Segment]:
        """The steps between disruptions, the last segment with what came behind the last disruption."""
        if not len(self.steps):
            return []
        starts = np.flatnonzero(self._kinds == _Kind.JOB_START)
        found = []
        for first, resumed in zip(self._bounds, [*self._bounds[1:], None], strict=True):
            steps, times_s = self.steps[first:resumed], self.times_s[first:resumed]
            recovery = None
            if resumed is not None:
                newest = int(np.searchsorted(starts, self._step_rows[resumed])) - 1
                started_s = float(self.starts_s[starts[newest]]) if newest >= 0 else -np.inf
                recovery = (float(times_s[-1]), started_s) if started_s > times_s[-1] else None
            resumed_at = int(steps.max() if resumed is None else self.steps[resumed])
            found.append(Segment(steps, times_s, resumed_at, recovery))
        return found

    @cached_property
    def _pairs(self) -> tuple[Whole, Whole]:
        """The rows that intervals begin and end in, by the latter: an end is that of the start before it."""
        borders = np.flatnonzero((self._kinds == _Kind.BEGIN) | (self._kinds == _Kind.END))
        borders = borders[np.argsort(self._numbers[borders], kind="stable")]
        begins = self._kinds[borders] == _Kind.BEGIN
        paired = np.flatnonzero(begins[:-1] & ~begins[1:] & (np.diff(self._numbers[borders]) == 0))
        whole = np.flatnonzero(self._kinds == _Kind.WHOLE)
        first = np.concatenate([borders[paired], whole])
        last = np.concatenate([borders[paired + 1], whole])
        order = np.argsort(last)
        return first[order], last[order]

    def intervals(self, kind: str) -> Intervals:
        """Return the intervals of that kind that ended."""
        first, last = self._pairs
        of_kind = np.array([key[0] == kind for key in self._keys] or [False])[self._numbers[first]]
        first, last = first[of_kind], last[of_kind]
        segment = np.searchsorted(self._step_rows[self._bounds[1:]], last)
        names = [name for _, name in self._keys]
        return Intervals(self.starts_s[first], self._ends_s[last], self._numbers[first], names, last, segment)
