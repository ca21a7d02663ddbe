"""The facts of a job as the ledger keeps them: rows of numbers in one order, each once."""

from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .. import buckets
from .. import events as ev
from ..buckets import Codes
from ..job_events import STEP_LIMIT, JobEvents
from .claims import NONE, Longs, are_in_order, is_changed, joined, nanoseconds, where
from .launches import number_of, to_ns

NOBODY = -1
"""The writer of what says nothing of how long one was alive."""

_CODE_BITS = 16
_FEW = 64
_OF_RECOVERED = {"fetch": buckets.FETCH, "scavenge": buckets.SCAVENGE}
_OF_MARK = {
    ev.JobQueued: buckets.QUEUE_WAIT,
    ev.AllocationEnded: buckets.ALLOCATION_END,
    ev.NodeFailed: buckets.RECOVERY,
}
_BEGINS_ATTEMPT = (buckets.RESTORE, buckets.ELASTIC_REINIT)

Row = tuple[int, int, int, int, int]
"""A row of :class:`Facts`."""


class Form(IntEnum):
    """What a row is. `who` is a writer; of a border, it is a stream: its writer's intervals of one name."""

    STEP_STARTED = 0
    """A step began; `number` is its."""
    STEP_COMPLETED = 1
    BORDER = 2
    """An interval begins or ends; `number` is twice the writer, and one more at a start."""
    INTERVAL = 3
    WORD = 4
    """The writer, or somebody, was alive."""
    STARTED = 5
    ENDED = 6
    """`number` says whether badly."""
    HALTED = 7
    MARKED = 8
    """The unclaimed time is for another bucket from then on."""
    RESTARTED = 9
    """A run went back to a checkpoint."""
    STEPPED = 10
    """Some step began: the first one of a run whose other steps are settled."""
    WENT_BACK = 11
    """Steps (`who`: twice the writer, one more of completed ones) went back so often in the run."""


MOMENTS = (Form.STARTED, Form.ENDED, Form.HALTED, Form.MARKED, Form.RESTARTED)
"""What happens a few times in a run, and is no claim."""
NOT_CLAIMS = (Form.WORD, Form.BORDER)
"""What may come without end, and claims nothing by itself: a writer's word, the border of no interval."""


class Facts(NamedTuple):
    """Facts in order, by columns. `what` is a form, and a bucket's code."""

    what: Longs = NONE
    who: Longs = NONE
    time: Longs = NONE
    number: Longs = NONE
    end: Longs = NONE

    def of(self, form: Form, last: Form | None = None) -> "Facts":
        """Return those of one form, or of several, up to the `last`."""
        borders = (what(form), what((form if last is None else last) + 1))
        return where(self, slice(*np.searchsorted(self.what, borders).tolist()))

    @property
    def form(self) -> Longs:
        """Return the form of each."""
        return self.what >> _CODE_BITS

    @property
    def code(self) -> Longs:
        """Return the code of the bucket of each."""
        return self.what & ((1 << _CODE_BITS) - 1)

    def between(self, begin: int, behind: int) -> "Facts":
        """Return what began, or was reported of a time, in [begin, behind)."""
        return where(self, (self.time >= begin) & (self.time < behind))

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.what)

    def merged(self, *more: "Facts") -> "Facts":
        """Return these and more."""
        new = joined(more)
        if len(more) > 1 or new.size > min(_FEW, self.size):
            return _in_order(joined([self, new]))
        found = [
            bisect_left(range(self.size), row, key=lambda index: tuple(column[index] for column in self))
            for row in zip(*new, strict=True)
        ]
        made = Facts(*(np.insert(column, found, values) for column, values in zip(self, new, strict=True)))
        return where(made, is_changed(*made))


def what(form: int, code: int = 0) -> int:
    """Return a form and a code as one number."""
    return form << _CODE_BITS | code


@lru_cache(maxsize=1_024)
def identity(*names: str) -> int:
    """Return a number below 2**60 that stands for one writer's name, or several; 0 stands for no name."""
    # remembered, a name takes some 300 bytes; found anew, a microsecond
    text = "\0".join(names)
    return number_of(text) if text else 0


