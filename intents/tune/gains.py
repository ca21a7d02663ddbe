"""The gain of each decision of the tuner: from its trial, and from the checkpoints under it since.

It rests on the comparison of the trial's verdict (:mod:`.comparison`): a change was accepted exactly where
its 90 % interval is above 0. The settings before are not measured once they are replaced: the gain of each
later checkpoint is that of the trial. The cost of a reverted trial is known (:mod:`.trial_costs`).

It is computed by the commands that show it, not by the daemon.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import hypot, sqrt
from typing import NamedTuple

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ..events import Values
from .comparison import Comparison
from .decisions import NOT_MADE, Decision, Verdict

_OPEN_END = 2**63
_ENDS_A_TRIAL = set(Verdict) - NOT_MADE


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that a change saves (costs are negative); `low` and `high` are the 90 % interval.

    `saved_s` is for one checkpoint: the difference of the geometric means over the `pairs` of its trial,
    `before_s` being that under the settings before. The bounds are those of the ratio, at the mean cost of
    the trial. `total_s` is for the `checkpoints` under the change so far: `saved_s` for each, but of a
    reverted trial its cost in the account.
    """

    pairs: int
    before_s: float
    saved_s: float
    low_s: float
    high_s: float
    checkpoints: int
    total_s: float
    total_low_s: float
    total_high_s: float


class GainView(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was tried, its verdict, and its gain."""

    generation: int
    time_s: float
    rule: str
    changes: Values
    previous: Values
    verdict: Verdict
    gain: Gain


class Together(NamedTuple):
    """The seconds that several changes saved so far, with the bounds of the 90 % interval."""

    total_s: float
    low_s: float
    high_s: float


def gains(decisions: Sequence[Decision], costs: Sequence[CheckpointCost]) -> tuple[GainView, ...]:
    """Return the gains of all trials with a measurement, oldest first.

    A change counts until the user's settings come back, or another accepted change replaces it.
    """
    taken = Counter(cost.generation for cost in costs)
    trials = (index for index, each in enumerate(decisions) if each.verdict is Verdict.TRIAL)
    views = (_gain_of(decisions[index], decisions[index + 1 :], taken) for index in trials)
    return tuple(view for view in views if view is not None)


def gain(found: Comparison, checkpoints: int, total_s: float | None = None) -> Gain:
    """Return the gain that a trial `found`, over `checkpoints`; `total_s` is given where it is known."""
    level_s = sqrt(found.before_s * found.after_s)  # shares no noise with the ratio

    def saved(ratio: float) -> float:
        return level_s * (1 / sqrt(ratio) - sqrt(ratio))

    saved_s, low_s, high_s = found.before_s - found.after_s, saved(found.high), saved(found.low)
    if total_s is None:
        total_s = checkpoints * saved_s
    return Gain(
        pairs=found.pairs,
        before_s=found.before_s,
        saved_s=saved_s,
        low_s=low_s,
        high_s=high_s,
        checkpoints=checkpoints,
        total_s=total_s,
        total_low_s=total_s - checkpoints * (saved_s - low_s),
        total_high_s=total_s + checkpoints * (high_s - saved_s),
    )


def together(found: Iterable[Gain]) -> Together:
    """Return the sum of `found`, whose errors are independent: each has a trial of its own."""
    found = tuple(found)
    total_s = sum(each.total_s for each in found)
    return Together(
        total_s,
        total_s - hypot(*(each.total_s - each.total_low_s for each in found)),
        total_s + hypot(*(each.total_high_s - each.total_s for each in found)),
    )


def _gain_of(trial: Decision, later: Sequence[Decision], taken: Mapping[int, int]) -> GainView | None:
    if trial.comparison is None:
        return None
    end = next((each for each in later if each.verdict in _ENDS_A_TRIAL), None)
    if end is None or end.verdict is Verdict.ACCEPTED:
        found = gain(trial.comparison, _checkpoints(trial, end, later, taken))
    else:
        found = gain(trial.comparison, trial.checkpoints, -trial.cost_s)
    return GainView(
        generation=trial.generation,
        time_s=trial.time_s,
        rule=trial.rule,
        changes=trial.changes,
        previous=trial.previous,
        verdict=_verdict(end),
        gain=found,
    )


def _verdict(end: Decision | None) -> Verdict:
    """Return the verdict on a trial that ended with `end`: a run under other settings reverts it."""
    if end is None:
        return Verdict.TRIAL
    return Verdict.ACCEPTED if end.verdict is Verdict.ACCEPTED else Verdict.REVERTED


def _checkpoints(
    trial: Decision, verdict: Decision | None, later: Sequence[Decision], taken: Mapping[int, int]
) -> int:
    """Return the number of checkpoints under a change; `taken` has them by generation."""
    last = _OPEN_END if verdict is None else verdict.generation
    until = last if verdict is None else _replaced(verdict, later)
    return sum(
        count
        for generation, count in taken.items()
        # in a trial the candidate and the incumbent have the generations in turn (`Tuner`)
        if (trial.generation <= generation <= last and (generation - trial.generation) % 2 == 0)
        or last <= generation < until
    )


def _replaced(verdict: Decision, later: Sequence[Decision]) -> int:
    """Return the first generation without the change that was accepted with `verdict`."""
    names = verdict.changes.keys()
    for each in later:
        if each.generation <= verdict.generation:
            continue
        is_users = each.verdict is Verdict.BASELINE or (
            each.verdict is Verdict.REQUIRED and each.source == "user"
        )
        if is_users or (each.verdict is Verdict.ACCEPTED and names & each.changes.keys()):
            return each.generation
    return _OPEN_END
