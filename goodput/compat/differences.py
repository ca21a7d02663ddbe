"""Where the two policies differ over one job: by how much, and which rules make it so."""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from ..buckets import CUSTOM, FETCH, PRODUCTIVE, REBUILD, RESTORE
from .rules import BADPUT, CompatAccount, sum_s

_LEAST_S = 1e-6
_PAIRS = "each end less the start before, overlaps twice; each second once"
_RULES = {
    "total": "first job start to last end, of a window event to event; all",
    PRODUCTIVE: "start to next number's start, hangs too; steps less all in them",
    "device_init": _PAIRS,
    "training_prep": _PAIRS,
    "startup": "first step beyond the mean of the others; all before it, too",
    "data_loading": "first of a run, last before a disruption; all steps wait for",
    "checkpoint_save": "by step the mean of what ranks report; each second once",
    "checkpoint_restore": "by step the mean of what ranks report; each second, with rebuilds",
    "wasted_progress": "up to the last step's start, 0 if from step 0; up to its end",
    "recovery": "last step's start to job start, if steps repeat; end to start",
    "custom": "only what lies wholly inside one step; each second once",
    "other": "rest, as where step numbers are missing; what nothing claims",
    "elastic_scale_up": _PAIRS,
    "elastic_slice_down": _PAIRS,
    "elastic_reinit": _PAIRS,
}
"""The rules for each kind of time: compat's; conserving's."""
_UNKNOWN = "none, productive or other; a bucket of its own"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of time under both policies, in seconds, and the rules of both: compat's; conserving's."""

    what: str
    conserving_s: float
    compat_s: float
    why: str


def differences(buckets: Mapping[str, float], wall_s: float, compat: CompatAccount) -> list[Difference]:
    """Return every kind of time of which the two accounts differ (seconds), the largest difference first."""
    ours = defaultdict[str, float](float)
    for bucket, spent_s in buckets.items():
        ours[_kind(bucket)] += spent_s
    ours["total"] = wall_s
    theirs = defaultdict(float, {PRODUCTIVE: compat.productive_s, "total": compat.total_s})
    for kind in _RULES:
        if kind in BADPUT:
            theirs[kind] = sum_s(compat.badput_s.get(BADPUT[kind], 0.0))
    found = [
        Difference(what=kind, conserving_s=ours[kind], compat_s=theirs[kind], why=_RULES.get(kind, _UNKNOWN))
        for kind in {**ours, **theirs}
        if abs(ours[kind] - theirs[kind]) > _LEAST_S
    ]
    return sorted(found, key=lambda each: -abs(each.conserving_s - each.compat_s))


def _kind(bucket: str) -> str:
    """Return the kind of time in a bucket of ours: those of one checkpoint together, custom ones together."""
    if bucket in {RESTORE, FETCH, REBUILD}:
        return "checkpoint_restore"
    if bucket.startswith("checkpoint_"):
        return "checkpoint_save"
    return "custom" if bucket.startswith(CUSTOM) else bucket
