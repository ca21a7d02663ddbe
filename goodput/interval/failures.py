"""The failures of a job: how many, of which kind, and what passed until the work went on."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain
from math import inf
from operator import itemgetter
from statistics import fmean

import msgspec

from .. import events as ev
from ..job_events import JobEvents, Moments
from ..ledger.launches import run_starts
from ..validation import span

_RESTORE = "checkpoint_restore"


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of a job in `observed_s` seconds of running on `nodes` nodes.

    The work went on from the `cache` or the `prefix` directory, of `unknown` ones nobody said. The restarts
    are mean seconds from a run's last sign of life to what was read, 0 if none was.
    """

    observed_s: float = 0.0
    cache: int = 0
    prefix: int = 0
    unknown: int = 0
    nodes: int = 1
    cache_restart_s: float = 0.0
    prefix_restart_s: float = 0.0
    restart_s: float = 0.0

    @property
    def total(self) -> int:
        """Failures of any kind."""
        return self.cache + self.prefix + self.unknown


def failures_of(events: JobEvents) -> Failures:
    """Return the failures of one job, of all its events.

    A failure is a run that ended badly, or that another one follows without its having ended. What was
    halted, or came to the planned end of its allocation, did not fail, unless a node did.
    """
    begins = set(run_starts(events))
    watch = FailureWatch()
    for event in _thinned(events):
        if not isinstance(event, ev.JobStarted) or event.time_s in begins:
            watch.handle(event)
    return watch.failures


def _thinned(events: JobEvents) -> list[ev.GoodputEvent]:
    """Return all by their ends; of steps and borders the first, the last, and those last before others."""
    rare = [(span(event)[1], event) for event in events.others]
    rare += [
        (time_s, ev.IntervalEnded(kind=kind, time_s=time_s))
        for (kind, _, _), borders in events.borders.items()
        if kind == _RESTORE
        for time_s, begins in zip(*borders.columns, strict=True)
        if not begins
    ]

    def kept(columns: Iterable[Moments]) -> set[float]:
        times_s = sorted(time_s for each in columns for time_s in each.ends_s)
        at = (bisect_left(times_s, end_s) for end_s, _ in rare)
        return {*times_s[:1], *times_s[-1:], *(times_s[place - 1] for place in at if place)}

    rare += [(time_s, ev.StepStarted(step=0, time_s=time_s)) for time_s in kept(events.steps)]
    signs = kept(events.borders.values())
    rare += [(time_s, ev.IntervalEnded(kind="custom", time_s=time_s)) for time_s in signs]
    return [event for _, event in sorted(rare, key=itemgetter(0))]


class FailureWatch:
    """The failures of one job, of one event after the other."""

    def __init__(self) -> None:
        self._observed_s = 0.0
        self._nodes = 1
        self._unknown = 0
        self._restarts: dict[str, list[float]] = {"cache": [], "prefix": [], "unknown": []}
        self._start_s: float | None = None
        self._has_start = False
        self._is_run = False
        """Ranks may speak before the first start is reported: without a step or an output that is no run."""
        self._last_s = -inf
        self._ended: bool | None = None
        self._planned = self._node_failed = False
        self._failed_s: float | None = None

    def handle(self, event: ev.GoodputEvent) -> None:
        """Take one event in; they come in the order of time, or nearly so."""
        match event:
            case ev.JobStarted():
                self._started(event)
            case ev.JobHalted() | ev.AllocationEnded():
                self._planned = True
            case ev.NodeFailed():
                self._node_failed = True
            case ev.JobQueued() | ev.Recovered() | ev.Interval(kind="queue_wait" | "recovery"):
                pass  # between two runs
            case _:
                self._lived(event, span(event)[1])

    def _lived(self, event: ev.GoodputEvent, time_s: float) -> None:
        """Take in what the application did until `time_s`."""
        self._start_s = time_s if self._start_s is None else self._start_s
        self._last_s = max(self._last_s, time_s)
        match event:
            case ev.JobEnded():
                self._ended = event.exit_code in (None, 0)
            case ev.RestartCompleted(valid=True):
                self._read("prefix" if event.source == "prefix" else "cache", time_s)
            case ev.Interval(kind="checkpoint_restore") | ev.IntervalEnded(kind="checkpoint_restore"):
                self._read("unknown", time_s)
            case ev.StepStarted() | ev.StepCompleted() | ev.OutputCompleted():
                self._is_run = True
                self._failed_s = None  # it goes on: what is read later is no restart after a failure

    @property
    def failures(self) -> Failures:
        """What was seen so far."""
        failed = self._node_failed or (self._ended is False and not self._planned)
        restarts = {**self._restarts, "any": [*chain.from_iterable(self._restarts.values())]}
        mean_s = {level: fmean(each_s or [0.0]) for level, each_s in restarts.items()}
        return Failures(
            observed_s=self._observed_s + self._run_s,
            cache=len(restarts["cache"]),
            prefix=len(restarts["prefix"]),
            unknown=self._unknown + failed,
            nodes=self._nodes,
            cache_restart_s=mean_s["cache"],
            prefix_restart_s=mean_s["prefix"],
            restart_s=mean_s["any"],
        )

    @property
    def _run_s(self) -> float:
        return 0.0 if self._start_s is None else self._last_s - self._start_s

    def _started(self, event: ev.JobStarted) -> None:
        if self._has_start and event.time_s == self._start_s:
            return  # reported without a name by more than one
        self._nodes = max(1, event.nodes)
        if self._start_s is not None and self._is_run:
            self._observed_s += self._run_s
            failed = self._node_failed or not (self._planned or self._ended)
            self._unknown += failed
            self._failed_s = self._last_s if failed else None
        self._start_s = self._last_s = event.time_s
        self._has_start = self._is_run = True
        self._ended = None
        self._planned = self._node_failed = False

    def _read(self, level: str, time_s: float) -> None:
        """A checkpoint was read at `level`: the first one after a failure is a restart."""
        if self._failed_s is not None:
            self._unknown -= level != "unknown"
            self._restarts[level].append(max(0.0, time_s - self._failed_s))
            self._failed_s = None
