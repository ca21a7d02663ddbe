"""Sum the lines of traces up where they are, and push the sums to the daemon as digests."""

from collections import deque
from collections.abc import Mapping

from ...intents.events import Event, TraceDigest
from ...intents.trace.decoder import TraceDecoder
from ..transport.sender import EnvelopeSocket, host_name
from .scanner import new_scanner

LINGER_S = 0.5
_DIGESTS_WAITING = 4
_ENVELOPES_QUEUED = 32  # few: a line in a file survives this process, an envelope in the socket does not


def forwarding_socket(endpoint: str, sender: str) -> EnvelopeSocket:
    """Return a socket to the daemon at `endpoint`."""
    return EnvelopeSocket(endpoint, sender, queue_limit=_ENVELOPES_QUEUED, linger_s=LINGER_S)


class DigestSender:
    """Sums lines up and pushes the sums, as :class:`.TraceDigest` events, to `endpoint`.

    `tiers` are those of :class:`.TraceDecoder`. While the daemon is away or slow a few sums wait here, and
    then the lines wait in their files.
    """

    def __init__(self, endpoint: str, tiers: Mapping[str, str]) -> None:
        self._source = f"forward:{host_name()}"
        self._socket = forwarding_socket(endpoint, self._source)
        self._decoder = TraceDecoder(tiers, new_scanner())
        self._waiting: deque[TraceDigest] = deque()
        self._dropped = 0

    def learn(self, lines: bytes) -> None:
        """Take in the names and processes in lines that an earlier forwarder has sent; count nothing."""
        self._sum_up()
        self._decoder.feed(lines, self._source)
        self._decoder.take(final=True)

    def add(self, lines: bytes) -> int:
        """Sum whole lines up, and return their number; 0: there is no room, and nothing is taken."""
        return self._decoder.feed(lines, self._source) if len(self._waiting) < _DIGESTS_WAITING else 0

    def send(self, dropped: int, *, final: bool = False) -> bool:
        """Send what was summed up; return whether nothing waits any more. `final`: no more comes.

        `dropped` lines were skipped so far.
        """
        self._sum_up(final=final)
        while self._waiting and self._push(dropped, self._waiting[0]):
            self._waiting.popleft()
        return not self._waiting and (dropped == self._dropped or self._push(dropped))

    def close(self, linger_s: float = LINGER_S) -> None:
        """Close, waiting `linger_s` at most for what is under way."""
        self._socket.close(linger_s)

    def _sum_up(self, *, final: bool = False) -> None:
        if (digest := self._decoder.take(final=final)) is not None:
            self._waiting.append(digest)

    def _push(self, dropped: int, *events: Event) -> bool:
        if not self._socket.push(events=events, dropped=dropped):
            return False
        self._dropped = dropped
        return True
