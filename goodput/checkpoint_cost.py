"""What one checkpoint cost the job: the time it blocked, and what its flush took from the steps beside it.

The expected rework of a failure is added where the interval is chosen, not here.
"""

from itertools import pairwise
from math import inf, sqrt
from operator import itemgetter
from typing import TypeVar

import msgspec

from .between_outputs import Waits
from .events import FlushCompleted, GoodputEvent, JobEnded, JobStarted, OutputCompleted, StepCompleted
from .flush_slowdown import EndedFlush, FlushSlowdown
from .job_events import JobEvents, united
from .ledger.launches import run_starts
from .validation import span

T = TypeVar("T")

_PENDING = 16
"""Outputs that wait for their flush, and flushes for their output: a lost event costs one cost, not all."""
_SAVE = "checkpoint_save"


class CheckpointCost(msgspec.Struct, frozen=True, kw_only=True):
    """The full cost of one checkpoint, known once its flush (if one was due) has ended.

    `interval_s` is the time since the start of the previous one, `between_s` that since its end (0 for
    the first). `flush_s` is the true duration of the flush, blocking or not. `slowdown_s` is an estimate
    without bias, which noise may take below 0, with the standard error `slowdown_error_s`; that of its
    reference, what steps take without a flush, is `reference_error_s`: all estimates share it. `apply_s`
    is what putting new settings in force took, `observe_s` what tracing added; `blocking_s` has neither,
    for they are no cost of the settings. The threads of rank 0's flush ran for `flush_cpu_s` together and
    waited for a core for `flush_delay_s`; both 0: not known.
    """

    dataset: int
    generation: int
    time_s: float
    blocking_s: float
    slowdown_s: float = 0.0
    slowdown_error_s: float = 0.0
    reference_error_s: float = 0.0
    flush_s: float = 0.0
    flushed: bool = False
    interval_s: float = 0.0
    between_s: float = 0.0
    write_s: float = 0.0
    encode_s: float = 0.0
    blocked_on_flush_s: float = 0.0
    wait_s: float = 0.0
    bytes: int = 0
    files: int = 0
    flush_threads: int = 0
    flush_cpu_s: float = 0.0
    flush_delay_s: float = 0.0
    apply_s: float = 0.0
    observe_s: float = 0.0

    @property
    def cost_s(self) -> float:
        """Seconds this checkpoint took from the job; noise may credit at most half the blocking time."""
        return self.blocking_s + max(self.slowdown_s, -self.blocking_s / 2)


_SAME = ("dataset", "generation", "write_s", "encode_s", "wait_s", "bytes", "files", "apply_s", "observe_s")
"""What of an output is the same in its cost."""


def _completed(cost: CheckpointCost, flushed: EndedFlush) -> list[CheckpointCost]:
    """Return `cost` with that of its flush, in a list, or none if the flush failed."""
    flush = flushed.flush
    cost = msgspec.structs.replace(
        cost,
        time_s=max(cost.time_s, flush.end_s),
        slowdown_s=flushed.slowdown_s,
        slowdown_error_s=flushed.error_s,
        reference_error_s=flushed.reference_error_s,
        flush_s=flush.flush_s,
        flushed=True,
        flush_threads=flush.threads,
        flush_cpu_s=flush.cpu_s,
        flush_delay_s=flush.run_delay_s,
    )
    return [cost] if flush.valid else []


def _cost_of(output: OutputCompleted, previous: OutputCompleted) -> CheckpointCost:
    """Return what `output` cost by itself."""
    return CheckpointCost(
        **{name: getattr(output, name) for name in _SAME},
        time_s=output.end_s,
        blocking_s=max(0.0, output.blocking_s - output.apply_s - output.observe_s),
        flush_s=output.flush_s,
        flushed=output.flush_s > 0,
        interval_s=max(0.0, output.start_s - previous.start_s),
        between_s=max(0.0, output.start_s - previous.end_s),
        blocked_on_flush_s=output.flush_s,
    )


