"""The facts of a job as the ledger keeps them: numbers in columns, in order, each once."""

from typing import Any, NamedTuple

import numpy as np

from .. import buckets
from ..buckets import Codes
from ..events import (
    AllocationEnded,
    FlushCompleted,
    Interval,
    JobEnded,
    JobHalted,
    JobQueued,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    OutputStarted,
    Recovered,
    RestartCompleted,
    SlicesObserved,
)
from ..job_events import STEP_LIMIT, JobEvents
from .claims import Longs, empty, is_changed, joined, nanoseconds, where
from .times import NEVER, to_ns

NO_STEP = -NEVER
NOBODY = -1
"""The writer of what says nothing of how long one was alive."""

_STREAMS = 16_384
_OF_RECOVERED = {"fetch": buckets.FETCH, "scavenge": buckets.SCAVENGE}
_BEGINS_ATTEMPT = (buckets.RESTORE, buckets.ELASTIC_REINIT)


class Tokens(NamedTuple):
    """Starts of steps by writer, with their numbers; or starts (1) and ends (0) of intervals by stream."""

    stream: Longs
    time: Longs
    value: Longs


class ClosedIntervals(NamedTuple):
    """Intervals and steps with both ends, and their writers (NOBODY: what says nothing of a life)."""

    start: Longs
    end: Longs
    kind: Longs
    step: Longs
    writer: Longs


Moment = tuple[Any, ...]
"""When, and more."""


class Moments(NamedTuple):
    """What happens a few times in a run; each begins with its time.

    `starts` are those of runs, by writer; `ends` say whether they were bad ones, and who says so; `marks` are
    what unclaimed time is from then on; at `restarts` a run went back to a checkpoint.
    """

    starts: frozenset[Moment] = frozenset()
    ends: frozenset[Moment] = frozenset()
    halts: frozenset[Moment] = frozenset()
    marks: frozenset[Moment] = frozenset()
    restarts: frozenset[Moment] = frozenset()


class Facts(NamedTuple):
    """All facts. At `points` the job was alive."""

    steps: Tokens
    borders: Tokens
    closed: ClosedIntervals
    points: Longs
    moments: Moments

    def between(self, begin: int, behind: int) -> "Facts":
        """Return what began, or was reported of a time, in [begin, behind)."""
        return Facts(
            where(self.steps, _within(self.steps.time, begin, behind)),
            where(self.borders, _within(self.borders.time, begin, behind)),
            where(self.closed, _within(self.closed.start, begin, behind)),
            self.points[_within(self.points, begin, behind)],
            Moments(*(frozenset(m for m in each if begin <= m[0] < behind) for each in self.moments)),
        )

    @property
    def earliest(self) -> int:
        """The first time that any of it begins."""
        columns = (self.steps.time, self.borders.time, self.closed.start, self.points)
        least = [int(each.min()) for each in columns if len(each)]
        return min([*least, *(time for each in self.moments for time, *_ in each)], default=NEVER)

    @property
    def latest(self) -> int:
        """The last time that any of it names."""
        columns = (self.steps.time, self.borders.time, self.closed.start, self.closed.end, self.points)
        most = [int(each.max()) for each in columns if len(each)]
        return max([*most, *(time for each in self.moments for time, *_ in each)], default=-NEVER)

    @property
    def size(self) -> int:
        """About how many claims it makes."""
        return len(self.steps.time) + len(self.borders.time) // 2 + len(self.closed.start) + len(self.points)


NOTHING = Facts(empty(Tokens), empty(Tokens), empty(ClosedIntervals), np.zeros(0, np.int64), Moments())


def merged_facts(*parts: Facts) -> Facts:
    """Return all of `parts`."""
    return Facts(
        in_order(joined([each.steps for each in parts])),
        in_order(joined([each.borders for each in parts])),
        joined([each.closed for each in parts]),
        np.concatenate([each.points for each in parts]),
        Moments(*(frozenset().union(*each) for each in zip(*(each.moments for each in parts), strict=True))),
    )


class StreamNames:
    """Writers, and streams (one writer's intervals of one kind and name), as small numbers."""

    def __init__(self, codes: Codes) -> None:
        self.codes = codes
        self._writers = {"": 0}
        self._streams: dict[tuple[int, int, str], int] = {}

    def writer(self, name: str) -> int:
        """Return the number of a writer; of too many, those that come last are one."""
        if name not in self._writers and len(self._writers) < _STREAMS:
            self._writers[name] = len(self._writers)
        return self._writers.get(name, 0)

    def stream(self, kind: str, name: str, writer: str) -> int:
        """Return the number of a stream."""
        code = self.codes.of_interval(kind, name)
        key = self.writer(writer), code, name
        if key not in self._streams and len(self._streams) >= _STREAMS:
            key = 0, code, ""
        return self._streams.setdefault(key, len(self._streams))

    def columns(self) -> tuple[Longs, Longs]:
        """Return the writer and the kind of each stream."""
        made = np.array([key[:2] for key in self._streams], np.int64).reshape(-1, 2)
        return made[:, 0], made[:, 1]


