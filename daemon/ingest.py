"""From messages to events: the decoder, the sequence numbers, and what was lost on the way."""

from collections import deque
from collections.abc import Iterator

import msgspec

from ..client.transport.wire import Envelope, WireError, decode
from ..goodput.events import FlushCompleted, JobStarted, OutputCompleted
from ..goodput.validation import is_within_bounds
from ..intents.events import LARGEST_COUNT, Event, EventsLost, SettingsObserved, TraceDigest
from ..intents.trace.decoder import TraceDecoder
from ..scr_config.catalogue import SECRETS
from .journal.records import Senders

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 10_000

_PIECE_BYTES = 16 * 1024  # about 0.2 ms of work: questions are answered between two pieces
_MAX_SENDERS = 10_000
_MAX_NAMED = 100  # senders with losses, and reasons of rejection; what comes later is counted together
_MAX_NAME = 200
_OTHERS = "other senders"
_DROPPED = ": dropped, its queue was full"
_MISSING = ": messages that never arrived"
_BESIDE = "checkpoints of an application beside the one that began last: one of a job is tuned"


class _Sender(msgspec.Struct):
    next_sequence: int | None = 0
    """None: its first messages may have been heard by others, or by us, and be forgotten."""
    dropped: int = 0
    journaled: tuple[int, int] | None = None
    """Both, as far as all that was sent before has come out as an event."""


class _Applications:
    """Tells two applications that speak to one daemon from two runs of a job, one after the other."""

    def __init__(self) -> None:
        self._last, self._began_s = "", 0.0
        self._earlier: deque[str] = deque(maxlen=_MAX_NAMED)

    def is_beside(self, sender: str, event: Event) -> bool:
        """Return whether `event` happened to another one while that ran which began last.

        What comes without a sender's name is of none of them.
        """
        match event:
            case JobStarted(writer="") if sender not in {"", self._last}:
                self._earlier.append(self._last)
                self._last, self._began_s = sender, event.time_s
            case OutputCompleted() | FlushCompleted() if sender and sender in self._earlier:
                return sender != self._last and event.start_s > self._began_s
        return False


