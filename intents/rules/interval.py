"""The checkpoint interval, where the user leaves it to scrtune and the application asks SCR_Need_checkpoint.

SCR says that a checkpoint is due when SCR_CHECKPOINT_INTERVAL, _SECONDS or _OVERHEAD does (scr.c:3059): the
seconds hold where the other two are 0. They are counted from the end of the encoding, so that the time that a
flush blocks lies within. The interval is Daly's for what a checkpoint is believed to cost and for the mean
rate of failures that is believed after those seen (:mod:`scrtune.goodput.interval`). A failure that the cache
does not survive destroys SCR_FLUSH intervals instead of one, and counts as so many. No interval is made
longer than the run has lasted: of a young one neither the costs nor the end are known.
"""

from math import ceil

import msgspec
from msgspec.structs import replace

from ...goodput.interval.failure_rate import posterior, typical
from ...goodput.interval.failures import Failures
from ...goodput.interval.model import daly, goodput
from ...units import rounded_duration_text as _time
from ..events import Durability, SettingsObserved, Values, ValueSource
from ..observe.redundancy import effective
from ..settings import difference, flush_every, is_asynchronous, is_cached, number
from .explain import LeverView
from .guards import not_by_us
from .situation import Proposal, Situation

AUTO = "auto"
SECONDS = "SCR_CHECKPOINT_SECONDS"
UNSET: Values = {SECONDS: 0, "SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_OVERHEAD": 0.0}
SOURCE = "J. T. Daly, FGCS 22(3), 2006; SCR source (scr.c:3059)"

_ENOUGH = 3
"""Checkpoints under the settings in use, and checkpoints in a row that SCR_Need_checkpoint asked for."""
_WORTH = 0.05
"""Of the time that checkpoints and failures take now."""
_ROOM = 1.5
"""Times its usual duration: an asynchronous flush shall end within the interval."""
_LONGEST_S = 3600.0
_DIGITS = 6
_RARE = 50
"""Checkpoints: they take 2 % of so long an interval, which is not made longer than this and than an hour. The
end of an allocation, which no rate of failures knows, may destroy all of it."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The best interval, the gain of a checkpoint that follows from it, and why the present one stays.

    `proposal` is None where it does.
    """

    view: LeverView
    proposal: Proposal | None = None


def interval(now: Situation, cost_s: float, failures: Failures) -> Interval:
    """Return the best interval where a checkpoint is believed to cost `cost_s`, after these `failures`.

    A cost of 0 is not known, or not before a trial has ended.
    """
    settings, flush = {**UNSET, **now.settings}, now.intents.flush
    present_s = _present_s(now, settings)
    seen = LeverView(name=SECONDS, value=settings[SECONDS], source=SOURCE)
    if why := _why_not(now, cost_s, present_s):
        return Interval(view=replace(seen, why=why))
    mtbf_s = _mtbf_s(now, failures)
    age_s = flush.evidence.end_s - now.start_s
    best_s = _within_bounds_s(now, cost_s, min(daly(cost_s, mtbf_s), max(age_s, present_s)))
    seconds = max(1, ceil(round(best_s + flush.blocked_on_flush_s, _DIGITS)))
    work_s = max(best_s, seconds - flush.blocked_on_flush_s)
    before, after = (goodput(each, cost_s, mtbf_s, failures.restart_s) for each in (present_s, work_s))
    changes = difference({**UNSET, SECONDS: seconds}, settings)
    basis = f"a checkpoint takes {cost_s:.3f} s, a failure destroys an interval every {_time(mtbf_s)}"
    saved = f"{3600 * max(0.0, after - before):.1f} s of an hour"
    seen = replace(seen, other=seconds, gain_s=(after - before) * (work_s + cost_s))
    if why := next(filter(None, (_why_fixed(name, now) for name in changes)), ""):
        return Interval(view=replace(seen, why=why))
    if not changes or after - before <= _WORTH * (1 - before):
        return Interval(view=replace(seen, why=f"{basis}: another interval would save {saved}, too little"))
    proposal = Proposal(
        rule="checkpoint as often as failures make it pay",
        intent="checkpoint interval",
        changes=changes,
        because=f"{basis}: every {_time(work_s)} instead of every {_time(present_s)} saves {saved}",
        source=SOURCE,
        expected_gain_s=seen.gain_s,
    )
    return Interval(view=replace(seen, why=f"{basis}: it would save {saved}"), proposal=proposal)


def in_force(baseline: Values, *jobs: SettingsObserved) -> Values:
    """Return the interval of `baseline`; nothing where by one of the `jobs` it is the user's word."""
    edited = (each.sources.get(name) == ValueSource.EDITED for each in jobs for name in UNSET)
    if any(edited) or any(each.interval != AUTO for each in jobs):
        return {}
    return {name: baseline[name] for name in UNSET if name in baseline}


def users_own(own: Values, baseline: Values) -> Proposal:
    """Return the way back from `baseline` to the interval of the user's `own` settings."""
    changes = {name: own.get(name, unset) for name, unset in UNSET.items()}
    return Proposal(
        rule="your own checkpoint interval",
        intent="your word",
        changes=difference(changes, {**UNSET, **baseline}),
        because="scrtune off",
        source="user",
    )


def _why_not(now: Situation, cost_s: float, present_s: float) -> str:
    if now.job is None or now.job.interval != AUTO:
        return "the interval is yours; scrtune run --interval auto leaves it to scrtune"
    if now.obeyed < _ENOUGH:
        return "the last checkpoints were not all those that SCR_Need_checkpoint asked for"
    if min(cost_s, present_s) <= 0 or now.intents.flush.evidence.count < _ENOUGH:
        return "what a checkpoint costs is not settled yet"
    return ""


def _why_fixed(name: str, now: Situation) -> str:
    only_launch = f"{name}: only a launch can change it" if now.mutability.is_fixed(name) else ""
    return not_by_us(name, now) or only_launch


def _present_s(now: Situation, settings: Values) -> float:
    """Return the work between two checkpoints: as set, where that is by seconds alone, or as seen."""
    flush = now.intents.flush
    seconds = settings[SECONDS]
    if isinstance(seconds, int) and seconds > 0 and not difference({**UNSET, SECONDS: seconds}, settings):
        return max(10.0**-_DIGITS, seconds - flush.blocked_on_flush_s)
    return flush.interval_s - flush.blocking_s


def _mtbf_s(now: Situation, failures: Failures) -> float:
    """Return the mean seconds between failures, each counted by the intervals that it destroys."""
    nodes, settings = now.intents.redundancy.nodes, now.settings
    scheme = effective(str(settings["SCR_COPY_TYPE"]), nodes)
    known = posterior(failures, typical(nodes, survives_node=scheme != "SINGLE"))
    survived = known.cache_share if is_cached(settings) else 0.0
    return known.mtbf_s / (survived + flush_every(settings) * (1 - survived))


def _within_bounds_s(now: Situation, cost_s: float, wanted_s: float) -> float:
    """Return `wanted_s`, but not below what a checkpoint takes, or a flush beside the computation."""
    flush_s = _ROOM * now.intents.flush.flush_s if is_asynchronous(now.settings) else 0.0
    next_waits = now.rails.durability is Durability.NEXT or number(now.settings, "SCR_CACHE_SIZE") == 1
    shortest_s = max(cost_s, flush_s / (1 if next_waits else flush_every(now.settings)))
    return max(shortest_s, min(wanted_s, max(_LONGEST_S, _RARE * cost_s)))
