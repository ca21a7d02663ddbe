"""Impossible events: the one place that says which numbers, texts and times an event may carry.

One of them would spoil every sum that follows, so it is rejected and counted: by the daemon as it arrives, by
the recorder before it is written, by the readers of logs with its line.
"""

from math import isfinite

import msgspec

from . import events as ev

LARGEST_INTEGER = 2**53
"""Integers up to here survive JSON, whoever reads it."""
LARGEST_S = 1e11
"""Seconds since the epoch reach it in the year 5138; milliseconds since the epoch are beyond it."""
LONGEST_TEXT = 65_536
AHEAD_S = 3600.0
BEHIND_S = 366 * 86_400.0
"""The clocks of nodes differ a little, and events may wait for long: how far from now a time may be."""


def is_within_bounds(value: object) -> bool:
    """Return False for NaN, and for numbers or texts out of bounds in an event or a part of one."""
    if isinstance(value, float):
        return -LARGEST_S <= value <= LARGEST_S
    if isinstance(value, int):
        return -LARGEST_INTEGER <= value <= LARGEST_INTEGER
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    elif isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, tuple):
        return all(map(is_within_bounds, value))
    return value is None or (isinstance(value, str) and len(value) <= LONGEST_TEXT)


def is_near(time_s: float, now: float) -> bool:
    """Return whether a time is at most a year before `now` and an hour after it (epoch seconds)."""
    return now - BEHIND_S <= time_s <= now + AHEAD_S


def defect(event: ev.GoodputEvent, now: float) -> str | None:
    """Return what is wrong with a live `event` that arrived at `now` (epoch s), without values, or None."""
    seconds = [value for value in msgspec.structs.astuple(event) if isinstance(value, float)]
    if not all(isfinite(value) for value in seconds):
        return "times that are no numbers"
    start_s, end_s = span(event)
    if end_s < start_s:
        return "an end before its start"
    is_plausible = is_near(start_s, now) and is_near(end_s, now) and max(map(abs, seconds)) <= now + AHEAD_S
    return None if is_plausible else "times that cannot be"


def defect_of_record(event: ev.GoodputEvent) -> str | None:
    """Return what is wrong with an `event` of a log of any age, with its values, or None."""
    start_s, end_s = span(event)
    if not (abs(start_s) <= LARGEST_S and abs(end_s) <= LARGEST_S):
        return f"{start_s!r} to {end_s!r} are no epoch seconds"
    if end_s < start_s:
        return "an end before its start"
    for value in msgspec.structs.astuple(event):
        if isinstance(value, (int, float)) and not is_within_bounds(value):
            return f"{value!r} is out of bounds"
    return None


def span(event: ev.GoodputEvent) -> tuple[float, float]:
    """Return when `event` began and ended (epoch seconds); the same time twice for what happened at once."""
    if hasattr(event, "start_s") and hasattr(event, "end_s"):
        return event.start_s, event.end_s
    return event.time_s, event.time_s
