"""Events on their way to the daemon: the lines they are made of stay in their files until they are sent."""

from collections import deque
from itertools import islice

from ...intents.events import Event
from ..paths import host_name
from ..transport.sender import EnvelopeSocket

_LINGER_S = 2.0  # a daemon that was started again takes some tenths of a second on a busy node
_QUEUED = 32  # few: a line in a file survives this process, an envelope in the socket does not
_EVENTS_AN_ENVELOPE = 64


class EventQueue:
    """Pushes the events that are `waiting` to the daemon at `endpoint`, as the sender ``<kind>:<host>``."""

    def __init__(self, endpoint: str, kind: str) -> None:
        self.sender = f"{kind}:{host_name()}"
        self.waiting: deque[Event] = deque()
        self._socket = EnvelopeSocket(endpoint, self.sender, queue_limit=_QUEUED, linger_s=_LINGER_S)
        self._dropped = 0

    def send(self, dropped: int = 0) -> bool:
        """Send what waits, as far as there is room, and how much was `dropped` so far; return whether all."""
        while self.waiting or dropped != self._dropped:
            events = tuple(islice(self.waiting, _EVENTS_AN_ENVELOPE))
            if not self._socket.push(events=events, dropped=dropped):
                return False
            self._dropped = dropped
            for _ in events:
                self.waiting.popleft()
        return True

    def close(self) -> None:
        """Close, waiting 2 s at most for envelopes under way."""
        self._socket.close(_LINGER_S)
