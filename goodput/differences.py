"""Where the two policies differ over one job, and why: how ours counts, and the peer's rules.

A sentence about the events is given only where the events have what it speaks of, and only for the kinds of
time that it makes larger or smaller in that way; where there is none, how the two define the kind is said.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

import msgspec

from .buckets import FETCH, REBUILD, RESTORE
from .compat_rules import CompatAccount
from .compat_types import BadputType
from .events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from .hangs import AROUND, HUNG
from .sanity import span

PRODUCTIVE = "productive"
TOTAL = "total"
_LEAST_S = 1e-6
_STEPPING = (StepStarted, StepCompleted)
_GOES_BACK = frozenset({"checkpoint_restore", "elastic_reinit"})
"""Kinds of intervals after which steps may be computed again."""

_NAMES = {
    "device_init": BadputType.TPU_INITIALIZATION,
    "training_prep": BadputType.TRAINING_PREP,
    "startup": BadputType.PROGRAM_STARTUP,
    "data_loading": BadputType.DATA_LOADING_SYNC,
    "checkpoint_save": BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    "checkpoint_restore": BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
    "wasted_progress": BadputType.WASTED_PROGRESS_FROM_DISRUPTION,
    "recovery": BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION,
    "custom": BadputType.CUSTOM_BADPUT_EVENTS,
    "other": BadputType.OTHER,
    "elastic_scale_up": BadputType.ELASTIC_SCALE_UP,
    "elastic_slice_down": BadputType.ELASTIC_SLICE_DOWN,
    "elastic_reinit": BadputType.ELASTIC_REINITIALIZATION,
}
"""The same kind of time in both: our name, and the peer's type."""

