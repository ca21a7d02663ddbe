"""Where every second of a job went: each second since its first event lies in exactly one bucket.

Events claim stretches of time; where several claim the same moment the strongest claim has it, whichever came
first (`goodput/buckets.py`). What nobody claims follows from the runs: start-up, recovery, a queue, other. So
the account depends on *what* was told, not on the order. Inside, time is whole nanoseconds: sums are exact.
`docs/goodput.md` has the definitions, and the reasons.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, islice
from typing import TYPE_CHECKING, Any

from .. import buckets
from ..account import Account, Window
from ..buckets import (
    BUCKETS,
    FLUSH_SLOWDOWN,
    OTHER,
    PRODUCTIVE,
    RECOVERY,
    STARTUP,
    STEP_SLOWDOWN,
    TUNING,
    WASTED_PROGRESS,
    Codes,
)
from ..events import (
    AllocationEnded,
    FlushCompleted,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
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
    StepCompleted,
    StepStarted,
)
from ..job_events import JobEvents, StepStarts
from .pending_events import (
    ENDS,
    LIMITS,
    NO_STEP,
    NS,
    STARTS,
    STEP_LIMIT,
    WHOLE,
    Key,
    Limits,
    PendingEvents,
    Stream,
    to_ns,
)
from .reallocation import CHARGED, reallocate_charges, reallocate_slowdown

if TYPE_CHECKING:
    from .accounting import Reckoning

__all__ = [
    "BUCKETS",
    "CHARGED",
    "FLUSH_SLOWDOWN",
    "OTHER",
    "PRODUCTIVE",
    "RECOVERY",
    "STARTUP",
    "STEP_SLOWDOWN",
    "TUNING",
    "WASTED_PROGRESS",
    "Account",
    "Ledger",
    "Window",
]

REMEMBERED = 262_144
"""How many claims a ledger keeps unless it is told otherwise: about 12 MB."""

_LOOK_EVERY = 8192
_CHUNK = 4096
_STREAMS = 16_384
_COUNTED = 65_536

_BORDERS = (IntervalStarted, IntervalEnded)
_OF_RECOVERED = {"fetch": buckets.FETCH, "scavenge": buckets.SCAVENGE}


class Ledger:
    """Accounts for one job over all its runs. Times come with the events; there is no clock here.

    `remembered` bounds the memory: about so many claims are kept, and what older ones came to is settled
    (None: nothing is ever forgotten). Telling is cheap; the work is done when somebody asks.
    """

    def __init__(self, remembered: int | None = REMEMBERED, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._codes = Codes()
        self._told = PendingEvents()
        self._streams: dict[Key, Stream] = {}
        self._spoke: dict[Key, None] = {}
        self._whole: dict[str, Stream] = {}
        """Of those that spoke, the streams of what is told whole."""
        self._reckoned: Reckoning | None = None
        self._remembered = remembered
        self._unread = 0
        self._charged_ns = dict.fromkeys(CHARGED, 0)
        self._outputs, self._brought_back, self._failures = _Counted(), _Counted(), _Counted()
        self._knows_scr = False
        self._step = self._codes[buckets.STEP]
        self._between = {self._codes[name] for name in buckets.NOT_THE_RUNS_OWN}
        self._begins_attempt = {self._codes[buckets.RESTORE], self._codes[buckets.ELASTIC_REINIT]}
        self._take: dict[type, Callable[[Any], None]] = {
            JobStarted: lambda event: self._told.starts.append((to_ns(event.time_s), event.writer)),
            JobEnded: self._job_ended,
            JobHalted: lambda event: self._told.halts.append(to_ns(event.time_s)),
            JobQueued: lambda event: self._mark(event.time_s, buckets.QUEUE_WAIT),
            AllocationEnded: lambda event: self._mark(event.time_s, buckets.ALLOCATION_END),
            NodeFailed: self._node_failed,
            StepStarted: self._step_started,
            StepCompleted: self._step_completed,
            OutputStarted: lambda event: self._told.points.append(to_ns(event.time_s)),
            SlicesObserved: lambda event: self._told.points.append(to_ns(event.time_s)),
            FlushCompleted: lambda event: self._told.points.extend(
                (to_ns(event.start_s), to_ns(event.end_s))
            ),
            OutputCompleted: self._output,
            RestartCompleted: self._restart,
            Recovered: self._recovered,
            Interval: self._interval,
            IntervalStarted: lambda event: self._interval_borders([event]),
            IntervalEnded: lambda event: self._interval_borders([event]),
        }

    def __reduce__(self) -> tuple[type["Ledger"], tuple[()], dict[str, Any]]:
        """Pickle all but the table of methods, which a new ledger has."""
        return Ledger, (), {name: value for name, value in vars(self).items() if name != "_take"}

    def handle(self, event: GoodputEvent) -> None:
        """Take one event in. Its times must be finite (:func:`scrtune.goodput.validation.defect`)."""
        take = self._take.get(type(event))
        if take is None:
            return
        take(event)
        self._unread += 1
        self._look_now_and_then()

    def extend(self, events: Iterable[GoodputEvent]) -> None:
        """Take many events in: the same as :meth:`handle` for each, and faster."""
        if isinstance(events, JobEvents):
            self._take_columns(events)
            return
        remaining = iter(events)
        while chunk := list(islice(remaining, _CHUNK)):
            steps = [event for event in chunk if type(event) is StepStarted]
            if steps:
                self._steps_started(steps)
            if len(steps) < len(chunk):
                self._take_apart([event for event in chunk if type(event) is not StepStarted])
            self._unread += len(chunk)
            self._look_now_and_then()

    def _take_columns(self, events: JobEvents) -> None:
        """Take columns in as they are, and what is rare event by event."""
        for writer, begun in events.step_starts.items():
            self._step_column(writer, begun)
        for (kind, name, writer), borders in events.borders.items():
            if borders.begins:
                self._borders(kind, name, writer, borders.times_s, borders.begins)
        for writer, whole in events.whole_steps.items():
            for number, start_s, end_s in zip(whole.numbers, whole.starts_s, whole.ends_s, strict=True):
                self._step_completed(StepCompleted(step=number, start_s=start_s, end_s=end_s, writer=writer))
        for event in events.others:
            if type(event) in self._take:
                self._take[type(event)](event)
        self._unread += len(events)
        self._look_now_and_then()

    def _step_column(self, writer: str, begun: StepStarts) -> None:
        if max(map(abs, (min(begun.numbers, default=0), max(begun.numbers, default=0)))) >= STEP_LIMIT:
            for number, time_s in zip(begun.numbers, begun.times_s, strict=True):
                self._step_started(StepStarted(step=number, time_s=time_s, writer=writer))
        elif begun.numbers:
            stream = self._stream(writer, self._step)
            stream.times.extend(begun.times_s)
            stream.values.extend(begun.numbers)

    def _take_apart(self, events: list[GoodputEvent]) -> None:
        """Take events in, those that go to the same stream together."""
        borders: dict[tuple[str, str, str], list[IntervalStarted | IntervalEnded]] = defaultdict(list)
        for event in events:
            if isinstance(event, _BORDERS):
                borders[event.kind, event.name, event.writer].append(event)
            elif type(event) in self._take:
                self._take[type(event)](event)
        for each in borders.values():
            self._interval_borders(each)

    def charge(self, bucket: str, seconds: float) -> None:
        """Move `seconds` to `bucket`, which is one of :data:`CHARGED`; back, if negative.

        To `flush_slowdown` they go from the steps that flushes slowed down, to `tuning` from the checkpoints
        that trials made dearer. Charges are estimates that noise takes below 0 now and then: only their sum
        counts.
        """
        self._charged_ns[bucket] += to_ns(seconds)

    @property
    def charges(self) -> dict[str, float]:
        """What was charged so far: seconds by bucket."""
        return {bucket: charged_ns / NS for bucket, charged_ns in self._charged_ns.items()}

    @property
    def is_silent(self) -> bool:
        """Return whether nothing was told but ends of runs: then no time was spent on anything."""
        told = self._told
        moments = (told.start, told.points, told.starts, told.restarts, told.halts, told.marks)
        return self._reckoned is None and not self._streams and not any(moments)

    def account(self, now: float, *, reference_step_s: float | None = None) -> Account:
        """Where the time went until `now` (until its end, when the job has ended).

        With `reference_step_s`, what the steps took longer than that is `step_slowdown`, and not productive.
        """
        reckoned = self._reckoning()
        codes = self._codes
        if reckoned.first is None:
            return Account(wall_s=0.0, buckets=dict.fromkeys(BUCKETS, 0.0))
        end_ns = _end_ns(reckoned, now)
        row = reckoned.spent(end_ns)
        reallocated = self._reallocated(
            reallocate_charges(row, row, self._charged_ns, codes), row, reference_step_s
        )
        return Account(
            wall_s=(end_ns - reckoned.first) / NS,
            buckets=self._named(reallocated),
            steps=reckoned.made.count,
            checkpoints=self._outputs.count if self._knows_scr else reckoned.saves(),
            runs=len(reckoned.runs.starts),
            recoveries=self._brought_back.count,
            node_failures=self._failures.count,
            start_s=reckoned.first / NS,
            data_loading_async_s=row[codes[buckets.ASYNC_LOADING]] / NS,
            skew_s=reckoned.skew() / NS,
        )

    def window(
        self, start_s: float, end_s: float, now: float, *, reference_step_s: float | None = None
    ) -> Window:
        """Where the time from `start_s` to `end_s` went, as far as it lies within the job's.

        Windows that follow each other add up to the account, to the nanosecond; but a window's
        `step_slowdown` is that of the steps made in it, and never below 0: where steps of other windows were
        faster than the reference, those of windows add up to more than the account's. What is estimated for
        the whole job (what flushes and trials cost) is shared out by the time that it is taken from. Of a
        job longer than what is remembered, a window begins where that does.
        """
        reckoned = self._reckoning()
        if reckoned.first is None:
            return Window(start_s=start_s, end_s=start_s, wall_s=0.0, buckets=dict.fromkeys(BUCKETS, 0.0))
        last_ns = _end_ns(reckoned, now)
        first_ns = reckoned.first if reckoned.floor is None else reckoned.floor
        begin_ns = min(max(to_ns(start_s), first_ns), last_ns)
        end_ns = min(max(to_ns(end_s), begin_ns), last_ns)
        whole = reckoned.spent(last_ns)
        before, until = (
            reallocate_charges(reckoned.spent(time_ns), whole, self._charged_ns, self._codes)
            for time_ns in (begin_ns, end_ns)
        )
        row = [late - early for early, late in zip(before, until, strict=True)]
        return Window(
            start_s=begin_ns / NS,
            end_s=end_ns / NS,
            wall_s=(end_ns - begin_ns) / NS,
            buckets=self._named(self._reallocated(row, whole, reference_step_s)),
        )

    def are_wasted(self, begun_s: Sequence[float], number: Sequence[int]) -> list[bool]:
        """Which of the steps with these numbers, begun at these times, were computed again later."""
        return self._reckoning().are_wasted(begun_s, number)

    def _reckoning(self) -> "Reckoning":
        """What follows from all that was told."""
        from .accounting import Reckoning  # noqa: PLC0415 - numpy: who never asks shall not pay for it

        if self._reckoned is None:
            self._reckoned = Reckoning(self._codes, self._streams, self._remembered, self._limits)
        told, spoke = self._told, self._spoke
        self._told, self._spoke, self._whole, self._unread = PendingEvents(), {}, {}, 0
        self._reckoned.take(told, spoke)
        return self._reckoned

    def _look_now_and_then(self) -> None:
        """What is told must not pile up while nobody asks."""
        if self._unread >= _LOOK_EVERY and self._remembered is not None:
            self._reckoning()

    def _reallocated(self, row: list[int], whole: list[int], reference_step_s: float | None) -> list[int]:
        """Move what the steps in `row`, of the `whole` job, took beyond the reference."""
        if reference_step_s is None:
            return row
        return reallocate_slowdown(
            row, whole, to_ns(reference_step_s) * self._reckoning().made.count, self._codes
        )

    def _named(self, row: list[int]) -> dict[str, float]:
        """Seconds by bucket: all of ours, and those of the user's that have any."""
        named = {name: row[self._codes[name]] / NS for name in BUCKETS}
        own = sorted((self._codes.names[code], code) for code in self._codes.custom if row[code])
        return named | {name: row[code] / NS for name, code in own}

    def _stream(self, writer: str, kind: int, name: str = "") -> Stream:
        stream = self._streams.get((writer, kind, name))
        if stream is None:
            if len(self._streams) >= _STREAMS:  # then writers and names are told apart no more
                writer = name = ""
            stream = self._streams.setdefault((writer, kind, name), Stream(writer, kind, name))
        self._spoke[writer, kind, name] = None
        return stream

    def _claim(self, start_ns: int, end_ns: int, kind: int, step: int = NO_STEP) -> None:
        told = self._told
        told.start.append(start_ns)
        told.end.append(max(start_ns, end_ns))
        told.kind.append(kind)
        told.step.append(step)

    def _mark(self, time_s: float, bucket: str) -> None:
        self._told.marks.append((to_ns(time_s), self._codes[bucket]))

    def _job_ended(self, event: JobEnded) -> None:
        self._told.ends.append((to_ns(event.time_s), event.exit_code not in (None, 0), event.writer))

    def _node_failed(self, event: NodeFailed) -> None:
        self._failures.add((event.node, to_ns(event.time_s)))
        self._mark(event.time_s, RECOVERY)

    def _step_started(self, event: StepStarted) -> None:
        if abs(event.step) < STEP_LIMIT:
            stream = self._stream(event.writer, self._step)
            stream.times.append(event.time_s)
            stream.values.append(event.step)

    def _steps_started(self, events: list[StepStarted]) -> None:
        writers = {event.writer for event in events}
        numbers = [event.step for event in events]
        if len(writers) > 1 or min(numbers) <= -STEP_LIMIT or max(numbers) >= STEP_LIMIT:
            for event in events:
                self._step_started(event)
            return
        stream = self._stream(writers.pop(), self._step)
        stream.times.fromlist([event.time_s for event in events])
        stream.values.fromlist(numbers)

    def _step_completed(self, event: StepCompleted) -> None:
        if abs(event.step) < STEP_LIMIT:
            self._claim(to_ns(event.start_s), to_ns(event.end_s), self._step, event.step)
            self._tells_whole(event, event.step)

    def _restart(self, event: RestartCompleted) -> None:
        start_ns = to_ns(event.start_s)
        self._claim(start_ns, to_ns(event.end_s), self._codes[buckets.RESTORE])
        if event.valid:  # also within a run: back to a better checkpoint
            self._told.restarts.append(start_ns)

    def _recovered(self, event: Recovered) -> None:
        start_ns, end_ns = to_ns(event.start_s), to_ns(event.end_s)
        if event.valid:
            self._brought_back.add((event.kind, event.dataset, start_ns, end_ns))
        bucket = _OF_RECOVERED.get(event.kind, buckets.REBUILD)
        self._claim(start_ns, end_ns, self._codes[bucket])

    def _output(self, event: OutputCompleted) -> None:
        """The parts of an output lie one behind the other: each is its slowest rank's, scaled down to fit."""
        start_ns, end_ns = to_ns(event.start_s), to_ns(event.end_s)
        self._knows_scr = True
        if event.checkpoint and event.valid:
            self._outputs.add((event.dataset, start_ns, end_ns))
        felt_ns = max(0, end_ns - start_ns)
        parts = [max(0, to_ns(getattr(event, name))) for name, _ in buckets.OF_OUTPUT]
        total_ns = max(sum(parts), felt_ns)
        at_ns = start_ns
        for (_, bucket), part_ns in zip(buckets.OF_OUTPUT, parts, strict=True):
            if part_ns and total_ns:
                until_ns = at_ns + part_ns * felt_ns // total_ns
                self._claim(at_ns, until_ns, self._codes[bucket])
                at_ns = until_ns
        self._claim(at_ns, max(start_ns, end_ns), self._codes[buckets.CHECKPOINT_OTHER])

    def _interval(self, event: Interval) -> None:
        code = self._codes.of_interval(event.kind, event.name)
        start_ns = to_ns(event.start_s)
        self._claim(start_ns, to_ns(event.end_s), code)
        if code not in self._between:
            self._tells_whole(event, NO_STEP)
        if code in self._begins_attempt:
            self._told.restarts.append(start_ns)

    def _tells_whole(self, event: StepCompleted | Interval, step: int) -> None:
        stream = self._whole.get(event.writer)
        if stream is None:
            stream = self._whole[event.writer] = self._stream(event.writer, WHOLE)
        times, values = stream.times, stream.values
        times.append(event.start_s)
        times.append(max(event.start_s, event.end_s))
        values.append(step)
        values.append(NO_STEP)

    def _interval_borders(self, events: Sequence[IntervalStarted | IntervalEnded]) -> None:
        """Starts and ends of one writer's intervals of one kind and name."""
        first = events[0]
        times_s = array("d", [event.time_s for event in events])
        begins = array("b", [type(event) is IntervalStarted for event in events])
        self._borders(first.kind, first.name, first.writer, times_s, begins)

    def _borders(
        self, kind: str, name: str, writer: str, times_s: "array[float]", begins: "array[int]"
    ) -> None:
        code = self._codes.of_interval(kind, name)
        stream = self._stream(writer, code, name)
        stream.times.extend(times_s)
        stream.values.fromlist([STARTS if begin else ENDS for begin in begins])
        if code in self._begins_attempt:
            self._told.restarts += [to_ns(time_s) for time_s in compress(times_s, begins)]


class _Counted:
    """How many different things were told of; of those that come again long afterwards, it cannot say."""

    def __init__(self) -> None:
        self.count = 0
        self._recent: dict[tuple[object, ...], None] = {}

    def add(self, thing: tuple[object, ...]) -> None:
        if thing in self._recent:
            return
        self.count += 1
        self._recent[thing] = None
        if len(self._recent) > _COUNTED:
            del self._recent[next(iter(self._recent))]


def _end_ns(reckoned: "Reckoning", now: float) -> int:
    return reckoned.last if reckoned.runs.is_over else max(reckoned.last, to_ns(now))
