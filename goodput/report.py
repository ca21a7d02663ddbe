"""What a report of a job shows: its account over time, its events in lanes, its steps and its checkpoints.

A long job is thinned out here, so that what shows it need not care: what lies closer together than a pixel is
one bar, and every bar says how many events it stands for.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TypeVar

import msgspec
import numpy as np

from .checkpoint_cost import CheckpointCost, CheckpointCosts
from .events import (
    AllocationEnded,
    FlushCompleted,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobHalted,
    JobQueued,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    Recovered,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from .ledger import FLUSH_SLOWDOWN, PRODUCTIVE, Account, Ledger, Window
from .sanity import span
from .saves import costs_of_saves

_T = TypeVar("_T")

SLICES = 240
"""Parts of the job's time whose buckets are told one by one."""
BARS = 300
"""Most bars of one lane."""
POINTS = 400
"""Most steps, or checkpoints, that are told one by one."""
_DEVIATIONS = 3
_PERCENTILES = (5, 50, 95, 99)
_BETWEEN_RUNS = (NodeFailed, Recovered, AllocationEnded, JobQueued)

_PARTS = (
    ("apply_s", "tuning"),
    ("wait_s", "wait for a flush"),
    ("write_s", "write"),
    ("encode_s", "encode"),
    ("flush_s", "blocked on flush"),
)
"""The parts of an output, in the order in which SCR does them."""

LANES = (
    "runs",
    "steps",
    "write",
    "encode",
    "blocked on flush",
    "wait for a flush",
    "other checkpoint time",
    "tuning",
    "background flush",
    "restart",
    "rebuild",
    "fetch",
    "scavenge",
)
"""From top to bottom; below them those of the intervals that the job names."""


class Bar(msgspec.Struct, frozen=True):
    """`count` events between `start_s` and `end_s` (epoch seconds) that took `busy_s` together."""

    start_s: float
    end_s: float
    busy_s: float
    count: int = 1
    label: str = ""


class Lane(msgspec.Struct, frozen=True):
    """What happened of one kind, oldest first: `events` of them, as the bars that fit."""

    name: str
    bars: tuple[Bar, ...]
    events: int

    @property
    def is_thinned(self) -> bool:
        """Whether a bar stands for more than one event."""
        return len(self.bars) < self.events


class Disruption(msgspec.Struct, frozen=True):
    """Something that cut the job's work short."""

    time_s: float
    what: str


class StepPoint(msgspec.Struct, frozen=True):
    """`count` steps from number `step` on: median, 5 % and 95 % quantile, and most of what one took."""

    time_s: float
    step: int
    median_s: float
    low_s: float
    high_s: float
    most_s: float
    count: int = 1


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """What the job's steps took; of several ranks' word on one step the slowest counts.

    `ideal_s` is the mean of the steps up to median + 3 median absolute deviations. `bins` are the edges of
    the histogram (s), `heights` its counts: `beyond` steps lie behind the last edge and are in the last bin.
    """

    count: int
    mean_s: float
    ideal_s: float
    percentiles_s: dict[int, float]
    most_s: float
    points: tuple[StepPoint, ...]
    bins: tuple[float, ...]
    heights: tuple[int, ...]
    beyond: int


