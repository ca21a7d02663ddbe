"""The wire between an application's node and its daemon: one ZeroMQ message, two forms (`docs/wire.md`).

DFTracer's JSON lines: the first byte is below 0x80. Or an envelope, a MessagePack array: it says who sent it,
how many messages came before and how many were dropped.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from ...intents.events import Event

PROTOCOL_VERSION = 1
_ENVELOPE_FIRST_BYTE = 0x80
# msgspec lets text that is not UTF-8 and deep nesting through as Python's own errors
_NOT_UNDERSTOOD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WireError(ValueError):
    """A message of neither form, or of another protocol version."""


class Envelope(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Sender, position and content of one message.

    `sequence` counts the sender's messages from 0; `dropped` is the total the sender had to drop so far.
    """

    version: int
    sender: str
    sequence: int
    dropped: int
    lines: bytes = b""
    events: tuple[msgspec.Raw, ...] = ()


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message, decoded: `unknown` counts events of a type or shape that this version does not know."""

    envelope: Envelope | None = None
    lines: bytes = b""
    events: tuple[Event, ...] = ()
    unknown: int = 0


_encoder = msgspec.msgpack.Encoder()
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_event_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def encode(
    *, sender: str, sequence: int, dropped: int = 0, lines: bytes = b"", events: Iterable[Event] = ()
) -> bytes:
    """Return the message number `sequence` of `sender`."""
    return _encoder.encode(
        Envelope(
            version=PROTOCOL_VERSION,
            sender=sender,
            sequence=sequence,
            dropped=dropped,
            lines=lines,
            events=tuple(msgspec.Raw(_encoder.encode(event)) for event in events),
        )
    )


def decode(message: bytes) -> Message:
    """Decode a message. Raises :class:`WireError`; an event that is not understood is only counted."""
    if not message:
        raise WireError("empty message")
    if message[0] < _ENVELOPE_FIRST_BYTE:
        return Message(lines=message)
    try:
        envelope = _envelope_decoder.decode(message)
    except _NOT_UNDERSTOOD as error:
        raise WireError(f"neither DFTracer lines nor an envelope: {error}") from error
    if envelope.version != PROTOCOL_VERSION:
        raise WireError(f"protocol version {envelope.version}; this daemon speaks {PROTOCOL_VERSION}")
    events: list[Any] = []
    for raw in envelope.events:
        try:
            events.append(_event_decoder.decode(raw))
        except _NOT_UNDERSTOOD:
            continue
    return Message(
        envelope=envelope,
        lines=envelope.lines,
        events=tuple(events),
        unknown=len(envelope.events) - len(events),
    )


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A client's question to the daemon, as JSON: ``{"command": "recommendation"}``.

    `values` are the texts of parameters to pin, `names` the parameters to unpin.
    """

    command: str
    version: int = PROTOCOL_VERSION
    values: dict[str, str] = {}
    names: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's answer: `error` is empty when `result` answers the question."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    version: int = PROTOCOL_VERSION
