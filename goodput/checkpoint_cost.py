"""What one checkpoint cost the job: the time it blocked, and what its flush took from the steps beside it.

Cost of a checkpoint = blocking time + (compute during the flush - compute without it); the expected rework of
a failure is added where the interval is chosen, not here.
"""

from typing import NamedTuple, TypeVar

import msgspec

from .events import FlushCompleted, GoodputEvent, JobEnded, JobStarted, OutputCompleted, StepCompleted
from .flush_slowdown import FlushSlowdown

T = TypeVar("T")


class CheckpointCost(msgspec.Struct, frozen=True, kw_only=True):
    """The full cost of one checkpoint, known once its flush (if one was due) has ended.

    `interval_s` is the time from the previous checkpoint's start to this one's (0 for the first);
    `flush_s` is the true duration of the flush, blocking or not, 0 without one. `slowdown_s` is an estimate
    that noise may take below 0, so that its mean over many checkpoints is right, with the standard error
    `slowdown_error_s`. `apply_s` is what putting
    new settings in force took, `observe_s` what tracing added; neither is part of `blocking_s` here, for they
    are no cost of the settings.
    """

    dataset: int
    generation: int
    time_s: float
    blocking_s: float
    slowdown_s: float = 0.0
    slowdown_error_s: float = 0.0
    flush_s: float = 0.0
    flushed: bool = False
    interval_s: float = 0.0
    write_s: float = 0.0
    encode_s: float = 0.0
    blocked_on_flush_s: float = 0.0
    wait_s: float = 0.0
    bytes: int = 0
    files: int = 0
    flush_threads: int = 0
    apply_s: float = 0.0
    observe_s: float = 0.0

    @property
    def cost_s(self) -> float:
        """Seconds this checkpoint took from the job; noise may credit at most half the blocking time."""
        return self.blocking_s + max(self.slowdown_s, -self.blocking_s / 2)


class Slowdown(NamedTuple):
    """What a flush took from the steps beside it, and the SD of that estimate."""

    seconds: float
    error_s: float


_NO_SLOWDOWN = Slowdown(0.0, 0.0)
_REMEMBERED = 16
"""Outputs that wait for their flush, and flushes for their output: a lost event costs one cost, not all."""


class _Flushed(NamedTuple):
    """An output with the time since the one before, and its flush, which has ended."""

    output: OutputCompleted
    interval_s: float
    flush: FlushCompleted


class CheckpointCosts:
    """Joins outputs, flushes and steps to one :class:`CheckpointCost` for each checkpoint.

    Outputs and flushes may arrive in any order; a checkpoint whose flush failed, or is never heard of, has
    no cost.
    """

    def __init__(self) -> None:
        self.steps = FlushSlowdown()
        self._waiting: dict[int, tuple[OutputCompleted, float]] = {}
        self._early: dict[int, tuple[FlushCompleted, Slowdown]] = {}
        self._in_step: _Flushed | None = None
        """A checkpoint whose flush ended within a step that is not known yet."""
        self._previous_start_s: float | None = None

    def handle(self, event: GoodputEvent) -> list[CheckpointCost]:
        """Take an event in; returns the costs of the checkpoints that it completes, oldest first."""
        match event:
            case JobStarted():
                made = self.ended()
                self._waiting.clear()  # a flush of an earlier run will not be heard of again
                self._early.clear()
                self.steps = FlushSlowdown()
                self._previous_start_s = None
                return made
            case StepCompleted():
                self.steps.add(event)
                if self._in_step is not None and event.end_s >= self._in_step.flush.end_s:
                    return self.ended()
            case OutputCompleted(checkpoint=True, valid=True):
                return [*self.ended(), *_known(self._output(event))]
            case FlushCompleted():
                return [*self.ended(), *_known(self._flush(event))]
            case JobEnded():
                return self.ended()
            case _:
                pass
        return []

    def ended(self) -> list[CheckpointCost]:
        """Return the cost that waits for the step within which its flush ended, for none will come."""
        ended, self._in_step = self._in_step, None
        return [] if ended is None else _known(self._flushed_cost(*ended))

    def _output(self, output: OutputCompleted) -> CheckpointCost | None:
        previous_s, self._previous_start_s = self._previous_start_s, output.start_s
        interval_s = 0.0 if previous_s is None else max(0.0, output.start_s - previous_s)
        if output.dataset in self._early:
            flush, slowdown = self._early.pop(output.dataset)
            return _cost(output, interval_s, flush, slowdown) if flush.valid else None
        if output.flush_due:
            _remember(self._waiting, output.dataset, (output, interval_s))
            self.steps.flush_started(output.dataset, output.end_s)
            return None
        return _cost(output, interval_s)

    def _flush(self, flush: FlushCompleted) -> CheckpointCost | None:
        output, interval_s = self._waiting.pop(flush.dataset, (None, 0.0))
        if output is None:  # a blocking flush ends before its output does
            _remember(self._early, flush.dataset, (flush, self._slowdown(flush)))
            return None
        if self.steps.is_within(flush.end_s):
            self._in_step = _Flushed(output, interval_s, flush)
            return None
        return self._flushed_cost(output, interval_s, flush)

    def _flushed_cost(
        self, output: OutputCompleted, interval_s: float, flush: FlushCompleted
    ) -> CheckpointCost | None:
        slowdown = self._slowdown(flush)
        return _cost(output, interval_s, flush, slowdown) if flush.valid else None

    def _slowdown(self, flush: FlushCompleted) -> Slowdown:
        error_s = self.steps.error_s(flush)
        return Slowdown(self.steps.flush_completed(flush), error_s)


def _known(cost: CheckpointCost | None) -> list[CheckpointCost]:
    return [] if cost is None else [cost]


def _remember(waiting: dict[int, T], dataset: int, what: T) -> None:
    waiting[dataset] = what
    if len(waiting) > _REMEMBERED:
        del waiting[next(iter(waiting))]


def _cost(
    output: OutputCompleted,
    interval_s: float,
    flush: FlushCompleted | None = None,
    slowdown: Slowdown = _NO_SLOWDOWN,
) -> CheckpointCost:
    return CheckpointCost(
        dataset=output.dataset,
        generation=output.generation,
        time_s=output.end_s if flush is None else max(output.end_s, flush.end_s),
        blocking_s=max(0.0, output.blocking_s - output.apply_s - output.observe_s),
        slowdown_s=slowdown.seconds,
        slowdown_error_s=slowdown.error_s,
        flush_s=output.flush_s if flush is None else flush.flush_s,
        flushed=flush is not None or output.flush_s > 0,
        interval_s=interval_s,
        write_s=output.write_s,
        encode_s=output.encode_s,
        blocked_on_flush_s=output.flush_s,
        wait_s=output.wait_s,
        bytes=output.bytes,
        files=output.files,
        flush_threads=0 if flush is None else flush.threads,
        apply_s=output.apply_s,
        observe_s=output.observe_s,
    )
