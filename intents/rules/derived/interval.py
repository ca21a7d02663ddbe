"""How long to compute between two checkpoints, in an application that asks SCR_Need_checkpoint.

SCR says that a checkpoint is due when SCR_CHECKPOINT_INTERVAL, _SECONDS or _OVERHEAD does (scr.c:3059): one
of them paces, and the other two are 0. The seconds are counted from the end of the encoding, so that the time
that a flush blocks lies within. The interval is Daly's for what a checkpoint is believed to cost and for the
mean rate of failures that is believed after those seen (:mod:`scrtune.goodput.interval`), within the bounds
of :mod:`.interval_bounds`. A failure that the cache does not survive destroys SCR_FLUSH intervals instead of
one, and counts as so many. scrtune sets none that is longer than the run has lasted: of a young one neither
the costs nor the end are known. What it advises for the next run has no such bound.

It is changed where the user leaves it to scrtune (``--interval auto``), and where it is outside of what they
declared; else it is advice (:mod:`.checkpoint_rate`).
"""

from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from ....goodput.interval.model import daly, goodput
from ....units import rounded_duration_text as _time
from ...events import SettingsObserved, Values, ValueSource
from ...settings import difference, flush_every, is_cached
from ..explain import LeverView
from ..guards import not_by_us
from ..situation import Proposal, Situation
from .interval_bounds import Bound, Bounded, bounded
from .table import INTERVAL_SOURCE

AUTO = "auto"
SECONDS, CALLS, OVERHEAD = "SCR_CHECKPOINT_SECONDS", "SCR_CHECKPOINT_INTERVAL", "SCR_CHECKPOINT_OVERHEAD"
UNSET: Values = {SECONDS: 0, CALLS: 0, OVERHEAD: 0.0}

_AS_FAILURES_HAVE_IT = "checkpoint as often as failures make it pay"
_AS_DECLARED = "checkpoint within what you declared"
_ENOUGH = 3
"""Checkpoints under the settings in use, and checkpoints in a row that SCR_Need_checkpoint asked for."""
_WORTH = 0.05
"""Of the time that checkpoints and failures take now."""
_OUTSIDE = 0.05
"""Of the interval in use: so far it may be from what was declared, for steps are of some length, too."""
_DIGITS = 6
_LARGEST = 2**31 - 1


class WorkBetween(NamedTuple):
    """The work between two checkpoints of `cost_s` each: `present_s` now, `work_s` instead.

    `bound` is what limits it, None: nothing does. A failure destroys an interval every `mtbf_s`. `values` are
    SCR's three parameters, of which one paces. `before` and `after` are goodputs, as far as checkpoints and
    failures go.
    """

    present_s: float
    work_s: float
    bound: Bound | None
    cost_s: float
    mtbf_s: float
    values: Values
    before: float
    after: float

    @property
    def basis(self) -> str:
        """What the interval rests on, in words."""
        every = f"a failure destroys an interval every {_time(self.mtbf_s)}"
        is_said = self.bound is not None and (self.bound.is_declared or self.bound.is_last)
        bound = f"; {self.bound.because}" if self.bound and is_said else ""
        return f"a checkpoint takes {self.cost_s:.3f} s, {every}{bound}"

    @property
    def is_last(self) -> bool:
        """Whether it brings the last checkpoint before the end of the allocation."""
        return self.bound is not None and self.bound.is_last

    @property
    def is_worth_it(self) -> bool:
        """Whether it saves enough of what checkpoints and failures cost now."""
        return self.after - self.before > _WORTH * (1 - self.before)


class IntervalFinding(NamedTuple):
    """The best interval, what it gains, and why the present one stays; `proposal` is None where it does."""

    view: LeverView
    proposal: Proposal | None = None


def is_ours(job: SettingsObserved) -> bool:
    """Return whether scrtune may change the interval: it was left to it, or given a bound."""
    told = job.declared
    bounds = (told.overhead, told.checkpoints_least, told.checkpoints_most)
    return job.interval == AUTO or any(each is not None for each in bounds)


def interval(now: Situation) -> IntervalFinding:
    """Return the interval to set, where there is a better one that scrtune may set."""
    settings = {**UNSET, **now.settings}
    seen = LeverView(name=SECONDS, value=settings[SECONDS], source=INTERVAL_SOURCE)
    if why := _why_stays(now):
        return IntervalFinding(replace(seen, why=why))
    found = pace(now)
    changes, gain = difference(found.values, settings), found.after - found.before
    saved = f"{3600 * max(0.0, gain):.1f} s of an hour"
    seen = replace(seen, other=found.values[SECONDS], gain_s=gain * (found.work_s + found.cost_s))
    if why := next(filter(None, (_why_fixed(name, now) for name in changes)), ""):
        return IntervalFinding(replace(seen, why=why))
    if not changes or not (found.is_worth_it or found.is_last or is_demanded(now)):
        why = f"{found.basis}: another interval would save {saved}, too little"
        return IntervalFinding(replace(seen, why=why))
    because = f"{found.basis}: every {_time(found.work_s)} instead of every {_time(found.present_s)}"
    because += f" saves {saved}" if found.is_worth_it else ""
    proposal = Proposal(
        rule=_AS_FAILURES_HAVE_IT if _is_auto(now) else _AS_DECLARED,
        intent="checkpoint rate",
        changes=changes,
        because=because,
        source=INTERVAL_SOURCE,
        expected_gain_s=seen.gain_s,
    )
    return IntervalFinding(replace(seen, why=because), proposal)


