"""Intent 6 of the LLNL study: the checkpoints of the prefix directory, and how far back restarts go."""

from collections import deque
from typing import NamedTuple

import msgspec

from ....goodput.events import FlushCompleted, GoodputEvent, OutputCompleted, RestartCompleted
from ....units import bytes_text, count_text
from ...declared import Declared
from ...intent import Evidence, EvidenceWindow, Intent

_REMEMBERED = 4096
_PENDING = 64


class History(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The checkpoints that the user wants to keep (None: nothing was said), and what restarts needed.

    `rollback` is the furthest that one of the `restarts` went back: so many checkpoints of the prefix
    directory were newer than the one that it read. `kept` were seen to arrive there, each of
    `checkpoint_bytes`.
    """

    title, number = "history", 6

    evidence: Evidence = Evidence()
    least: int | None = None
    most: int | None = None
    rollback: int = 0
    restarts: int = 0
    kept: int = 0
    checkpoint_bytes: int = 0

    def _text(self) -> str:
        bounds = [f"at least {self.least}"] if self.least else []
        bounds += [f"at most {self.most}"] if self.most else []
        wanted = f"{' and '.join(bounds)} shall be kept" if bounds else "all are kept: no bound was declared"
        back = f", one of them {count_text(self.rollback, 'checkpoint')} back" if self.rollback else ""
        size = f" of {bytes_text(self.checkpoint_bytes)} each" if self.checkpoint_bytes else ""
        return (
            f"{wanted}; {count_text(self.kept, 'checkpoint')}{size} reached the prefix directory,"
            f" {count_text(self.restarts, 'restart')}{back}"
        )


class _Checkpoint(NamedTuple):
    name: str
    end_s: float
    is_in_prefix: bool


class HistoryObserver:
    """Follows checkpoints and flushes, told in any order; the last 4,096 are remembered."""

    def __init__(self) -> None:
        self._checkpoints: dict[int, _Checkpoint] = {}
        """By dataset, the newest last."""
        self._flushed_first: deque[int] = deque(maxlen=_PENDING)
        """Datasets whose output was not told yet, or is no checkpoint."""
        self._count = self._bytes = self._rollback = self._restarts = 0
        self._window = EvidenceWindow()

    def add(self, event: GoodputEvent, *, is_cached: bool) -> None:
        """Take in an event of a job that caches its checkpoints, or does not."""
        match event:
            case OutputCompleted(checkpoint=True, valid=True):
                self._written(event, is_there=not is_cached or (event.flush_s > 0 and not event.flush_due))
            case FlushCompleted(valid=True):
                self._flushed(event)
            case RestartCompleted(valid=True):
                self._restarted(event)

    def _written(self, output: OutputCompleted, *, is_there: bool) -> None:
        self._bytes = max(0, output.bytes)
        before = self._checkpoints.pop(output.dataset, None)
        was_there = before is not None and before.is_in_prefix
        for at, each in self._checkpoints.items():
            if each.name == output.name:
                self._checkpoints[at] = each._replace(name="")  # it was written over
        is_there |= was_there or output.dataset in self._flushed_first
        self._checkpoints[output.dataset] = _Checkpoint(output.name, output.end_s, is_there)
        if len(self._checkpoints) > _REMEMBERED:
            del self._checkpoints[next(iter(self._checkpoints))]
        if is_there and not was_there:
            self._count += 1
            self._window.add(output.end_s, output.end_s)

    def _flushed(self, flush: FlushCompleted) -> None:
        found = self._checkpoints.get(flush.dataset)
        if found is None:
            self._flushed_first.append(flush.dataset)
        elif not found.is_in_prefix:
            self._checkpoints[flush.dataset] = found._replace(is_in_prefix=True)
            self._count += 1
            self._window.add(flush.end_s, flush.end_s)

    def _restarted(self, restart: RestartCompleted) -> None:
        """What is newer than the one that was read is of a past that did not happen."""
        self._restarts += 1
        newer = [at for at, each in self._checkpoints.items() if each.is_in_prefix and at > restart.dataset]
        self._rollback = max(self._rollback, len(newer))
        names = [each.name for each in self._checkpoints.values()]
        if restart.name in names:
            for dataset in [*self._checkpoints][names.index(restart.name) + 1 :]:
                del self._checkpoints[dataset]
        self._window.add(restart.end_s, restart.end_s)

    def newest(self, until_s: float, keeps: int) -> str:
        """Return the newest there that ended by `until_s`, or empty; the last `keeps` are kept (0: all)."""
        there = [each for each in self._checkpoints.values() if each.is_in_prefix and each.name]
        kept = there[-keeps:] if keeps > 0 else there
        return next((each.name for each in reversed(kept) if each.end_s <= until_s), "")

    def observe(self, declared: Declared) -> History:
        """Return the intent of a job of which the user said `declared`."""
        return History(
            evidence=self._window.evidence(
                self._count + self._restarts,
                "checkpoints and restarts",
                declared=bool(declared.keep_least or declared.keep_most),
            ),
            least=declared.keep_least,
            most=declared.keep_most,
            rollback=self._rollback,
            restarts=self._restarts,
            kept=self._count,
            checkpoint_bytes=self._bytes,
        )