def read(events: JobEvents, codes: Codes) -> Facts:
    """Return the facts in `events`."""
    parts = []
    tables = ((Form.STEP_STARTED, events.step_starts), (Form.STEP_COMPLETED, events.whole_steps))
    for form, writer, steps in ((form, *item) for form, table in tables for item in table.items()):
        time, number = nanoseconds(steps.starts_s), np.array(steps.numbers, np.int64)
        end = np.maximum(time, nanoseconds(steps.ends_s)) if form == Form.STEP_COMPLETED else time
        made = rows(what(form), codes.of_writer(identity(writer)), time, number, end)
        are_steps = np.abs(number) < STEP_LIMIT
        parts.append(made if are_steps.all() else where(made, are_steps))
    for (kind, name, writer), borders in events.borders.items():
        code, time = codes.of_interval(kind, name), nanoseconds(borders.starts_s)
        begins = np.array(borders.numbers, np.int64)
        number = begins + 2 * codes.of_writer(identity(writer))
        parts.append(rows(what(Form.BORDER, code), codes.of_writer(identity(name, writer)), time, number))
        if buckets.of_interval(kind, name) in _BEGINS_ATTEMPT:
            parts.append(rows(what(Form.RESTARTED), 0, time[begins == 1]))
    rare = [row for event in events.others for row in _rows_of(event, codes)]
    parts.append(Facts(*np.array(rare, np.int64).reshape(-1, 5).T))
    return _in_order(joined(parts))


def rows(
    what: int, who: int | Longs, time: Longs, number: int | Longs = 0, end: Longs | None = None
) -> Facts:
    """Return rows of which some columns have one value."""
    return Facts(*np.broadcast_arrays(what, who, time, number, time if end is None else end))


def _in_order(facts: Facts) -> Facts:
    """Return them in order, each once."""
    if are_in_order(*facts):
        return facts
    facts = where(facts, np.lexsort(facts[::-1]))
    return where(facts, is_changed(*facts))


def _rows_of(event: ev.GoodputEvent, codes: Codes) -> Iterator[Row]:  # noqa: C901 - a case for each kind
    """Yield the facts in one event that is not kept in columns."""
    match event:
        case ev.JobStarted():
            yield _at(Form.STARTED, event.time_s, who=identity(event.writer))
        case ev.JobEnded():
            badly = event.exit_code not in (None, 0)
            yield _at(Form.ENDED, event.time_s, who=identity(event.writer), number=badly)
        case ev.JobHalted():
            yield _at(Form.HALTED, event.time_s)
        case ev.JobQueued() | ev.AllocationEnded() | ev.NodeFailed():
            yield _at(Form.MARKED, event.time_s, number=codes[_OF_MARK[type(event)]])
        case ev.OutputStarted() | ev.SlicesObserved():
            yield _at(Form.WORD, event.time_s)
        case ev.FlushCompleted():
            yield _at(Form.WORD, event.start_s)
            yield _at(Form.WORD, event.end_s)
        case ev.OutputCompleted():
            yield from _output(event, codes)
        case ev.Recovered():
            yield _interval(event, codes[_OF_RECOVERED.get(event.kind, buckets.REBUILD)])
        case ev.RestartCompleted():
            yield _interval(event, codes[buckets.RESTORE])
            if event.valid:  # also within a run: back to a better checkpoint
                yield _at(Form.RESTARTED, event.start_s, who=0)
        case ev.Interval():
            bucket = buckets.of_interval(event.kind, event.name)
            is_own = bucket not in buckets.NOT_THE_RUNS_OWN
            code = codes.of_interval(event.kind, event.name)
            yield _interval(event, code, codes.of_writer(identity(event.writer)) if is_own else NOBODY)
            if bucket in _BEGINS_ATTEMPT:
                yield _at(Form.RESTARTED, event.start_s, who=0)


def _at(form: Form, time_s: float, *, who: int = NOBODY, number: int = 0) -> Row:
    return what(form), who, to_ns(time_s), number, to_ns(time_s)


def _interval(event: ev.Interval | ev.RestartCompleted | ev.Recovered, code: int, who: int = NOBODY) -> Row:
    start = to_ns(event.start_s)
    return what(Form.INTERVAL, code), who, start, 0, max(start, to_ns(event.end_s))


def _output(event: ev.OutputCompleted, codes: Codes) -> Iterator[Row]:
    """Yield the parts of an output one behind the other: each is its slowest rank's, scaled down to fit."""
    at, end = to_ns(event.start_s), to_ns(event.end_s)
    felt = max(0, end - at)
    parts = [max(0, to_ns(getattr(event, name))) for name, _ in buckets.OF_OUTPUT]
    total = max(sum(parts), felt)
    for (_, bucket), part in zip(buckets.OF_OUTPUT, parts, strict=True):
        if part and total:
            until = at + part * felt // total
            yield what(Form.INTERVAL, codes[bucket]), NOBODY, at, 0, until
            at = until
    yield what(Form.INTERVAL, codes[buckets.CHECKPOINT_OTHER]), NOBODY, at, 0, max(at, end)
