"""What the preloaded library writes, and SCR to its log, pushed to the daemon as events."""

import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

from ...intents.events import Event
from ...scr_config.files import write_atomic
from ..scr_log.library_events import LibraryEvents
from .event_queue import EventQueue
from .follow import ForwardCounts

DRAIN_LIMIT_S = 2.0
RETRY_S = 0.005


class LibraryForwarder:
    """Pushes what the preloaded library wrote to `events_file`, and SCR to its log, as events.

    The file may appear later. While the daemon is away or slow the rest waits in it. A forwarder that is
    started anew reads it from its start, since an event may rest on lines long before it; the time of the
    last event that was sent, kept in ``<events_file>.sent``, says which are new. For use by one thread.
    """

    def __init__(self, events_file: Path, endpoint: str, counts: ForwardCounts) -> None:
        self.path = events_file
        self.counts = counts
        with suppress(OSError):
            events_file.touch(0o600)  # for there to be one that can be watched
        self._library = LibraryEvents(events_file)
        self._mark = events_file.with_name(f"{events_file.name}.sent")
        self._sent_until_s = self._last_s = _marked_s(self._mark)
        self._is_new = self._sent_until_s == -inf
        self._queue = EventQueue(endpoint, "library")

    @property
    def has_begun(self) -> bool:
        """Return whether SCR_Init of a run was seen."""
        return self._library.log is not None

    def poll(self) -> bool:
        """Do one round: read new events and send them. Return whether some wait, or more may come."""
        waiting = self._queue.waiting
        if not waiting:
            waiting.extend(self._new_events())
        if before := len(waiting):
            if self._queue.send():
                with suppress(OSError):  # without the mark a later forwarder repeats them
                    write_atomic(self._mark, f"{self._last_s!r}\n".encode(), durable=False)
            self.counts.events += before - len(waiting)
        self.counts.events_garbage = self._library.garbage
        return before > 0

    def drain(self, limit_s: float = DRAIN_LIMIT_S) -> None:
        """Send all there is, or as much as `limit_s` allows."""
        deadline_s = time.monotonic() + limit_s
        while self.poll() and time.monotonic() < deadline_s:
            if self._queue.waiting:
                time.sleep(RETRY_S)

    def close(self) -> None:
        """Close files and queue."""
        self._library.close()
        self._queue.close()

    def _new_events(self) -> Iterator[Event]:
        """Yield the events since the last call, without those that an earlier forwarder has sent.

        An event without a time (the settings of a run) is new when the one before it is.
        """
        for event in self._library.take():
            time_s = _time_of(event)
            if time_s is not None:
                self._is_new = time_s > self._sent_until_s
                self._last_s = max(self._last_s, time_s)
            if self._is_new:
                yield event
            else:
                self.counts.events_repeated += 1


def _time_of(event: Event) -> float | None:
    """Return when it happened: the end of an interval. None for an event that does not say."""
    for name in ("end_s", "time_s"):
        if isinstance(time_s := getattr(event, name, None), float | int):
            return float(time_s)
    return None


def _marked_s(mark: Path) -> float:
    """Return the time kept in `mark`; before all times when there is none, or none that can be."""
    try:
        time_s = float(mark.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -inf
    return time_s if time_s <= time.time() else -inf
