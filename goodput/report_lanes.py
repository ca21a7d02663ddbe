"""The events of a job in lanes for a report: who did what when, thinned out to what fits on a page."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from . import buckets
from .events import (
    AllocationEnded,
    FlushCompleted,
    GoodputEvent,
    JobEnded,
    JobHalted,
    JobQueued,
    NodeFailed,
    OutputCompleted,
    Recovered,
    RestartCompleted,
)
from .runs.run_starts import run_starts
from .runs.whole_intervals import whole_intervals
from .steps.table import StepRows
from .validation import span

BARS = 300
"""Most bars of one lane."""
_LEAST_S = 1e-6
_BETWEEN_RUNS = (NodeFailed, Recovered, AllocationEnded, JobQueued)

RUNS, STEPS, BACKGROUND_FLUSH = "runs", "steps", "background flush"
"""Lanes of what is no bucket; all others have the names of the buckets that their events claim."""

LANES = (
    RUNS,
    STEPS,
    buckets.WASTED_PROGRESS,
    buckets.CHECKPOINT_WRITE,
    buckets.CHECKPOINT_ENCODE,
    buckets.CHECKPOINT_FLUSH,
    buckets.CHECKPOINT_WAIT,
    buckets.CHECKPOINT_OTHER,
    buckets.TUNING,
    BACKGROUND_FLUSH,
    buckets.RESTORE,
    buckets.REBUILD,
    buckets.FETCH,
    buckets.SCAVENGE,
)
"""From top to bottom; below them those of the intervals that the job tells of itself."""


class LaneBar(msgspec.Struct, frozen=True):
    """`count` events between `start_s` and `end_s` (epoch seconds) that took `busy_s` together."""

    start_s: float
    end_s: float
    busy_s: float
    count: int = 1
    label: str = ""


class Lane(msgspec.Struct, frozen=True):
    """What happened of one kind, oldest first: `events` of them, as the bars that fit.

    `is_thinned` says that bars were joined for that.
    """

    name: str
    bars: tuple[LaneBar, ...]
    events: int
    is_thinned: bool = False


class Disruption(msgspec.Struct, frozen=True):
    """Something that cut the job's work short."""

    time_s: float
    what: str


class Run(msgspec.Struct):
    """A run up to its last word; `exit_code` once it `is_over`."""

    start_s: float
    end_s: float
    is_over: bool = False
    exit_code: int | None = None


def lanes(
    events: Sequence[GoodputEvent],
    steps: StepRows,
    are_wasted: Sequence[bool],
    runs: Sequence[Run],
    gap_s: float,
) -> Iterator[Lane]:
    """Every lane that anything is in; bars less than `gap_s` apart may be joined.

    `are_wasted` says which of the steps were computed again later.
    """
    bars: dict[str, list[LaneBar]] = {name: [] for name in LANES}
    columns = (each.tolist() for each in (steps.start_s, steps.took_s, steps.steps, steps.number))
    for start_s, took_s, count, number, again in zip(*columns, are_wasted, strict=True):
        label = f"step {number}" if count == 1 else ""
        name = buckets.WASTED_PROGRESS if again else STEPS
        bars[name].append(LaneBar(start_s, start_s + took_s * count, took_s * count, count, label))
    for name, bar in (*_run_bars(runs), *_told(events), *_intervals(events)):
        bars.setdefault(name, []).append(bar)
    for name, made in bars.items():
        if made:
            fitting = tuple(thinned(made, gap_s))
            yield Lane(name, fitting, sum(bar.count for bar in made), len(fitting) < len(made))


def thinned(bars: Sequence[LaneBar], gap_s: float) -> list[LaneBar]:
    """Bars in the order of time; where there are more than :data:`BARS`, near ones are one."""
    bars = sorted(bars, key=lambda bar: bar.start_s)
    if len(bars) <= BARS:
        return bars
    made: list[LaneBar] = []
    for bar in bars:
        last = made[-1] if made else None
        if last is not None and bar.start_s - last.end_s < gap_s and bar.end_s - last.start_s < 2 * gap_s:
            made[-1] = LaneBar(
                last.start_s, max(last.end_s, bar.end_s), last.busy_s + bar.busy_s, last.count + bar.count
            )
        else:
            made.append(bar)
    return made