def read(events: JobEvents, names: StreamNames) -> Facts:
    """Return the facts in `events`."""
    steps = [empty(Tokens)]
    for writer, begun in events.step_starts.items():
        steps.append(_tokens(names.writer(writer), begun.times_s, np.array(begun.numbers, np.int64)))
        outside = np.abs(steps[-1].value) >= STEP_LIMIT
        if outside.any():
            steps[-1] = where(steps[-1], ~outside)
    rare = _RareEvents(names)
    borders = [empty(Tokens)]
    for (kind, name, writer), each in events.borders.items():
        stream = names.stream(kind, name, writer)
        borders.append(_tokens(stream, each.times_s, np.array(each.begins, np.int64)))
        if buckets.of_interval(kind, name) in _BEGINS_ATTEMPT:
            rare.restarts += borders[-1].time[borders[-1].value == 1].tolist()
    whole = [empty(ClosedIntervals)]
    for writer, column in events.whole_steps.items():
        start, end = nanoseconds(column.starts_s), nanoseconds(column.ends_s)
        number = np.array(column.numbers, np.int64)
        code, who = (np.full(len(start), each) for each in (names.codes[buckets.STEP], names.writer(writer)))
        steps_made = ClosedIntervals(start, np.maximum(start, end), code, number, who)
        whole.append(where(steps_made, np.abs(number) < STEP_LIMIT))
    for event in events.others:
        rare.add(event)
    rows = np.array(rare.rows, np.int64).reshape(-1, 5)
    return Facts(
        in_order(joined(steps)),
        in_order(joined(borders)),
        joined([*whole, ClosedIntervals(*rows.T)]),
        np.array(rare.points, np.int64),
        rare.moments(),
    )


class _RareEvents:
    """The facts, taken in event by event."""

    def __init__(self, names: StreamNames) -> None:
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.points: list[int] = []
        self.restarts: list[int] = []
        self._names, self._codes = names, names.codes
        self._starts: set[Moment] = set()
        self._ends: set[Moment] = set()
        self._halts: set[Moment] = set()
        self._marks: set[Moment] = set()

    def moments(self) -> Moments:
        """Return what happens a few times in a run."""
        restarts = {(time,) for time in self.restarts}
        kinds = (self._starts, self._ends, self._halts, self._marks, restarts)
        return Moments(*(frozenset(each) for each in kinds))

    def add(self, event: object) -> None:  # noqa: C901, PLR0912 - one case for each kind of event
        match event:
            case JobStarted():
                self._starts.add((to_ns(event.time_s), event.writer))
            case JobEnded():
                self._ends.add((to_ns(event.time_s), event.exit_code not in (None, 0), event.writer))
            case JobHalted():
                self._halts.add((to_ns(event.time_s),))
            case JobQueued():
                self._mark(event.time_s, buckets.QUEUE_WAIT)
            case AllocationEnded():
                self._mark(event.time_s, buckets.ALLOCATION_END)
            case NodeFailed():
                self._mark(event.time_s, buckets.RECOVERY)
            case OutputStarted() | SlicesObserved():
                self.points.append(to_ns(event.time_s))
            case FlushCompleted():
                self.points += to_ns(event.start_s), to_ns(event.end_s)
            case OutputCompleted():
                self._output(event)
            case RestartCompleted():
                self._claim(event, self._codes[buckets.RESTORE])
                if event.valid:  # also within a run: back to a better checkpoint
                    self.restarts.append(to_ns(event.start_s))
            case Recovered():
                self._claim(event, self._codes[_OF_RECOVERED.get(event.kind, buckets.REBUILD)])
            case Interval():
                self._interval(event)

    def _mark(self, time_s: float, bucket: str) -> None:
        self._marks.add((to_ns(time_s), self._codes[bucket]))

    def _claim(self, event: Interval | RestartCompleted | Recovered, code: int, writer: int = NOBODY) -> None:
        start = to_ns(event.start_s)
        self.rows.append((start, max(start, to_ns(event.end_s)), code, NO_STEP, writer))

    def _interval(self, event: Interval) -> None:
        bucket = buckets.of_interval(event.kind, event.name)
        is_own = bucket not in buckets.NOT_THE_RUNS_OWN
        code = self._codes.of_interval(event.kind, event.name)
        self._claim(event, code, self._names.writer(event.writer) if is_own else NOBODY)
        if bucket in _BEGINS_ATTEMPT:
            self.restarts.append(to_ns(event.start_s))

    def _output(self, event: OutputCompleted) -> None:
        """The parts of an output lie one behind the other: each is its slowest rank's, scaled down to fit."""
        at, end = to_ns(event.start_s), to_ns(event.end_s)
        felt = max(0, end - at)
        parts = [max(0, to_ns(getattr(event, name))) for name, _ in buckets.OF_OUTPUT]
        total = max(sum(parts), felt)
        for (_, bucket), part in zip(buckets.OF_OUTPUT, parts, strict=True):
            if part and total:
                until = at + part * felt // total
                self.rows.append((at, until, self._codes[bucket], NO_STEP, NOBODY))
                at = until
        self.rows.append((at, max(at, end), self._codes[buckets.CHECKPOINT_OTHER], NO_STEP, NOBODY))


def _tokens(stream: int, times_s: Any, value: Longs) -> Tokens:
    return Tokens(np.full(len(value), stream), nanoseconds(times_s), value)


def in_order(tokens: Tokens) -> Tokens:
    """Return tokens by stream, time and value, each once."""
    stream, time, value = tokens
    later = (stream[1:] > stream[:-1]) | ((stream[1:] == stream[:-1]) & (time[1:] > time[:-1]))
    if later.all():
        return tokens
    tokens = where(tokens, np.lexsort((value, time, stream)))
    return where(tokens, is_changed(*tokens))


def _within(times: Longs, begin: int, behind: int) -> Any:
    return (times >= begin) & (times < behind)
