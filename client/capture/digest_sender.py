"""Sum the lines of traces up where they are, and push the sums to the daemon as digests."""

from collections.abc import Mapping

from msgspec.structs import replace

from ...intents.trace.decoder import TraceDecoder
from .alike import AlikeProcesses
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
        self._decoder = TraceDecoder(tiers, new_scanner())
        self._alike = AlikeProcesses()
        self.standing_for = 1
        """Of so many processes that do the same only one is traced."""

    @property
    def alike(self) -> int:
        """The number of processes that have done the same; 1 where they have not."""
        return self._alike.count

    def trace_all(self) -> None:
        """All processes are traced from here on."""
        self._alike, self.standing_for = AlikeProcesses(), 1

    def learn(self, lines: bytes) -> None:
        """Take in the names and processes in lines that an earlier forwarder has sent; count nothing."""
        self._sum_up()
        self._decoder.feed(lines, self.sender)
        self._decoder.take(final=True)
        self._decoder.take_moved()

    def add(self, lines: bytes) -> int:
        """Sum whole lines up, and return their number; 0: there is no room, and nothing is taken."""
        return self._decoder.feed(lines, self.sender) if len(self.waiting) < _DIGESTS_WAITING else 0

    def send(self, dropped: int = 0, *, final: bool = False) -> bool:
        """Send as :meth:`.EventQueue.send`; `dropped` counts lines. `final`: no more comes."""
        self._sum_up(final=final)
        return super().send(dropped)

    def _sum_up(self, *, final: bool = False) -> None:
        if (digest := self._decoder.take(final=final)) is None:
            return
        moved = self._decoder.take_moved()
        self._alike.add(moved)
        self.waiting.append(replace(digest, alike=self.standing_for) if len(moved) == 1 else digest)
