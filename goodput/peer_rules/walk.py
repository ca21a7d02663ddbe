"""One pass over a job's events in their order of arrival, as the peer's rules see them."""

from array import array
from dataclasses import dataclass, field

from ..events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)


@dataclass(frozen=True)
class Segment:
    """Steps by number and when they began (epoch seconds), up to where the work went on at `resumed_at`.

    No step is there twice. `recovery_s` is the time from the last step's begin to the newest start of the
    job, if that is after it.
    """

    steps: "array[int]"
    times_s: "array[float]"
    resumed_at: int
    recovery_s: float | None = None


@dataclass
class Walk:
    """What the events that were handled so far come to.

    A step number that is seen again is a disruption: it closes a segment. `steps` and `times_s` are the one
    that is open at the end. `saves` and `restores` are told as durations there: two epoch times give one back
    to the microsecond. Only the first load after a start or a disruption is synchronous, and the last one
    before the step that tells of a disruption. `loaded_after` segments were closed before the first load.
    """

    first_job_start_s: float | None = None
    job_end_s: float | None = None
    segments: list[Segment] = field(default_factory=list)
    steps: "array[int]" = field(default_factory=lambda: array("q"))
    times_s: "array[float]" = field(default_factory=lambda: array("d"))
    paired_s: dict[str, float] = field(default_factory=dict)
    spans: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    customs: list[tuple[float, float, str]] = field(default_factory=list)
    saves: dict[str, list[float]] = field(default_factory=dict)
    restores: dict[str, list[float]] = field(default_factory=dict)
    loading_s: float = 0.0
    sync_loading_s: float = 0.0
    async_loading_s: float = 0.0
    loaded_after: int | None = None
    _job_start_s: float | None = None
    _seen: set[int] = field(default_factory=set)
    _open: dict[tuple[str, str], float] = field(default_factory=dict)
    _load_is_sync: bool = True
    _last_load_s: float | None = None

    def handle(self, event: GoodputEvent) -> None:
        """Take in the next event."""
        match event:
            case StepStarted():
                self._step(event.step, event.time_s)
            case StepCompleted():
                self._step(event.step, event.start_s)
            case IntervalStarted():
                self._open[_key(event)] = event.time_s
            case IntervalEnded():
                start_s = self._open.pop(_key(event), None)
                if start_s is not None:
                    self._interval(event.kind, start_s, event.time_s, event.name)
            case Interval():
                self._interval(event.kind, event.start_s, event.end_s, event.name)
            case OutputCompleted(checkpoint=True) | RestartCompleted():
                kind = "checkpoint_restore" if isinstance(event, RestartCompleted) else "checkpoint_save"
                self._interval(kind, event.start_s, event.end_s, "")
            case JobStarted() | JobEnded():
                self._job(event)
            case _:
                pass

    def _job(self, event: JobStarted | JobEnded) -> None:
        if isinstance(event, JobEnded):
            self.job_end_s = event.time_s
            return
        self._job_start_s = event.time_s
        if self.first_job_start_s is None:
            self.first_job_start_s = event.time_s

    def _step(self, step: int, time_s: float) -> None:
        if step in self._seen:
            last_s = self.times_s[-1]
            restarted = self._job_start_s is not None and self._job_start_s > last_s
            recovery_s = self._job_start_s - last_s if restarted and self._job_start_s is not None else None
            self.segments.append(Segment(self.steps, self.times_s, step, recovery_s))
            self.steps, self.times_s, self._seen = array("q"), array("d"), set()
            if self._last_load_s is not None:
                self.sync_loading_s += self._last_load_s
                self._last_load_s = None
            self._load_is_sync = True
        self._seen.add(step)
        self.steps.append(step)
        self.times_s.append(time_s)

    def _interval(self, kind: str, start_s: float, end_s: float, name: str) -> None:
        spent_s = end_s - start_s
        match kind:
            case "data_loading":
                self._loaded(spent_s)
            case "data_loading_async":
                self.async_loading_s += spent_s
            case "checkpoint_save":
                self.saves.setdefault(name or f"#{len(self.saves)}", []).append(round(spent_s, 6))
            case "checkpoint_restore":
                self.restores.setdefault(name or f"#{len(self.restores)}", []).append(round(spent_s, 6))
            case "custom":
                if spent_s > 0:
                    self.customs.append((start_s, end_s, name.upper()))
            case _:
                self.paired_s[kind] = self.paired_s.get(kind, 0.0) + spent_s
                if spent_s > 0:
                    self.spans.setdefault(kind, []).append((start_s, end_s))

    def _loaded(self, spent_s: float) -> None:
        self._last_load_s = spent_s
        self.loading_s += spent_s
        if self._load_is_sync:
            self.sync_loading_s += spent_s
            self._load_is_sync = False
        if self.loaded_after is None:
            self.loaded_after = len(self.segments)


def _key(event: IntervalStarted | IntervalEnded) -> tuple[str, str]:
    return event.kind, event.name.upper() if event.kind == "custom" else event.name
