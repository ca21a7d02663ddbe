"""Intents 7 and 8 of the LLNL study: the duration of a flush against the interval between two."""

from collections import deque
from statistics import fmean, median

import msgspec

from ....goodput.checkpoint_cost import CheckpointCost
from ....units import bytes_text, count_text
from ...events import Value, Values
from ...intent import Evidence, EvidenceWindow, Intent

_REMEMBERED = 30
_REMEMBERED_SETTINGS = 4
_MOST_PLACES = 64


class FlushBehaviour(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The last checkpoints; seconds and bytes of one checkpoint of the whole job.

    Parts of the cost are means over all checkpoints, flushed or not, so that they add up; `flush_s` (of those
    that were flushed, `flushed_share`) and `interval_s` are medians, and so is for how long rank 0's threads
    of a flush ran (`flush_cpu_s`) and waited for a core (`flush_delay_s`); both 0: not known.
    """

    title, number = "flush", 8

    evidence: Evidence = Evidence()
    checkpoint_bytes: int = 0
    """Of the last one."""
    largest_bytes: int = 0
    """Of the largest one so far, under any settings: for these the cache needs room."""
    files: int = 0
    interval_s: float = 0.0
    blocking_s: float = 0.0
    write_s: float = 0.0
    encode_s: float = 0.0
    flush_s: float = 0.0
    flushed_share: float = 1.0
    blocked_on_flush_s: float = 0.0
    wait_s: float = 0.0
    slowdown_s: float = 0.0
    flush_cpu_s: float = 0.0
    flush_delay_s: float = 0.0

    @property
    def load(self) -> float | None:
        """Flush seconds per second between checkpoints, were it not blocking; None while not known."""
        between_s = self.interval_s - self.blocked_on_flush_s
        return self.flush_s * self.flushed_share / between_s if between_s > 0 else None

    @property
    def places(self) -> int:
        """Datasets that the cache must hold so that no checkpoint waits for a flush: 2 to 64."""
        if self.interval_s <= 0:
            return 2
        return max(2, 1 + int(min(_MOST_PLACES - 1, -(-self.flush_s // self.interval_s))))

    def _text(self) -> str:
        if not self.evidence.count:
            size = f"{bytes_text(self.checkpoint_bytes)} in {count_text(self.files, 'file')}"
            known = f" under these settings; the last one was {size}" if self.files else ""
            return f"no checkpoint was completed yet{known}"
        load = "" if self.load is None else f" ({self.load:.0%} of the interval)"
        cores = ""
        if self.flush_cpu_s > 0:
            waited = f"waited {self.flush_delay_s:.3f} s for a core"
            cores = f", whose threads on rank 0 ran for {self.flush_cpu_s:.3f} s and {waited},"
        return (
            f"{bytes_text(self.checkpoint_bytes)} in {count_text(self.files, 'file')} every"
            f" {self.interval_s:.2f} s; blocks {self.blocking_s:.3f} s (write {self.write_s:.3f},"
            f" encode {self.encode_s:.3f}, flush {self.blocked_on_flush_s:.3f}, wait {self.wait_s:.3f});"
            f" flush takes {self.flush_s:.3f} s{load}{cores}"
            f" and slows steps by {max(0.0, self.slowdown_s):.3f} s"
        )


_PARTS = ("blocking_s", "write_s", "encode_s", "blocked_on_flush_s", "wait_s", "slowdown_s")


class _Measured:
    """The last checkpoints under one set of settings."""

    def __init__(self) -> None:
        self.count, self.window = 0, EvidenceWindow()
        self.costs: deque[CheckpointCost] = deque(maxlen=_REMEMBERED)
        self.flush_s: deque[float] = deque(maxlen=_REMEMBERED)
        self.interval_s: deque[float] = deque(maxlen=_REMEMBERED)

    def add(self, cost: CheckpointCost) -> None:
        self.count += 1
        self.window.add(cost.time_s, cost.time_s)
        self.costs.append(cost)
        if cost.interval_s > 0:
            self.interval_s.append(cost.interval_s)
        if cost.flushed:
            self.flush_s.append(cost.flush_s)

    def size(self) -> FlushBehaviour:
        last = self.costs[-1]
        return FlushBehaviour(checkpoint_bytes=max(0, last.bytes), files=max(0, last.files))

    def behaviour(self) -> FlushBehaviour:
        told = [each for each in self.costs if each.flush_cpu_s > 0]
        return msgspec.structs.replace(
            self.size(),
            evidence=self.window.evidence(self.count, "the application's checkpoints"),
            interval_s=median(self.interval_s or [0.0]),
            flush_s=median(self.flush_s or [0.0]),
            flush_cpu_s=median([each.flush_cpu_s for each in told] or [0.0]),
            flush_delay_s=median([each.flush_delay_s for each in told] or [0.0]),
            flushed_share=fmean(cost.flushed for cost in self.costs),
            **{name: fmean(getattr(cost, name) for cost in self.costs) for name in _PARTS},
        )


class FlushObserver:
    """Collects checkpoint costs, those under different settings apart; the last four settings are kept."""

    def __init__(self) -> None:
        self._by_settings: dict[frozenset[tuple[str, Value]], _Measured] = {}
        self._largest_bytes = 0

    def add(self, cost: CheckpointCost, settings: Values) -> None:
        """Take in a checkpoint that ran under `settings`."""
        self._largest_bytes = max(self._largest_bytes, cost.bytes)
        key = frozenset(settings.items())
        measured = self._by_settings.pop(key, None) or _Measured()
        measured.add(cost)
        self._by_settings[key] = measured
        if len(self._by_settings) > _REMEMBERED_SETTINGS:
            del self._by_settings[next(iter(self._by_settings))]

    def observe(self, settings: Values) -> FlushBehaviour:
        """Return the intent under `settings`; before their first checkpoint, the size of the last one."""
        return msgspec.structs.replace(self._behaviour(settings), largest_bytes=self._largest_bytes)

    def _behaviour(self, settings: Values) -> FlushBehaviour:
        if measured := self._by_settings.get(frozenset(settings.items())):
            return measured.behaviour()
        last = next(reversed(self._by_settings.values()), None)
        return last.size() if last else FlushBehaviour()