def _why_stays(now: Situation) -> str:
    if now.job is None or not is_ours(now.job):
        return "the interval is yours; scrtune run --interval auto leaves it to scrtune"
    if why := why_unknown(now):
        return why
    return "" if _is_auto(now) or is_demanded(now) else "the interval is yours, and within what you declared"


def _is_auto(now: Situation) -> bool:
    return now.job is not None and now.job.interval == AUTO


def why_unknown(now: Situation) -> str:
    """Return why no interval can be said to be better; empty when it can."""
    if now.obeyed < _ENOUGH:
        return "the last checkpoints were not all those that SCR_Need_checkpoint asked for"
    if min(now.felt_s, present_s(now)) <= 0 or now.intents.flush.evidence.count < _ENOUGH:
        return "what a checkpoint costs is not settled yet"
    return ""


def pace(now: Situation) -> WorkBetween:
    """Return Daly's interval, within all bounds; where only what was declared counts, the one that keeps it.

    What a checkpoint costs must be known (:func:`why_unknown`).
    """
    if not _is_auto(now) and (demanded := _demanded(now)):
        return _pace(now, demanded)
    wanted_s = daly(now.felt_s, interval_mtbf_s(now))
    if _is_auto(now):
        age_s = now.intents.flush.evidence.end_s - now.start_s
        wanted_s = min(wanted_s, max(age_s, present_s(now)))
    return _pace(now, bounded(wanted_s, now, now.felt_s))


def is_demanded(now: Situation) -> bool:
    """Return whether the interval in use is outside of what was declared."""
    return _demanded(now) is not None


def _demanded(now: Situation) -> Bounded | None:
    here_s = present_s(now)
    found = bounded(here_s, now, now.felt_s, declared_only=True)
    return found if abs(found.work_s - here_s) > _OUTSIDE * here_s else None


def _pace(now: Situation, wanted: Bounded) -> WorkBetween:
    flush, cost_s, mtbf_s, here_s = now.intents.flush, now.felt_s, interval_mtbf_s(now), present_s(now)
    if wanted.by is not None and wanted.by.is_overhead:
        values = {**UNSET, OVERHEAD: _percent(now, wanted.work_s)}
        work_s = wanted.work_s
    else:
        seconds = min(_LARGEST, max(1, ceil(round(wanted.work_s + flush.blocked_on_flush_s, _DIGITS))))
        values = {**UNSET, SECONDS: seconds}
        work_s = max(wanted.work_s, seconds - flush.blocked_on_flush_s)
    before, after = (goodput(each_s, cost_s, mtbf_s, now.failures.restart_s) for each_s in (here_s, work_s))
    return WorkBetween(here_s, work_s, wanted.by, cost_s, mtbf_s, values, before, after)


def _percent(now: Situation, work_s: float) -> float:
    """Return the SCR_CHECKPOINT_OVERHEAD by which a checkpoint comes after `work_s`.

    SCR divides its mean cost, without the flush, by that and the time since the last encoding ended.
    """
    flush = now.intents.flush
    counted_s = flush.write_s + flush.encode_s or flush.blocking_s - flush.blocked_on_flush_s or now.felt_s
    return float(f"{100 * counted_s / (counted_s + work_s + flush.blocked_on_flush_s):.3g}")


def in_force(baseline: Values, *jobs: SettingsObserved) -> Values:
    """Return the interval of `baseline`; nothing where by one of the `jobs` it is the user's word."""
    edited = (each.sources.get(name) == ValueSource.EDITED for each in jobs for name in UNSET)
    if any(edited) or not all(map(is_ours, jobs)):
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


def _why_fixed(name: str, now: Situation) -> str:
    only_launch = f"{name}: only a launch can change it" if now.mutability.is_fixed(name) else ""
    return not_by_us(name, now) or only_launch


def present_s(now: Situation) -> float:
    """Return the work between two checkpoints: as set, where that is by seconds alone, or as seen."""
    settings, flush = {**UNSET, **now.settings}, now.intents.flush
    seconds = settings[SECONDS]
    if isinstance(seconds, int) and seconds > 0 and not difference({**UNSET, SECONDS: seconds}, settings):
        return max(10.0**-_DIGITS, seconds - flush.blocked_on_flush_s)
    return flush.interval_s - flush.blocking_s


def interval_mtbf_s(now: Situation) -> float:
    """Return the mean seconds between failures, each counted by the intervals that it destroys."""
    survived = now.failure_rate.cache_share if is_cached(now.settings) else 0.0
    return now.mtbf_s / (survived + flush_every(now.settings) * (1 - survived))
