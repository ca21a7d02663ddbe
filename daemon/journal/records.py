"""How the journal's records lie in its file, and how they are read back, whatever happened to them.

A record is its length and CRC-32 (both little-endian 32 bit), then MessagePack of [now, event], compressed
with zlib when that is shorter (the first byte shows which). A batch (:mod:`.batches`) is one
record for many events.

A torn tail, which SIGKILL or a full disk leaves behind, is reported and cut. A record that was damaged later
is left out, and counted; those behind it are found again.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from ...intents.events import Event, EventsLost

DAMAGED = "damaged records of the journal"
MAGIC = b"scrtune journal 1\n"
MAX_RECORD_BYTES = 64 * 1024 * 1024

_HEADER = struct.Struct("<II")
_SMALL_BYTES = 256  # not worth compressing
_ZLIB_FIRST_BYTE = 0x78
_PAIR_FIRST_BYTE = 0x92  # of [now, event] in MessagePack
_SEARCHED_BYTES = 4 * 1024 * 1024  # behind a damaged record
_FOUND_BYTES = 1024 * 1024  # the largest record that is found there

Senders = dict[str, tuple[int, int]]
"""By name: the sequence number that is expected next, and how much the sender had dropped."""


class JournalError(OSError):
    """The journal cannot be opened or is not one; the text says what to do."""


class SendersHeard(msgspec.Struct, frozen=True, tag="senders_heard"):
    """What is known of senders: all that they sent before is in the journal, or was counted as lost."""

    senders: Senders


class RecoveredJournal(msgspec.Struct, kw_only=True):
    """How much of a journal could be read."""

    records: int = 0
    """Events, those aside that stand for what was lost."""
    unknown: int = 0
    """Whole records of an event that this version does not know."""
    damaged: int = 0
    """Places where records cannot be read, with others behind them."""
    number: int = 0
    """Events from the journal's beginning on, read or not."""
    sealed: int = 0
    """Length of the part that is packed in batches, in bytes."""
    unsealed: int = 0
    """Events behind that part."""
    end: int = 0
    """Length of the part that is whole, in bytes."""
    torn: str = ""
    """Why that part ends there, empty if the file ends there too."""
    last_s: float = 0.0
    """Time of the last event."""
    senders: Senders = {}


class Record(NamedTuple):
    """An event as it lay in the journal, and what it says; None if this version does not know."""

    payload: bytes
    known: tuple[float, Event] | None


_pair_decoder: msgspec.msgpack.Decoder[tuple[float, Event | SendersHeard]] = msgspec.msgpack.Decoder(
    tuple[float, Event | SendersHeard]
)


