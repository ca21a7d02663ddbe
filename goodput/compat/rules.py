"""The rules of ml-goodput-measurement 0.2.3 over our events: the policy ``compat``.

The numbers are that library's, its faults included (`docs/goodput-compat.md` lists them): who compares must
get what was got before. Events are taken in their order of arrival, as there, or of their times where that is
all that is known; the writer of an event does not matter. :class:`Walk` takes them in one by one; what its
segments come to is worked out as columns (:mod:`.columns`).
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import modf

import msgspec

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
from ..validation import span
from .goodput_utils import BadputTimes, BadputType

_ROUNDING_S = 1e-5
"""Sums of up to millions of steps, each to the microsecond, may be so much too large."""
_ELASTIC = {
    "elastic_scale_up": BadputType.ELASTIC_SCALE_UP,
    "elastic_slice_down": BadputType.ELASTIC_SLICE_DOWN,
    "elastic_reinit": BadputType.ELASTIC_REINITIALIZATION,
}
_DISCOUNTED = {"device_init": BadputType.TPU_INITIALIZATION, "training_prep": BadputType.TRAINING_PREP}
_ELASTIC_BADPUT = (
    BadputType.ELASTIC_SLICE_DOWN,
    BadputType.ELASTIC_SCALE_UP,
    BadputType.ELASTIC_REINITIALIZATION,
)
_BREAKDOWN_ORDER = (
    BadputType.TPU_INITIALIZATION,
    BadputType.TRAINING_PREP,
    BadputType.DATA_LOADING_SYNC,
    BadputType.DATA_LOADING_ASYNC,
    BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
    BadputType.PROGRAM_STARTUP,
    BadputType.WASTED_PROGRESS_FROM_DISRUPTION,
    BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION,
    BadputType.CUSTOM_BADPUT_EVENTS,
    BadputType.OTHER,
    *_ELASTIC_BADPUT,
)


class CompatError(ValueError):
    """These events have no goodput by the peer's rules; the text says what is wrong with them."""


class CompatAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What the peer's rules make of a job. Times in seconds.

    `badput_s` need not sum to what `total_s` has left beside `productive_s`: ``DATA_LOADING_ASYNC`` overlaps
    with steps, and ``OTHER`` is never below 0. `max_productive_step` is the last step that counts,
    `last_step` the last one that was recorded. `excluded_s` is no part of the total.
    """

    total_s: float
    productive_s: float
    badput_s: BadputTimes
    max_productive_step: int = 0
    last_step: int = 0
    disruptions: int = 0
    elastic: bool = False
    excluded_s: float = 0.0

    @property
    def goodput_percent(self) -> float:
        """Productive time as percent of the total."""
        return self.productive_s / self.total_s * 100

    def breakdown(self) -> BadputTimes:
        """Return badput as percent of the total; what takes the whole of it counts as 0, as it does there."""
        percent: BadputTimes = {}
        for badput in _BREAKDOWN_ORDER:
            if badput in _ELASTIC_BADPUT and not self.elastic:
                continue
            spent_s = self.badput_s.get(badput, {} if badput is BadputType.CUSTOM_BADPUT_EVENTS else 0.0)
            if isinstance(spent_s, dict):
                percent[badput] = {name: self._percent(part_s) for name, part_s in spent_s.items()}
            else:
                percent[badput] = self._percent(spent_s)
        return percent

    def _percent(self, spent_s: float) -> float:
        return spent_s / self.total_s * 100 if 0 < spent_s < self.total_s else 0.0


@dataclass(frozen=True)
class Segment:
    """Steps by number and when they began (epoch seconds), up to where the work went on at `resumed_at`.

    No step is there twice. `recovery` is from the last step's begin to the newest start of the job, if that
    is after it.
    """

    steps: "array[int]"
    times_s: "array[float]"
    resumed_at: int
    recovery: tuple[float, float] | None = None


@dataclass
class Walk:
    """What the events that were taken in so far come to.

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
            case OutputCompleted(checkpoint=True):
                self._interval("checkpoint_save", event.start_s, event.end_s, "")
            case RestartCompleted():
                self._interval("checkpoint_restore", event.start_s, event.end_s, "")
            case JobStarted():
                self._job_start_s = event.time_s
                if self.first_job_start_s is None:
                    self.first_job_start_s = event.time_s
            case JobEnded():
                self.job_end_s = event.time_s
            case _:
                pass

    def _step(self, step: int, time_s: float) -> None:
        if step in self._seen:
            last_s, begun_s = self.times_s[-1], self._job_start_s
            recovery = None if begun_s is None or begun_s <= last_s else (last_s, begun_s)
            self.segments.append(Segment(self.steps, self.times_s, step, recovery))
            self.steps, self.times_s, self._seen = array("q"), array("d"), set()
            self.sync_loading_s += self._last_load_s or 0.0
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


def compat_account(events: Iterable[GoodputEvent], now: float, *, elastic: bool = False) -> CompatAccount:
    """Account for a job until its last end, or until `now` (epoch seconds) if it never ended.

    The clock starts at the first :class:`~.events.JobStarted`. With `elastic`, the waits and
    re-initialisations of an elastic job are badput of their own. Raises :class:`CompatError` where the peer
    raises ``ValueError``: no start of the job, no time at all, or more productive time than time.
    """
    return account_of(_walked(events), now, elastic=elastic)