class CostPoint(msgspec.Struct, frozen=True):
    """Mean of `count` checkpoints from `dataset` on: seconds by part, and when the first began."""

    time_s: float
    dataset: int
    parts: dict[str, float]
    count: int = 1

    @property
    def cost_s(self) -> float:
        """What one cost."""
        return sum(self.parts.values())


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown of one job.

    `slices` have the slowdown by flushes beside those flushes; a sum of them may be below the account's.
    """

    job_name: str
    account: Account
    slices: tuple[Window, ...]
    lanes: tuple[Lane, ...]
    disruptions: tuple[Disruption, ...]
    steps: Steps | None
    costs: tuple[CostPoint, ...]
    checkpoints: int
    events: int

    @property
    def start_s(self) -> float:
        """When the job began, epoch seconds."""
        return self.account.start_s

    @property
    def resolution_s(self) -> float:
        """What lies closer together may be one bar."""
        return self.account.wall_s / BARS


def ledger_of(events: Sequence[GoodputEvent], costs: Iterable[CheckpointCost]) -> Ledger:
    """A ledger that forgets nothing, told of `events` and of what flushes took from the steps."""
    ledger = Ledger(remembered=None)
    ledger.extend(events)
    ledger.charge_slowdown(sum(cost.slowdown_s for cost in costs))
    return ledger


def costs_of(events: Sequence[GoodputEvent]) -> list[CheckpointCost]:
    """What each checkpoint cost; of writers that know nothing of SCR, each save."""
    meter = CheckpointCosts()
    found = [cost for cost in map(meter.handle, events) if cost is not None]
    return found or costs_of_saves(events)


def report(  # noqa: PLR0913 - what it is made of
    job_name: str,
    events: Sequence[GoodputEvent],
    ledger: Ledger,
    now: float,
    costs: Sequence[CheckpointCost],
    *,
    reference_step_s: float | None = None,
) -> Report:
    """What there is to show of a job until `now` (epoch seconds); `events` as they came."""
    account = ledger.account(now, reference_step_s=reference_step_s)
    edges = [account.start_s + account.wall_s * each / SLICES for each in range(SLICES + 1)]
    slices = tuple(
        ledger.window(start_s, end_s, now, reference_step_s=reference_step_s)
        for start_s, end_s in pairwise(edges)
    )
    steps, runs = step_spans(events), _runs(events)
    return Report(
        job_name=job_name,
        account=account,
        slices=tuple(_slowed(slices, costs)) if account.wall_s > 0 else (),
        lanes=tuple(_lanes(events, steps, runs, account.wall_s / BARS)),
        disruptions=tuple(_disruptions(events, runs)),
        steps=_steps(steps),
        costs=tuple(_cost_points(costs, events)),
        checkpoints=len(costs),
        events=len(events),
    )


def step_spans(events: Iterable[GoodputEvent]) -> list[tuple[float, float, int]]:
    """Start, seconds and number of each step of each run, by start; the slowest rank counts.

    A step whose end was not told lasts to its writer's next one; with sparse numbers each of the steps
    between has its share.
    """
    run = 0
    slowest: dict[tuple[int, int], tuple[float, float]] = {}
    begun: dict[str, tuple[int, float]] = {}

    def add(step: int, start_s: float, took_s: float) -> None:
        known = slowest.get((run, step))
        if took_s >= 0 and (known is None or took_s > known[1]):
            slowest[run, step] = (start_s, took_s)

    for event in events:
        match event:
            case JobStarted():
                run += 1
                begun.clear()
            case StepCompleted():
                add(event.step, event.start_s, event.end_s - event.start_s)
            case StepStarted():
                step, before_s = begun.get(event.writer, (event.step, event.time_s))
                begun[event.writer] = (event.step, event.time_s)
                if event.step > step:
                    add(step, before_s, (event.time_s - before_s) / (event.step - step))
            case _:
                pass
    return sorted((start_s, took_s, step) for (_, step), (start_s, took_s) in slowest.items())


def _lanes(
    events: Sequence[GoodputEvent],
    steps: Sequence[tuple[float, float, int]],
    runs: "Sequence[_Run]",
    gap_s: float,
) -> Iterator[Lane]:
    bars: dict[str, list[Bar]] = {name: [] for name in LANES}
    bars["steps"] = [
        Bar(start_s, start_s + took_s, took_s, 1, f"step {step}") for start_s, took_s, step in steps
    ]
    for name, bar in (*_run_bars(runs), *_told(events), *_intervals(events)):
        bars.setdefault(name, []).append(bar)
    for name, made in bars.items():
        if made:
            yield Lane(name, tuple(thinned(made, gap_s)), len(made))


def thinned(bars: Sequence[Bar], gap_s: float) -> list[Bar]:
    """Bars in the order of time; where there are more than :data:`BARS`, near ones are one."""
    bars = sorted(bars, key=lambda bar: bar.start_s)
    if len(bars) <= BARS:
        return bars
    made: list[Bar] = []
    for bar in bars:
        last = made[-1] if made else None
        if last is not None and bar.start_s - last.end_s < gap_s and bar.end_s - last.start_s < 2 * gap_s:
            made[-1] = Bar(
                last.start_s, max(last.end_s, bar.end_s), last.busy_s + bar.busy_s, last.count + bar.count
            )
        else:
            made.append(bar)
    return made


def _slowed(slices: Sequence[Window], costs: Iterable[CheckpointCost]) -> Iterator[Window]:
    """`slices` with the flushes' slowdown where there were flushes: the ledger knows only their sum."""
    weights = np.zeros(len(slices))
    first_s, length_s = slices[0].start_s, slices[-1].end_s - slices[0].start_s
    for cost in costs:
        begin, end = (
            (time_s - first_s) / length_s * len(slices)
            for time_s in (cost.time_s - cost.flush_s, cost.time_s)
        )
        touched = np.arange(max(0, int(begin)), min(len(slices), int(end) + 1))
        overlap = np.minimum(touched + 1, end) - np.maximum(touched, begin)
        if len(touched) and end > begin:
            weights[touched] += max(0.0, cost.slowdown_s) * overlap / (end - begin)
    whole_s = sum(window.buckets[FLUSH_SLOWDOWN] for window in slices)
    scale = whole_s / weights.sum() if weights.sum() else 0.0
    for window, weight in zip(slices, weights.tolist(), strict=True):
        pool_s = window.buckets[PRODUCTIVE] + window.buckets[FLUSH_SLOWDOWN]
        slowed_s = min(pool_s, weight * scale)
        made = {**window.buckets, PRODUCTIVE: pool_s - slowed_s, FLUSH_SLOWDOWN: slowed_s}
        yield msgspec.structs.replace(window, buckets=made)


