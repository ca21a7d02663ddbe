"""The events in order, on disk: a restarted daemon replays them and is where the old one was.

A record is its length and CRC-32 (both little-endian 32 bit), then MessagePack of [now, event], compressed
with zlib when that is shorter (the first byte shows which). A torn tail, which SIGKILL or a full disk leaves
behind, is cut and reported.
"""

import contextlib
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..intents.effects import Effect
from ..intents.events import Event, EventsLost
from ..intents.pipeline import Pipeline

log = logging.getLogger("scrtune.daemon")

FAILED_ON = "events that scrtune failed on: a bug, see daemon.log"

_LOGGED_FAILURES = 10
_MAGIC = b"scrtune journal 1\n"
_HEADER = struct.Struct("<II")
_MAX_RECORD_BYTES = 64 * 1024 * 1024
_SMALL_BYTES = 256  # not worth compressing
_ZLIB_FIRST_BYTE = 0x78  # MessagePack of a pair begins with 0x92


class JournalError(OSError):
    """The journal cannot be opened or is not one; the text says what to do."""


class RecoveredJournal(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a journal could be read."""

    records: int = 0
    unknown: int = 0
    """Whole records of an event that this version does not know."""
    end: int = 0
    """Length of the part that is whole, in bytes."""
    torn: str = ""
    """Why that part ends there, empty if the file ends there too."""


_record_decoder: msgspec.msgpack.Decoder[tuple[float, Event]] = msgspec.msgpack.Decoder(tuple[float, Event])


class JournalReader:
    """Iterates over (now, event); `recovered` says how much was read once the iteration has ended.

    Raises :class:`JournalError` when the file does not begin as a journal does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.recovered = RecoveredJournal()

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
        self.recovered = RecoveredJournal(records=records, unknown=unknown, end=end, torn=torn)


def _payload(read: Callable[[int], bytes], header: bytes) -> tuple[bytes, str]:
    """Return the record behind `header`, or why there is none."""
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
    """Return `payload`, compressed if that is shorter: masks of many processes repeat themselves."""
    return payload if len(payload) < _SMALL_BYTES else min(payload, zlib.compress(payload, 1), key=len)


def _unpacked(payload: bytes) -> bytes:
    if payload[0] != _ZLIB_FIRST_BYTE:
        return payload
    return zlib.decompressobj().decompress(payload, _MAX_RECORD_BYTES)


def replay_journal(journal: Path) -> tuple[Pipeline, float]:
    """Return the pipeline as a journal left it, and the time of its last record. Raises as reading does."""
    pipeline, last_s = Pipeline(), 0.0
    for now, event in JournalReader(journal):
        apply_event(pipeline, event, now)
        last_s = now
    return pipeline, last_s


def apply_event(pipeline: Pipeline, event: Event, now: float) -> list[Effect]:
    """Return the effects of an event, live or replayed: what fails now fails again when it is recovered.

    An event that the pipeline fails on costs only itself; it is logged and counted as lost.
    """
    try:
        return pipeline.handle(event, now)
    except Exception:
        lost = pipeline.counters.lost
        lost[FAILED_ON] = lost.get(FAILED_ON, 0) + 1
        if lost[FAILED_ON] <= _LOGGED_FAILURES:
            log.exception("%s: it is left out, everything else goes on", type(event).__name__)
        return []


class Journal:
    """Appends records. A full disk costs records, never the daemon: they are counted, and recorded later."""

    def __init__(self, path: Path, *, keep: int | None = None) -> None:
        """Open `path` for appending behind its first `keep` bytes (default: all)."""
        self._pending: list[bytes] = []
        self.lost = 0
        """Records that the disk refused."""
        self._unrecorded = 0  # of those, what no record says yet
        self.error = ""
        """Why the last write failed, or empty."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            size = os.fstat(self._fd).st_size
            end = size if keep is None else min(keep, size)
            self._end = end if end >= len(_MAGIC) else 0
            os.ftruncate(self._fd, self._end)
        except OSError as error:
            why = f"cannot be opened ({error.strerror}); check the run directory"
            raise JournalError(f"{path}: {why}") from error

    def append(self, now: float, event: Event) -> None:
        """Queue a record; :meth:`flush` writes it. One that no reader would take is counted as lost."""
        payload = msgspec.msgpack.encode((now, event))
        if len(payload) > _MAX_RECORD_BYTES:
            self._lose(1)
            return
        packed = _packed(payload)
        self._pending.append(_HEADER.pack(len(packed), zlib.crc32(packed)) + packed)

    def flush(self, now: float) -> None:
        """Write what is queued, in one piece; count what the disk refuses as lost."""
        if not self._pending and self._end:
            return
        records, unrecorded = len(self._pending), self._unrecorded
        if unrecorded:
            self.append(now, EventsLost(source="journal", count=unrecorded))
        data = b"".join([b"" if self._end else _MAGIC, *self._pending])
        self._pending.clear()
        try:
            _write_all(self._fd, data, self._end)
        except OSError as error:
            self.error = error.strerror or str(error)
            self._lose(records)
            with contextlib.suppress(OSError):  # the next write begins at the same place in any case
                os.ftruncate(self._fd, self._end)
            return
        self._end += len(data)
        self._unrecorded -= unrecorded
        self.error = ""

    def close(self) -> None:
        """Close the file; call :meth:`flush` first."""
        os.close(self._fd)

    def _lose(self, records: int) -> None:
        self.lost += records
        self._unrecorded += records


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
