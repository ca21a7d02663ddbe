"""Whether outputs are still traced: observing has a budget, and ends when it has nothing new to say.

Every output is traced while ``on``, each up to a number of calls (`native/observe.c`). It ends

- when the access sizes of three outputs in a row gave the same intent;
- when it has cost more than its budget of the job's time so far, until there is room again;
- after ten outputs in any case.

A node without rank 0 hears of no outputs: there it ends after 20,000 events, ten outputs of one rank.

It begins again with a new run of the job, with an output of a kind that was not seen yet, and when an
output's bytes or files are no longer the known ones (by more than a quarter). Once for each such change: it
waits for the next output of that kind, for ten outputs at most.
"""

import msgspec
from msgspec.structs import replace

from ...goodput.events import JobStarted, OutputCompleted
from ...units import count_text
from ..events import TextEnum
from .io.buffers import BufferSizes

DEFAULT_BUDGET = 0.01
"""Share of the job's time that observing may cost."""

_STABLE_OUTPUTS = 3
_MOST_OUTPUTS = 10
_MOST_EVENTS = 20_000
_CHANGED = 0.25


class WhyEnded(TextEnum):
    """The reason why outputs are not traced any more."""

    NOT = ""
    STABLE = "the intents are stable"
    BUDGET = "the budget is used"
    ENOUGH = "enough outputs were seen"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What was traced so far: `calls` of rank 0 in `outputs`, which took `cost_s` longer for it.

    `share` is that of the job's time. `until_s` is the end of the last traced output (epoch seconds, 0 when
    there was none).
    """

    on: bool = True
    outputs: int = 0
    calls: int = 0
    cost_s: float = 0.0
    share: float = 0.0
    budget: float = DEFAULT_BUDGET
    until_s: float = 0.0
    ended: WhyEnded = WhyEnded.NOT

    def sentence(self) -> str:
        """Return the state in one line, for people."""
        if not self.outputs:
            return "no output was traced yet" if self.on else f"not traced: {self.ended}"
        seen = f"{count_text(self.outputs, 'output')} traced, {count_text(self.calls, 'call')} of rank 0"
        cost = f"{self.cost_s:.3f} s ({self.share:.2%} of the job, budget {self.budget:.2%})"
        return f"{seen}, cost {cost}; " + ("goes on" if self.on else f"ended: {self.ended}")


class Observing:
    """Decides, output by output, whether the next is traced."""

    def __init__(self) -> None:
        self.observation = Observation()
        """What was traced so far."""
        self._start_s: float | None = None
        self._sizes: tuple[object, ...] = ()
        self._alike = self._in_a_row = 0
        self._known: dict[bool, tuple[int, int]] = {}
        self._awaited: set[bool] = set()
        self._elsewhere = 0

    def set_budget(self, budget: float) -> None:
        """Set the share of the job's time that observing may cost."""
        self.observation = replace(self.observation, budget=budget)

    def started(self, event: JobStarted) -> None:
        """A run of the job begins: it may do something else than the last one."""
        self._start_s = event.time_s if self._start_s is None else self._start_s
        self._begin()

    def output(self, output: OutputCompleted, sizes: BufferSizes) -> None:
        """Take in an output, and the access sizes as far as they are known then."""
        self._start_s = start_s = output.start_s if self._start_s is None else self._start_s
        if output.observed:
            self._awaited.discard(output.checkpoint)
            self._add(output, sizes)
        elif not self.observation.on and self._is_new(output):
            self._begin()
            self._awaited.add(output.checkpoint)
        if output.observed or self.observation.on:
            self._known[output.checkpoint] = (output.bytes, output.files)
        age_s = max(1e-9, output.end_s - start_s)
        self.observation = replace(self.observation, share=self.observation.cost_s / age_s)
        self._decide()

    def elsewhere(self, events: int) -> bool:
        """Count trace events of a node without rank 0; return whether it has given enough of them again."""
        self._elsewhere += events
        is_enough = self._elsewhere >= _MOST_EVENTS
        self._elsewhere %= _MOST_EVENTS
        return is_enough

    def _begin(self) -> None:
        self._alike = self._in_a_row = 0
        self._awaited.clear()
        self.observation = replace(self.observation, on=True, ended=WhyEnded.NOT)

    def _add(self, output: OutputCompleted, sizes: BufferSizes) -> None:
        seen = self.observation
        self.observation = replace(
            seen,
            outputs=seen.outputs + 1,
            calls=seen.calls + output.observed,
            cost_s=seen.cost_s + output.observe_s,
            until_s=output.end_s,
        )
        self._in_a_row += 1
        found = (sizes.operation, sizes.p90_bytes, *(top.size_bytes for top in sizes.top))
        self._alike = self._alike + 1 if sizes.top and found == self._sizes else 0
        self._sizes = found

    def _is_new(self, output: OutputCompleted) -> bool:
        """Return whether an output that was not traced is unlike those that were, or were waited for."""
        before = self._known.get(output.checkpoint)
        pairs = zip((output.bytes, output.files), before or (), strict=before is not None)
        return before is None or any(abs(new - old) > _CHANGED * old for new, old in pairs)

    def _decide(self) -> None:
        """End or go on; what ended for its budget goes on once the job is old enough."""
        seen = self.observation
        why = seen.ended
        if why is WhyEnded.BUDGET and seen.share < seen.budget / 2:
            why = WhyEnded.NOT
        if self._alike >= _STABLE_OUTPUTS - 1 and not self._awaited:
            why = WhyEnded.STABLE
        elif self._in_a_row >= _MOST_OUTPUTS:
            why = WhyEnded.ENOUGH
        elif seen.share > seen.budget:
            why = WhyEnded.BUDGET
        self.observation = replace(seen, on=why is WhyEnded.NOT, ended=why)
