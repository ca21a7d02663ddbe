"""The failures of a job: how many, of which kind, and what passed until the work went on."""

from collections.abc import Iterable
from statistics import fmean

import msgspec

from ..events import (
    AllocationEnded,
    GoodputEvent,
    Interval,
    IntervalEnded,
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
from ..ledger.launches import run_starts


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of a job in `observed_s` seconds of running on `nodes` nodes.

    The work went on from the `cache` (or what was rebuilt there) or the `prefix` directory; of `unknown` ones
    nobody said. The restarts are mean seconds from a run's last sign of life to what was read, 0 if none was;
    `restart_s` is that of all kinds.
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


def failures_of(events: Iterable[GoodputEvent]) -> Failures:
    """The failures of one job, of all its events, which are in the order of time, or nearly so.

    A failure is a run that ended badly, or that another one follows without its having ended. What was
    halted, or came to the planned end of its allocation, did not fail, unless a node did. Time counts while a
    run gives signs of life. A run that broke off last is not counted: it may still run.
    """
    events = list(events)
    begins = set(run_starts(events))
    watch = FailureWatch()
    for event in events:
        if not isinstance(event, JobStarted) or event.time_s in begins:
            watch.handle(event)
    return watch.failures


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
        """Ranks may speak before the first start is told: without a step or an output that is no run."""
        self._last_s = 0.0
        self._ended: bool | None = None
        self._planned = self._node_failed = False
        self._failed_s: float | None = None

    def handle(self, event: GoodputEvent) -> None:
        """Take one event in; they come in the order of time, or nearly so."""
        match event:
            case JobStarted():
                self._started(event)
            case JobEnded():
                self._alive(event.time_s)
                self._ended = event.exit_code in (None, 0)
            case JobHalted() | AllocationEnded():
                self._planned = True
            case NodeFailed():
                self._node_failed = True
            case RestartCompleted():
                self._restarted(event)
            case JobQueued() | Recovered() | Interval(kind="queue_wait" | "recovery"):
                pass  # between two runs
            case Interval(kind="checkpoint_restore") | IntervalEnded(kind="checkpoint_restore"):
                self._read("unknown", _end_s(event))
            case StepStarted() | StepCompleted() | OutputCompleted():
                self._alive(_end_s(event))
                self._is_run = True
                self._failed_s = None  # it goes on: what is read later is no restart after a failure
            case _:
                self._alive(_end_s(event))

    @property
    def failures(self) -> Failures:
        """What was seen so far."""
        over = self._ended is False or self._node_failed
        cache, prefix = self._restarts["cache"], self._restarts["prefix"]
        every = [*cache, *prefix, *self._restarts["unknown"]]
        return Failures(
            observed_s=self._observed_s + self._run_s,
            cache=len(cache),
            prefix=len(prefix),
            unknown=self._unknown + (over and not self._planned_end),
            nodes=self._nodes,
            cache_restart_s=fmean(cache) if cache else 0.0,
            prefix_restart_s=fmean(prefix) if prefix else 0.0,
            restart_s=fmean(every) if every else 0.0,
        )

    @property
    def _run_s(self) -> float:
        return 0.0 if self._start_s is None else self._last_s - self._start_s

    @property
    def _planned_end(self) -> bool:
        return self._planned and not self._node_failed

    def _started(self, event: JobStarted) -> None:
        if self._has_start and event.time_s == self._start_s:
            return  # told without a name by more than one
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

    def _alive(self, time_s: float) -> None:
        if self._start_s is None:
            self._start_s = self._last_s = time_s
        self._last_s = max(self._last_s, time_s)

    def _restarted(self, restart: RestartCompleted) -> None:
        if restart.valid:
            self._read("prefix" if restart.source == "prefix" else "cache", restart.end_s)
        else:
            self._alive(restart.end_s)

    def _read(self, level: str, time_s: float) -> None:
        """A checkpoint was read at `level`: the first one after a failure is a restart."""
        self._alive(time_s)
        if self._failed_s is not None:
            self._unknown -= level != "unknown"
            self._restarts[level].append(max(0.0, time_s - self._failed_s))
            self._failed_s = None


def _end_s(event: GoodputEvent) -> float:
    return event.end_s if hasattr(event, "end_s") else event.time_s
