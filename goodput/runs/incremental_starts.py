"""Find the starts of runs and attempts as events arrive, from what was recorded and from step numbers."""

from bisect import bisect_left
from collections.abc import Callable

from ..ledger.claims import NEVER, Longs
from ..ledger.pending_events import NO_STEP, NS, WHOLE, Key, PendingEvents, Stream, to_ns
from .attempts import Attempts
from .launches import Launches
from .rollback import StepRollback
from .runs import Runs
from .streams import tokens_of

News = dict[Key, tuple[Longs, Longs]]
"""Tokens that are new, by stream."""


class Beginnings:
    """A run begins with a launch; an attempt with a run, with a restart, or where steps go back.

    `streams` are those of all writers, `step` is the kind of those that tell of steps.
    """

    def __init__(self, streams: dict[Key, Stream], step: int, launches: Launches, runs: Runs) -> None:
        self.attempts = Attempts()
        self._streams, self._of_steps, self._launches, self._runs = streams, (step, WHOLE), launches, runs
        self._back = StepRollback()
        self._restarts: set[int] = set()
        self._steps_before: list[int] = []

    def are_late(self, told: PendingEvents, news: News) -> bool:
        """Whether what is new was told so late that runs may begin elsewhere than was thought."""
        last = self._launches.last_start()
        if any(time <= last for time, *_ in told.ends):
            return True
        for (_, kind, _), (time, number) in news.items():
            if kind in self._of_steps and self._launches.is_within(time[number != NO_STEP]):
                return True
        return False

    def advance(self, told: PendingEvents, read: dict[Key, int], least: Callable[[int, int], int]) -> bool:
        """Take in what is new: of the streams, the tokens from where `read` says; they are in order.

        `least` says which is the lowest number of the steps so far that began between two times. False if
        attempts began that are none any more.
        """
        self._restarts.update(told.restarts)
        begun = self._launches.add(self._launches.unknown(told.starts), self._interrupted)
        if begun:
            self._runs.started(begun)
        before = self._back.attempts
        for key, begin in read.items():
            self._look(self._streams[key], begin, tokens_of(self._streams[key], begin))
        if not self._back.attempts >= before:
            return False
        if unknown := self.attempts.unknown([*begun, *told.restarts, *(self._back.attempts - before)]):
            self.attempts.begin(unknown, least)
        return True

    def anew(self, told: PendingEvents, tokens: News) -> None:
        """Find all of it again, from the `tokens` of all streams, in order."""
        self._restarts.update(told.restarts)
        self._launches.know(told.starts)
        self._launches.anew(self._interrupted)
        self._runs.anew()
        self._back = StepRollback()
        for key, stream in self._streams.items():
            self._look(stream, 0, tokens[key])
        self.attempts.anew({*self._runs.starts, *self._restarts, *self._back.attempts})
        for time in self._steps_before:
            self._runs.step(self._runs.of(time), time)

    def forget(self, floor: int) -> None:
        """The tokens from before `floor` are forgotten: what follows from them stays."""
        self._steps_before = [time for time in self._runs.first_step if time is not None and time < floor]
        self._restarts.update(self.attempts.begins[self.attempts.begins < floor].tolist())

    def _look(self, stream: Stream, begin: int, tokens: tuple[Longs, Longs]) -> None:
        if stream.kind in self._of_steps:
            self._back.read(stream, begin, tokens, self._runs.starts_at)

    def _interrupted(self, time: int) -> int:
        """When at or after `time` a step began, or an end was told behind it; far ahead if never."""
        steps = (_first_step(each, time) for each in self._streams.values() if each.kind in self._of_steps)
        index = bisect_left(self._steps_before, time)
        return min([self._runs.end_after(time), *self._steps_before[index : index + 1], *steps])


def _first_step(stream: Stream, time: int) -> int:
    """When at or after `time` the first step of a stream began."""
    index = bisect_left(stream.times, time / NS - 1e-6)
    for at in range(index, len(stream.times)):
        begun = to_ns(stream.times[at])
        if begun >= time and stream.values[at] != NO_STEP:
            return begun
    return NEVER
