"""The events of one job: steps and borders of intervals in columns by writer, rare events as they are.

A million steps are two arrays here, not a million objects: readers fill them block by block, and the ledger
and the table of steps read them as they are.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import merge
from operator import itemgetter

from .events import GoodputEvent, IntervalEnded, IntervalStarted, StepCompleted, StepStarted
from .validation import span

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

    def __init__(self, events: Iterable[GoodputEvent] = ()) -> None:
        self.step_starts: dict[str, StepStarts] = defaultdict(StepStarts)
        self.whole_steps: dict[str, WholeSteps] = defaultdict(WholeSteps)
        self.borders: dict[IntervalKey, Borders] = defaultdict(Borders)
        self.others: list[GoodputEvent] = []
        self.extend(events)

    def add(self, event: GoodputEvent) -> None:
        """Record one event; numbers of steps must be within 64 bits (:mod:`.validation`)."""
        match event:
            case StepStarted():
                begun = self.step_starts[event.writer]
                begun.numbers.append(event.step)
                begun.times_s.append(event.time_s)
            case StepCompleted():
                whole = self.whole_steps[event.writer]
                whole.numbers.append(event.step)
                whole.starts_s.append(event.start_s)
                whole.ends_s.append(event.end_s)
            case IntervalStarted() | IntervalEnded():
                borders = self.borders[event.kind, event.name, event.writer]
                borders.times_s.append(event.time_s)
                borders.begins.append(type(event) is IntervalStarted)
            case _:
                self.others.append(event)

    def extend(self, events: Iterable[GoodputEvent]) -> None:
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

    def __len__(self) -> int:
        begun = sum(len(each.numbers) for each in self.step_starts.values())
        whole = sum(len(each.numbers) for each in self.whole_steps.values())
        return begun + whole + sum(len(each.times_s) for each in self.borders.values()) + len(self.others)

    def __iter__(self) -> Iterator[GoodputEvent]:
        return (
            event for _, event in merge(*(sorted(each, key=_TIME) for each in self._streams()), key=_TIME)
        )

    def _streams(self) -> Iterator[Iterable[tuple[float, GoodputEvent]]]:
        """Each column's events with their first times; what is rare comes first at the same time."""
        yield ((span(event)[0], event) for event in self.others)
        for (kind, name, writer), borders in self.borders.items():
            yield (
                (
                    time_s,
                    (IntervalStarted if begins else IntervalEnded)(
                        kind=kind, time_s=time_s, name=name, writer=writer
                    ),
                )
                for time_s, begins in zip(borders.times_s, borders.begins, strict=True)
            )
        for writer, begun in self.step_starts.items():
            yield (
                (time_s, StepStarted(step=number, time_s=time_s, writer=writer))
                for number, time_s in zip(begun.numbers, begun.times_s, strict=True)
            )
        for writer, whole in self.whole_steps.items():
            yield (
                (start_s, StepCompleted(step=number, start_s=start_s, end_s=end_s, writer=writer))
                for number, start_s, end_s in zip(whole.numbers, whole.starts_s, whole.ends_s, strict=True)
            )


_TIME = itemgetter(0)
