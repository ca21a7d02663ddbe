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
from numpy.typing import NDArray

from ...events import (
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
from ...job_events import JobEvents
from ...validation import span

Seconds: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
Span: TypeAlias = tuple[float, float]
Columns: TypeAlias = tuple[Whole, Whole, Seconds, Seconds]


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
}


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
        kept = self.starts_s < self.ends_s
        starts_s, ends_s, keys = self.starts_s[kept], self.ends_s[kept], self.keys[kept]
        return Intervals(starts_s, ends_s, keys, self.key_names, self.rows[kept], self.segment[kept])

    @property
    def names(self) -> list[str]:
        """The name of each."""
        return [self.key_names[key] for key in self.keys.tolist()]


class EventTable:
    """Takes events in, in their order of arrival."""

    def __init__(self, events: Iterable[GoodputEvent] = ()) -> None:
        self.slices: list[SlicesObserved] = []
        self.keys: dict[tuple[str, str], int] = {}
        self._whats, self._times_s = array("q"), array("d")  # of a row kind and number, start and end
        self.extend(events)

    def extend(self, events: Iterable[GoodputEvent]) -> None:
        """Take in the next events."""
        for event in events:
            self._whats.extend(self._what(event))
            self._times_s.extend(span(event))

    def columns(self) -> Columns:
        """Return kinds, numbers, starts and ends of the rows."""
        # copies: an array whose memory is looked at cannot grow
        whats, times_s = np.array(self._whats).reshape(-1, 2), np.array(self._times_s).reshape(-1, 2)
        return whats[:, 0], whats[:, 1], times_s[:, 0], times_s[:, 1]

    def rows(self, window: Span | None = None) -> "Rows":
        """Return what was taken in, or what of it is after the start of a window and up to its end."""
        return Rows(self.columns(), list(self.keys), window)

    def key(self, kind: str, name: str) -> int:
        """Return the number of intervals of that kind and name."""
        return self.keys.setdefault((kind, name.upper() if kind == "custom" else name), len(self.keys))

    def _what(self, event: GoodputEvent) -> tuple[int, int]:
        kind = _KINDS.get(type(event), _Kind.OTHER)
        match event:
            case StepStarted() | StepCompleted():
                return kind, event.step
            case IntervalStarted() | IntervalEnded() | Interval():
                return kind, self.key(event.kind, event.name)
            case OutputCompleted(checkpoint=True):
                return _Kind.WHOLE, self.key("checkpoint_save", "")
            case RestartCompleted():
                return _Kind.WHOLE, self.key("checkpoint_restore", "")
            case SlicesObserved():
                self.slices.append(event)
        return kind, 0


def rows_of(events: Iterable[GoodputEvent], window: Span | None = None) -> "Rows":
    """Return the rows of events in this order, those of a :class:`~..job_events.JobEvents` by time."""
    if not isinstance(events, JobEvents):
        return EventTable(events).rows(window)
    table = EventTable(events.others)
    pieces = [table.columns()]
    for (kind, name, _), borders in events.borders.items():
        times_s = np.array(borders.times_s)
        kinds = np.where(borders.begins, _Kind.BEGIN, _Kind.END)
        pieces.append((kinds, np.full(len(kinds), table.key(kind, name)), times_s, times_s))
    for numbers, starts_s in step_columns(events):
        times_s = np.array(starts_s)
        pieces.append((np.full(len(times_s), _Kind.STEP.value), np.array(numbers), times_s, times_s))
    kinds, all_numbers, starts, ends = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.argsort(starts, kind="stable")
    return Rows((kinds[order], all_numbers[order], starts[order], ends[order]), list(table.keys), window)


def step_columns(events: JobEvents) -> Iterator[tuple["array[int]", "array[float]"]]:
    """Yield numbers and begins of steps, writer by writer."""
    yield from ((begun.numbers, begun.times_s) for begun in events.step_starts.values())
    yield from ((whole.numbers, whole.starts_s) for whole in events.whole_steps.values())


class Rows:
    """Rows of an :class:`EventTable`.

    Steps are in segments: a number that is seen again is a disruption, and begins the next one. Of each
    segment `first` is its first step's index, `resumed_at` the number that the work went on at behind it, of
    the last segment its highest; of each but the last `recovery` is from its last step's begin to the newest
    start of the job, or to -inf.
    """

    def __init__(self, columns: Columns, keys: list[tuple[str, str]], window: Span | None = None) -> None:
        if window is not None:
            starts_s = columns[2]
            inside = (window[0] < starts_s) & (starts_s <= window[1])
            columns = columns[0][inside], columns[1][inside], starts_s[inside], columns[3][inside]
        self._kinds, self._numbers, self.starts_s, self._ends_s = columns
        self._keys = keys
        self._step_rows = np.flatnonzero(self._kinds == _Kind.STEP)
        self.steps, self.times_s = self._numbers[self._step_rows], self.starts_s[self._step_rows]
        started_s, ended_s = (
            self.starts_s[self._kinds == kind].tolist() for kind in (_Kind.JOB_START, _Kind.JOB_END)
        )
        self.job_start_s: float | None = started_s[0] if started_s else None
        self.job_end_s: float | None = ended_s[-1] if ended_s else None

    @cached_property
    def first(self) -> Whole:
        """The index of each segment's first step."""
        order = np.argsort(self.steps, kind="stable")
        again = np.flatnonzero(np.diff(self.steps[order]) == 0)
        seen_at = dict(zip(order[again + 1].tolist(), order[again].tolist(), strict=True))
        first = [0] if len(self.steps) else []
        for step in sorted(seen_at):
            if seen_at[step] >= first[-1]:
                first.append(step)
        return np.array(first, dtype=np.int64)

    @cached_property
    def segment(self) -> Whole:
        """The segment of each step."""
        return np.repeat(np.arange(len(self.first)), np.diff(self.first, append=len(self.steps)))

    @cached_property
    def resumed_at(self) -> Whole:
        """Where the work went on behind each segment."""
        return np.append(self.steps[self.first[1:]], [self.steps[at:].max() for at in self.first[-1:]])

    @cached_property
    def recovery(self) -> tuple[Seconds, Seconds]:
        """Starts and ends."""
        starts = np.flatnonzero(self._kinds == _Kind.JOB_START)
        newest = np.searchsorted(starts, self._step_rows[self.first[1:]]) - 1
        return self.times_s[self.first[1:] - 1], np.append(self.starts_s[starts], -np.inf)[newest]

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
        segment = np.searchsorted(self._step_rows[self.first[1:]], last)
        names = [name for _, name in self._keys]
        return Intervals(self.starts_s[first], self._ends_s[last], self._numbers[first], names, last, segment)
