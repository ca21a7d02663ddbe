"""Flush behaviour (intents 7 and 8 of the study): how long a flush takes against how often one is due."""

import msgspec

from ..goodput.checkpoint_cost import CheckpointCost
from .intent import Evidence, bytes_text
from .statistics import Recent

_REMEMBERED = 8


class FlushBehaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the last checkpoints; seconds and bytes of one checkpoint of the whole job.

    `load` is flush time over checkpoint interval: at 1 flushes come as fast as they can be worked off.
    """

    evidence: Evidence = Evidence()
    checkpoint_bytes: int = 0
    files: int = 0
    interval_s: float = 0.0
    blocking_s: float = 0.0
    write_s: float = 0.0
    encode_s: float = 0.0
    flush_s: float = 0.0
    blocked_on_flush_s: float = 0.0
    wait_s: float = 0.0
    slowdown_s: float = 0.0

    @property
    def load(self) -> float:
        """Flush seconds per second between checkpoints, were it not blocking; 0 while either is unknown."""
        between_s = self.interval_s - self.blocked_on_flush_s
        return self.flush_s / between_s if between_s > 0 else 0.0

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.evidence.count:
            return "no checkpoint was completed yet"
        return (
            f"{bytes_text(self.checkpoint_bytes)} in {self.files} files every {self.interval_s:.2f} s;"
            f" blocks {self.blocking_s:.3f} s (write {self.write_s:.3f}, encode {self.encode_s:.3f},"
            f" flush {self.blocked_on_flush_s:.3f}, wait {self.wait_s:.3f}); flush takes {self.flush_s:.3f} s"
            f" ({self.load:.0%} of the interval) and slows steps by {self.slowdown_s:.3f} s"
        )


_MEASURES = ("interval_s", "blocking_s", "write_s", "encode_s", "blocked_on_flush_s", "wait_s", "slowdown_s")


class FlushObserver:
    """Collects checkpoint costs; starts anew with every change of settings."""

    def __init__(self) -> None:
        self._generation: int | None = None
        self._reset()
        self._bytes = self._files = 0

    def _reset(self) -> None:
        self._recent = {name: Recent(_REMEMBERED) for name in (*_MEASURES, "flush_s")}
        self._count = 0
        self._start_s = self._end_s = 0.0

    def add(self, cost: CheckpointCost) -> None:
        """Take one checkpoint in."""
        if cost.generation != self._generation:
            self._reset()
            self._generation = cost.generation
            self._start_s = cost.time_s
        for name in _MEASURES:
            if (value := getattr(cost, name)) > 0 or name != "interval_s":
                self._recent[name].add(value)
        if cost.flushed:
            self._recent["flush_s"].add(cost.flush_s)
        self._bytes, self._files = cost.bytes, cost.files
        self._count += 1
        self._end_s = cost.time_s

    def observe(self) -> FlushBehaviour:
        """The intent as it stands."""
        return FlushBehaviour(
            evidence=Evidence(
                count=self._count,
                window_s=self._end_s - self._start_s,
                source="the application's checkpoints",
            ),
            checkpoint_bytes=self._bytes,
            files=self._files,
            **{name: recent.median for name, recent in self._recent.items()},
        )
