"""Find the starts of the runs of a job, from all its events at once."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from math import isfinite

from ..events import GoodputEvent, JobEnded, JobStarted, StepCompleted, StepStarted
from ..job_events import JobEvents
from ..ledger.pending_events import to_ns

_NEVER = 1 << 62


def run_starts(events: Iterable[GoodputEvent]) -> list[float]:
    """In epoch seconds, in order. Starts that ranks of one launch tell are one, as in the account."""
    from .launches import Launches  # noqa: PLC0415 - numpy: who has no ranks to join shall not pay for it

    events = events if isinstance(events, JobEvents) else list(events)
    rare = events.others if isinstance(events, JobEvents) else events
    starts = [event for event in rare if type(event) is JobStarted and isfinite(event.time_s)]
    if not any(event.writer for event in starts):
        return sorted({event.time_s for event in starts})
    stepped = _in_order(event.time_s for event in events if type(event) is StepStarted)
    stepped += _in_order(event.start_s for event in events if type(event) is StepCompleted)
    stepped.sort()
    ended = _in_order(event.time_s for event in events if type(event) is JobEnded)

    def interrupted(time: int) -> int:
        step, end = bisect_left(stepped, time), bisect_right(ended, time)
        return min([*stepped[step : step + 1], *ended[end : end + 1]], default=_NEVER)

    moments = {to_ns(event.time_s): event.time_s for event in starts}
    launches = Launches()
    launches.add({(to_ns(event.time_s), event.writer) for event in starts}, interrupted)
    return [moments[time] for time in launches.begins]


def _in_order(times_s: Iterable[float]) -> list[int]:
    return sorted(to_ns(time_s) for time_s in times_s if isfinite(time_s))
