"""Where the two policies differ over one job, and why: how ours counts, and the peer's rules.

A sentence about the events is given only where the events have what it speaks of, and only for the kinds of
time that it makes larger or smaller in that way; where there is none, how the two define the kind is said.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..buckets import FETCH, PRODUCTIVE, REBUILD, RESTORE
from ..events import GoodputEvent
from .difference_facts import Facts, facts_of
from .rules import CompatAccount
from .types import BadputType

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
    TOTAL: (
        "there from the first start of the job to its last end, of a window from its first event to its last;"
        " here from the first event of the job to the last, of a window all of it"
    ),
    PRODUCTIVE: "there whatever a step took that is not deducted; here the steps less all that lies in them",
    "startup": (
        "there what the first step took beyond the mean of the others; here all before the first step, and"
        " what that took beyond those behind it"
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


def differences(
    buckets: Mapping[str, float], wall_s: float, compat: CompatAccount, events: Sequence[GoodputEvent]
) -> list[Difference]:
    """Every kind of time of which the two accounts of these `events` differ, the largest difference first.

    `buckets` and `wall_s` are those of the conserving ledger, in seconds.
    """
    facts = facts_of(events)
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


def _why(what: str, facts: Facts, ours: Mapping[str, float], *, is_more_there: bool) -> str:
    told = [
        sentence
        for more, less, reason in _REASONS
        if what in (more if is_more_there else less) and (sentence := reason(facts, ours))
    ]
    defined = _DEFINITIONS.get(what) or (_PAIRED_THERE if what in _NAMES else _UNKNOWN_THERE)
    return "; ".join(told) or defined


def _sparse(facts: Facts, _: Mapping[str, float]) -> str:
    if not facts.sparse:
        return ""
    times = "once" if facts.sparse == 1 else f"{facts.sparse} times"
    return f"where numbers of steps are missing ({times}) the time is other there"


def _slow(_: Facts, ours: Mapping[str, float]) -> str:
    is_slow = ours.get("step_slowdown", 0.0) > _LEAST_S
    return "what steps took beyond the reference step time is productive there" if is_slow else ""


def _beside_flushes(_: Facts, ours: Mapping[str, float]) -> str:
    is_slow = ours.get("flush_slowdown", 0.0) > _LEAST_S
    return "what flushes slowed the steps beside them down is productive there" if is_slow else ""


def _hung(facts: Facts, _: Mapping[str, float]) -> str:
    if not facts.hung:
        return ""
    steps = "a step that hung" if facts.hung == 1 else f"{facts.hung} steps that hung"
    return (
        f"{steps}, for more than ten times what those around it took: productive there, recovery where a"
        " restart follows; other here"
    )


def _came_again(facts: Facts, _: Mapping[str, float]) -> str:
    if not facts.came_again:
        return ""
    times = "once" if facts.came_again == 1 else f"{facts.came_again} times"
    return (
        f"numbers of steps come again ({times}) where nobody tells of a restart: a disruption there each"
        " time; here only where a writer's go back"
    )


def _from_zero(facts: Facts, _: Mapping[str, float]) -> str:
    if not facts.from_zero:
        return ""
    times = "once" if facts.from_zero == 1 else f"{facts.from_zero} times"
    return f"steps begin again at 0 ({times}), and what was made before that is other there"


def _many_writers(facts: Facts, _: Mapping[str, float]) -> str:
    count = len(facts.writers)
    return f"there each of {count} writers of steps disrupts the others" if count > 1 else ""


def _late(facts: Facts, _: Mapping[str, float]) -> str:
    if not facts.disordered:
        return ""
    steps = "1 step" if facts.disordered == 1 else f"{facts.disordered} steps"
    return f"{steps} told of behind later ones, and there the order of arrival counts"


def _crossed(facts: Facts, _: Mapping[str, float]) -> str:
    return (
        f"{_events(facts.crossing)} with a step's begin inside: not counted there" if facts.crossing else ""
    )


def _overlapped(facts: Facts, _: Mapping[str, float]) -> str:
    return f"{_events(facts.overlapping)} within others: counted twice there" if facts.overlapping else ""


def _resumed(facts: Facts, _: Mapping[str, float]) -> str:
    if not facts.resumed_after_end:
        return ""
    return (
        "the pause after an end of the job that is no failure: there a part of the last step, or recovery if"
        " steps are computed again; other here"
    )


def _counted_on(facts: Facts, _: Mapping[str, float]) -> str:
    if not facts.counted_on:
        return ""
    runs = (
        "a run whose steps count" if facts.counted_on == 1 else f"{facts.counted_on} runs whose steps count"
    )
    return (
        f"{runs} on from the one before: no disruption there, and the pause is a part of the last step;"
        " recovery here"
    )


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count} events"


_NOTHING: frozenset[str] = frozenset()
_LOST = frozenset({"wasted_progress", "recovery"})
_STEPS = _LOST | {PRODUCTIVE}
_PAIRS = frozenset(_NAMES) - _STEPS - {"startup", "custom", "other"}
_REASONS: tuple[tuple[frozenset[str], frozenset[str], Callable[[Facts, Mapping[str, float]], str]], ...] = (
    (frozenset({"other"}), frozenset({PRODUCTIVE}), _sparse),
    (frozenset({PRODUCTIVE}), frozenset({"step_slowdown"}), _slow),
    (frozenset({PRODUCTIVE}), frozenset({"flush_slowdown"}), _beside_flushes),
    (frozenset({PRODUCTIVE, "recovery"}), frozenset({"other"}), _hung),
    (_LOST | {"other"}, frozenset({PRODUCTIVE}), _came_again),
    (frozenset({"other"}), frozenset({PRODUCTIVE, "wasted_progress"}), _from_zero),
    (frozenset({PRODUCTIVE}), frozenset({"recovery"}), _counted_on),
    (_LOST | {"other"}, frozenset({PRODUCTIVE}), _many_writers),
    (_STEPS | {"other"}, _STEPS | {"other"}, _late),
    (_NOTHING, frozenset({"custom"}), _crossed),
    (_PAIRS, _NOTHING, _overlapped),
    (frozenset({PRODUCTIVE, "recovery"}), frozenset({"other"}), _resumed),
)
"""What each makes larger there, and what smaller."""
