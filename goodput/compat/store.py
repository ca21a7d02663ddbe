"""Where a recorder's entries go and a calculator's come from: a local file, or what the caller passes."""

import datetime as dt
import logging
import weakref
from collections.abc import Mapping
from math import inf
from typing import Any, Protocol, TypeAlias

import msgspec

from ..events import GoodputEvent
from ..log.line_log import DIRECTORY_VARIABLE, log_path
from ..log.line_writer import LineWriter, release, shared_writer
from ..readers.jsonl import NO_JSON, own_event
from ..readers.ml_goodput import NotUnderstoodError, recorder_events
from ..validation import span

Entry: TypeAlias = dict[str, object]

_log = logging.getLogger("scrtune.goodput")

_CHUNK_BYTES = 1 << 15
"""Understood at once: a thread that reads a long log holds up no other for longer than these take."""
_READ_WAITS_S = 0.5
"""A monitor whose stop is waited for a second shall have time to write what there is."""
_ENTRY = msgspec.json.Decoder(Entry)


def utc_now() -> dt.datetime:
    """Return the time, with its zone."""
    return dt.datetime.now(dt.timezone.utc)


def tell(text: str) -> None:
    """Warn who runs the job."""
    _log.warning("%s", text)


class PeerLogger(Protocol):
    """What users of the peer pass as `cloud_logger`: their tests, mostly."""

    def write_cloud_logging_entry(self, entry: Entry) -> None:
        """Add an entry at the end."""

    def read_cloud_logging_entries(self, *args: Any, **named: Any) -> tuple[list[Entry], Any]:
        """Return all entries, and what nobody needs here."""


class LocalLog:
    """An append-only file of JSON lines, which a thread writes: no call of a recorder waits for it.

    It is made at the first entry, where logs lie (:func:`~.line_log.log_path`); any number of these may
    append to it. Entries wait for it, :data:`~.line_log.WAITING_LIMIT` at most; what is lost is reported.
    """

    def __init__(self, logger_name: str) -> None:
        self.path = log_path(logger_name)
        self._writer = shared_writer(self.path)
        self._is_told = False
        self.close = weakref.finalize(self, _release, self._writer)
        """Write what is there, within a second, and say what was lost. Happens at the process's end, too."""

    def append(self, entry: Mapping[str, object]) -> None:
        """Add an entry; what no JSON can have counts as lost."""
        try:
            self._writer.put(msgspec.json.encode(entry) + b"\n")
        except (TypeError, ValueError, RecursionError):
            self._writer.lose()
        if self._writer.error and not self._is_told:
            self._is_told = True
            tell(
                f"goodput is not recorded, but tried again: {self.path}: {self._writer.error}; "
                f"set {DIRECTORY_VARIABLE} to a directory that can be written"
            )

    def read(self, position: int) -> tuple[list[Entry], int]:
        """Return entries from byte `position` on, some KiB of them, and where to read on.

        What this process appended is there, unless that takes half a second. A line without its end is read
        later; one that is no JSON object says nothing. Raises OSError for a file that cannot be read.
        """
        self._writer.flush(_READ_WAITS_S)
        try:
            with self.path.open("rb") as file:
                file.seek(position)
                text = file.read(_CHUNK_BYTES) + file.readline()
        except FileNotFoundError:
            return [], position
        text = text[: text.rfind(b"\n") + 1]
        return [_entry(line) for line in text.split(b"\n") if line.strip()], position + len(text)

    def flush(self) -> None:
        """Return when the file has it all; says so when that takes longer than a second, and goes on."""
        if not self._writer.flush():
            why = self._writer.error or "it does not take them"
            tell(f"{self.path} does not have all entries yet: {why}")


class _PassedLog:
    """A logger with the peer's methods as a log: it gives all of its entries each time."""

    def __init__(self, logger: PeerLogger) -> None:
        self._logger = logger

    def append(self, entry: Mapping[str, object]) -> None:
        self._logger.write_cloud_logging_entry(dict(entry))

    def read(self, position: int) -> tuple[list[Entry], int]:
        entries = self._logger.read_cloud_logging_entries()[0]
        return entries[position:], len(entries)

    def flush(self) -> None:
        pass


EntryLog: TypeAlias = LocalLog | _PassedLog


def log_of(logger: PeerLogger | None, logger_name: str) -> EntryLog:
    """Return the log that a user of the API passed, or else the local log `logger_name`."""
    return LocalLog(logger_name) if logger is None else _PassedLog(logger)


class CompatJob:
    """The events of the job `job_name` ("": all) in a log, without what is older than `retention` (or s).

    Entries that cannot be understood are left out and reported once. One thread at a time may use it.
    """

    def __init__(self, log: EntryLog, job_name: str, retention: dt.timedelta | float | None = None) -> None:
        self._events: list[GoodputEvent] = []
        self._unread: list[str] = []
        self._is_unread_told = False
        self._log, self._job_name, self._position = log, job_name, 0
        age_s = retention.total_seconds() if isinstance(retention, dt.timedelta) else retention
        self._since_s = utc_now().timestamp() - age_s if age_s else -inf

    def events(self) -> list[GoodputEvent]:
        """Take in what is new in the log, and return all. Raises OSError if it cannot be read."""
        before = -1
        while self._position != before:
            before = self._position
            entries, self._position = self._log.read(before)
            for entry in entries:
                if self._job_name and entry.get("job_name", self._job_name) != self._job_name:
                    continue
                try:  # an event of our own log, with a `type`, is taken as it is
                    is_own = isinstance(entry.get("type"), str)
                    events = [own_event(entry)] if is_own else recorder_events(entry)
                except NotUnderstoodError as error:
                    self._unread.append(str(error))
                else:
                    self._events += (event for event in events if span(event)[0] >= self._since_s)
        if self._unread and not self._is_unread_told:  # the numbers are those of a part of the log
            self._is_unread_told = True
            tell(
                f"entries of the log that are not understood are left out, {len(self._unread)} so far;"
                f" the first: {self._unread[0]}"
            )
        return self._events


def _entry(line: bytes) -> Entry:
    try:
        return _ENTRY.decode(line)
    except NO_JSON:
        return {}


def _release(writer: LineWriter) -> None:
    if lost := release(writer):
        tell(lost)
