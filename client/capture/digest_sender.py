"""Sum the lines of traces up where they are, and push the sums to the daemon as digests."""

from collections.abc import Mapping

from msgspec.structs import replace

from ...intents.trace.decoder import TraceDecoder
from ...intents.trace.digest import AccessTable
from .alike import AlikeProcesses, CountedGroup
from .event_queue import EventQueue
from .scanner import new_scanner

_DIGESTS_WAITING = 4


class DigestSender(EventQueue):
    """Sums lines up and pushes the sums, as :class:`.TraceDigest` events, to `endpoint`.

    `tiers` are those of :class:`.TraceDecoder`. While the daemon is away or slow a few sums wait here, and
    then the lines wait in their files.
    """

    def __init__(self, endpoint: str, tiers: Mapping[str, str]) -> None:
        super().__init__(endpoint, "forward")
        self.alike = AlikeProcesses()
        self._decoder = TraceDecoder(tiers, new_scanner(), AccessTable(lambda: CountedGroup(self.alike)))

    def learn(self, lines: bytes) -> None:
        """Take in the names and processes in lines that an earlier forwarder has sent; count nothing."""
        self._sum_up()
        self._decoder.feed(lines, self.sender)
        self._decoder.take(final=True)
        self.alike = AlikeProcesses(self.alike.standing_for)

    def add(self, lines: bytes) -> int:
        """Sum whole lines up, and return their number; 0: there is no room, and nothing is taken."""
        return self._decoder.feed(lines, self.sender) if len(self.waiting) < _DIGESTS_WAITING else 0

    def send(self, dropped: int = 0, *, final: bool = False) -> bool:
        """Send as :meth:`.EventQueue.send`; `dropped` counts lines. `final`: no more comes."""
        self._sum_up(final=final)
        return super().send(dropped)

    def _sum_up(self, *, final: bool = False) -> None:
        if (digest := self._decoder.take(final=final)) is not None:
            self.waiting.append(replace(digest, alike=self.alike.take()))
