"""What one checkpoint cost the job: the time it blocked, and what its flush took from the steps beside it.

The expected rework of a failure is added where the interval is chosen, not here.
"""

from collections import deque
from collections.abc import Collection, Iterable
from itertools import pairwise
from math import hypot, inf, sqrt
from operator import itemgetter
from statistics import fmean, median
from typing import NamedTuple, TypeVar

import msgspec

from .between_outputs import BetweenOutputs, Waits
from .events import FlushCompleted, GoodputEvent, JobEnded, JobStarted, OutputCompleted, StepCompleted
from .job_events import JobEvents, united
from .ledger.launches import run_starts
from .validation import span

T = TypeVar("T")

_PENDING = 16
"""Outputs that wait for their flush, and flushes for their output: a lost event costs one cost, not all."""
_RECENT = 1024
_REFERENCE_STEPS = 256
_HICCUP = 3.0
_REFERENCE_INTERVALS = 12
_FEW_STEPS, _MANY_STEPS, _FEW_INTERVALS = 4, 16, 3
_UNKNOWN_SHARE = 0.1
"""SD by which steps of one interval may be longer than those of another, before three intervals are known."""
_WAITING_DOUBT, _OF_OTHERS = 0.5, 1.25
"""Of what rank 0 waited for cores: others than the flush use them, too, and other ranks may wait longer."""
_INTERFERENCE, _INTERFERENCE_DOUBT = 0.03, 0.05
"""Of the time beside a flush: what it takes by memory, and by waits for other ranks, which no core tells."""
_MEDIAN_DIFFERENCE, _MEAN_DIFFERENCE = 0.954, 1.128
"""Of the absolute difference of two draws with SD 1: 0.6745 x sqrt(2), and 2 / sqrt(pi)."""
_OF_A_MEDIAN = 1.25
"""Times the error of a mean: sqrt(pi / 2), of what is distributed normally."""
_SHORTEST_S = 1e-9
_SAVE = "checkpoint_save"


