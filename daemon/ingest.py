"""From messages to events: the decoder, the sequence numbers, and what was lost on the way."""

from collections.abc import Iterator

import msgspec

from ..client.wire import Envelope, WireError, decode
from ..intents.dftracer import TraceDecoder
from ..intents.events import Event, EventsLost, SettingsObserved, TraceDigest

_MAX_SENDERS = 10_000


class _Sender(msgspec.Struct):
    next_sequence: int = 0
    dropped: int = 0


class Ingest:
    """Takes messages apart. Trace lines are summed up until :meth:`digest`; all else comes out at once."""

    def __init__(self) -> None:
        self._decoder = TraceDecoder()
        self._senders: dict[str, _Sender] = {}
        self.messages = 0
        self.rejected: dict[str, int] = {}

    def message(self, message: bytes) -> Iterator[Event]:
        """The events in one message, in order; nothing is raised, whatever the bytes are."""
        self.messages += 1
        try:
            decoded = decode(message)
        except WireError as error:
            self._reject(str(error).partition(":")[0])
            return
        if decoded.unknown:
            self._reject("events of an unknown type or shape", decoded.unknown)
        if decoded.envelope is not None:
            yield from self._losses(decoded.envelope)
        if decoded.lines:
            self._decoder.feed(decoded.lines, decoded.envelope.sender if decoded.envelope else "")
        for event in decoded.events:
            self.learn(event)
            yield event

    def learn(self, event: Event) -> None:
        """What an event says about the trace: where the cache and the prefix directory are."""
        if isinstance(event, SettingsObserved):
            tiers = {event.cache: "cache", event.prefix: "prefix"}
            self._decoder.set_tiers({directory: tier for directory, tier in tiers.items() if directory})

    def digest(self, *, final: bool = False) -> TraceDigest | None:
        """All trace lines since the last digest, or None."""
        return self._decoder.take(final=final)

    def _losses(self, envelope: Envelope) -> Iterator[EventsLost]:
        if len(self._senders) >= _MAX_SENDERS and envelope.sender not in self._senders:
            self._senders.pop(next(iter(self._senders)))
        sender = self._senders.get(envelope.sender)
        if sender is None:
            # a daemon that was restarted comes late: only what is missed from now on is missed
            sender = self._senders[envelope.sender] = _Sender(next_sequence=envelope.sequence)
        dropped = max(0, envelope.dropped - sender.dropped)
        missing = max(0, envelope.sequence - sender.next_sequence)
        sender.next_sequence = envelope.sequence + 1
        sender.dropped = max(sender.dropped, envelope.dropped)
        if dropped:
            yield EventsLost(source=f"{envelope.sender}: dropped, its queue was full", count=dropped)
        if missing:
            yield EventsLost(source=f"{envelope.sender}: messages that never arrived", count=missing)

    def _reject(self, reason: str, count: int = 1) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + count
