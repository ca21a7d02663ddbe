"""The events of a job as lanes of bars for a report, thinned out to what fits on a page; its disruptions."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec
import numpy as np

from . import buckets
from . import events as ev
from .job_events import JobEvents
from .ledger.launches import run_starts
from .ledger.pairing import whole_intervals
from .readers.launcher_log import is_estimated
from .steps.table import StepRows
from .validation import span

BARS = 300
"""Most bars of one lane."""
_LEAST_S = 1e-6
_NAMED = 3
_BETWEEN_RUNS = (ev.NodeFailed, ev.Recovered, ev.AllocationEnded, ev.JobQueued)

RUNS, STEPS, WORK, BACKGROUND_FLUSH = "runs", "steps", "work between outputs", "background flush"
"""Lanes that are no buckets; all others have the name of the bucket to which their events belong. `WORK`
replaces `STEPS` if the application reports no steps."""

LANES = (
    *(RUNS, STEPS, WORK, buckets.WASTED_PROGRESS),
    *(buckets.CHECKPOINT_WRITE, buckets.CHECKPOINT_ENCODE, buckets.CHECKPOINT_FLUSH, buckets.CHECKPOINT_WAIT),
    *(buckets.CHECKPOINT_OTHER, buckets.TUNING, buckets.OBSERVATION, BACKGROUND_FLUSH),
    *(buckets.RESTORE, buckets.REBUILD, buckets.FETCH, buckets.SCAVENGE),
)
"""From top to bottom; the lanes of other intervals follow."""


class LaneBar(msgspec.Struct, frozen=True):
    """`count` events between `start_s` and `end_s` (epoch seconds) that took `busy_s` together."""

    start_s: float
    end_s: float
    busy_s: float
    count: int = 1
    label: str = ""


class Lane(msgspec.Struct, frozen=True):
    """All events of one kind as bars, oldest first; some of them are joined if `is_thinned`."""

    name: str
    bars: tuple[LaneBar, ...]
    events: int
    is_thinned: bool = False

    @property
    def busy_s(self) -> float:
        """The sum of what the events took, in seconds."""
        return sum(bar.busy_s for bar in self.bars)


class Disruption(msgspec.Struct, frozen=True):
    """An event that cut the job's work short, on `node` or by the word of that writer, if any is named."""

    time_s: float
    kind: str
    node: str = ""

    @property
    def what(self) -> str:
        """The event with its node."""
        return f"{self.kind}: {self.node}" if self.node else self.kind


class RunSpan(msgspec.Struct):
    """A run up to its last event; `exit_code` is known once it `is_over`."""

    start_s: float
    end_s: float
    is_over: bool = False
    exit_code: int | None = None


def lanes(
    events: JobEvents, steps: StepRows, are_wasted: Sequence[bool], gap_s: float, *, has_steps: bool
) -> Iterator[Lane]:
    """Yield every lane that is not empty; bars less than `gap_s` apart may be joined.

    Unless the application `has_steps`, the numbers of steps mean nothing and are not shown.
    """
    bars: dict[str, list[LaneBar]] = {name: [] for name in LANES}
    columns = (each.tolist() for each in (steps.start_s, steps.took_s, steps.steps, steps.number))
    kept = STEPS if has_steps else WORK
    for start_s, took_s, count, number, wasted in zip(*columns, are_wasted, strict=True):
        label = f"step {number}" if has_steps and count == 1 else ""
        busy_s = took_s * count
        bars[buckets.WASTED_PROGRESS if wasted else kept].append(
            LaneBar(start_s, start_s + busy_s, busy_s, count, label)
        )
    whole = (
        (buckets.of_interval(each.kind, each.name), _bar(*span(each))) for each in whole_intervals(events)
    )
    for name, bar in (*_run_bars(runs_of(events)), *_event_bars(events.others), *whole):
        bars.setdefault(name, []).append(bar)
    for name, made in bars.items():
        if made:
            fitting = tuple(thinned(made, gap_s))
            yield Lane(name, fitting, sum(bar.count for bar in made), len(fitting) < len(made))


def thinned(bars: Sequence[LaneBar], gap_s: float) -> list[LaneBar]:
    """Return the bars by start; if there are more than :data:`BARS`, those near each other are joined."""
    bars = sorted(bars, key=attrgetter("start_s"))
    if len(bars) <= BARS:
        return bars
    made = bars[:1]
    for bar in bars[1:]:
        last = made[-1]
        if bar.start_s - last.end_s < gap_s and bar.end_s - last.start_s < 2 * gap_s:
            end_s, busy_s = max(last.end_s, bar.end_s), last.busy_s + bar.busy_s
            made[-1] = LaneBar(last.start_s, end_s, busy_s, last.count + bar.count)
        else:
            made.append(bar)
    return made


