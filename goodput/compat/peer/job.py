"""A job's log as far as it was read: calculator and monitor look at one each.

What was read is kept as columns: a question costs what is new in the log, and a pass over these.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from ...events import GoodputEvent, StepStarted
from ...readers.jsonl import own_event
from ...readers.ml_goodput import NotUnderstoodError, recorder_events
from ...validation import defect_of_record, span
from ..goodput_utils import SliceEfficiency
from .columns import slice_efficiency
from .store import LogStore, encodable, tell, utc_now
from .table import EventTable, Rows, Span

_PIECE = 256
"""Events taken in between two rests: a fraction of a millisecond."""
_KEYS_OF_A_STEP = {"job_name", "step_count", "step_start_time"}


def events_of(entry: Mapping[str, object]) -> list[GoodputEvent]:
    """Return all that an entry says; an event of our own log (with a `type`) is taken as it is.

    Raises NotUnderstoodError, also for one that says nothing.
    """
    time_s, step = entry.get("step_start_time"), entry.get("step_count")
    if type(time_s) is float and type(step) is int and entry.keys() == _KEYS_OF_A_STEP:
        # most of a log: looking for all that an entry may say takes four times as long
        event = StepStarted(step=step, time_s=time_s)
        return [event] if defect_of_record(event) is None else recorder_events(entry)
    return [own_event(entry)] if isinstance(entry.get("type"), str) else recorder_events(entry)


class CompatJob:
    """The job `job_name` ("": all) of the log `store`, without what is older than `retention`.

    A retention that is a number is seconds. Entries that cannot be understood are left out, counted in
    `unread` and reported once. One thread at a time may use it.
    """

    def __init__(self, store: LogStore, job_name: str, retention: dt.timedelta | float | None = None) -> None:
        self.table = EventTable()
        self.unread = 0
        self._problem = ""
        self._is_unread_told = False
        self._store = store
        self._job_name = encodable(job_name)
        self._position = 0
        age_s = retention.total_seconds() if isinstance(retention, dt.timedelta) else retention
        self._since_s = utc_now().timestamp() - age_s if age_s else -inf

    def rows(self, window: Span | None = None) -> Rows:
        """Take in what is new in the log, and return all, or a window's. Raises OSError as `read_on`."""
        for _ in self.read_on():
            pass
        return self.table.rows(window)

    def read_on(self) -> Iterator[None]:
        """Take in what is new in the log, and yield between pieces. Raises OSError if it cannot be read."""
        before = -1
        while self._position != before:
            before = self._position
            entries, self._position = self._store.read(before)
            for begin in range(0, len(entries), _PIECE):
                yield
                self._take(entries[begin : begin + _PIECE])
        if self.unread and not self._is_unread_told:  # the numbers are those of a part of the log
            self._is_unread_told = True
            tell(
                f"entries of the log that are not understood are left out, {self.unread} so far;"
                f" the first: {self._problem}"
            )

    def _take(self, entries: Iterable[Mapping[str, object]]) -> None:
        for entry in entries:
            if self._job_name and entry.get("job_name", self._job_name) != self._job_name:
                continue
            try:
                self.table.extend(event for event in events_of(entry) if span(event)[0] >= self._since_s)
            except NotUnderstoodError as error:
                self.unread += 1
                self._problem = self._problem or str(error)

    def slice_efficiency(self, total_s: float) -> SliceEfficiency:
        """Return the shares of slices in the `total_s` from the job's start on."""
        start_s = self.table.rows().job_start_s
        return {} if start_s is None else slice_efficiency(self.table.slices, start_s, start_s + total_s)

    def slice_efficiency_within(self, start_s: float, end_s: float) -> SliceEfficiency:
        """Return the same by what was recorded after `start_s` and up to `end_s`."""
        inside = (slices for slices in self.table.slices if start_s < slices.time_s <= end_s)
        return slice_efficiency(inside, start_s, end_s)
