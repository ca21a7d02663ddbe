"""The events of one job: steps and borders of intervals in columns by writer, others as recorded."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import merge
from operator import itemgetter, sub
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
_BEGINS = (ev.JobStarted, ev.RestartCompleted)
_RESTORE = "checkpoint_restore"
_TIME = itemgetter(0)

IntervalKey = tuple[str, str, str]
"""The kind, name and writer of an interval."""


class StepStarts:
    """When (epoch seconds) one writer's steps began, and their numbers, in the order of recording."""

    __slots__ = ("numbers", "times_s")

    def __init__(self) -> None:
        self.numbers, self.times_s = array("q"), array("d")


class WholeSteps:
    """From when until when (epoch seconds) one writer's steps lasted, and their numbers, as recorded."""

    __slots__ = ("ends_s", "numbers", "starts_s")

    def __init__(self) -> None:
        self.numbers, self.starts_s, self.ends_s = array("q"), array("d"), array("d")


class Borders:
    """When (epoch seconds) intervals of one kind, name and writer began (1) or ended (0), as recorded."""

    __slots__ = ("begins", "times_s")

    def __init__(self) -> None:
        self.times_s, self.begins = array("d"), array("b")


class JobEvents:
    """Events of one job in columns. Iterate over them in the order of their first times."""

    def __init__(self, events: Iterable[ev.GoodputEvent] = ()) -> None:
        self.step_starts: dict[str, StepStarts] = defaultdict(StepStarts)
        self.whole_steps: dict[str, WholeSteps] = defaultdict(WholeSteps)
        self.borders: dict[IntervalKey, Borders] = defaultdict(Borders)
        self.others: list[ev.GoodputEvent] = []
        self.extend(events)

    def add(self, event: ev.GoodputEvent) -> None:
        """Record one event; a step whose number has more than 64 bits is none."""
        match event:
            case ev.StepStarted() | ev.StepCompleted() if abs(event.step) >= _FITS:
                return
            case ev.StepStarted():
                begun = self.step_starts[event.writer]
                begun.numbers.append(event.step)
                begun.times_s.append(event.time_s)
            case ev.StepCompleted():
                whole = self.whole_steps[event.writer]
                whole.numbers.append(event.step)
                whole.starts_s.append(event.start_s)
                whole.ends_s.append(event.end_s)
            case ev.IntervalStarted() | ev.IntervalEnded():
                borders = self.borders[event.kind, event.name, event.writer]
                borders.times_s.append(event.time_s)
                borders.begins.append(type(event) is ev.IntervalStarted)
            case _:
                self.others.append(event)

    def extend(self, events: Iterable[ev.GoodputEvent]) -> None:
        """Record many events."""
        for event in events:
            self.add(event)

    def update(self, other: "JobEvents") -> None:
        """Record all that `other` has."""
        for writer, begun in other.step_starts.items():
            self.step_starts[writer].numbers.extend(begun.numbers)
            self.step_starts[writer].times_s.extend(begun.times_s)
        for writer, whole in other.whole_steps.items():
            self.whole_steps[writer].numbers.extend(whole.numbers)
            self.whole_steps[writer].starts_s.extend(whole.starts_s)
            self.whole_steps[writer].ends_s.extend(whole.ends_s)
        for key, borders in other.borders.items():
            self.borders[key].times_s.extend(borders.times_s)
            self.borders[key].begins.extend(borders.begins)
        self.others.extend(other.others)

    def times_s(self) -> "NDArray[np.float64]":
        """Return all times (epoch seconds), column by column; what lasted has a start and an end."""
        import numpy as np  # noqa: PLC0415 - who only records shall not pay for it

        columns = [each.times_s for each in self.step_starts.values()]
        columns += [each.times_s for each in self.borders.values()]
        columns += [times_s for each in self.whole_steps.values() for times_s in (each.starts_s, each.ends_s)]
        columns.append(array("d", [time_s for event in self.others for time_s in span(event)]))
        return np.concatenate([np.frombuffer(each) for each in columns if each] or [np.empty(0)])

    def drop_repeated(self) -> int:
        """Keep each event once, the first of them; return how many came again."""
        before = len(self)
        for begun in self.step_starts.values():
            _keep_once(begun.times_s, begun.numbers)
        for whole in self.whole_steps.values():
            _keep_once(whole.starts_s, whole.ends_s, whole.numbers)
        for borders in self.borders.values():
            _keep_once(borders.times_s, borders.begins)
        self.others = list(dict.fromkeys(self.others))
        return before - len(self)

    def __len__(self) -> int:
        begun = sum(len(each.numbers) for each in self.step_starts.values())
        whole = sum(len(each.numbers) for each in self.whole_steps.values())
        return begun + whole + sum(len(each.times_s) for each in self.borders.values()) + len(self.others)

    def __iter__(self) -> Iterator[ev.GoodputEvent]:
        return (
            event for _, event in merge(*(sorted(each, key=_TIME) for each in self._streams()), key=_TIME)
        )

    def _streams(self) -> Iterator[Iterable[tuple[float, ev.GoodputEvent]]]:
        """Each column's events with their first times; what is rare comes first at the same time."""
        yield ((span(event)[0], event) for event in self.others)
        for (kind, name, writer), borders in self.borders.items():
            yield (
                (
                    time_s,
                    (ev.IntervalStarted if begins else ev.IntervalEnded)(
                        kind=kind, time_s=time_s, name=name, writer=writer
                    ),
                )
                for time_s, begins in zip(borders.times_s, borders.begins, strict=True)
            )
        for writer, begun in self.step_starts.items():
            yield (
                (time_s, ev.StepStarted(step=number, time_s=time_s, writer=writer))
                for number, time_s in zip(begun.numbers, begun.times_s, strict=True)
            )
        for writer, whole in self.whole_steps.items():
            yield (
                (start_s, ev.StepCompleted(step=number, start_s=start_s, end_s=end_s, writer=writer))
                for number, start_s, end_s in zip(whole.numbers, whole.starts_s, whole.ends_s, strict=True)
            )


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
        if isinstance(event, ev.StepCompleted):
            if abs(event.step - last.get(event.writer, event.step)) >= _LEAP:
                return True
            last[event.writer] = event.step
        elif isinstance(event, _BEGINS) or (
            isinstance(event, (ev.Interval, ev.IntervalEnded)) and event.kind == _RESTORE
        ):
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
