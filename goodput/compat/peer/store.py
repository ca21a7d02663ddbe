"""Where a recorder's entries go and a calculator's come from: a local file, or what the caller passes."""

import contextlib
import datetime as dt
import logging
import os
import weakref
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from ...log.line_log import DIRECTORY_VARIABLE, log_path
from ...log.line_writer import LineWriter, release, shared_writer

Entry: TypeAlias = dict[str, object]

_log = logging.getLogger("scrtune.goodput")

_CHUNK_BYTES = 1 << 15
"""Understood at once: a thread that reads a long log holds up no other for longer than these take."""
_READ_WAITS_S = 0.5
"""A monitor whose stop is waited for a second shall have time to write what there is."""
_ENTRY = msgspec.json.Decoder(Entry)
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def utc_now() -> dt.datetime:
    """Return the time, with its zone."""
    return dt.datetime.now(dt.timezone.utc)


def tell(text: str) -> None:
    """Warn who runs the job."""
    _log.warning("%s", text)


@runtime_checkable
class LogStore(Protocol):
    """A log of entries."""

    def append(self, entry: Mapping[str, object]) -> None:
        """Add an entry at the end. Raises nothing: the application goes on without its log."""

    def read(self, position: int) -> tuple[list[Entry], int]:
        """Return entries from `position` (0: the first) on, and where to read on: `position` at the end."""

    def flush(self) -> None:
        """Return when what was appended is safe."""


class PeerLogger(Protocol):
    """What users of the peer pass as `cloud_logger`: their tests, mostly.

    With the last entry's time and id as `last_entry_info`, reading returns what came later.
    """

    def write_cloud_logging_entry(self, entry: Entry) -> None:
        """Add an entry at the end."""

    def read_cloud_logging_entries(self, *args: Any, **named: Any) -> tuple[list[Entry], Any]:
        """Return entries, and of the last one its time and its id, or None."""


def store_of(logger: LogStore | PeerLogger | None, logger_name: str) -> LogStore:
    """Return the log that a user of the API passed, or else the local log `logger_name`."""
    if logger is None:
        return LocalLog(logger_name)
    return logger if isinstance(logger, LogStore) else _PeerStore(logger)


class _PeerStore:
    """A logger with the peer's methods as a store."""

    def __init__(self, logger: PeerLogger) -> None:
        self._logger = logger
        self._last: tuple[Any, Any] | None = None

    def append(self, entry: Mapping[str, object]) -> None:
        self._logger.write_cloud_logging_entry(dict(entry))

    def read(self, position: int) -> tuple[list[Entry], int]:
        if position and self._last is not None:
            entries, last = self._logger.read_cloud_logging_entries(
                start_time=self._last[0], end_time=utc_now(), last_entry_info=self._last
            )
        else:  # one that names no last entry gives all of them again
            entries, last = self._logger.read_cloud_logging_entries()
            entries = entries[position:]
        if last is not None and last[0] is not None:
            self._last = last
        return entries, position + len(entries)

    def flush(self) -> None:
        if (flush := getattr(self._logger, "flush", None)) is not None:
            flush()


def encodable(text: str) -> str:
    """Return `text` with undecodable bytes of the environment, which JSON cannot have, escaped."""
    return text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text


class LocalLog:
    """An append-only file of JSON lines, which a thread writes: no call of a recorder waits for it.

    The file is made at the first entry, where logs lie (:func:`~.line_log.log_path`). Any number of these, in
    one process or in several on one machine, may append to one file. Entries that it does not take wait for
    it, :data:`~.line_log.WAITING_LIMIT` at most; what is `lost` beyond that is reported at the end. A line
    that is no JSON object is an entry that says nothing.
    """

    def __init__(self, logger_name: str) -> None:
        self.path = log_path(logger_name)
        self._writer = shared_writer(self.path)
        self._is_told = False
        self.close = weakref.finalize(self, _release, self._writer)
        """Write what is there, within a second, and say what was lost. Happens at the process's end, too."""

    @property
    def lost(self) -> int:
        """Entries of this process for which there was no place, or no JSON; closed, also what still waits."""
        return self._writer.lost

    def append(self, entry: Mapping[str, object]) -> None:
        """Add an entry; what no JSON can have is escaped where it is text, else the entry counts as lost."""
        try:
            self._writer.put(_line(entry))
        except (TypeError, ValueError, RecursionError):
            self._writer.lose()
        if self._writer.error and not self._is_told:
            self._is_told = True
            tell(
                f"goodput is not recorded, but tried again: {self.path}: {self._writer.error}; "
                f"set {DIRECTORY_VARIABLE} to a directory that can be written"
            )

    def read(self, position: int) -> tuple[list[Entry], int]:
        """Return entries from byte `position` on, some KiB of them; nothing while there is no file.

        What this process has appended is there, unless the file takes longer than half a second for it.
        Raises OSError for a file that cannot be read.
        """
        text = self._read(position)
        if not text:
            self._writer.flush(_READ_WAITS_S)
            text = self._read(position)
        return _entries(text), position + len(text)

    def flush(self) -> None:
        """Have the file system keep it all; says so when that takes longer than a second, and goes on."""
        if not self._writer.flush(sync=True):
            why = self._writer.error or "it does not take them"
            tell(f"{self.path} does not have all entries yet: {why}")

    def _read(self, position: int) -> bytes:
        """Return whole lines from `position` on, some KiB of them; a line without its end is read later."""
        try:
            with open(self.path, "rb", opener=_open_at_once) as file:
                file.seek(position)
                text = more = file.read(_CHUNK_BYTES)
                while b"\n" not in more and (more := file.read(_CHUNK_BYTES)):
                    text += more
        except FileNotFoundError:
            return b""
        return text[: text.rfind(b"\n") + 1]


def _entries(text: bytes) -> list[Entry]:
    with contextlib.suppress(*_NO_JSON):
        return _ENTRY.decode_lines(text)
    entries: list[Entry] = []
    for line in filter(bytes.strip, text.split(b"\n")):
        try:
            entries.append(_ENTRY.decode(line))
        except _NO_JSON:
            entries.append({})
    return entries


def _line(entry: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(entry) + b"\n"
    except UnicodeEncodeError:
        texts = {name: encodable(value) for name, value in entry.items() if isinstance(value, str)}
        return msgspec.json.encode({**entry, **texts}) + b"\n"


def _open_at_once(path: str, flags: int) -> int:
    """A pipe in the file's place, which nobody writes to, would be waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def _release(writer: LineWriter) -> None:
    if lost := release(writer):
        tell(lost)
