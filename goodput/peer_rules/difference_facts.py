"""Collect the facts about a job's events that :mod:`.differences` words."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import msgspec

from ..events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from ..steps.hangs import AROUND, HUNG
from ..validation import span

_STEPPING = (StepStarted, StepCompleted)
_GOES_BACK = frozenset({"checkpoint_restore", "elastic_reinit"})
"""Kinds of intervals after which steps may be computed again."""


class Facts(msgspec.Struct):
    """What the events have that the two policies take differently."""

    sparse: int = 0
    """Steps before which a number is missing."""
    disordered: int = 0
    """Steps that were told of behind later ones."""
    writers: set[str] = msgspec.field(default_factory=set)
    overlapping: int = 0
    crossing: int = 0
    """Custom events that a step begins in."""
    resumed_after_end: int = 0
    counted_on: int = 0
    """Runs whose steps count on from those of one that did not end well."""
    from_zero: int = 0
    """How often step 0 came again."""
    hung: int = 0
    """Steps that took more than ten times as long as those around them."""
    came_again: int = 0
    """Steps with no higher number than the one before, where nobody told of a restart."""


def facts_of(events: Sequence[GoodputEvent]) -> Facts:
    """Look at all `events`, which are in their order of arrival."""
    look = _Look()
    newest_s = float("-inf")
    for event in events:
        if isinstance(event, _STEPPING):
            start_s = span(event)[0]
            look.facts.disordered += start_s < newest_s
            newest_s = max(newest_s, start_s)
    for event in sorted(events, key=lambda event: span(event)[0]):
        look.take(event)
    return look.result()


class _Look:
    """Looks at events in the order in which they began."""

    def __init__(self) -> None:
        self.facts = Facts()
        self._intervals: list[tuple[float, float]] = []
        self._customs: list[tuple[float, float]] = []
        self._starts: list[float] = []
        self._open: dict[tuple[str, str, str], float] = {}
        self._last: dict[str, int] = {}
        """The last step of each writer since a run began, or a checkpoint was read."""
        self._run: dict[str, list[tuple[float, int]]] = {}
        """The steps of each writer in this run that only said when they began."""
        self._ended = False
        self._highest: dict[str, int] = {}
        """The highest number of each writer's steps."""
        self._is_new = False
        """A run has begun, and made no step yet."""
        self._end_s: float | None = None
        """When this run said last that it ended."""

    def take(self, event: GoodputEvent) -> None:
        """Take in the next one."""
        match event:
            case StepStarted() | StepCompleted():
                self._step(event)
            case IntervalStarted():
                self._open[event.kind, event.name, event.writer] = event.time_s
                self._restarted(event.kind)
            case IntervalEnded():
                start_s = self._open.pop((event.kind, event.name, event.writer), event.time_s)
                self._interval(event.kind, start_s, event.time_s)
            case Interval():
                self._interval(event.kind, event.start_s, event.end_s)
                self._restarted(event.kind)
            case RestartCompleted(valid=True):
                self._last.clear()
            case JobStarted():
                self._run_ended()
                self.facts.resumed_after_end += self._ended
                self._is_new = not self._ended
                self._ended = False
            case JobEnded(exit_code=code):
                self._ended = code in (None, 0)
                self._end_s = event.time_s
            case _:
                pass

    def result(self) -> Facts:
        """What was seen."""
        self._run_ended()
        self.facts.overlapping = _overlapping(self._intervals)
        self.facts.crossing = _crossing(self._customs, self._starts)
        return self.facts

    def _step(self, event: StepStarted | StepCompleted) -> None:
        facts, step, start_s = self.facts, event.step, span(event)[0]
        facts.writers.add(event.writer)
        facts.counted_on += self._is_new and -1 < max(self._highest.values(), default=-1) < step
        facts.from_zero += step == 0 < self._highest.get(event.writer, -1)
        self._is_new = False
        self._highest[event.writer] = max(self._highest.get(event.writer, -1), step)
        last = self._last.get(event.writer)
        if last is not None:
            facts.sparse += step > last + 1
            facts.came_again += step <= last
        self._last[event.writer] = step
        self._starts.append(start_s)
        if type(event) is StepStarted:
            self._run.setdefault(event.writer, []).append((start_s, step))

    def _interval(self, kind: str, start_s: float, end_s: float) -> None:
        (self._customs if kind == "custom" else self._intervals).append((start_s, end_s))

    def _restarted(self, kind: str) -> None:
        if kind in _GOES_BACK:
            self._last.clear()

    def _run_ended(self) -> None:
        for told in self._run.values():
            if self._end_s is not None and len(told) > 1:  # the last step is one like the one before it
                told.append((self._end_s, 2 * told[-1][1] - told[-2][1]))
            self.facts.hung += _hangs(told, is_last_told=self._end_s is not None)
        self._end_s = None
        self._run.clear()
        self._last.clear()


def _hangs(starts: Sequence[tuple[float, int]], *, is_last_told: bool) -> int:
    """How many steps of one writer in one run took far longer than those around them, but for the last."""
    rates = [(late - early) / max(1, after - step) for (early, step), (late, after) in pairwise(starts)]
    count = 0
    for index, rate in enumerate(rates[1:], start=1):  # the first one compiles
        if rate > HUNG * min(rates[max(0, index - AROUND) : index]):
            last = len(rates) - is_last_told
            around = rates[max(0, index - AROUND) : index] + rates[index + 1 : last][:AROUND]
            count += rate > HUNG * median(around) > 0
    return count


def _overlapping(intervals: list[tuple[float, float]]) -> int:
    """How many begin before one that began earlier has ended."""
    count, end_s = 0, float("-inf")
    for start_s, stop_s in sorted(intervals):
        count += start_s < end_s
        end_s = max(end_s, stop_s)
    return count


def _crossing(customs: list[tuple[float, float]], starts: list[float]) -> int:
    """How many have a step's begin inside; `starts` is sorted."""
    return sum(bisect_right(starts, start_s) < bisect_left(starts, end_s) for start_s, end_s in customs)