_DEFINITIONS = {
    TOTAL: (
        "there from the first start of the job to its last end, of a window from its first event to its last;"
        " here from the first event of the job to the last, of a window all of it"
    ),
    PRODUCTIVE: "there whatever a step took that is not deducted; here the steps less all that lies in them",
    "startup": (
        "there what the first step took beyond the mean of the others; here all before the first step, and"
        " what that took beyond the second one"
    ),
    "data_loading": (
        "there only the first load of a run is badput, though its document says it is the time spent on"
        " loading each batch; here, as that says, all that is told as loading the steps wait for"
    ),
    "checkpoint_save": (
        "there of each save the mean of what is told of it by its name, summed, wherever they lie; here each"
        " second of any of them once, less what settings took"
    ),
    "checkpoint_restore": (
        "there of each restore the mean of what is told of it by its name, summed, wherever they lie; here"
        " each second of any of them once, with what SCR fetched and rebuilt for it"
    ),
    "wasted_progress": "there up to the begin of the last step; here up to the end of what is known of it",
    "recovery": "there from the begin of the last step to the restart; here from the end of the run",
    "custom": "there only what lies wholly inside one step; here each second once",
    "other": "there what is left of the total, never below 0; here the time that nothing claims",
}
_UNKNOWN_THERE = "the other policy has no such kind: it counts there as productive or other"
_PAIRED_THERE = (
    "there each end with the last start before it, whoever told them, summed; here each second once, also of"
    " what no end was told of"
)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of time under both policies, in seconds, and why they differ."""

    what: str
    conserving_s: float
    compat_s: float
    why: str


class _Facts(msgspec.Struct):
    """What the events have that the two policies take differently."""

    sparse: int = 0
    """Steps before which a number is missing."""
    disordered: int = 0
    """Steps that were told of behind later ones."""
    writers: set[str] = msgspec.field(default_factory=set)
    overlapping: int = 0
    crossing: int = 0
    """Custom events that a step begins in."""
    resumed_after_end: int = 0
    hung: int = 0
    """Steps that took more than ten times as long as those around them."""
    came_again: int = 0
    """Steps with no higher number than the one before, where nobody told of a restart."""


def differences(
    buckets: Mapping[str, float], wall_s: float, compat: CompatAccount, events: Sequence[GoodputEvent]
) -> list[Difference]:
    """Every kind of time of which the two accounts of these `events` differ, the largest difference first.

    `buckets` and `wall_s` are those of the conserving ledger, in seconds.
    """
    facts = _facts(events)
    ours = _by_kind(buckets)
    theirs = {name: _seconds(compat, badput) for name, badput in _NAMES.items()}
    theirs |= {PRODUCTIVE: compat.productive_s, TOTAL: compat.total_s}
    ours[TOTAL] = wall_s
    found: list[Difference] = []
    for what in {**ours, **theirs}:
        here_s, there_s = ours.get(what, 0.0), theirs.get(what, 0.0)
        if abs(here_s - there_s) > _LEAST_S:
            why = _why(what, facts, ours, is_more_there=there_s > here_s)
            found.append(Difference(what=what, conserving_s=here_s, compat_s=there_s, why=why))
    return sorted(found, key=lambda each: -abs(each.conserving_s - each.compat_s))


def _by_kind(spent: Mapping[str, float]) -> dict[str, float]:
    """Our buckets, those of one checkpoint together, custom events together."""
    kinds: dict[str, float] = {}
    for bucket, spent_s in spent.items():
        kind = bucket
        if bucket in (RESTORE, FETCH, REBUILD):
            kind = "checkpoint_restore"
        elif bucket.startswith("checkpoint_"):
            kind = "checkpoint_save"
        elif bucket.startswith("custom"):
            kind = "custom"
        kinds[kind] = kinds.get(kind, 0.0) + spent_s
    return kinds


def _seconds(compat: CompatAccount, badput: BadputType) -> float:
    spent_s = compat.badput_s.get(badput, 0.0)
    return sum(spent_s.values()) if isinstance(spent_s, dict) else spent_s


def _why(what: str, facts: _Facts, ours: Mapping[str, float], *, is_more_there: bool) -> str:
    told = [
        sentence
        for more, less, reason in _REASONS
        if what in (more if is_more_there else less) and (sentence := reason(facts, ours))
    ]
    defined = _DEFINITIONS.get(what) or (_PAIRED_THERE if what in _NAMES else _UNKNOWN_THERE)
    return "; ".join(told) or defined


def _sparse(facts: _Facts, _: Mapping[str, float]) -> str:
    if not facts.sparse:
        return ""
    times = "once" if facts.sparse == 1 else f"{facts.sparse} times"
    return f"where numbers of steps are missing ({times}) the time is other there"


def _slow(_: _Facts, ours: Mapping[str, float]) -> str:
    is_slow = ours.get("step_slowdown", 0.0) > _LEAST_S
    return "what steps took beyond the reference step time is productive there" if is_slow else ""


def _beside_flushes(_: _Facts, ours: Mapping[str, float]) -> str:
    is_slow = ours.get("flush_slowdown", 0.0) > _LEAST_S
    return "what flushes slowed the steps beside them down is productive there" if is_slow else ""


def _hung(facts: _Facts, _: Mapping[str, float]) -> str:
    if not facts.hung:
        return ""
    steps = "a step that hung" if facts.hung == 1 else f"{facts.hung} steps that hung"
    return (
        f"{steps}, for more than ten times what those around it took: productive there, recovery where a"
        " restart follows; other here"
    )


def _came_again(facts: _Facts, _: Mapping[str, float]) -> str:
    if not facts.came_again:
        return ""
    times = "once" if facts.came_again == 1 else f"{facts.came_again} times"
    return (
        f"numbers of steps come again ({times}) where nobody tells of a restart: a disruption there; here"
        " steps are computed again only behind a job start or a checkpoint that is read"
    )


def _many_writers(facts: _Facts, _: Mapping[str, float]) -> str:
    count = len(facts.writers)
    return f"there each of {count} writers of steps disrupts the others" if count > 1 else ""


def _late(facts: _Facts, _: Mapping[str, float]) -> str:
    if not facts.disordered:
        return ""
    steps = "1 step" if facts.disordered == 1 else f"{facts.disordered} steps"
    return f"{steps} told of behind later ones, and there the order of arrival counts"


def _crossed(facts: _Facts, _: Mapping[str, float]) -> str:
    return (
        f"{_events(facts.crossing)} with a step's begin inside: not counted there" if facts.crossing else ""
    )


def _overlapped(facts: _Facts, _: Mapping[str, float]) -> str:
    return f"{_events(facts.overlapping)} within others: counted twice there" if facts.overlapping else ""


def _resumed(facts: _Facts, _: Mapping[str, float]) -> str:
    if not facts.resumed_after_end:
        return ""
    return "the pause after an end of the job that is no failure: a part of the last step there, other here"


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count} events"


_NOTHING: frozenset[str] = frozenset()
_LOST = frozenset({"wasted_progress", "recovery"})
_STEPS = _LOST | {PRODUCTIVE}
_PAIRS = frozenset(_NAMES) - _STEPS - {"startup", "custom", "other"}
_REASONS: tuple[tuple[frozenset[str], frozenset[str], Callable[[_Facts, Mapping[str, float]], str]], ...] = (
    (frozenset({"other"}), frozenset({PRODUCTIVE}), _sparse),
    (frozenset({PRODUCTIVE}), frozenset({"step_slowdown"}), _slow),
    (frozenset({PRODUCTIVE}), frozenset({"flush_slowdown"}), _beside_flushes),
    (frozenset({PRODUCTIVE, "recovery"}), frozenset({"other"}), _hung),
    (_LOST | {"other"}, frozenset({PRODUCTIVE}), _came_again),
    (_LOST | {"other"}, frozenset({PRODUCTIVE}), _many_writers),
    (_STEPS | {"other"}, _STEPS | {"other"}, _late),
    (_NOTHING, frozenset({"custom"}), _crossed),
    (_PAIRS, _NOTHING, _overlapped),
    (frozenset({PRODUCTIVE, "recovery"}), frozenset({"other"}), _resumed),
)
"""What each makes larger there, and what smaller."""


def _facts(events: Sequence[GoodputEvent]) -> _Facts:
    look = _Look()
    newest_s = float("-inf")
    for event in events:
        if isinstance(event, _STEPPING):
            start_s = span(event)[0]
            look.facts.disordered += start_s < newest_s
            newest_s = max(newest_s, start_s)
    for event in sorted(events, key=lambda event: span(event)[0]):
        look.take(event)
    return look.result()


class _Look:
    """Looks at events in the order in which they began."""

    def __init__(self) -> None:
        self.facts = _Facts()
        self._intervals: list[tuple[float, float]] = []
        self._customs: list[tuple[float, float]] = []
        self._starts: list[float] = []
        self._open: dict[tuple[str, str, str], float] = {}
        self._last: dict[str, int] = {}
        """The last step of each writer since a run began, or a checkpoint was read."""
        self._run: dict[str, list[tuple[float, int]]] = {}
        """The steps of each writer in this run that only said when they began."""
        self._ended = False
        self._end_s: float | None = None
        """When this run said last that it ended."""

    def take(self, event: GoodputEvent) -> None:
        """Take in the next one."""
        match event:
            case StepStarted() | StepCompleted():
                self._step(event)
            case IntervalStarted():
                self._open[event.kind, event.name, event.writer] = event.time_s
                self._restarted(event.kind)
            case IntervalEnded():
                start_s = self._open.pop((event.kind, event.name, event.writer), event.time_s)
                self._interval(event.kind, start_s, event.time_s)
            case Interval():
                self._interval(event.kind, event.start_s, event.end_s)
                self._restarted(event.kind)
            case RestartCompleted(valid=True):
                self._last.clear()
            case JobStarted():
                self._run_ended()
                self.facts.resumed_after_end += self._ended
                self._ended = False
            case JobEnded(exit_code=code):
                self._ended = code in (None, 0)
                self._end_s = event.time_s
            case _:
                pass

    def result(self) -> _Facts:
        """What was seen."""
        self._run_ended()
        self.facts.overlapping = _overlapping(self._intervals)
        self.facts.crossing = _crossing(self._customs, self._starts)
        return self.facts

    def _step(self, event: StepStarted | StepCompleted) -> None:
        facts, step, start_s = self.facts, event.step, span(event)[0]
        facts.writers.add(event.writer)
        last = self._last.get(event.writer)
        if last is not None:
            facts.sparse += step > last + 1
            facts.came_again += step <= last
        self._last[event.writer] = step
        self._starts.append(start_s)
        if type(event) is StepStarted:
            self._run.setdefault(event.writer, []).append((start_s, step))

    def _interval(self, kind: str, start_s: float, end_s: float) -> None:
        (self._customs if kind == "custom" else self._intervals).append((start_s, end_s))

    def _restarted(self, kind: str) -> None:
        if kind in _GOES_BACK:
            self._last.clear()

    def _run_ended(self) -> None:
        for told in self._run.values():
            if self._end_s is not None and len(told) > 1:  # the last step is one like the one before it
                told.append((self._end_s, 2 * told[-1][1] - told[-2][1]))
            self.facts.hung += _hangs(told)
        self._end_s = None
        self._run.clear()
        self._last.clear()


def _hangs(starts: Sequence[tuple[float, int]]) -> int:
    """How many steps of one writer in one run took far longer than those around them."""
    rates = [(late - early) / max(1, after - step) for (early, step), (late, after) in pairwise(starts)]
    count = 0
    for index, rate in enumerate(rates[1:], start=1):  # the first one compiles
        if rate > HUNG * min(rates[max(0, index - AROUND) : index]):
            around = rates[max(0, index - AROUND) : index] + rates[index + 1 : index + 1 + AROUND]
            count += rate > HUNG * median(around) > 0
    return count


def _overlapping(intervals: list[tuple[float, float]]) -> int:
    """How many begin before one that began earlier has ended."""
    count, end_s = 0, float("-inf")
    for start_s, stop_s in sorted(intervals):
        count += start_s < end_s
        end_s = max(end_s, stop_s)
    return count


def _crossing(customs: list[tuple[float, float]], starts: list[float]) -> int:
    """How many have a step's begin inside; `starts` is sorted."""
    return sum(bisect_right(starts, start_s) < bisect_left(starts, end_s) for start_s, end_s in customs)