class _Run(msgspec.Struct):
    """A run up to its last word; `exit_code` once it `is_over`."""

    start_s: float
    end_s: float
    is_over: bool = False
    exit_code: int | None = None


def _runs(events: Iterable[GoodputEvent]) -> list[_Run]:
    events = list(events)
    told = [event for event in events if not isinstance(event, _BETWEEN_RUNS)]
    starts = sorted({event.time_s for event in told if isinstance(event, JobStarted)})
    if not told:
        return []
    runs = [_Run(start_s, start_s) for start_s in starts or [min(span(event)[0] for event in told)]]
    for event in events:
        if isinstance(event, _BETWEEN_RUNS):
            continue
        end_s = span(event)[1]
        run = runs[max(0, bisect_right(starts, end_s) - 1)]
        run.end_s = max(run.end_s, end_s)
        if isinstance(event, (JobEnded, JobHalted)):
            run.is_over = True
            run.exit_code = event.exit_code if isinstance(event, JobEnded) else run.exit_code
    for event in events:
        if isinstance(event, AllocationEnded):  # what follows is no failure
            runs[max(0, bisect_right(starts, event.time_s) - 1)].is_over = True
    return runs


def _run_bars(runs: Sequence[_Run]) -> Iterator[tuple[str, Bar]]:
    for number, run in enumerate(runs, start=1):
        verdict = "broke off" if number < len(runs) else "has not said that it ended"
        if run.is_over:
            verdict = f"ended with exit code {run.exit_code}" if run.exit_code else "ended"
        yield "runs", Bar(run.start_s, run.end_s, run.end_s - run.start_s, 1, f"run {number}: {verdict}")


def _told(events: Iterable[GoodputEvent]) -> Iterator[tuple[str, Bar]]:
    for event in events:
        match event:
            case OutputCompleted():
                yield from _parts(event)
            case FlushCompleted(asynchronous=True):
                text = f"flush of dataset {event.dataset}{'' if event.valid else ', failed'}"
                yield "background flush", Bar(event.start_s, event.end_s, event.flush_s, 1, text)
            case RestartCompleted():
                text = f"dataset {event.dataset} from {event.source}{'' if event.valid else ', failed'}"
                yield "restart", Bar(event.start_s, event.end_s, event.end_s - event.start_s, 1, text)
            case Recovered():
                lane = event.kind if event.kind in LANES else "rebuild"
                text = f"dataset {event.dataset}{'' if event.valid else ', failed'}"
                yield lane, Bar(event.start_s, event.end_s, event.end_s - event.start_s, 1, text)
            case _:
                pass


def _parts(output: OutputCompleted) -> Iterator[tuple[str, Bar]]:
    """An output's parts one behind the other, as the ledger has them."""
    at_s = output.start_s
    parts = [(lane, max(0.0, getattr(output, field))) for field, lane in _PARTS]
    share = min(1.0, output.blocking_s / (sum(took for _, took in parts) or 1.0))
    label = f"{output.name or 'output'} (dataset {output.dataset})"
    for lane, took_s in (*parts, ("other checkpoint time", 0.0)):
        end_s = at_s + took_s * share if lane != "other checkpoint time" else max(at_s, output.end_s)
        if end_s > at_s + 1e-6:
            yield lane, Bar(at_s, end_s, end_s - at_s, 1, label)
        at_s = end_s


