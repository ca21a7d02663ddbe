"""The checkpoints that the prefix directory has: those a job can go back to."""

from typing import TypeVar

from ...goodput.events import FlushCompleted, OutputCompleted

Key = TypeVar("Key")
Item = TypeVar("Item")

_REMEMBERED = 256


class KeptCheckpoints:
    """Collects checkpoints and flushes, in any order; the last 256 are remembered."""

    def __init__(self) -> None:
        self._ended_s: dict[str, float] = {}
        """By name, the newest last."""
        self._names: dict[int, str] = {}
        self._in_prefix: dict[int, None] = {}

    def add_output(self, output: OutputCompleted, *, is_cached: bool) -> None:
        """Take in an output; one that is not cached is in the prefix directory when it ends."""
        if not (output.checkpoint and output.valid):
            return
        self._ended_s.pop(output.name, None)  # written again
        self._ended_s[output.name] = output.end_s
        self._names[output.dataset] = output.name
        if output.flush_s > 0 or not is_cached:
            self._in_prefix[output.dataset] = None
        self._forget()

    def add_flush(self, flush: FlushCompleted) -> None:
        """Take in that a flush ended."""
        if flush.valid:
            self._in_prefix[flush.dataset] = None
            self._forget()

    def newest(self, until_s: float, keeps: int) -> str:
        """Return the newest that ended by `until_s`, or empty; the last `keeps` are kept (0: all)."""
        names = {self._names.get(dataset, "") for dataset in self._in_prefix}
        there = [name for name in self._ended_s if name in names]
        kept = there[-keeps:] if keeps > 0 else there
        return next((name for name in reversed(kept) if self._ended_s[name] <= until_s), "")

    def _forget(self) -> None:
        _limit(self._ended_s)
        _limit(self._names)
        _limit(self._in_prefix)


def _limit(known: dict[Key, Item]) -> None:
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]
