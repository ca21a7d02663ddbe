"""What a recorder is given, as an event can hold it. All raise where readers would turn the event away."""

import time
from datetime import datetime
from typing import SupportsInt

import msgspec

from ..goodput.events import GoodputEvent
from ..goodput.peer_rules.peer_names import Moment
from ..goodput.readers.formats import LARGEST_INTEGER
from ..goodput.validation import AHEAD_S, BEHIND_S, defect

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GoodputEvent).decode


def seconds(moment: Moment) -> float:
    """Epoch seconds; a datetime without a zone is local. Raises ValueError or TypeError for no time.

    A time more than a year ago or an hour ahead is none: one of 1970 would make a job of 56 years.
    """
    now = time.time()
    if moment is None:
        return now
    if isinstance(moment, (bool, str, bytes, bytearray)):  # float() takes all of these
        raise TypeError(f"{moment!r} is no time")
    time_s = moment.timestamp() if isinstance(moment, datetime) else float(moment)
    if not now - BEHIND_S <= time_s <= now + AHEAD_S:
        raise ValueError(f"{moment!r} is more than a year ago, or an hour ahead")
    return time_s


def span(start: Moment, end: Moment) -> tuple[float, float]:
    """Two times as :func:`seconds`, the end not before the start."""
    start_s, end_s = seconds(start), seconds(end)
    if end_s < start_s:
        raise ValueError(f"{end!r} is before {start!r}")
    return start_s, end_s


def whole(number: SupportsInt) -> int:
    """A whole number that JSON's other readers can hold. Raises ValueError, OverflowError or TypeError."""
    value = int(number)
    if abs(value) > LARGEST_INTEGER:
        raise OverflowError(f"{value!r:.100} is no number of anything")
    return value


def checked(event: GoodputEvent) -> GoodputEvent:
    """`event`, whose fields nothing has looked at so far. Raises ValueError, OverflowError or TypeError."""
    _decode(_encode(event))
    for value in msgspec.structs.astuple(event):
        if isinstance(value, int):
            whole(value)
    if what := defect(event, time.time()):
        raise ValueError(what)
    return event