class CheckpointCost(msgspec.Struct, frozen=True, kw_only=True):
    """The full cost of one checkpoint, known once its flush (if one was due) has ended.

    `interval_s` is the time since the start of the previous one, `between_s` that since its end (0 for
    the first). `flush_s` is the true duration of the flush, blocking or not. `slowdown_s` is an estimate
    without bias, which noise may take below 0, with the standard error `slowdown_error_s`; that of its
    reference, what steps take without a flush, is `reference_error_s`: all estimates share it. `apply_s`
    is what putting new settings in force took, `observe_s` what tracing added; `blocking_s` has neither,
    for they are no cost of the settings.
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


class _Flushed(NamedTuple):
    """A flush that has ended, what it took from the steps beside it, the SD of that, and of its reference."""

    flush: FlushCompleted
    slowdown_s: float
    error_s: float
    reference_error_s: float

    def completed(self, cost: CheckpointCost) -> list[CheckpointCost]:
        """Return the cost of the output with that of this flush, in a list, or none if the flush failed."""
        cost = msgspec.structs.replace(
            cost,
            time_s=max(cost.time_s, self.flush.end_s),
            slowdown_s=self.slowdown_s,
            slowdown_error_s=self.error_s,
            reference_error_s=self.reference_error_s,
            flush_s=self.flush.flush_s,
            flushed=True,
            flush_threads=self.flush.threads,
            flush_cpu_s=self.flush.cpu_s,
            flush_delay_s=self.flush.run_delay_s,
        )
        return [cost] if self.flush.valid else []


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
        self._early: dict[int, _Flushed] = {}
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

    def _completed(self, flushed: _Flushed, cost: CheckpointCost) -> list[CheckpointCost]:
        made = flushed.completed(cost)
        self._judged += [(each, flushed.flush) for each in made if flushed.flush.asynchronous]
        return made

    def _amend(self) -> None:
        """An output has told what rank 0 waited for cores before it."""
        between = self.steps.between
        for cost, flush in self._judged:
            if (waits := between.waits(flush.start_s, flush.end_s)) is not None:
                self.amended.append(_with_waits(cost, waits))
        later = [each for each in self._judged if not between.is_told(each[1].end_s)]
        self._judged = later[-_PENDING:]


def _with_waits(cost: CheckpointCost, waits: Waits) -> CheckpointCost:
    """Return `cost` with its slowdown weighed against what `waits` beside its flush say, by their precision.

    Steps may be of another length for many reasons, waits for cores for few.
    """
    seconds = min(waits.beside_s, _OF_OTHERS * waits.waited_s + _INTERFERENCE * waits.beside_s)
    error_s = hypot(waits.doubt_s, _WAITING_DOUBT * waits.waited_s, _INTERFERENCE_DOUBT * waits.beside_s)
    variance = cost.slowdown_error_s**2 + cost.reference_error_s**2
    of_steps = error_s**2 / (error_s**2 + variance)
    return msgspec.structs.replace(
        cost,
        slowdown_s=seconds + of_steps * (cost.slowdown_s - seconds),
        slowdown_error_s=cost.slowdown_error_s * sqrt(of_steps),
        reference_error_s=cost.reference_error_s * sqrt(of_steps),
    )


def _scatter_s(seconds: Collection[float]) -> float:
    return median(_differences_s(seconds)) / _MEDIAN_DIFFERENCE


def _differences_s(seconds: Iterable[float]) -> list[float]:
    return [abs(b - a) for a, b in pairwise(seconds)]


def _remember(waiting: dict[int, T], dataset: int, what: T) -> None:
    waiting[dataset] = what
    if len(waiting) > _PENDING:
        del waiting[next(iter(waiting))]


class _Stretch(NamedTuple):
    """Steps that follow each other: `busy_s` is their time together."""

    start_s: float
    end_s: float
    busy_s: float
    steps: int = 1

    def overlap_s(self, flush: FlushCompleted) -> float:
        return max(0.0, min(self.end_s, flush.end_s) - max(self.start_s, flush.start_s))

    def excess_s(self, flush: FlushCompleted, reference_s: float) -> float:
        """Faster than the reference is a credit: noise must cancel out over the steps of a flush."""
        together_s = self.overlap_s(flush)
        return max(-together_s, min(together_s, self.busy_s - self.steps * reference_s))

    def joined(self, later: "_Stretch") -> "_Stretch":
        start_s, end_s = min(self.start_s, later.start_s), max(self.end_s, later.end_s)
        return _Stretch(start_s, end_s, self.busy_s + later.busy_s, self.steps + later.steps)


class _Reference(NamedTuple):
    """What a step takes without a flush beside it, with its standard error."""

    step_s: float
    error_s: float


class FlushSlowdown:
    """How much longer the recent steps of a job took while a flush was under way.

    A flush is announced when it starts and measured when it has ended, for its true end is only known later.
    Where (nearly) every step is beside a flush, what they take without is what is left when rank 0 does not
    wait for a core. Memory is bounded: beside thousands of steps, neighbouring ones are remembered as one
    stretch.
    """

    def __init__(self) -> None:
        self._recent: list[_Stretch] = []
        self._undisturbed: deque[float] = deque(maxlen=_REFERENCE_STEPS)
        self._intervals: deque[_Stretch] = deque(maxlen=_REFERENCE_INTERVALS)
        """The undisturbed steps between the last outputs."""
        self._whole: deque[_Stretch] = deque(maxlen=_REFERENCE_INTERVALS)
        """All steps between these."""
        self._unjudged: deque[_Stretch] = deque(maxlen=_REFERENCE_STEPS)
        self._running: dict[int, float] = {}
        self.between = BetweenOutputs()
        """What rank 0 told of the time between outputs."""

    def add(self, start_s: float, end_s: float) -> None:
        """Take a step in. While a flush may be running it waits for that flush's verdict."""
        step = _Stretch(start_s, end_s, max(0.0, end_s - start_s))
        self._remember(step)
        if self._whole:
            self._whole[-1] = self._whole[-1].joined(step)
        if self._running:
            self._unjudged.append(step)
        else:
            self._is_undisturbed(step)

    def is_within(self, time_s: float) -> bool:
        """Return whether `time_s` lies within a step that has not ended yet, as far as steps are known."""
        return bool(self._recent) and self._recent[-1].end_s < time_s

    @property
    def reference(self) -> _Reference | None:
        """What the last steps took without a flush beside them, or without a wait for a core; None: unknown.

        Of many it is the mean, in which a hiccup counts as three medians; of few the median of the later
        half, for a job's first steps are slow as a rule, and no surer than waits for a core agree with it.
        """
        known = self._undisturbed
        if len(known) >= _MANY_STEPS:
            limit_s = _HICCUP * median(known)
            error_s = _scatter_s(known) / sqrt(len(known))
            return _Reference(fmean(min(each, limit_s) for each in known), error_s)
        told = self._unhindered()
        if len(known) < _FEW_STEPS:
            return told or (_Reference(median(known), inf) if known else None)
        later = list(known)[len(known) // 2 :]
        step_s, error_s = median(later), _OF_A_MEDIAN * _scatter_s(later) / sqrt(len(later))
        return _Reference(step_s, max(error_s, abs(told.step_s - step_s) / 2 if told else 0.0))

    def _unhindered(self) -> _Reference | None:
        """Return what the steps of the last gaps took, less the share that rank 0 waited for a core."""
        gaps, waited = self.between.gaps, self.between.waiting_share
        steps = [each for each in self._recent if gaps and each.start_s >= gaps[0].start_s]
        if not steps:
            return None
        usual_s = sum(each.busy_s for each in steps) / sum(each.steps for each in steps)
        return _Reference(usual_s * (1 - waited), _WAITING_DOUBT * waited * usual_s)

    def output(self, output: OutputCompleted) -> None:
        """Take an output in, of whatever kind: an interval ends, and another begins."""
        self.between.add(output)
        for intervals in (self._intervals, self._whole):
            if not intervals or intervals[-1].steps:
                intervals.append(_Stretch(output.end_s, output.end_s, 0.0, 0))

    def flush_started(self, dataset: int, start_s: float) -> None:
        """From now on steps may be disturbed by the flush of `dataset`: SCR runs one at a time."""
        self._running = {dataset: start_s}

    def flush_completed(self, flush: FlushCompleted) -> _Flushed:
        """Return `flush` with the seconds that the steps beside it took longer, at most while both ran."""
        self._running.pop(flush.dataset, None)
        reference, slowdown_s = self.reference, 0.0
        errors_s = self._errors_s(flush, reference)
        if reference is not None:
            beside = [s for s in self._recent if s.end_s > flush.start_s and s.start_s < flush.end_s]
            slowdown_s = sum((each.excess_s(flush, reference.step_s) for each in beside), 0.0)
        self._judge(flush)
        return _Flushed(flush, slowdown_s, *errors_s)

    def _errors_s(self, flush: FlushCompleted, reference: _Reference | None) -> tuple[float, float]:
        """Return the SD of the estimate for `flush`, and of its reference: of few steps it may be all wrong.

        Slowly growing steps do not scatter, neighbours do. Steps of one interval may be alike that of others
        are not: phases of a solver, or what other jobs do.
        """
        is_known = len(self._undisturbed) >= _FEW_STEPS
        steps = self._undisturbed if is_known else [each.busy_s / each.steps for each in self._recent]
        if len(steps) < _FEW_STEPS:
            return flush.flush_s, 0.0
        beside = flush.flush_s / max(_SHORTEST_S, fmean(steps)) + 1
        error_s = max(_scatter_s(steps) * sqrt(beside), beside * self._between_intervals_s(fmean(steps)))
        return error_s, min(flush.flush_s, beside * reference.error_s) if reference else flush.flush_s

    def _between_intervals_s(self, step_s: float) -> float:
        """Return the SD between intervals of undisturbed steps, which take `step_s` on the mean.

        Of fewer than three intervals with any it is that of all steps, by the median, for what a flush takes
        from them changes with the settings; of fewer than three in all it is a tenth.
        """
        means_s = [each.busy_s / each.steps for each in self._intervals if each.steps]
        if len(means_s) >= _FEW_INTERVALS:
            return fmean(_differences_s(means_s)) / _MEAN_DIFFERENCE
        means_s = [each.busy_s / each.steps for each in self._whole if each.steps]
        return _scatter_s(means_s) if len(means_s) >= _FEW_INTERVALS else _UNKNOWN_SHARE * step_s

    def _is_undisturbed(self, step: _Stretch) -> None:
        self._undisturbed.append(step.busy_s)
        if self._intervals:
            self._intervals[-1] = self._intervals[-1].joined(step)

    def _remember(self, step: _Stretch) -> None:
        if len(self._recent) >= _RECENT:
            if self._running:
                self._recent = list(map(_Stretch.joined, self._recent[::2], self._recent[1::2]))
            else:
                del self._recent[: _RECENT // 2]
        self._recent.append(step)

    def _judge(self, flush: FlushCompleted) -> None:
        """Steps that waited for `flush` and turn out undisturbed count for the reference again."""
        for _ in range(len(self._unjudged)):
            if (step := self._unjudged.popleft()).overlap_s(flush) > 0:
                continue
            if any(step.end_s > start_s for start_s in self._running.values()):
                self._unjudged.append(step)
            else:
                self._is_undisturbed(step)


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
