"""What a checkpoint shows about the settings it ran under, with a wait charged to the flush that caused it.

A checkpoint that waits for an earlier flush pays for the settings of that flush, not for its own. So a
checkpoint whose flush nearly fills the interval is held back until the next one tells how long it waited.
"""

from collections import deque

import msgspec

from ....goodput.checkpoint_cost import CheckpointCost
from ...events import Value, Values
from ...rules.levers import NAMES
from ...settings import is_asynchronous, is_cached
from .model import LOWEST
from .sizes import PROPORTIONAL

_NEARLY_ALL = 0.8
_STARTING = 0.5
"""Share of a flush that blocks: to start one beside the computation takes a little."""
_OF_EACH, _MOST_KINDS = 12, 30
_NEAR, _MOST_AMPLIFIED = 0.7, 6.0

Identity = tuple[Value, ...]
"""The values of all levers, in the order of :data:`...rules.levers.NAMES`."""


def identity(settings: Values) -> Identity:
    """Return the values of all levers."""
    return tuple(settings[name] for name in NAMES)


class ObservedCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint under `settings`: seconds of its parts; `time` counts the job's checkpoints.

    `run` counts the launches of the job. `between_s` is the computation before it, 0 when not known.
    `flushed`: the prefix directory has it; `beside`: its flush, if it had one, did not block.
    """

    settings: Identity
    time: int
    run: int
    flushed: bool
    beside: bool
    blocking_s: float
    write_s: float
    encode_s: float
    flush_s: float
    wait_s: float
    slowdown_s: float
    slowdown_error_s: float
    between_s: float

    def amplification(self, between_s: float) -> float:
        """Return how much more its blocking time scatters where flushes nearly fill the interval."""
        if not (self.flushed and self.beside) or self.flush_s <= _NEAR * between_s:
            return 1.0
        return min(_MOST_AMPLIFIED, max(1.0, self.flush_s / max(self.blocking_s, 0.02 * self.flush_s)))


class WaitAttribution:
    """Moves the wait of a checkpoint to the one whose flush it waited for."""

    def __init__(self) -> None:
        self._held: CheckpointCost | None = None

    def add(self, cost: CheckpointCost) -> list[CheckpointCost]:
        """Return the costs that are complete now, oldest first."""
        held, self._held = self._held, None
        complete = []
        if held is not None:
            blocking_s = held.blocking_s + cost.wait_s
            complete.append(msgspec.structs.replace(held, blocking_s=blocking_s, wait_s=cost.wait_s))
        alone_s = max(LOWEST, cost.blocking_s - cost.wait_s)
        mine = msgspec.structs.replace(cost, blocking_s=alone_s, wait_s=0.0)
        is_beside = cost.flushed and cost.blocked_on_flush_s < _STARTING * cost.flush_s
        if is_beside and cost.flush_s > _NEARLY_ALL * cost.between_s > 0:
            self._held = mine
        else:
            complete.append(mine)
        return complete


class Observations:
    """The last observations with and without a flush under each settings, of those used last."""

    def __init__(self) -> None:
        self._last: dict[tuple[Identity, bool], deque[ObservedCheckpoint]] = {}
        self.count = 0

    def add(self, cost: CheckpointCost, settings: Values, run: int) -> None:
        """Enter a checkpoint under `settings`."""
        self.count += 1
        seen = ObservedCheckpoint(
            settings=identity(settings),
            time=self.count,
            run=run,
            flushed=cost.flushed or not is_cached(settings),
            beside=is_asynchronous(settings),
            blocking_s=cost.blocking_s,
            write_s=cost.write_s,
            encode_s=cost.encode_s,
            flush_s=cost.flush_s,
            wait_s=cost.wait_s,
            slowdown_s=cost.slowdown_s,
            slowdown_error_s=cost.slowdown_error_s,
            between_s=cost.between_s,
        )
        self._enter(seen)
        if len(self._last) > _MOST_KINDS:
            del self._last[min(self._last, key=lambda each: self._last[each][-1].time)]

    def _enter(self, seen: ObservedCheckpoint) -> None:
        self._last.setdefault((seen.settings, seen.flushed), deque(maxlen=_OF_EACH)).append(seen)

    @property
    def all(self) -> list[ObservedCheckpoint]:
        """All that are remembered, oldest first."""
        return sorted((each for group in self._last.values() for each in group), key=lambda each: each.time)

    def resize(self, by: float) -> None:
        """Take all as those of checkpoints `by` times as large."""
        for seen in self._last.values():
            for index, each in enumerate(seen):
                seen[index] = msgspec.structs.replace(
                    each, **{name: by * getattr(each, name) for name in PROPORTIONAL}
                )

    def forget(self, last: int) -> None:
        """Forget all but the `last` observations."""
        kept = self.all[-last:]
        self._last = {}
        for each in kept:
            self._enter(each)