def runs_of(events: Iterable[GoodputEvent]) -> list[Run]:
    """The runs in order; without a word of their start all is one run.

    What ends at the very moment at which a run begins is of the run before: clocks may tell whole seconds.
    """
    events = list(events)
    told = [event for event in events if not isinstance(event, _BETWEEN_RUNS)]
    starts = run_starts(told)
    if not told:
        return []
    runs = [Run(start_s, start_s) for start_s in starts or [min(span(event)[0] for event in told)]]
    for each in told:
        begin_s, end_s = span(each)
        ends = isinstance(each, (JobEnded, JobHalted))
        run = runs[max(0, (bisect_left if ends else bisect_right)(starts, begin_s) - 1)]
        run.end_s = max(run.end_s, end_s)
        if ends:
            run.is_over = True
            run.exit_code = each.exit_code if isinstance(each, JobEnded) else run.exit_code
    for event in events:
        if isinstance(event, AllocationEnded):  # what follows is no failure
            runs[max(0, bisect_right(starts, event.time_s) - 1)].is_over = True
    return runs


def _run_bars(runs: Sequence[Run]) -> Iterator[tuple[str, LaneBar]]:
    for number, run in enumerate(runs, start=1):
        verdict = "broke off" if number < len(runs) else "has not said that it ended"
        if run.is_over:
            verdict = f"ended with exit code {run.exit_code}" if run.exit_code else "ended"
        yield RUNS, LaneBar(run.start_s, run.end_s, run.end_s - run.start_s, 1, f"run {number}: {verdict}")


def _told(events: Iterable[GoodputEvent]) -> Iterator[tuple[str, LaneBar]]:
    for event in events:
        match event:
            case OutputCompleted():
                yield from _parts(event)
            case FlushCompleted(asynchronous=True):
                text = f"flush of dataset {event.dataset}{'' if event.valid else ', failed'}"
                yield BACKGROUND_FLUSH, LaneBar(event.start_s, event.end_s, event.flush_s, 1, text)
            case RestartCompleted():
                text = f"dataset {event.dataset} from {event.source}{'' if event.valid else ', failed'}"
                yield (
                    buckets.RESTORE,
                    LaneBar(event.start_s, event.end_s, event.end_s - event.start_s, 1, text),
                )
            case Recovered():
                lane = event.kind if event.kind in LANES else buckets.REBUILD
                text = f"dataset {event.dataset}{'' if event.valid else ', failed'}"
                yield lane, LaneBar(event.start_s, event.end_s, event.end_s - event.start_s, 1, text)
            case _:
                pass


def _parts(output: OutputCompleted) -> Iterator[tuple[str, LaneBar]]:
    """An output's parts one behind the other, as the ledger has them."""
    at_s = output.start_s
    parts = [(lane, max(0.0, getattr(output, field))) for field, lane in buckets.OF_OUTPUT]
    share = min(1.0, output.blocking_s / (sum(took for _, took in parts) or 1.0))
    label = f"{output.name or 'output'} (dataset {output.dataset})"
    for lane, took_s in parts:
        if took_s * share > _LEAST_S:
            yield lane, LaneBar(at_s, at_s + took_s * share, took_s * share, 1, label)
            at_s += took_s * share
    if output.end_s - at_s > _LEAST_S:
        yield buckets.CHECKPOINT_OTHER, LaneBar(at_s, output.end_s, output.end_s - at_s, 1, label)


def _intervals(events: Iterable[GoodputEvent]) -> Iterator[tuple[str, LaneBar]]:
    for each in whole_intervals(events):
        yield (
            buckets.of_interval(each.kind, each.name),
            LaneBar(each.start_s, each.end_s, each.end_s - each.start_s),
        )


def disruptions(events: Iterable[GoodputEvent], runs: Sequence[Run]) -> Iterator[Disruption]:
    """Runs that ended badly, or that another one follows without a word; nodes that died.

    A job that SCR halted, as it was asked to, ended well.
    """
    events = list(events)
    failures_s = [event.time_s for event in events if isinstance(event, NodeFailed)]
    found = [
        Disruption(run.end_s, "a run broke off")
        for run, later in pairwise(runs)
        if not run.is_over and not any(run.start_s <= time_s < later.start_s for time_s in failures_s)
    ]
    for event in events:
        match event:
            case JobEnded(exit_code=code) if code:
                found.append(Disruption(event.time_s, f"a run ended with exit code {code}"))
            case NodeFailed():
                found.append(Disruption(event.time_s, f"node {event.node or '(no name)'} failed"))
            case _:
                pass
    yield from sorted(found, key=lambda each: each.time_s)