class CheckpointCosts:
    """Joins outputs, flushes and steps, in any order, to costs; none without a flush that is due."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.amended: list[CheckpointCost] = []
        """Costs of which the last event has told more: what rank 0 waited for cores beside their flush.

        What is believed follows them; accounts of the job's time keep the first estimate.
        """
        self._judged: list[tuple[CheckpointCost, FlushCompleted]] = []
        """The flushes that ended since the last output."""
        self.steps = FlushSlowdown()
        self._waiting: dict[int, CheckpointCost] = {}
        self._early: dict[int, EndedFlush] = {}
        self._in_step: tuple[CheckpointCost, FlushCompleted] | None = None
        """A checkpoint whose flush ended within a step that is not known yet."""
        self._previous: OutputCompleted | None = None

    def handle(self, event: GoodputEvent) -> list[CheckpointCost]:
        """Take an event in; return the costs of the checkpoints that it completes, oldest first."""
        self.amended = []
        match event:
            case StepCompleted():
                return self.step(event.start_s, event.end_s)
            case JobStarted():
                made = self.ended()
                self._begin()  # a flush of an earlier run will not be heard of again
                return made
            case OutputCompleted():
                is_counted = event.checkpoint and event.valid
                made = self.ended() if is_counted else []
                self.steps.output(event)
                made += self._output(event) if is_counted else []
                self._amend()
                return made
            case FlushCompleted():
                return self.ended() + self._flush(event)
            case JobEnded():
                return self.ended()
            case _:
                return []

    def step(self, start_s: float, end_s: float) -> list[CheckpointCost]:
        """Take a step in, as :meth:`handle` does."""
        self.steps.add(start_s, end_s)
        return self.ended() if self._in_step is not None and end_s >= self._in_step[1].end_s else []

    def ended(self) -> list[CheckpointCost]:
        """Return the cost that waits for the step within which its flush ended, for none will come."""
        if self._in_step is None:
            return []
        (cost, flush), self._in_step = self._in_step, None
        return self._completed(self.steps.flush_completed(flush), cost)

    def _output(self, output: OutputCompleted) -> list[CheckpointCost]:
        cost, self._previous = _cost_of(output, self._previous or output), output
        if flushed := self._early.pop(output.dataset, None):
            return self._completed(flushed, cost)
        if not output.flush_due:
            return [cost]
        _remember(self._waiting, output.dataset, cost)
        self.steps.flush_started(output.dataset, output.end_s)
        return []

    def _flush(self, flush: FlushCompleted) -> list[CheckpointCost]:
        cost = self._waiting.pop(flush.dataset, None)
        if cost is not None and self.steps.is_within(flush.end_s):
            self._in_step = cost, flush
            return []
        flushed = self.steps.flush_completed(flush)
        if cost is not None:
            return self._completed(flushed, cost)
        _remember(self._early, flush.dataset, flushed)  # a blocking flush ends before its output does
        return []

    def _completed(self, flushed: EndedFlush, cost: CheckpointCost) -> list[CheckpointCost]:
        made = _completed(cost, flushed)
        self._judged += [(each, flushed.flush) for each in made if flushed.flush.asynchronous]
        return made

    def _amend(self) -> None:
        """An output has told what rank 0 waited for cores before it."""
        between = self.steps.between
        for cost, flush in self._judged:
            if (waits := between.waits(flush.start_s, flush.end_s, flush.cpu_s)) is not None:
                self.amended.append(_with_waits(cost, waits))
        later = [each for each in self._judged if not between.is_told(each[1].end_s)]
        self._judged = later[-_PENDING:]


def _with_waits(cost: CheckpointCost, waits: Waits) -> CheckpointCost:
    """Return `cost` with its slowdown weighed against what `waits` beside its flush say, by their precision.

    Steps may be of another length for many reasons, waits for cores for few.
    """
    variance = cost.slowdown_error_s**2 + cost.reference_error_s**2
    of_steps = waits.error_s**2 / (waits.error_s**2 + variance)
    return msgspec.structs.replace(
        cost,
        slowdown_s=waits.slowdown_s + of_steps * (cost.slowdown_s - waits.slowdown_s),
        slowdown_error_s=cost.slowdown_error_s * sqrt(of_steps),
        reference_error_s=cost.reference_error_s * sqrt(of_steps),
    )


def _remember(waiting: dict[int, T], dataset: int, what: T) -> None:
    waiting[dataset] = what
    if len(waiting) > _PENDING:
        del waiting[next(iter(waiting))]


def costs_of(events: JobEvents) -> list[CheckpointCost]:
    """What each checkpoint cost; of writers that know nothing of SCR, each save."""
    if not any(type(event) is OutputCompleted for event in events.others):
        return costs_of_saves(events)
    timeline: list[tuple[float, float, GoodputEvent | None]] = [
        (end_s, start_s, None)
        for whole in events.whole_steps.values()
        for start_s, end_s in zip(whole.starts_s, whole.ends_s, strict=True)
    ]
    timeline += [(span(event)[1], 0.0, event) for event in events.others]
    costs = CheckpointCosts()
    found: list[CheckpointCost] = []
    for end_s, start_s, event in sorted(timeline, key=itemgetter(0)):
        found += costs.step(start_s, end_s) if event is None else costs.handle(event)
    return found + costs.ended() or costs_of_saves(events)


def costs_of_saves(events: JobEvents) -> list[CheckpointCost]:
    """What each save blocked; those that overlap are one. One without an end says nothing."""
    from .ledger.pairing import whole_intervals  # noqa: PLC0415 - numpy: who has no saves shall not pay for it

    saves = united((each.start_s, each.end_s) for each in whole_intervals(events, {_SAVE}))
    runs = run_starts(events) if saves else []
    costs: list[CheckpointCost] = []
    for (before_s, _), (start_s, end_s) in pairwise([(inf, inf), *saves]):
        is_first = before_s == inf or any(before_s < run_s <= start_s for run_s in runs)
        costs.append(
            CheckpointCost(
                dataset=len(costs) + 1,
                generation=0,
                time_s=end_s,
                blocking_s=end_s - start_s,
                interval_s=0.0 if is_first else start_s - before_s,
            )
        )
    return costs
