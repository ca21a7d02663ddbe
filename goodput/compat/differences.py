"""Where the two policies differ over one job: by how much, and which rules make it so."""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from ..buckets import FETCH, PRODUCTIVE, REBUILD, RESTORE
from .goodput_utils import BadputType
from .rules import CompatAccount

TOTAL = "total"
_LEAST_S = 1e-6
_PAIRS = "each end less the start before, overlaps twice; each second once"
_RULES: dict[str, tuple[BadputType | None, str]] = {
    TOTAL: (None, "first job start to last end, of a window event to event; all"),
    PRODUCTIVE: (None, "start to next number's start, hangs too; steps less all in them"),
    "device_init": (BadputType.TPU_INITIALIZATION, _PAIRS),
    "training_prep": (BadputType.TRAINING_PREP, _PAIRS),
    "startup": (BadputType.PROGRAM_STARTUP, "first step beyond the mean of the others; all before it, too"),
    "data_loading": (
        BadputType.DATA_LOADING_SYNC,
        "first of a run, last before a disruption; all steps wait for",
    ),
    "checkpoint_save": (
        BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
        "by step the mean of what ranks report; each second once",
    ),
    "checkpoint_restore": (
        BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
        "by step the mean of what ranks report; each second, with rebuilds",
    ),
    "wasted_progress": (
        BadputType.WASTED_PROGRESS_FROM_DISRUPTION,
        "up to the last step's start, 0 if from step 0; up to its end",
    ),
    "recovery": (
        BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION,
        "last step's start to job start, if steps repeat; end to start",
    ),
    "custom": (BadputType.CUSTOM_BADPUT_EVENTS, "only what lies wholly inside one step; each second once"),
    "other": (BadputType.OTHER, "rest, as where step numbers are missing; what nothing claims"),
    "elastic_scale_up": (BadputType.ELASTIC_SCALE_UP, _PAIRS),
    "elastic_slice_down": (BadputType.ELASTIC_SLICE_DOWN, _PAIRS),
    "elastic_reinit": (BadputType.ELASTIC_REINITIALIZATION, _PAIRS),
}
"""Of each kind of time the peer's type, and the rules for it: compat's; conserving's."""
_UNKNOWN = (None, "none, productive or other; a bucket of its own")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of time under both policies, in seconds, and the rules of both: compat's; conserving's."""

    what: str
    conserving_s: float
    compat_s: float
    why: str


def differences(buckets: Mapping[str, float], wall_s: float, compat: CompatAccount) -> list[Difference]:
    """Return every kind of time of which the two accounts differ (seconds), the largest difference first."""
    ours = _by_kind(buckets) | {TOTAL: wall_s}
    theirs = {PRODUCTIVE: compat.productive_s, TOTAL: compat.total_s}
    for kind, (badput, _) in _RULES.items():
        if badput is not None:
            spent_s = compat.badput_s.get(badput, 0.0)
            theirs[kind] = sum(spent_s.values()) if isinstance(spent_s, dict) else spent_s
    found = [
        Difference(what=kind, conserving_s=ours_s, compat_s=theirs_s, why=_RULES.get(kind, _UNKNOWN)[1])
        for kind in {**ours, **theirs}
        if abs((ours_s := ours.get(kind, 0.0)) - (theirs_s := theirs.get(kind, 0.0))) > _LEAST_S
    ]
    return sorted(found, key=lambda each: -abs(each.conserving_s - each.compat_s))


def _by_kind(spent: Mapping[str, float]) -> dict[str, float]:
    """Return our buckets, those of one checkpoint together, custom events together."""
    kinds: defaultdict[str, float] = defaultdict(float)
    for bucket, spent_s in spent.items():
        parts = {RESTORE, FETCH, REBUILD}
        kind = "checkpoint_restore" if bucket in parts else bucket
        for prefix, together in (("checkpoint_", "checkpoint_save"), ("custom", "custom")):
            if bucket.startswith(prefix):
                kind = together
        kinds[kind] += spent_s
    return dict(kinds)
