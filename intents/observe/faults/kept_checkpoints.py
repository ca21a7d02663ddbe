"""The checkpoints that the prefix directory has: those a job can go back to."""

from collections.abc import MutableMapping
from typing import Any

from ....goodput.events import FlushCompleted, GoodputEvent, OutputCompleted, RestartCompleted

_REMEMBERED = 256


def is_in_prefix(output: OutputCompleted, *, is_cached: bool) -> bool:
    """Return whether an output of a job that caches, or does not, was in the prefix directory at its end."""
    return not is_cached or (output.flush_s > 0 and not output.flush_due)


class KeptCheckpoints:
    """Collects checkpoints and flushes, in any order; the last 256 are remembered."""

    def __init__(self) -> None:
        self._ended_s: dict[str, float] = {}
        """By name, the newest last."""
        self._names: dict[int, str] = {}
        self._in_prefix: dict[int, None] = {}

    def add(self, event: GoodputEvent, *, is_cached: bool) -> None:
        """Take in an event of a job that caches its checkpoints, or does not."""
        match event:
            case OutputCompleted(checkpoint=True, valid=True):
                self._ended_s.pop(event.name, None)  # written again
                self._ended_s[event.name] = event.end_s
                self._names[event.dataset] = event.name
                if is_in_prefix(event, is_cached=is_cached):
                    self._in_prefix[event.dataset] = None
            case FlushCompleted(valid=True):
                self._in_prefix[event.dataset] = None
            case RestartCompleted(valid=True):
                self._went_back_to(event)
            case _:
                return
        for known in (self._ended_s, self._names, self._in_prefix):
            _limit(known)

    def _went_back_to(self, restart: RestartCompleted) -> None:
        """What is newer than the one that was read is of a past that did not happen."""
        if restart.name not in self._ended_s:
            return
        names = [*self._ended_s]
        for name in names[names.index(restart.name) + 1 :]:
            del self._ended_s[name]

    def newest(self, until_s: float, keeps: int) -> str:
        """Return the newest that ended by `until_s`, or empty; the last `keeps` are kept (0: all)."""
        names = {self._names.get(dataset, "") for dataset in self._in_prefix}
        there = [name for name in self._ended_s if name in names]
        kept = there[-keeps:] if keeps > 0 else there
        return next((name for name in reversed(kept) if self._ended_s[name] <= until_s), "")


def _limit(known: MutableMapping[Any, Any]) -> None:
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]