def account_of(walk: Walk, now: float, *, elastic: bool = False) -> CompatAccount:
    """Account for events that were taken in already: the next ones need not begin anew."""
    return _account(walk, total_s(walk, now), elastic=elastic)


def total_s(walk: Walk, now: float) -> float:
    """Return the seconds from the job's first start to its last end, or to `now` (epoch seconds)."""
    if walk.first_job_start_s is None:
        raise CompatError(
            "no start of the job among the events: record_job_start_time was not called, or the log or the "
            "job name is another one"
        )
    return _whole_us(now if walk.job_end_s is None else walk.job_end_s) - _whole_us(walk.first_job_start_s)


def compat_window(
    events: Iterable[GoodputEvent], start_s: float, end_s: float, *, elastic: bool = False
) -> CompatAccount:
    """Account for the events after `start_s` and up to `end_s` (epoch seconds) as if they were a job's all.

    The total is the time from the first of these events to the last one, not the window's length. Raises
    :class:`CompatError` if there are no two moments to tell of, or more productive time than that.
    """
    inside = [event for event in events if start_s < span(event)[0] <= end_s]
    first_s, last_s = (span(inside[0])[0], span(inside[-1])[0]) if inside else (None, None)
    return window_of(_walked(inside), first_s, last_s, elastic=elastic)


def window_of(walk: Walk, first_s: float | None, last_s: float | None, *, elastic: bool) -> CompatAccount:
    """Account for events that were taken in already, the first and the last of which were at these times."""
    if first_s is None or last_s is None:
        raise CompatError("no events in the window")
    if first_s >= last_s:
        raise CompatError("the window's first event is not before its last one: no time to account for")
    return _account(walk, _whole_us(last_s) - _whole_us(first_s), elastic=elastic)


def _walked(events: Iterable[GoodputEvent]) -> Walk:
    walk = Walk()
    for event in events:
        walk.handle(event)
    return walk


def _account(walk: Walk, total_s: float, *, elastic: bool) -> CompatAccount:
    from .columns import spent  # noqa: PLC0415 - numpy: who never asks shall not pay for it

    productive_s, badput_s, max_step, last_step = spent(walk)
    if elastic:
        _add_elastic(badput_s, walk)
    if total_s == 0:
        raise CompatError("the job took no time at all: its start and its end are the same moment")
    if not 0 <= productive_s <= total_s:
        raise CompatError(
            f"{productive_s!r} s of productive time in {total_s!r} s: {_why(productive_s, total_s)}"
        )
    complete(badput_s, productive_s, total_s)
    return CompatAccount(
        total_s=total_s,
        productive_s=productive_s,
        badput_s=badput_s,
        max_productive_step=max_step,
        last_step=last_step,
        disruptions=len(walk.segments),
        elastic=elastic,
    )


def _why(productive_s: float, total_s: float) -> str:
    """Say why the productive time is none."""
    if productive_s < 0:
        return "saves take more than the steps that count there: those that the next number follows"
    if productive_s - total_s < _ROUNDING_S:
        return "no more than a rounding error, but that is an error there, too"
    return "steps lie outside the job's time, or are of several writers, or are told out of order"


def _add_elastic(badput_s: BadputTimes, walk: Walk) -> None:
    waits = [kind for kind in walk.spans if kind in {"elastic_scale_up", "elastic_slice_down"}]
    for kind in (*waits, "elastic_reinit"):
        if kind in walk.spans:
            badput_s[_ELASTIC[kind]] = sum(end_s - start_s for start_s, end_s in walk.spans[kind])
    # what a re-initialisation has in it is not counted twice
    reinits = walk.spans.get("elastic_reinit", [])
    for kind, badput in _DISCOUNTED.items():
        overlap_s = sum(overlap(*each, reinits) for each in walk.spans.get(kind, ()))
        spent_s = badput_s[badput]
        if overlap_s > 0 and not isinstance(spent_s, dict):
            badput_s[badput] = max(0.0, spent_s - overlap_s)


def overlap(start_s: float, end_s: float, spans: Iterable[tuple[float, float]]) -> float:
    """Return how many of the seconds from `start_s` to `end_s` lie in each of the `spans`, summed."""
    return sum((max(0.0, min(end_s, until_s) - max(start_s, from_s)) for from_s, until_s in spans), 0.0)


def complete(badput_s: BadputTimes, productive_s: float, total_s: float) -> None:
    """Count what is below 0 or above the total as 0, and what is left of the total as OTHER."""
    known_s = 0.0
    for badput, spent_s in badput_s.items():
        if isinstance(spent_s, dict):
            spent_s = {name: part_s if 0 <= part_s <= total_s else 0.0 for name, part_s in spent_s.items()}
        elif not 0 <= spent_s <= total_s:
            spent_s = 0.0
        badput_s[badput] = spent_s
        if badput is not BadputType.DATA_LOADING_ASYNC:
            known_s += sum(spent_s.values()) if isinstance(spent_s, dict) else spent_s
    badput_s[BadputType.OTHER] = max(0.0, total_s - productive_s - known_s)


def _whole_us(time_s: float) -> float:
    """Return the time as a datetime would have it."""
    fraction_s, whole_s = modf(time_s)
    return (int(whole_s) * 1_000_000 + round(fraction_s * 1e6)) / 1_000_000
