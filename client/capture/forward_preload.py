"""Pushes what the preloaded library and SCR's log say to the daemon, each event once over all forwarders."""

import contextlib
import socket as host_socket
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from math import inf
from pathlib import Path

import zmq

from ...intents.events import Event
from ...scr_config.files import write_atomic
from ..scr_log.preload_events import LibraryEvents
from ..transport import wire
from ..transport.own_socket import OwnSocket
from .follow import ForwardCounts

LINGER_S = 0.5

_EVENTS_AN_ENVELOPE = 64
_ENVELOPES_QUEUED = 32  # few: what waits in the file survives us, what waits in a socket does not
_LOOK_INTERVAL_S = 0.1
_PAUSE_S = 0.002


class LibraryForwarder:
    """Pushes the events of `events_file` to `endpoint`, as they come. For use by one thread.

    The file may appear later. While the daemon is away or slow the rest waits in it. A forwarder that is
    started anew reads it from its start, since what an event says may rest on lines long before it; the time
    of the last event that was sent, kept in ``<events_file>.sent``, tells which are news.
    """

    def __init__(self, events_file: Path, endpoint: str, counts: ForwardCounts) -> None:
        self._counts = counts
        self.sender = f"library:{host_socket.gethostname().split('.')[0]}"
        self._library = LibraryEvents(events_file)
        self._mark = events_file.with_name(f"{events_file.name}.sent")
        self._news_after_s = self._last_s = _seconds(self._mark)
        self._own = OwnSocket(zmq.PUSH, endpoint, queue_limit=_ENVELOPES_QUEUED, linger_s=LINGER_S)
        self._sequence = 0
        self._next_look_s = 0.0
        self._waiting: deque[Event] = deque()
        self._is_news = self._news_after_s == -inf

    def look(self) -> None:
        """A round when it is time for one: outputs are rarer by far than the lines of a trace."""
        if time.monotonic() >= self._next_look_s:
            self._next_look_s = time.monotonic() + _LOOK_INTERVAL_S
            self.poll()

    def poll(self) -> bool:
        """One round: take what is new and send it. Whether some of it could not be sent, or more may come."""
        before = self._counts.events
        if not self._waiting:
            self._waiting.extend(self._news())
        if self._waiting and self._send():
            self._remember()
        self._counts.events_garbage = self._library.counts.garbage
        return bool(self._waiting) or self._counts.events > before

    def drain(self, limit_s: float) -> None:
        """Send all there is, or as much as `limit_s` allows."""
        deadline_s = time.monotonic() + limit_s
        while self.poll() and time.monotonic() < deadline_s:
            if self._waiting:
                time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Let go of files and socket, waiting shortly for what is under way."""
        self._library.close()
        self._own.close(LINGER_S)

    def _news(self) -> Iterator[Event]:
        """What was said since the last call; without what an earlier forwarder has sent.

        An event without a time (the settings of a run) is news when the one before it is.
        """
        for event in self._library.take():
            time_s = _time_of(event)
            if time_s is not None:
                self._is_news = time_s > self._news_after_s
                self._last_s = max(self._last_s, time_s)
            if self._is_news:
                yield event
            else:
                self._counts.events_repeated += 1

    def _send(self) -> bool:
        """Send all that waits, as far as there is room; whether it was all."""
        while self._waiting:
            events = tuple(islice(self._waiting, _EVENTS_AN_ENVELOPE))
            message = wire.encode(sender=self.sender, sequence=self._sequence, events=events)
            try:
                self._own.socket.send(message, zmq.NOBLOCK)
            except zmq.Again:
                return False
            self._sequence += 1
            self._counts.events += len(events)
            for _ in events:
                self._waiting.popleft()
        return True

    def _remember(self) -> None:
        """Keep the time of the last event that was sent. Where that fails a later forwarder repeats them."""
        with contextlib.suppress(OSError):
            write_atomic(self._mark, f"{self._last_s!r}\n".encode(), durable=False)


def _time_of(event: Event) -> float | None:
    """When it happened: the end of what took a while. None for an event that does not say."""
    for name in ("end_s", "time_s"):
        if isinstance(time_s := getattr(event, name, None), float | int):
            return float(time_s)
    return None


def _seconds(mark: Path) -> float:
    """The time that is kept there; before all times when there is none, or none that can be."""
    try:
        time_s = float(mark.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -inf
    return time_s if time_s <= time.time() else -inf
