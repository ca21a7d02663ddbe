"""What a checkpoint shows about the settings it ran under, with a wait charged to the flush that caused it.

A checkpoint that waits for an earlier flush pays for the settings of that flush, not for its own. So a
checkpoint whose flush nearly fills the interval is held back until an output after the flush's end tells how
long it waited for it.
"""

from collections import deque
from typing import TypeVar

import msgspec

from ....goodput.checkpoint_cost import CheckpointCost
from ....goodput.events import OutputCompleted
from ...events import Value, Values
from ...rules.levers import NAMES
from ...settings import is_asynchronous, is_cached
from .model import LOWEST
from .sizes import PROPORTIONAL

_NEARLY_ALL = 0.8
_STARTING = 0.5
"""Share of a flush that blocks: to start one beside the computation takes a little."""
_OUTPUTS = 16
"""So many of the last outputs are remembered, and so many costs wait for one."""
_OF_EACH, _MOST_KINDS = 12, 30
_NEAR, _MOST_AMPLIFIED = 0.7, 6.0
_OF_THE_CACHE = {"encode_s", "flush_s", "flush_cpu_s", "flush_delay_s"}
_OF_THE_SLOWDOWN = ("slowdown_s", "slowdown_error_s", "reference_error_s")

Seen = TypeVar("Seen", bound=msgspec.Struct)

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
    dataset: int
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
    reference_error_s: float
    between_s: float
    flush_cpu_s: float = 0.0
    flush_delay_s: float = 0.0

    @property
    def cores_of_flush(self) -> float:
        """The part of a core that a thread of its flush had when it wanted one."""
        return self.flush_cpu_s / (self.flush_cpu_s + self.flush_delay_s)

    def amplification(self, between_s: float, threads: float) -> float:
        """Return how much more its blocking time scatters where flushes nearly fill the interval.

        Not what its `threads` waited for cores: they get them when the ranks wait.
        """
        if not (self.flushed and self.beside) or self.flush_s <= _NEAR * between_s:
            return 1.0
        own_s = self.flush_s - self.flush_delay_s / threads
        return min(_MOST_AMPLIFIED, max(1.0, own_s / max(self.blocking_s, 0.02 * self.flush_s)))


def slowed_as(seen: Seen, cost: CheckpointCost) -> Seen:
    """Return `seen` with the slowdown of `cost`."""
    return msgspec.structs.replace(seen, **{name: getattr(cost, name) for name in _OF_THE_SLOWDOWN})


class WaitAttribution:
    """Moves the wait of an output to the checkpoint whose flush it waited for: one that ended meanwhile.

    With SCR_FLUSH=n that is not the output after it, and the cost of one that is flushed itself comes late.
    """

    def __init__(self) -> None:
        self._held: list[CheckpointCost] = []
        self._outputs: deque[OutputCompleted] = deque(maxlen=_OUTPUTS)
        self._charged = 0
        """The newest dataset whose wait some flush has got."""

    def output(self, output: OutputCompleted) -> None:
        """Take in that an output ended, before the costs that it completes."""
        self._outputs.append(output)

    def add(self, cost: CheckpointCost) -> list[CheckpointCost]:
        """Return the costs that are complete now, oldest first."""
        alone_s = max(LOWEST, cost.blocking_s - cost.wait_s)
        self._held.append(msgspec.structs.replace(cost, blocking_s=alone_s, wait_s=0.0))
        complete, held = [], []
        for each in self._held:
            wait_s = self._waited_s(each)
            if wait_s is None:
                held.append(each)
            else:
                whole_s = each.blocking_s + wait_s
                complete.append(msgspec.structs.replace(each, blocking_s=whole_s, wait_s=wait_s))
        self._held = held[-_OUTPUTS:]
        return complete

    def amend(self, cost: CheckpointCost) -> None:
        """Take in what is known by now of the slowdown of a checkpoint that is held."""
        for index, each in enumerate(self._held):
            if each.dataset == cost.dataset:
                self._held[index] = slowed_as(each, cost)

    def _waited_s(self, cost: CheckpointCost) -> float | None:
        """Return how long an output waited for the flush of `cost`; None while none has ended since."""
        is_beside = cost.flushed and cost.blocked_on_flush_s < _STARTING * cost.flush_s
        if not (is_beside and cost.flush_s > _NEARLY_ALL * cost.between_s > 0):
            return 0.0
        later = (each for each in self._outputs if each.dataset > cost.dataset and each.end_s >= cost.time_s)
        first = next(later, None)
        if first is None:
            return None
        if first.start_s > cost.time_s or first.dataset <= self._charged:
            return 0.0
        self._charged = first.dataset
        return first.wait_s


class Observations:
    """The last observations with and without a flush under each settings, of those used last."""

    def __init__(self) -> None:
        self._last: dict[tuple[Identity, bool], deque[ObservedCheckpoint]] = {}
        self.count = 0

    def add(self, cost: CheckpointCost, settings: Values, run: int) -> None:
        """Enter a checkpoint under `settings`.

        Past the cache nothing is copied: what is called a flush there is SCR's entry in its index, which says
        nothing of how fast storage is.
        """
        self.count += 1
        cached = is_cached(settings)
        seen = ObservedCheckpoint(
            settings=identity(settings),
            dataset=cost.dataset,
            time=self.count,
            run=run,
            flushed=cost.flushed or not cached,
            beside=is_asynchronous(settings),
            **{
                name: getattr(cost, name) if cached or name not in _OF_THE_CACHE else 0.0
                for name in ("between_s", *PROPORTIONAL)
            },
        )
        self._enter(seen)
        if len(self._last) > _MOST_KINDS:
            del self._last[min(self._last, key=lambda each: self._last[each][-1].time)]

    def _enter(self, seen: ObservedCheckpoint) -> None:
        self._last.setdefault((seen.settings, seen.flushed), deque(maxlen=_OF_EACH)).append(seen)

    def amend(self, cost: CheckpointCost, run: int) -> None:
        """Take in what is known by now of the slowdown of a checkpoint."""
        for seen in self._last.values():
            for index, each in enumerate(seen):
                if (each.dataset, each.run) == (cost.dataset, run):
                    seen[index] = slowed_as(each, cost)

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

    def forget(self, before: int) -> None:
        """Forget all observations from `before` that time."""
        kept = [each for each in self.all if each.time >= before]
        self._last = {}
        for each in kept:
            self._enter(each)
