"""Entries of a log that lie far from all others of their job: a clock that was not set, a damaged line.

Of a log nobody knows when it was read: what cannot be shows only beside the rest. One entry with the time 0
would make an account of half a century.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from ..events import GoodputEvent
from ..validation import span
from .formats import JobLog, LogProblem
from .resiliency import LauncherEvent, moment

FAR_S = 366 * 86_400.0
"""No time may lie so far from the middle one of its job: longer than an event may wait for a daemon."""

_T = TypeVar("_T", GoodputEvent, LauncherEvent)


class Bulk(NamedTuple):
    """Where the times of a job may lie, as epoch seconds."""

    from_s: float
    until_s: float

    def has(self, event: GoodputEvent | LauncherEvent) -> bool:
        """Whether all of `event` lies there."""
        start_s, end_s = _span(event)
        return self.from_s <= start_s and end_s <= self.until_s


def bulk_of(parts: Iterable[JobLog]) -> Bulk | None:
    """Where the times of a job may lie that these logs tell of; None if all of them do."""
    times_s = [time_s for part in parts for time_s in _times(part)]
    if not times_s or max(times_s) - min(times_s) <= FAR_S:
        return None
    middle_s = sorted(times_s)[len(times_s) // 2]
    return Bulk(middle_s - FAR_S, middle_s + FAR_S)


def turn_away(log: JobLog, bulk: Bulk) -> list[LogProblem]:
    """Take what does not lie in `bulk` out of `log`; returns what that was, by line."""
    problems: list[LogProblem] = []
    log.events, log.event_lines = _sifted(log.events, log.event_lines, bulk, problems)
    log.launcher, log.launcher_lines = _sifted(log.launcher, log.launcher_lines, bulk, problems)
    return sorted(problems, key=lambda each: each.line)


def _sifted(
    events: list[_T], lines: "array[int]", bulk: Bulk, problems: list[LogProblem]
) -> tuple[list[_T], "array[int]"]:
    kept: list[_T] = []
    kept_lines = array("Q")
    for event, line in zip(events, lines, strict=True):
        if bulk.has(event):
            kept.append(event)
            kept_lines.append(line)
            continue
        start_s, end_s = _span(event)
        far_s = start_s if start_s < bulk.from_s else end_s
        what = f"{moment(far_s)} is more than a year from the bulk of the job's log"
        problems.append(LogProblem(line=line, what=what))
    return kept, kept_lines


def _times(log: JobLog) -> Iterator[float]:
    """Quickly: a log may have millions of steps."""
    for event in (*log.events, *log.launcher):
        time_s: float | None = getattr(event, "time_s", None)
        if time_s is not None:
            yield time_s
        else:
            yield from _span(event)


def _span(event: GoodputEvent | LauncherEvent) -> tuple[float, float]:
    time_s: float | None = getattr(event, "time_s", None)
    return (time_s, time_s) if time_s is not None else span(event)  # type: ignore[arg-type]
