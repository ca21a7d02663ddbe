"""Find the runs of a job: each begins with a launch, whose ranks may all report their start."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import TypeVar

from ..events import JobEnded, JobStarted
from ..job_events import JobEvents
from .times import NEVER, to_ns

Writer = TypeVar("Writer", str, int)
"""A writer's name, or its number; one without a name is false."""


def launches(
    starts: Iterable[tuple[int, Writer]], ends: Sequence[int], next_step: Callable[[int], int]
) -> list[tuple[int, set[Writer]]]:
    """Return when the runs began that the `starts` of writers begin, and whose starts are named, in order.

    A start joins the run before it if its writer is named and has not started in that run, and if since that
    run began no step began (`next_step`: at or after a time) and no end (`ends` are in order) was reported.
    Any other one begins a run.
    """
    made: list[tuple[int, set[Writer]]] = []
    until = 0
    for time, writer in sorted(starts):
        if made and writer and writer not in made[-1][1]:
            begin: int = made[-1][0]
            at: int = bisect_right(ends, begin)
            until = until or min([next_step(begin), *ends[at : at + 1]])
            if until >= time:
                made[-1][1].add(writer)
                continue
        made.append((time, {writer} if writer else set()))
        until = 0
    return made


def run_starts(events: JobEvents) -> list[float]:
    """Return when the runs of a job began (epoch seconds), in order, as in the account."""
    starts = [each for each in events.others if isinstance(each, JobStarted) and isfinite(each.time_s)]
    if not any(each.writer for each in starts):
        return sorted({each.time_s for each in starts})
    stepped = sorted(to_ns(time_s) for each in events.steps for time_s in each.starts_s if isfinite(time_s))
    ended = [each.time_s for each in events.others if isinstance(each, JobEnded) and isfinite(each.time_s)]

    def next_step(time: int) -> int:
        at = bisect_left(stepped, time)
        return stepped[at] if at < len(stepped) else NEVER

    moments = {to_ns(each.time_s): each.time_s for each in starts}
    begun = {(to_ns(each.time_s), each.writer) for each in starts}
    found = launches(begun, sorted(map(to_ns, ended)), next_step)
    return [moments[time] for time, _ in found]
