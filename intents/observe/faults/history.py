"""Intent 6 of the LLNL study: how many checkpoints shall be kept, and how far back restarts go."""

from collections import deque

import msgspec

from ....goodput.events import FlushCompleted, GoodputEvent, OutputCompleted, RestartCompleted
from ....units import bytes_text, count_text
from ...events import SettingsObserved
from ...intent import Evidence
from .kept_checkpoints import is_in_prefix

_REMEMBERED = 4096
_PENDING = 64


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints that the user wants to keep (None: nothing was said), and what restarts needed.

    `rollback` is the furthest that a restart went back: so many checkpoints of the prefix directory were
    newer than the one that it read. `restarts` were seen, `older` of them from another than the newest.
    `kept` is what was seen to arrive in the prefix directory, each of `checkpoint_bytes`.
    """

    evidence: Evidence = Evidence()
    least: int | None = None
    most: int | None = None
    rollback: int = 0
    restarts: int = 0
    older: int = 0
    kept: int = 0
    checkpoint_bytes: int = 0

    @property
    def is_asked_for(self) -> bool:
        """True where the user bounds what is kept."""
        return bool(self.least or self.most)

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        bounds = [f"at least {self.least}"] if self.least else []
        bounds += [f"at most {self.most}"] if self.most else []
        wanted = f"{' and '.join(bounds)} shall be kept" if bounds else "all are kept: no bound was declared"
        back = f", one of them {count_text(self.rollback, 'checkpoint')} back" if self.rollback else ""
        size = f" of {bytes_text(self.checkpoint_bytes)} each" if self.checkpoint_bytes else ""
        return (
            f"{wanted}; {count_text(self.kept, 'checkpoint')}{size} reached the prefix directory,"
            f" {count_text(self.restarts, 'restart')}{back}"
        )


class HistoryObserver:
    """Follows the checkpoints of the prefix directory; the last 4,096 are remembered."""

    def __init__(self) -> None:
        self._pending: deque[int] = deque(maxlen=_PENDING)
        self._kept: deque[int] = deque(maxlen=_REMEMBERED)
        self._count = self._bytes = self._rollback = self._restarts = self._older = 0
        self._start_s = self._end_s = 0.0

    def add(self, event: GoodputEvent, *, is_cached: bool) -> None:
        """Take in an event of a job that caches its checkpoints, or does not."""
        match event:
            case OutputCompleted(checkpoint=True, valid=True):
                self._bytes = max(0, event.bytes)
                is_there = is_in_prefix(event, is_cached=is_cached)
                self._flushed_or_output(event.dataset, event.end_s, is_complete=is_there)
            case FlushCompleted(valid=True):
                self._flushed_or_output(event.dataset, event.end_s)
            case RestartCompleted(valid=True):
                self._restarted(event)

    def _flushed_or_output(self, dataset: int, now: float, *, is_complete: bool = False) -> None:
        """Either is told first, and a flush may be that of an output that is no checkpoint."""
        if is_complete or dataset in self._pending:
            self._arrived(dataset, now)
        else:
            self._pending.append(dataset)

    def _arrived(self, dataset: int, now: float) -> None:
        if dataset not in self._kept:
            self._kept.append(dataset)
            self._count += 1
            self._seen(now)

    def _seen(self, now: float) -> None:
        self._start_s, self._end_s = self._start_s or now, now

    def _restarted(self, restart: RestartCompleted) -> None:
        newer = sum(dataset > restart.dataset for dataset in self._kept)
        self._restarts += 1
        self._older += newer > 0
        self._rollback = max(self._rollback, newer)
        self._kept = deque((each for each in self._kept if each <= restart.dataset), maxlen=_REMEMBERED)
        self._seen(restart.end_s)

    def observe(self, job: SettingsObserved | None) -> History:
        """Return the intent of `job`."""
        declared = job.declared if job else None
        least, most = (declared.keep_least, declared.keep_most) if declared else (None, None)
        return History(
            evidence=Evidence(
                count=self._count + self._restarts,
                window_s=self._end_s - self._start_s,
                end_s=self._end_s,
                source="checkpoints and restarts",
                declared=bool(least or most),
            ),
            least=least,
            most=most,
            rollback=self._rollback,
            restarts=self._restarts,
            older=self._older,
            kept=self._count,
            checkpoint_bytes=self._bytes,
        )
