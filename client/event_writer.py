"""Writes events to a local log and pushes them to the daemon, by a thread: recording never waits."""

from ..goodput.events import GoodputEvent
from ..goodput.log.line_log import LineLog
from ..goodput.log.line_writer import CLOSE_LIMIT_S, GATHER_S, LineWriter
from ..intents.events import EventsLost
from .engine import say
from .transport.sender import Emitter

_EMITTER_LINGER_S = 0.5


class EventWriter(LineWriter):
    """Appends events, or lines of bytes, to `log`; events also go to `emitter`. Nothing blocks or raises.

    `suffix` is more JSON for each event's object. Losses are recorded in the log, as lost by `source`.
    """

    _what = "events"
    _refused = "no place was left for them, they made no event, or they came behind the end"

    def __init__(
        self,
        log: LineLog,
        emitter: Emitter | None = None,
        *,
        source: str = "",
        suffix: bytes = b"",
        gather_s: float = GATHER_S,
    ) -> None:
        self._emitter = emitter
        self._source = source
        self._tail = suffix + b"}\n"
        super().__init__(log, gather_s=gather_s)

    def _begin(self) -> None:
        super()._begin()
        self._is_error_reported = False
        self._lost_in_log = 0

    def close(self, timeout_s: float = CLOSE_LIMIT_S) -> str:
        """As :meth:`.LineWriter.close`, and write the losses to standard error."""
        if lost := super().close(timeout_s):
            say(lost)
        return lost

    def _take(self, item: bytes | GoodputEvent) -> bool:
        is_line = super()._take(item)
        if is_line and self._emitter is not None and not isinstance(item, bytes):
            self._emitter.emit(item)
        return is_line

    def _line(self, event: GoodputEvent | EventsLost) -> bytes:
        return self._encode(event)[:-1] + self._tail

    def _wrote(self) -> None:
        if not self._log.waiting:
            self._log_losses()
        if self._log.error and not self._is_error_reported:
            self._is_error_reported = True
            say(f"{self._log.path}: {self._log.error}; it is tried again, and {self._limit} events can wait")

    def _log_losses(self) -> None:
        self._notes = 0
        if fresh := self._gone - self._lost_in_log:
            self._lost_in_log += fresh
            self._notes = 1
            self._log.add(self._line(EventsLost(source=self._source, count=fresh)))
            self._log.write()

    def _over(self) -> None:
        if self._emitter is not None:
            self._emitter.close(_EMITTER_LINGER_S)
            if self._emitter.dropped:
                say(f"{self._emitter.dropped} events did not reach the daemon")
