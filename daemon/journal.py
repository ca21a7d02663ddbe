"""What happened, in order, on disk: a restarted daemon replays it and is where the old one was.

A record is its length and CRC-32 (both little-endian 32 bit), then MessagePack of [now, event], compressed
with zlib when that is shorter (the first byte tells). A torn tail, which SIGKILL or a full disk leaves
behind, is cut and told.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..intents.events import Event, EventsLost

_MAGIC = b"scrtune journal 1\n"
_HEADER = struct.Struct("<II")
_MAX_RECORD_BYTES = 64 * 1024 * 1024
_COMPRESSED_FROM_BYTES = 256
_ZLIB_FIRST_BYTE = 0x78  # MessagePack of a pair begins with 0x92


class JournalError(OSError):
    """The journal cannot be opened or is not one; the text says what to do."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal held: `end` is the length of its good part, `torn` why it ends there, if not cleanly.

    `unknown` counts whole records of an event that this version does not know.
    """

    records: int = 0
    unknown: int = 0
    end: int = 0
    torn: str = ""


_record_decoder: msgspec.msgpack.Decoder[tuple[float, Event]] = msgspec.msgpack.Decoder(tuple[float, Event])


class JournalReader:
    """Iterates over (now, event); `recovered` says how it went once the iteration has ended.

    Raises :class:`JournalError` when the file does not begin as a journal does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.recovered = Recovered()

    def __iter__(self) -> Iterator[tuple[float, Event]]:
        records = unknown = 0
        with self._path.open("rb") as file:
            magic = file.read(len(_MAGIC))
            if not _MAGIC.startswith(magic):
                raise JournalError(
                    f"{self._path}: not a journal of this version; move it away and start again"
                )
            end, torn = len(magic), "half a title" if 0 < len(magic) < len(_MAGIC) else ""
            while header := file.read(_HEADER.size):
                payload, torn = _payload(file.read, header)
                if torn:
                    break
                end += _HEADER.size + len(payload)
                try:
                    record = _record_decoder.decode(_unpacked(payload))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, zlib.error):
                    unknown += 1
                    continue
                records += 1
                yield record
        self.recovered = Recovered(records=records, unknown=unknown, end=end, torn=torn)


def _payload(read: Callable[[int], bytes], header: bytes) -> tuple[bytes, str]:
    """The record behind `header`, or why there is none."""
    if len(header) < _HEADER.size:
        return b"", "half a header"
    length, crc = _HEADER.unpack(header)
    if not 0 < length <= _MAX_RECORD_BYTES:
        return b"", "an impossible length"
    payload = read(length)
    if len(payload) < length:
        return b"", "half a record"
    if zlib.crc32(payload) != crc:
        return b"", "a record with a wrong checksum"
    return payload, ""


def _packed(payload: bytes) -> bytes:
    """`payload`, compressed if that is worth it: masks of many processes repeat themselves."""
    if len(payload) < _COMPRESSED_FROM_BYTES:
        return payload
    return min(payload, zlib.compress(payload, 1), key=len)


def _unpacked(payload: bytes) -> bytes:
    if payload[0] != _ZLIB_FIRST_BYTE:
        return payload
    return zlib.decompressobj().decompress(payload, _MAX_RECORD_BYTES)


class Journal:
    """Appends records. A full disk costs records, never the daemon: they are counted and told later."""

    def __init__(self, path: Path, *, keep: int | None = None) -> None:
        """Open `path` for appending behind its first `keep` bytes (default: all)."""
        self._pending: list[bytes] = []
        self._pending_records = 0
        self.lost = 0
        self._untold = 0
        self.error = ""
        """Why the last write failed, or empty."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            size = os.fstat(self._fd).st_size
            self._end = size if keep is None else min(keep, size)
            os.ftruncate(self._fd, self._end)
        except OSError as error:
            raise JournalError(
                f"{path}: cannot be opened ({error.strerror}); check the run directory"
            ) from error
        if self._end < len(_MAGIC):
            self._end = 0
            self._pending.append(_MAGIC)

    def append(self, now: float, event: Event) -> None:
        """Queue a record; :meth:`flush` writes it. One that no reader would take is counted as lost."""
        payload = msgspec.msgpack.encode((now, event))
        if len(payload) > _MAX_RECORD_BYTES:
            self._lose(1)
            return
        packed = _packed(payload)
        self._pending.append(_HEADER.pack(len(packed), zlib.crc32(packed)) + packed)
        self._pending_records += 1

    def flush(self, now: float) -> None:
        """Write what is queued, in one piece; what the disk refuses is counted as lost."""
        if not self._pending:
            return
        records, self._pending_records = self._pending_records, 0
        untold = self._untold
        if untold:
            self.append(now, EventsLost(source="journal", count=untold))
        data = b"".join(self._pending)
        has_title = self._pending[0] == _MAGIC
        self._pending.clear()
        self._pending_records = 0
        try:
            _write_all(self._fd, data, self._end)
        except OSError as error:
            self.error = error.strerror or str(error)
            self._lose(records)
            with contextlib.suppress(OSError):  # the next write begins at the same place in any case
                os.ftruncate(self._fd, self._end)
            if has_title:
                self._pending.append(_MAGIC)
        else:
            self._end += len(data)
            self._untold -= untold
            self.error = ""

    def close(self) -> None:
        """Close the file; call :meth:`flush` first."""
        os.close(self._fd)

    def _lose(self, records: int) -> None:
        self.lost += records
        self._untold += records


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