def _intervals(events: Iterable[GoodputEvent]) -> Iterator[tuple[str, Bar]]:
    begun: dict[tuple[str, str, str], float] = {}
    for event in events:
        match event:
            case Interval():
                yield _lane_of(event), Bar(event.start_s, event.end_s, event.end_s - event.start_s)
            case IntervalStarted():
                begun[event.kind, event.name, event.writer] = event.time_s
            case IntervalEnded():
                start_s = begun.pop((event.kind, event.name, event.writer), None)
                if start_s is not None and event.time_s >= start_s:
                    yield _lane_of(event), Bar(start_s, event.time_s, event.time_s - start_s)
            case _:
                pass


def _lane_of(event: Interval | IntervalEnded) -> str:
    match event.kind:
        case "checkpoint_save":
            return "other checkpoint time"
        case "checkpoint_restore":
            return "restart"
        case "custom":
            return event.name or "unnamed"
        case _:
            return event.kind.replace("_", " ")


def _disruptions(events: Iterable[GoodputEvent], runs: Sequence[_Run]) -> Iterator[Disruption]:
    """Runs that ended badly, or that another one follows without a word; halts, and nodes that died."""
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
            case JobHalted():
                found.append(
                    Disruption(event.time_s, f"SCR halted the job ({event.reason or 'no reason told'})")
                )
            case NodeFailed():
                found.append(Disruption(event.time_s, f"node {event.node or '(no name)'} failed"))
            case _:
                pass
    yield from sorted(found, key=lambda each: each.time_s)


def _steps(spans: Sequence[tuple[float, float, int]]) -> Steps | None:
    if not spans:
        return None
    took = np.array([each[1] for each in spans])
    middle = float(np.median(took))
    usual = took[took <= middle + _DEVIATIONS * float(np.median(np.abs(took - middle)))]
    percentiles = dict(zip(_PERCENTILES, np.percentile(took, _PERCENTILES).tolist(), strict=True))
    # the few that take many times as long would leave all others in one bin
    limit = min(float(took.max()), max(1.3 * middle, 1.15 * percentiles[99]))
    shown = np.minimum(took, limit)
    heights, edges = np.histogram(shown, bins=min(48, max(8, int(np.sqrt(len(took))) * 2)))
    return Steps(
        count=len(took),
        mean_s=float(took.mean()),
        ideal_s=float(usual.mean()),
        percentiles_s=percentiles,
        most_s=float(took.max()),
        points=tuple(_step_points(spans)),
        bins=tuple(edges.tolist()),
        heights=tuple(heights.tolist()),
        beyond=int((took > limit).sum()),
    )


def _step_points(spans: Sequence[tuple[float, float, int]]) -> Iterator[StepPoint]:
    for part in _grouped(spans):
        took = [each[1] for each in part]
        low_s, middle_s, high_s = np.percentile(took, (5, 50, 95)).tolist()
        yield StepPoint(part[0][0], part[0][2], middle_s, low_s, high_s, max(took), len(part))


def _cost_points(costs: Sequence[CheckpointCost], events: Iterable[GoodputEvent]) -> Iterator[CostPoint]:
    starts: dict[int, list[float]] = {}
    for event in events:
        if isinstance(event, OutputCompleted):
            starts.setdefault(event.dataset, []).append(event.start_s)

    def start_of(cost: CheckpointCost) -> float:  # later runs may count their datasets anew
        known = [start_s for start_s in starts.get(cost.dataset, ()) if start_s <= cost.time_s]
        return max(known, default=cost.time_s - cost.blocking_s)

    for part in _grouped(sorted(costs, key=lambda cost: cost.time_s)):
        rows = [_cost_parts(cost) for cost in part]
        parts = {name: fmean(row[name] for row in rows) for name in rows[0]}
        yield CostPoint(start_of(part[0]), part[0].dataset, parts, len(part))


def _cost_parts(cost: CheckpointCost) -> dict[str, float]:
    parts = {
        "write": cost.write_s,
        "encode": cost.encode_s,
        "blocked on flush": cost.blocked_on_flush_s,
        "wait for a flush": cost.wait_s,
    }
    total_s = sum(parts.values())
    share = min(1.0, cost.blocking_s / total_s) if total_s else 0.0
    parts = {name: part_s * share for name, part_s in parts.items()}
    parts["other checkpoint time"] = max(0.0, cost.blocking_s - sum(parts.values()))
    parts["flush slowdown"] = max(0.0, cost.slowdown_s)
    return parts


def _grouped(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    size = max(1, -(-len(items) // POINTS))
    for index in range(0, len(items), size):
        yield items[index : index + size]
