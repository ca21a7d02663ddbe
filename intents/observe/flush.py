"""Flush behaviour (intents 7 and 8 of the study): how long a flush takes against how often one is due."""

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...units import bytes_text
from ..intent import Evidence
from .sketches import Recent

_REMEMBERED = 30
_REMEMBERED_SETTINGS = 4
_MOST_PLACES = 64


class FlushBehaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What the last checkpoints took; seconds and bytes of one checkpoint of the whole job.

    Parts of the cost are means over all checkpoints, flushed or not, so that they add up; `flush_s` (of those
    that were flushed, `flushed_share`) and `interval_s` are medians.
    """

    evidence: Evidence = Evidence()
    checkpoint_bytes: int = 0
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

    @property
    def load(self) -> float | None:
        """Flush seconds per second between checkpoints, were it not blocking; None while that is not known.

        At 1 flushes come as fast as they can be worked off.
        """
        between_s = self.interval_s - self.blocked_on_flush_s
        return self.flush_s * self.flushed_share / between_s if between_s > 0 else None

    @property
    def places(self) -> int:
        """Datasets that must fit into the cache so that no checkpoint waits for a flush: 2 to 64."""
        if self.interval_s <= 0:
            return 2
        return max(2, 1 + int(min(_MOST_PLACES - 1, -(-self.flush_s // self.interval_s))))

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.evidence.count:
            return "no checkpoint was completed yet"
        load = "" if self.load is None else f" ({self.load:.0%} of the interval)"
        return (
            f"{bytes_text(self.checkpoint_bytes)} in {self.files} files every {self.interval_s:.2f} s;"
            f" blocks {self.blocking_s:.3f} s (write {self.write_s:.3f}, encode {self.encode_s:.3f},"
            f" flush {self.blocked_on_flush_s:.3f}, wait {self.wait_s:.3f}); flush takes {self.flush_s:.3f} s"
            f"{load} and slows steps by {max(0.0, self.slowdown_s):.3f} s"
        )


_PARTS = ("blocking_s", "write_s", "encode_s", "blocked_on_flush_s", "wait_s", "slowdown_s")


class _Measured:
    """The checkpoints under one set of settings."""

    def __init__(self, start_s: float) -> None:
        self.parts = {name: Recent(_REMEMBERED) for name in _PARTS}
        self.flush_s = Recent(_REMEMBERED)
        self.interval_s = Recent(_REMEMBERED)
        self.flushed = Recent(_REMEMBERED)
        self.count = self.bytes = self.files = 0
        self.start_s = self.end_s = start_s

    def add(self, cost: CheckpointCost) -> None:
        for name, recent in self.parts.items():
            recent.add(getattr(cost, name))
        if cost.interval_s > 0:
            self.interval_s.add(cost.interval_s)
        if cost.flushed:
            self.flush_s.add(cost.flush_s)
        self.flushed.add(float(cost.flushed))
        self.bytes, self.files = max(0, cost.bytes), max(0, cost.files)
        self.count += 1
        self.end_s = cost.time_s

    def behaviour(self) -> FlushBehaviour:
        return FlushBehaviour(
            evidence=Evidence(
                count=self.count, window_s=self.end_s - self.start_s, source="the application's checkpoints"
            ),
            checkpoint_bytes=self.bytes,
            files=self.files,
            interval_s=self.interval_s.median,
            flush_s=self.flush_s.median,
            flushed_share=self.flushed.mean,
            **{name: recent.mean for name, recent in self.parts.items()},
        )


class FlushObserver:
    """Collects checkpoint costs, those under different settings apart; the last four settings are kept."""

    def __init__(self) -> None:
        self._by_settings: dict[str, _Measured] = {}

    def add(self, cost: CheckpointCost, settings: str) -> None:
        """Take one checkpoint in that ran under `settings` (any text that names them)."""
        measured = self._by_settings.pop(settings, None) or _Measured(cost.time_s)
        measured.add(cost)
        self._by_settings[settings] = measured
        if len(self._by_settings) > _REMEMBERED_SETTINGS:
            del self._by_settings[next(iter(self._by_settings))]

    def observe(self, settings: str) -> FlushBehaviour:
        """The intent under `settings`, as it stands."""
        measured = self._by_settings.get(settings)
        return measured.behaviour() if measured else FlushBehaviour()


class FlushCycles:
    """Turns checkpoints into observations that can be compared: one for each flush cycle.

    Of `every` checkpoints one is flushed, and only a whole cycle shows what a checkpoint costs. The costs
    may come out of order (a background flush ends late), and a cycle that settings changed in has fewer
    checkpoints: what is there is weighted as it is in a whole one.
    """

    def __init__(self) -> None:
        self._open: list[CheckpointCost] = []
        self._generation = 0

    def clear(self) -> None:
        """Forget a cycle that has begun."""
        self._open.clear()

    def add(self, cost: CheckpointCost, every: int) -> float | None:
        """Take one checkpoint in; returns the mean cost of a checkpoint when it ends a cycle.

        A cycle that began under another generation of settings is forgotten.
        """
        if cost.generation != self._generation:
            self.clear()
            self._generation = cost.generation
        if every <= 1:
            return cost.cost_s
        if not cost.flushed:
            self._open.append(cost)
            del self._open[:-every]
            return None
        earlier = [each.cost_s for each in self._open if each.dataset < cost.dataset]
        self._open = [each for each in self._open if each.dataset > cost.dataset]
        if not earlier:
            return None
        return (cost.cost_s + (every - 1) * sum(earlier) / len(earlier)) / every
