"""Writes events to a local log and pushes them to the daemon, by a thread: recording never waits."""

from collections import deque
from pathlib import Path
from typing import cast

import msgspec

from ..goodput.log.line_log import WAITING_LIMIT
from ..goodput.log.line_writer import CLOSE_LIMIT_S, GATHER_S, LineWriter
from ..intents.events import Event, EventsLost
from .engine import say
from .transport.sender import Emitter

_EMITTER_LINGER_S = 0.5


class EventWriter(LineWriter):
    """Appends events, or lines of bytes, to the file at `path`; events also go to `emitter`.

    Nothing blocks or raises. `suffix` is more JSON for each event's object. Losses are recorded in the log,
    as lost by `source`.
    """

    _what = "events"
    _reason = "no place was left for them, they made no event, or they came behind the end"

    def __init__(  # noqa: PLR0913
        self,
        path: Path,
        emitter: Emitter | None = None,
        *,
        source: str = "",
        suffix: bytes = b"",
        limit: int = WAITING_LIMIT,
        gather_s: float = GATHER_S,
    ) -> None:
        self._emitter = emitter
        self._source = source
        self._tail = suffix + b"}\n"
        self._encode = msgspec.json.Encoder().encode
        super().__init__(path, limit=limit, gather_s=gather_s)

    def _begin(self) -> None:
        super()._begin()
        self._is_error_reported = False
        self._lost_in_log = 0

    def close(self, timeout_s: float = CLOSE_LIMIT_S) -> str:
        """As :meth:`.LineWriter.close`, and write the losses to standard error."""
        if lost := super().close(timeout_s):
            say(lost)
        return lost

    def _line(self, item: bytes | msgspec.Struct) -> bytes:
        if isinstance(item, bytes):
            return item
        line = self._encode(item)[:-1] + self._tail
        if self._emitter is not None:
            self._emitter.emit(cast(Event, item))
        return line

    def _write_lines(self) -> None:
        super()._write_lines()
        if fresh := self._refused - self._lost_in_log:
            event = EventsLost(source=self._source, count=fresh)
            note = deque([self._encode(event)[:-1] + self._tail])
            while note:
                self._file.write(note)
            self._lost_in_log += fresh

    def _write(self) -> None:
        super()._write()
        if self.error and not self._is_error_reported:
            self._is_error_reported = True
            say(f"{self.path}: {self.error}; it is tried again, and {self._limit} events can wait")

    def _finish(self) -> None:
        if self._emitter is not None:
            self._emitter.close(_EMITTER_LINGER_S)
            if self._emitter.dropped:
                say(f"{self._emitter.dropped} events did not reach the daemon")
        super()._finish()