def runs_of(events: JobEvents) -> list[RunSpan]:
    """Return the runs in order. An end at the very time of a start belongs to the run before."""
    within = [event for event in events.others if not isinstance(event, _BETWEEN_RUNS)]
    rows = [*events.steps, *events.borders.values()]
    begun_s = np.concatenate([[span(each)[0] for each in within], *(each.starts_s for each in rows)])
    ended_s = np.concatenate([[span(each)[1] for each in within], *(each.ends_s for each in rows)])
    if not len(begun_s):
        return []
    starts_s = run_starts(events) or [float(begun_s.min())]
    last_s = np.array(starts_s)
    np.maximum.at(last_s, np.maximum(np.searchsorted(starts_s, begun_s, "right") - 1, 0), ended_s)
    runs = [RunSpan(*each) for each in zip(starts_s, last_s.tolist(), strict=True)]
    for event in events.others:
        if isinstance(event, ev.AllocationEnded):  # a run that follows does not mean a failure
            runs[max(0, bisect_right(starts_s, event.time_s) - 1)].is_over = True
        elif isinstance(event, (ev.JobEnded, ev.JobHalted)) and not is_estimated(event):
            run = runs[max(0, bisect_left(starts_s, event.time_s) - 1)]
            run.end_s, run.is_over = max(run.end_s, event.time_s), True
            run.exit_code = event.exit_code if isinstance(event, ev.JobEnded) else run.exit_code
    return runs


def disruptions(events: JobEvents) -> list[Disruption]:
    """Return by time failed nodes, and runs that ended badly, or without an end or a halt before others."""
    failed = [event for event in events.others if isinstance(event, ev.NodeFailed)]
    found = [Disruption(event.time_s, "a node failed", event.node) for event in failed]
    for run, later in pairwise(runs_of(events)):
        if not run.is_over and not any(run.start_s <= each.time_s < later.start_s for each in failed):
            found.append(Disruption(run.end_s, "a run broke off"))
    for event in events.others:
        if isinstance(event, ev.JobEnded) and event.exit_code and not is_estimated(event):
            kind = f"a run ended with exit code {event.exit_code}"
            found.append(Disruption(event.time_s, kind, event.writer))
    return sorted(found, key=attrgetter("time_s"))


def by_kind(found: Iterable[Disruption]) -> list[tuple[str, list[Disruption], str]]:
    """Return `found` by kind, the most frequent first, with the nodes that come most often."""
    kinds: dict[str, list[Disruption]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    return [(kind, group, _nodes(group)) for kind, group in ordered]


def _nodes(group: Iterable[Disruption]) -> str:
    counted = Counter(each.node for each in group if each.node).most_common()
    shown = [f"{name} ({count} times)" if count > 1 else name for name, count in counted[:_NAMED]]
    more = [f"{len(counted) - _NAMED} more"] if len(counted) > _NAMED else []
    return ", ".join([*shown, *more])


def _bar(start_s: float, end_s: float, label: str = "") -> LaneBar:
    return LaneBar(start_s, end_s, end_s - start_s, 1, label)


def _run_bars(runs: Sequence[RunSpan]) -> Iterator[tuple[str, LaneBar]]:
    for number, run in enumerate(runs, start=1):
        state = "broke off" if number < len(runs) else "no end reported"
        if run.is_over:
            state = f"ended with exit code {run.exit_code}" if run.exit_code else "ended"
        yield RUNS, _bar(run.start_s, run.end_s, f"run {number}: {state}")


def _event_bars(events: Iterable[ev.GoodputEvent]) -> Iterator[tuple[str, LaneBar]]:
    for event in events:
        match event:
            case ev.OutputCompleted():
                yield from _output_bars(event)
                continue
            case ev.FlushCompleted(asynchronous=True):
                lane, label = BACKGROUND_FLUSH, f"flush of dataset {event.dataset}"
            case ev.RestartCompleted():
                lane, label = buckets.RESTORE, f"dataset {event.dataset} from {event.source}"
            case ev.Recovered():
                lane = event.kind if event.kind in LANES else buckets.REBUILD
                label = f"dataset {event.dataset}"
            case _:
                continue
        yield lane, _bar(event.start_s, event.end_s, label if event.valid else f"{label}, failed")


def _output_bars(output: ev.OutputCompleted) -> Iterator[tuple[str, LaneBar]]:
    """Yield the parts of an output one behind the other, as in the ledger."""
    at_s = output.start_s
    parts = [(lane, max(0.0, getattr(output, field))) for field, lane in buckets.OF_OUTPUT]
    share = min(1.0, output.blocking_s / (sum(took_s for _, took_s in parts) or 1.0))
    label = f"{output.name or 'output'} (dataset {output.dataset})"
    for lane, took_s in parts:
        if took_s * share > _LEAST_S:
            yield lane, _bar(at_s, at_s + took_s * share, label)
            at_s += took_s * share
    if output.end_s - at_s > _LEAST_S:
        yield buckets.CHECKPOINT_OTHER, _bar(at_s, output.end_s, label)
