"""Where the two policies differ over one job, and why: how ours counts, and the peer's rules.

A sentence about the events is given only where the events have what it speaks of; the others say how the two
define a kind of time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence

import msgspec

from .compat_rules import CompatAccount
from .compat_types import BadputType
from .events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    StepCompleted,
    StepStarted,
)
from .sanity import span

PRODUCTIVE = "productive"
TOTAL = "total"
_LEAST_S = 1e-6

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
    TOTAL: "there from the first start of the job to its last end; here from the first event to the last",
    PRODUCTIVE: "there whatever a step took that is not deducted; here the steps less all that lies in them",
    "startup": "there what the first step took beyond the mean of the others; here all before it",
    "data_loading": "there only the first load of a run is badput; here whatever is told as blocking",
    "checkpoint_save": "there the sum of the saves, wherever they lie; here each second once",
    "checkpoint_restore": "there the sum of the restores, wherever they lie; here each second once",
    "wasted_progress": "there up to the begin of the last step; here up to the end of what is known of it",
    "recovery": "there from the begin of the last step to the restart; here from the end of the run",
    "custom": "there only what lies wholly inside one step; here each second once",
    "other": "there what is left of the total, never below 0; here the time that nothing claims",
}
_UNKNOWN_THERE = "the other policy has no such kind: it counts there as productive or other"
_TWICE_THERE = "there the sum over all of them; here each second once"


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
    writers: set[str] = msgspec.field(default_factory=set)
    overlapping: int = 0
    crossing: int = 0
    """Custom events that a step begins in."""
    resumed_after_end: int = 0


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
    found = [
        Difference(
            what=what,
            conserving_s=ours.get(what, 0.0),
            compat_s=theirs.get(what, 0.0),
            why=_why(what, facts, ours),
        )
        for what in {**ours, **theirs}
        if abs(ours.get(what, 0.0) - theirs.get(what, 0.0)) > _LEAST_S
    ]
    return sorted(found, key=lambda each: -abs(each.conserving_s - each.compat_s))


def _by_kind(buckets: Mapping[str, float]) -> dict[str, float]:
    """Our buckets, those of one checkpoint together, custom events together."""
    kinds: dict[str, float] = {}
    for bucket, spent_s in buckets.items():
        kind = bucket
        if bucket in (
            "restore",
            "fetch",
            "rebuild",
            "checkpoint_restore",
            "checkpoint_fetch",
            "checkpoint_rebuild",
        ):
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


def _why(what: str, facts: _Facts, ours: Mapping[str, float]) -> str:
    reasons = [sentence for kinds, reason in _REASONS if what in kinds and (sentence := reason(facts, ours))]
    defined = _DEFINITIONS.get(what) or (_TWICE_THERE if what in _NAMES else _UNKNOWN_THERE)
    return "; ".join([*reasons, defined])


def _sparse(facts: _Facts, _: Mapping[str, float]) -> str:
    if not facts.sparse:
        return ""
    return f"where numbers of steps are missing ({facts.sparse} times) the time is other there"


def _slow(_: _Facts, ours: Mapping[str, float]) -> str:
    is_slow = ours.get("step_slowdown", 0.0) > _LEAST_S
    return "what steps took beyond the reference step time is productive there" if is_slow else ""


def _many_writers(facts: _Facts, _: Mapping[str, float]) -> str:
    count = len(facts.writers)
    return f"there each of {count} writers of steps disrupts the others" if count > 1 else ""


def _late(facts: _Facts, _: Mapping[str, float]) -> str:
    if not facts.disordered:
        return ""
    return f"{_events(facts.disordered)} came late, and there the order of arrival counts"


def _crossed(facts: _Facts, _: Mapping[str, float]) -> str:
    return (
        f"{_events(facts.crossing)} with a step's begin inside: not counted there" if facts.crossing else ""
    )


def _overlapped(facts: _Facts, _: Mapping[str, float]) -> str:
    return f"{_events(facts.overlapping)} within others: counted twice there" if facts.overlapping else ""


def _resumed(facts: _Facts, _: Mapping[str, float]) -> str:
    return (
        "a pause after an end of the job that is no failure is other here" if facts.resumed_after_end else ""
    )


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count} events"


_STEPS = frozenset({PRODUCTIVE, "wasted_progress", "recovery"})
_PAIRS = frozenset(_NAMES) - _STEPS - {"startup", "custom", "other"}
_REASONS: tuple[tuple[frozenset[str], Callable[[_Facts, Mapping[str, float]], str]], ...] = (
    (frozenset({PRODUCTIVE, "other"}), _sparse),
    (frozenset({PRODUCTIVE}), _slow),
    (_STEPS, _many_writers),
    (_STEPS, _late),
    (frozenset({"custom"}), _crossed),
    (_PAIRS, _overlapped),
    (frozenset({"recovery", "other"}), _resumed),
)


def _facts(events: Sequence[GoodputEvent]) -> _Facts:
    facts = _Facts()
    newest_s = float("-inf")
    for event in events:
        end_s = span(event)[1]
        facts.disordered += end_s < newest_s
        newest_s = max(newest_s, end_s)
    intervals: list[tuple[float, float]] = []
    customs: list[tuple[float, float]] = []
    starts: list[float] = []
    opened: dict[tuple[str, str, str], float] = {}
    last: dict[str, int] = {}
    ended = False
    for event in sorted(events, key=lambda event: span(event)[0]):
        match event:
            case StepStarted(step=step, writer=writer) | StepCompleted(step=step, writer=writer):
                facts.writers.add(writer)
                facts.sparse += step > last.get(writer, step) + 1
                last[writer] = step
                starts.append(span(event)[0])
            case IntervalStarted():
                opened[event.kind, event.name, event.writer] = event.time_s
            case IntervalEnded():
                start_s = opened.pop((event.kind, event.name, event.writer), event.time_s)
                (customs if event.kind == "custom" else intervals).append((start_s, event.time_s))
            case Interval():
                (customs if event.kind == "custom" else intervals).append((event.start_s, event.end_s))
            case JobStarted():
                facts.resumed_after_end += ended
                ended = False
            case JobEnded(exit_code=code):
                ended = code in (None, 0)
            case _:
                pass
    facts.overlapping = _overlapping(intervals)
    facts.crossing = _crossing(customs, starts)
    return facts


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