class JournalReader:
    """Iterates over (now, event); `recovered` says how much was read once the iteration has ended.

    It begins at the byte `start`, behind so many events as `number` says; by default with the first one.
    Raises :class:`JournalError` when the file does not begin as a journal does.
    """

    def __init__(self, path: Path, start: int = 0, number: int = 0) -> None:
        self._path = path
        self._start = start
        self._unseen = 0  # damaged places that no event stands for yet
        self.recovered = RecoveredJournal(number=number, sealed=start)

    def __iter__(self) -> Iterator[tuple[float, Event]]:
        for record in self.records():
            if record.known is not None:
                yield record.known

    def records(self) -> Iterator[Record]:
        """Return each event as it lies there; one for those that were damaged says how many they were."""
        for packed in self.payloads():
            for record in self._events(packed):
                if record.known is not None:
                    self.recovered.last_s = record.known[0]
                yield record
        if self._unseen:
            yield self._lost(self._unseen)

    def payloads(self) -> Iterator[bytes]:
        """Return what each record that can be read has in the file."""
        with self._path.open("rb") as file:
            self._title(file)
            yield from self._payloads(file)

    def _title(self, file: BinaryIO) -> None:
        magic, found = file.read(len(MAGIC)), self.recovered
        if not MAGIC.startswith(magic) and not _is_one_bit_off(magic):
            raise JournalError(f"{self._path}: not a journal of this version; move it away and start again")
        found.end = self._start or len(magic)
        found.sealed = found.sealed or found.end
        found.torn = "half a title" if 0 < len(magic) < len(MAGIC) else ""
        file.seek(found.end)

    def _payloads(self, file: BinaryIO) -> Iterator[bytes]:
        found = self.recovered
        while header := file.read(_HEADER.size):
            payload, found.torn = _payload(file.read, header)
            if found.torn:
                again = _next_record(file, found.end + 1)
                if again is None:
                    return
                self._unseen += 1
                found.damaged += 1
                found.end = again
                file.seek(again)
                continue
            found.end += len(header) + len(payload)
            yield payload

    def _events(self, packed: bytes) -> Iterator[Record]:
        found = self.recovered
        try:
            payload = unpacked(packed)
            if payload[0] != _PAIR_FIRST_BYTE:
                yield from self._batch(payload)
                return
            now, entry = _pair_decoder.decode(payload)
        except (ValueError, RecursionError, zlib.error):
            found.unknown += 1
            found.number += 1
            found.unsealed += 1
            yield Record(packed, None)
            return
        if isinstance(entry, SendersHeard):
            found.senders.update(entry.senders)
            return
        if self._unseen:
            yield self._lost(self._unseen)
        found.records += 1
        found.number += 1
        found.unsealed += 1
        yield Record(payload, (now, entry))

    def _batch(self, payload: bytes) -> Iterator[Record]:
        from . import batches  # noqa: PLC0415 - numpy, which a short journal does not need

        found = self.recovered
        batch = msgspec.msgpack.decode(payload, type=batches.RecordBatch)
        records = [Record(*each) for each in batches.unpack(batch)]
        if self._unseen and (missing := batch.first - found.number) > 0:
            yield self._lost(missing)
        self._unseen = 0
        known = [record for record in records if record.known is not None]
        found.records += len(known)
        found.unknown += len(records) - len(known)
        found.number = batch.first + batch.count
        found.senders.update(batch.senders)
        found.sealed, found.unsealed = found.end, 0
        yield from records

    def _lost(self, count: int) -> Record:
        self._unseen = 0
        self.recovered.number += count
        self.recovered.unsealed += 1
        pair = (self.recovered.last_s, EventsLost(source=DAMAGED, count=count))
        return Record(msgspec.msgpack.encode(pair), pair)


def _is_one_bit_off(magic: bytes) -> bool:
    """Return whether `magic` is a title that was damaged; no other version's is so near to ours."""
    difference = int.from_bytes(magic, "big") ^ int.from_bytes(MAGIC, "big")
    return len(magic) == len(MAGIC) and difference.bit_count() == 1


def _payload(read: Callable[[int], bytes], header: bytes) -> tuple[bytes, str]:
    """Return the record behind `header`, or why there is none."""
    if len(header) < _HEADER.size:
        return b"", "half a header"
    length, crc = _HEADER.unpack(header)
    if not 0 < length <= MAX_RECORD_BYTES:
        return b"", "an impossible length"
    payload = read(length)
    if len(payload) < length:
        return b"", "half a record"
    if zlib.crc32(payload) != crc:
        return b"", "a record with a wrong checksum"
    return payload, ""


def _next_record(file: BinaryIO, start: int) -> int | None:
    """Return where the first whole record at `start` or behind it begins; None if there is none near."""
    file.seek(start)
    searched = file.read(_SEARCHED_BYTES)
    for at in range(len(searched) - _HEADER.size):
        length, crc = _HEADER.unpack_from(searched, at)
        begin = at + _HEADER.size
        if (
            0 < length <= min(_FOUND_BYTES, len(searched) - begin)
            and zlib.crc32(searched[begin : begin + length]) == crc
        ):
            return start + at
    return None


def framed(payload: bytes) -> bytes:
    """Return a record, compressed if that is shorter: masks of many processes repeat themselves."""
    if len(payload) >= _SMALL_BYTES:
        payload = min(payload, zlib.compress(payload, 1), key=len)
    return headed(payload)


def headed(payload: bytes) -> bytes:
    """Return the record of a `payload` as it lay in a file."""
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def unpacked(payload: bytes) -> bytes:
    """Return what :func:`framed` was given. Raises zlib.error."""
    if payload[0] != _ZLIB_FIRST_BYTE:
        return payload
    return zlib.decompressobj().decompress(payload, MAX_RECORD_BYTES)
