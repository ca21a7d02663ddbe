"""A job's log as far as it was read, by the rules of ml-goodput-measurement 0.2.3.

Calculator and monitor look at one each. What was read is kept: a question costs what is new in the log, and a
pass over the steps as columns; one about a window costs what is in it.
"""

from array import array
from bisect import bisect_right
from itertools import accumulate, islice
from math import inf

import numpy as np
import numpy.typing as npt

from ..events import GoodputEvent, SlicesObserved, StepStarted
from ..log.store import LogStore, encodable, tell
from ..peer_rules.rules import CompatAccount, account_of, window_of
from ..peer_rules.steps import CompatStepTimes, slice_efficiency
from ..peer_rules.walk import Walk
from ..validation import span
from ..yield_hook import YieldHook, never_yield
from .entries import EntryReader

_PIECE = 256
"""Events taken in between two rests: a fraction of a millisecond."""


class CompatJob:
    """The job `job_name` of the log `store`, without what is older than `since_s` (epoch seconds).

    One thread at a time may use it.
    """

    def __init__(self, store: LogStore, job_name: str, since_s: float | None = None) -> None:
        self.walk = Walk()
        self.steps = CompatStepTimes()
        self._store = store
        self._reader = EntryReader(encodable(job_name))
        self._is_unread_told = False
        self._position = 0
        self._since_s = since_s
        self._events: list[GoodputEvent] = []
        # of each event its time, and the latest time up to it: that one never falls, and can be searched
        self._times_s = array("d")
        self._latest_s = array("d")
        self._slices: list[SlicesObserved] = []

    def read_on(self, yield_hook: YieldHook = never_yield) -> None:
        """Take in what is new in the log. Raises OSError when it cannot be read."""
        while True:
            before = self._position
            entries, self._position = self._store.read(before)
            if self._position == before:
                self._tell_unread()
                return
            yield_hook()
            for begin in range(0, len(entries), _PIECE):
                self._take(self._reader.read(entries[begin : begin + _PIECE]))
                yield_hook()

    def account(self, now_s: float, *, elastic: bool) -> CompatAccount:
        """The job up to its last end, or to `now_s`. Raises :class:`.CompatError`."""
        return account_of(self.walk, now_s, elastic=elastic)

    def window(
        self, start_s: float, end_s: float, *, elastic: bool, yield_hook: YieldHook = never_yield
    ) -> CompatAccount:
        """What is after `start_s` and up to `end_s` as if it were all. Raises :class:`.CompatError`."""
        inside = self._inside(start_s, end_s)
        walk = Walk()
        for begin in range(0, len(inside), _PIECE):
            for number in inside[begin : begin + _PIECE].tolist():
                walk.handle(self._events[number])
            yield_hook()
        first_s, last_s = (self._times_s[n] for n in inside[[0, -1]]) if len(inside) else (None, None)
        return window_of(walk, first_s, last_s, elastic=elastic)

    def slice_efficiency(self, total_s: float) -> tuple[float, float] | None:
        """Active and available slices as shares of all, in the `total_s` from the job's start on.

        None where no slices were told.
        """
        start_s = self.walk.first_job_start_s
        return None if start_s is None else slice_efficiency(self._slices, start_s, start_s + total_s)

    def slice_efficiency_within(self, start_s: float, end_s: float) -> tuple[float, float] | None:
        """The same by what was told after `start_s` and up to `end_s`."""
        inside = [slices for slices in self._slices if start_s < slices.time_s <= end_s]
        return slice_efficiency(inside, start_s, end_s)

    def _tell_unread(self) -> None:
        """Say, once, that the numbers are those of a part of the log."""
        if self._reader.unread and not self._is_unread_told:
            self._is_unread_told = True
            tell(
                f"entries of the log that are not understood are left out, {self._reader.unread} so far;"
                f" the first: {self._reader.problem}"
            )

    def _take(self, events: list[GoodputEvent]) -> None:
        if self._since_s is not None:
            events = [event for event in events if span(event)[0] >= self._since_s]
        times_s = [event.time_s if type(event) is StepStarted else span(event)[0] for event in events]
        latest_s = self._latest_s[-1:] or array("d", [-inf])
        self._times_s.extend(times_s)
        self._latest_s.extend(islice(accumulate(times_s, max, initial=latest_s[0]), 1, None))
        self._events += events
        for event in events:
            self.walk.handle(event)
        self._slices += [event for event in events if isinstance(event, SlicesObserved)]
        self.steps.extend(events)

    def _inside(self, start_s: float, end_s: float) -> npt.NDArray[np.intp]:
        """The numbers of the events in a window, in their order of arrival.

        Those that :func:`.compat_window` searches all events for.
        """
        first = bisect_right(self._latest_s, start_s)
        times_s = np.array(self._times_s[first:])
        return np.flatnonzero((times_s > start_s) & (times_s <= end_s)) + first
