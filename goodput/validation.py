"""Events that cannot be true. One of them would spoil every sum that follows: they are turned away."""

import heapq
from math import isfinite

import msgspec

from .events import (
    FlushCompleted,
    GoodputEvent,
    Interval,
    OutputCompleted,
    Recovered,
    RestartCompleted,
    StepCompleted,
)

AHEAD_S = 3600.0
BEHIND_S = 366 * 86_400.0
"""So far from now may a time be: clocks of nodes differ a little, and events may wait for long."""


def defect(event: GoodputEvent, now: float) -> str | None:
    """What is wrong with the times of `event`, which arrived at `now` (epoch seconds), or None.

    An hour ahead and a year behind are let through.
    """
    seconds = [value for value in msgspec.structs.astuple(event) if isinstance(value, float)]
    if not all(isfinite(value) for value in seconds):
        return "times that are no numbers"
    start_s, end_s = span(event)
    if end_s < start_s:
        return "an end before its start"
    is_plausible = (
        now - BEHIND_S <= start_s and end_s <= now + AHEAD_S and max(map(abs, seconds)) <= now + AHEAD_S
    )
    return None if is_plausible else "times that cannot be"


def span(event: GoodputEvent) -> tuple[float, float]:
    """When `event` began and ended (epoch seconds); the same time twice for what happened at once."""
    match event:
        case (
            StepCompleted()
            | OutputCompleted()
            | FlushCompleted()
            | RestartCompleted()
            | Recovered()
            | Interval()
        ):
            return event.start_s, event.end_s
        case _:
            return event.time_s, event.time_s


def merged(told: list[GoodputEvent], more: list[GoodputEvent]) -> list[GoodputEvent]:
    """Both by their times, each in its own order: that is all that is known of their order of arrival."""
    if not told or not more:
        return told or more
    return list(heapq.merge(told, more, key=lambda event: span(event)[1]))
