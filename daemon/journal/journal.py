"""The events in order, on disk: a restarted daemon replays them and is where the old one was.

Each turn of the loop appends its events as they are (:mod:`scrtune.daemon.journal.records`); now and then
:meth:`Journal.seal` packs those so far into batches, of a tenth of their size.
"""

import contextlib
import logging
import os
from itertools import islice
from pathlib import Path

import msgspec

from ...intents.effects import Effect
from ...intents.events import Event, EventsLost
from ...intents.pipeline import Pipeline
from .records import (
    MAGIC,
    MAX_RECORD_BYTES,
    JournalError,
    JournalReader,
    RecoveredJournal,
    Senders,
    SendersHeard,
    framed,
    headed,
    unpacked,
)

log = logging.getLogger("scrtune.daemon")

FAILED_ON = "events that scrtune failed on: a bug, see daemon.log"
SEALED_LIMIT_BYTES = 8 * 1024 * 1024
"""Beyond this the oldest batches keep only the events that decide."""

_LOGGED_FAILURES = 10
_BATCH_EVENTS = 512  # a damaged batch costs all of them; larger ones are hardly smaller for each


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

    def __init__(self, path: Path, found: RecoveredJournal | None = None) -> None:
        """Open `path` for appending behind what a reader `found` there (default: behind all)."""
        self._path = path
        self._pending: list[bytes] = []
        self._heard: Senders = {}  # what no record says yet
        self.lost = 0
        """Records that the disk refused."""
        self._unrecorded = 0  # of those, what no record says yet
        self.error = ""
        """Why the last write failed, or empty."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            size = os.fstat(self._fd).st_size
            found = found or RecoveredJournal(end=size, sealed=size)
            self.end = min(found.end, size) if found.end >= len(MAGIC) else 0
            """Length of what is written, in bytes."""
            os.ftruncate(self._fd, self.end)
        except OSError as error:
            why = f"cannot be opened ({error.strerror}); check the run directory"
            raise JournalError(f"{path}: {why}") from error
        self._sealed = max(found.sealed, len(MAGIC))
        self.number = found.number
        """How many events are written."""
        self.unsealed = found.unsealed
        """Events since :meth:`seal`."""
        self.last_s = found.last_s
        """Time of the last event."""

    @property
    def version(self) -> str:
        """What tells this file from the one that it was before :meth:`seal`."""
        return f"{os.fstat(self._fd).st_ino}-{self._sealed}"

    def append(self, now: float, event: Event) -> None:
        """Queue a record; :meth:`flush` writes it. One that no reader would take is counted as lost."""
        self.last_s = now
        payload = msgspec.msgpack.encode((now, event))
        if len(payload) > MAX_RECORD_BYTES:
            self._lose(1)
            return
        self._pending.append(framed(payload))

    def flush(self, now: float, heard: Senders | None = None) -> None:
        """Write what is queued, in one piece; count what the disk refuses as lost.

        `heard` is what is known of senders, once that is written.
        """
        self._heard |= heard or {}
        if not (self._pending or self._heard or self._unrecorded) and self.end:
            return
        records, unrecorded = len(self._pending), self._unrecorded
        if unrecorded:
            self.append(now, EventsLost(source="journal", count=unrecorded))
        events = len(self._pending)
        if self._heard:
            self._pending.append(framed(msgspec.msgpack.encode((now, SendersHeard(self._heard)))))
        data = b"".join([b"" if self.end else MAGIC, *self._pending])
        self._pending.clear()
        try:
            _write_all(self._fd, data, self.end)
        except OSError as error:
            self.error = error.strerror or str(error)
            self._lose(records)
            with contextlib.suppress(OSError):  # the next write begins at the same place in any case
                os.ftruncate(self._fd, self.end)
            return
        self.end += len(data)
        self.number += events
        self.unsealed += events
        self._unrecorded -= unrecorded
        self._heard = {}
        self.error = ""

    def seal(self) -> None:
        """Pack the events since the last time into batches. Raises OSError and leaves everything as it is.

        Whoever reads the journal sees the old file or the new one.
        """
        first = self.number - self.unsealed
        batches, number = self._batches(first)
        new = self._path.with_suffix(".new")
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            end = self._copy_packed(descriptor)
            end = _write_all(descriptor, batches, end)
            new.replace(self._path)
        except BaseException:
            os.close(descriptor)
            new.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd, self.end, self._sealed = descriptor, end, end
        self.number, self.unsealed = number, 0

    def close(self) -> None:
        """Close the file; call :meth:`flush` first."""
        os.close(self._fd)

    def _batches(self, first: int) -> tuple[bytes, int]:
        """Return what is not packed yet in batches, and how many events there are with them."""
        from .batches import RecordBatch, pack  # noqa: PLC0415 - numpy, which a short journal does not need

        reader = JournalReader(self._path, self._sealed, first)
        packed, remaining = [], reader.records()
        while records := list(islice(remaining, _BATCH_EVENTS)):
            packed.append(framed(pack(records, first)))
            first += len(records)
        # an empty one tells how many there must be, should the last one be damaged
        last = RecordBatch(first=first, count=0, senders=reader.recovered.senders)
        return b"".join([*packed, framed(msgspec.msgpack.encode(last))]), first

    def _copy_packed(self, descriptor: int) -> int:
        """Copy what is packed already, of its oldest batches only what decides if that is too much.

        Returns the length of the copy.
        """
        if self._sealed <= SEALED_LIMIT_BYTES:
            end = 0
            while copied := os.sendfile(descriptor, self._fd, end, self._sealed - end):
                end += copied
            return end
        from .batches import thinned  # noqa: PLC0415 - as above

        left, end = self._sealed, _write_all(descriptor, MAGIC, 0)
        reader = JournalReader(self._path)
        for payload in reader.payloads():
            if reader.recovered.end > self._sealed:
                break
            thin = thinned(unpacked(payload)) if left > SEALED_LIMIT_BYTES // 2 else None
            part = headed(payload) if thin is None else framed(thin)
            end = _write_all(descriptor, part, end)
            left += len(part) - len(headed(payload))
        return end

    def _lose(self, records: int) -> None:
        self.lost += records
        self._unrecorded += records


def _write_all(fd: int, data: bytes, offset: int) -> int:
    """Write `data` at `offset`; return where it ends."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
    return offset
