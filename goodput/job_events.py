"""The events of one job: steps and borders of intervals in columns by writer, others as recorded."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import sub
from typing import TYPE_CHECKING, Any

from . import events as ev
from .validation import span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEP_LIMIT = 1 << 61
"""Numbers of steps lie within it; any other one is none."""

_FITS = 1 << 63
_LEAP = 1 << 19
"""Numbers of steps that lie so far apart are synthetic: a dataset's number times 2**20, and more."""
_DATASET_BITS = 20

IntervalKey = tuple[str, str, str]
"""The kind, name and writer of an interval."""


class Moments:
    """When (epoch seconds) one writer recorded something of one kind, in the order of recording.

    `numbers` are those of steps, or 1 where an interval begins and 0 where it ends. A moment ends as it
    starts.
    """

    _times = 1

    def __init__(self) -> None:
        times_s = [array("d") for _ in range(self._times)]
        self.starts_s, self.ends_s, self.numbers = times_s[0], times_s[-1], array("q")
        self.columns: tuple[array[Any], ...] = (*times_s, self.numbers)

    def append(self, *row: float) -> None:
        """Add a row, in the order of the columns."""
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)


class Lasting(Moments):
    """The same of what has ends of its own."""

    _times = 2


class JobEvents:
    """Events of one job in columns. Iterate over them in the order of their first times."""

    def __init__(self, events: Iterable[ev.GoodputEvent] = ()) -> None:
        self.step_starts: dict[str, Moments] = defaultdict(Moments)
        self.whole_steps: dict[str, Lasting] = defaultdict(Lasting)
        self.borders: dict[IntervalKey, Moments] = defaultdict(Moments)
        self.others: list[ev.GoodputEvent] = []
        self.extend(events)

    @property
    def steps(self) -> list[Moments]:
        """All columns of steps."""
        return [*self.step_starts.values(), *self.whole_steps.values()]

    @property
    def _all(self) -> list[Moments]:
        return [*self.steps, *self.borders.values()]

    def add(self, event: ev.GoodputEvent) -> None:
        """Record one event; a step whose number has more than 64 bits is none."""
        match event:
            case ev.StepStarted() | ev.StepCompleted() if abs(event.step) >= _FITS:
                return
            case ev.StepStarted():
                self.step_starts[event.writer].append(event.time_s, event.step)
            case ev.StepCompleted():
                self.whole_steps[event.writer].append(event.start_s, event.end_s, event.step)
            case ev.IntervalStarted() | ev.IntervalEnded():
                begins = type(event) is ev.IntervalStarted
                self.borders[event.kind, event.name, event.writer].append(event.time_s, begins)
            case _:
                self.others.append(event)

    def extend(self, events: Iterable[ev.GoodputEvent]) -> None:
        """Record many events."""
        for event in events:
            self.add(event)

    def update(self, other: "JobEvents") -> None:
        """Record all that `other` has."""
        for name in ("step_starts", "whole_steps", "borders"):
            mine = getattr(self, name)
            for key, more in getattr(other, name).items():
                for column, values in zip(mine[key].columns, more.columns, strict=True):
                    column.extend(values)
        self.others.extend(other.others)

    def times_s(self) -> "NDArray[np.float64]":
        """Return all times (epoch seconds), column by column; what lasted has a start and an end."""
        import numpy as np  # noqa: PLC0415 - who only records shall not pay for it

        columns = [times_s for each in self._all for times_s in each.columns[:-1]]
        columns.append(array("d", [time_s for event in self.others for time_s in span(event)]))
        return np.concatenate([np.frombuffer(each) for each in columns if each] or [np.empty(0)])

    def drop_repeated(self) -> int:
        """Keep each event once, the first of them; return how many came again."""
        before = len(self)
        for each in self._all:
            _keep_once(*each.columns)
        self.others = list(dict.fromkeys(self.others))
        return before - len(self)

    def __len__(self) -> int:
        return sum(len(each.numbers) for each in self._all) + len(self.others)

    def __iter__(self) -> Iterator[ev.GoodputEvent]:
        return iter(sorted(self._events(), key=lambda event: span(event)[0]))

    def _events(self) -> Iterator[ev.GoodputEvent]:
        """Yield all events, what is rare first: at the same time it comes before the steps."""
        yield from self.others
        for (kind, name, writer), borders in self.borders.items():
            for time_s, begins in zip(*borders.columns, strict=True):
                made = ev.IntervalStarted if begins else ev.IntervalEnded
                yield made(kind=kind, time_s=time_s, name=name, writer=writer)
        for writer, begun in self.step_starts.items():
            for time_s, number in zip(*begun.columns, strict=True):
                yield ev.StepStarted(step=number, time_s=time_s, writer=writer)
        for writer, whole in self.whole_steps.items():
            for start_s, end_s, number in zip(*whole.columns, strict=True):
                yield ev.StepCompleted(step=number, start_s=start_s, end_s=end_s, writer=writer)


def _keep_once(*columns: "array[Any]") -> None:
    """Delete the rows that came before."""
    import numpy as np  # noqa: PLC0415 - who only records shall not pay for it

    rows = [np.frombuffer(column, column.typecode).copy() for column in columns]
    if (np.diff(rows[0]) > 0).all():  # as in most logs: then no two are the same
        return
    order = np.lexsort(rows)
    is_new = np.append(True, np.logical_or.reduce([np.diff(row[order]) != 0 for row in rows]))
    kept = np.sort(order[is_new])
    if len(kept) < len(order):
        for column, row in zip(columns, rows, strict=True):
            column[:] = array(column.typecode, row[kept].tobytes())


def are_synthetic(events: JobEvents) -> bool:
    """Return whether the steps are synthetic: those of an application that reports none.

    What lies between SCR's calls is its work then, with numbers that mean nothing to people
    (:mod:`scrtune.client.implicit_steps`): too far apart in a run, or beginning behind the dataset of a
    restart.
    """
    numbers = sorted(number for whole in events.whole_steps.values() for number in whole.numbers)
    if max(map(sub, numbers[1:], numbers), default=0) < _LEAP:
        read = {
            each.dataset for each in events.others if isinstance(each, ev.RestartCompleted) and each.valid
        }
        return any(dataset and numbers[:1] == [(dataset << _DATASET_BITS) + 1] for dataset in read)
    last: dict[str, int] = {}
    for event in events:
        match event:
            case ev.StepCompleted():
                if abs(event.step - last.get(event.writer, event.step)) >= _LEAP:
                    return True
                last[event.writer] = event.step
            case ev.JobStarted() | ev.RestartCompleted():
                last.clear()
            case ev.Interval() | ev.IntervalEnded() if event.kind == "checkpoint_restore":
                last.clear()
    return False


def united(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the spans by start, those that touch as one; without such as take no time."""
    made: list[tuple[float, float]] = []
    for start_s, end_s in sorted(spans):
        if made and start_s <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end_s))
        elif end_s > start_s:
            made.append((start_s, end_s))
    return made