class Ingest:
    """Decodes messages. Events come out at once; trace lines wait for :meth:`sum_up`.

    What a new sender sent before is missing, unless `others_heard` the first messages.
    """

    def __init__(self, *, others_heard: bool = False) -> None:
        self._decoder = TraceDecoder()
        self._lines: deque[tuple[bytes, str]] = deque()
        self._offset = 0
        self._senders: dict[str, _Sender] = {}
        self._others_heard = others_heard
        self._losers: set[str] = set()
        self._applications = _Applications()
        self._heard: set[str] = set()  # whose messages are events by now
        self._undigested: set[str] = set()  # whose lines are not
        self.messages = 0
        self.rejected: dict[str, int] = {}

    def message(self, message: bytes) -> Iterator[Event]:
        """Return the events in one message, in order; nothing is raised, whatever the bytes are."""
        self.messages += 1
        if len(message) > MAX_MESSAGE_BYTES:
            self._reject(f"messages larger than {MAX_MESSAGE_BYTES >> 20} MiB")
            return
        try:
            decoded = decode(message)
        except WireError as error:
            self._reject(str(error).partition(":")[0])
            return
        sender = decoded.envelope.sender[:_MAX_NAME] if decoded.envelope else ""
        if decoded.unknown:
            self._reject("events of an unknown type or shape", decoded.unknown)
        if decoded.envelope is not None:
            yield from self._losses(decoded.envelope)
        if decoded.lines:
            self._lines.append((decoded.lines, sender))
        if len(decoded.events) > MAX_EVENTS:
            self._reject(f"events beyond {MAX_EVENTS} in a message", len(decoded.events) - MAX_EVENTS)
        known = [self._known(event) for event in decoded.events[:MAX_EVENTS] if self._counts(sender, event)]
        yield from known[:-1]
        if decoded.envelope is not None:  # before the last one: with that the caller may write its journal
            self._sender(sender).next_sequence = decoded.envelope.sequence + 1
            self._hear(sender, has_lines=bool(decoded.lines))
        yield from known[-1:]

    def _counts(self, sender: str, event: Event) -> bool:
        """Return whether `event` counts; why one does not is counted."""
        why = ""
        if not is_within_bounds(event):
            why = "events with a number or text out of bounds"
        elif self._applications.is_beside(sender, event):
            why = _BESIDE
        if why:
            self._reject(why)
        return not why

    def _known(self, event: Event) -> Event:
        known = _without_secrets(event)
        self.learn(known)
        return known

    def sum_up(self) -> bool:
        """Digest a piece of the trace lines that wait; returns whether there was any."""
        if not self._lines:
            return False
        lines, source = self._lines[0]
        end = lines.find(b"\n", self._offset + _PIECE_BYTES) + 1 or len(lines)
        self._decoder.feed(lines[self._offset : end], source)
        self._offset = end
        if end == len(lines):
            self._lines.popleft()
            self._offset = 0
        return True

    def give_up(self) -> int:
        """Forget the trace lines that wait; returns how many there were."""
        count = sum(lines.count(b"\n") for lines, _ in self._lines)
        if self._lines:
            count -= self._lines[0][0].count(b"\n", 0, self._offset)
        self._lines.clear()
        self._offset = 0
        return count

    def digest(self, *, final: bool = False) -> TraceDigest | None:
        """Return the digest of what :meth:`sum_up` has seen since the last one, or None."""
        digest = self._decoder.take(final=final)
        if not self._lines:
            self._heard |= self._undigested
            self._undigested.clear()
        return digest

    def heard(self) -> Senders:
        """Return how far the senders have come that were heard since the last call."""
        heard: Senders = {}
        for name in self._heard:
            if (sender := self._senders.get(name)) is not None:
                heard[name] = sender.journaled = (sender.next_sequence or 0, sender.dropped)
        self._heard.clear()
        return heard

    def senders(self) -> Senders:
        """Return how far all senders had come when :meth:`heard` was called last."""
        return {name: each.journaled for name, each in self._senders.items() if each.journaled is not None}

    def recall_senders(self, senders: Senders) -> None:
        """Go on where the messages of `senders` ended: what they sent since then is missing."""
        for name, (next_sequence, dropped) in senders.items():
            sender = self._sender(name)
            sender.next_sequence, sender.dropped = sender.journaled = next_sequence, dropped

    def hear_all_again(self) -> None:
        """Let :meth:`heard` return all senders next: another journal has to know them from now on."""
        self._heard |= self._senders.keys() - self._undigested

    def learn(self, event: Event) -> None:
        """Take from an event where the cache and the prefix directory of the trace are."""
        if isinstance(event, SettingsObserved):
            tiers = {event.cache: "cache", event.prefix: "prefix"}
            self._decoder.set_tiers({directory: tier for directory, tier in tiers.items() if directory})

    def recall(self, event: Event) -> None:
        """Take in an event of the journal: as :meth:`learn`, and drops that were counted already."""
        self.learn(event)
        if isinstance(event, EventsLost) and event.source.endswith(_DROPPED):
            name = event.source.removesuffix(_DROPPED)
            if name != _OTHERS:
                self._sender(name).dropped += event.count

    def _hear(self, name: str, *, has_lines: bool = False) -> None:
        waits = has_lines or name in self._undigested
        (self._undigested if waits else self._heard).add(name)

    def _losses(self, envelope: Envelope) -> Iterator[EventsLost]:
        name = envelope.sender[:_MAX_NAME]
        sender = self._sender(name)
        if sender.next_sequence is None:
            sender.next_sequence = envelope.sequence
        if envelope.sequence == 0:
            sender.dropped = 0  # it was started again, and counts anew
        missing, dropped = envelope.sequence - sender.next_sequence, envelope.dropped - sender.dropped
        # what an event says is known of its sender before it leaves: else a restarted daemon counts it again
        if dropped > 0:
            sender.dropped = envelope.dropped
            self._hear(name)
            yield self._lost(name, _DROPPED, dropped)
        sender.next_sequence = envelope.sequence
        if missing > 0:
            self._hear(name)
            yield self._lost(name, _MISSING, missing)

    def _sender(self, name: str) -> _Sender:
        """Return what is known of a sender; beyond 10,000 the one that was silent longest is forgotten."""
        sender = self._senders.pop(name, None) or _Sender(None if self._others_heard else 0)
        self._senders[name] = sender
        if len(self._senders) > _MAX_SENDERS:
            del self._senders[next(iter(self._senders))]
            self._others_heard = True  # a new one may be one that was forgotten
        return sender

    def _lost(self, name: str, what: str, count: int) -> EventsLost:
        if len(self._losers) < _MAX_NAMED:
            self._losers.add(name)
        source = name if name in self._losers else _OTHERS
        return EventsLost(source=source + what, count=min(count, LARGEST_COUNT))

    def _reject(self, reason: str, count: int = 1) -> None:
        if len(self.rejected) >= _MAX_NAMED and reason not in self.rejected:
            reason = "other reasons"
        self.rejected[reason] = self.rejected.get(reason, 0) + count


def _without_secrets(event: Event) -> Event:
    if not isinstance(event, SettingsObserved):
        return event
    return msgspec.structs.replace(
        event,
        settings={name: value for name, value in event.settings.items() if name not in SECRETS},
        sources={name: source for name, source in event.sources.items() if name not in SECRETS},
    )
