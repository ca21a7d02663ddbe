"""What happened, in order, on disk: a restarted daemon replays it and is where the old one was.

A record is its length and CRC-32 (both little-endian 32 bit), then MessagePack of [now, event]. A torn tail,
which SIGKILL or a full disk leaves behind, is cut and told.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..intents.events import Event, EventsLost
from ..intents.pipeline import Pipeline

_MAGIC = b"scrtune journal 1\n"
_HEADER = struct.Struct("<II")
_MAX_RECORD_BYTES = 64 * 1024 * 1024


class JournalError(OSError):
    """The journal cannot be opened or is not one; the text says what to do."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal held: `end` is the length of its good part, `torn` why it ends there, if not cleanly."""

    records: int = 0
    unknown: int = 0
    end: int = 0
    torn: str = ""


_record_decoder: msgspec.msgpack.Decoder[tuple[float, Event]] = msgspec.msgpack.Decoder(tuple[float, Event])


class JournalReader:
    """Iterates over (now, event); `recovered` says how it went once the iteration has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.recovered = Recovered()

    def __iter__(self) -> Iterator[tuple[float, Event]]:
        records = unknown = 0
        end, torn = len(_MAGIC), ""
        with self._path.open("rb") as file:
            magic = file.read(len(_MAGIC))
            if magic and magic != _MAGIC:
                raise JournalError(
                    f"{self._path}: not a journal of this version; move it away and start again"
                )
            while header := file.read(_HEADER.size):
                payload, torn = _payload(file.read, header)
                if torn:
                    break
                end += _HEADER.size + len(payload)
                try:
                    record = _record_decoder.decode(payload)
                except msgspec.MsgspecError:
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
    if length > _MAX_RECORD_BYTES:
        return b"", "an impossible length"
    payload = read(length)
    if len(payload) < length:
        return b"", "half a record"
    if zlib.crc32(payload) != crc:
        return b"", "a record with a wrong checksum"
    return payload, ""


def recover(path: Path, pipeline: Pipeline) -> Recovered:
    """Replay the journal at `path` into `pipeline`; its effects were performed when they happened."""
    reader = JournalReader(path)
    for now, event in reader:
        pipeline.handle(event, now)
    return reader.recovered


class Journal:
    """Appends records. A full disk costs records, never the daemon: they are counted and told later."""

    def __init__(self, path: Path, *, keep: int | None = None) -> None:
        """Open `path` for appending behind its first `keep` bytes (default: all)."""
        self._path = path
        self._pending: list[bytes] = []
        self._pending_records = 0
        self.lost = 0
        self._untold = 0
        self.error = ""
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
        """Queue a record; :meth:`flush` writes it."""
        payload = msgspec.msgpack.encode((now, event))
        self._pending.append(_HEADER.pack(len(payload), zlib.crc32(payload)) + payload)
        self._pending_records += 1

    def flush(self, now: float) -> None:
        """Write what is queued, in one piece; what the disk refuses is counted as lost."""
        if not self._pending:
            return
        if self._untold:
            self.append(now, EventsLost(source="journal", count=self._untold))
        data = b"".join(self._pending)
        records, self._pending_records = self._pending_records, 0
        magic = self._pending[0] == _MAGIC
        self._pending.clear()
        try:
            _write_all(self._fd, data, self._end)
        except OSError as error:
            os.ftruncate(self._fd, self._end)
            lost = records - bool(self._untold)
            self.lost += lost
            self._untold += lost
            self.error = error.strerror or str(error)
            if magic:
                self._pending.append(_MAGIC)
        else:
            self._end += len(data)
            self._untold = 0
            self.error = ""

    def close(self) -> None:
        """Close the file; call :meth:`flush` first."""
        os.close(self._fd)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
