"""The gain of each trial: what is believed of it, and the seconds that its checkpoints saved or cost so far.

`saved_s` compares a checkpoint under the change with one under the settings before it.
`total_s` is measured: of every checkpoint under the change, what one under the user's own settings is
believed to cost less what it cost. So the totals of all changes add up to what tuning saved.
"""

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

import msgspec

from ..events import Values
from .decisions import NOT_MADE, Comparison, Decision, Verdict

_ENDS_A_TRIAL = set(Verdict) - NOT_MADE


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that a change saves (costs are negative); `low_s` and `high_s` are the 90 % interval.

    `saved_s` is for one checkpoint, `before_s` what one cost under the settings before. `total_s` is what the
    `checkpoints` under the change saved so far against the user's own settings, expected rework aside.
    """

    checkpoints: int
    before_s: float
    saved_s: float
    low_s: float
    high_s: float
    total_s: float


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
    """The seconds that all changes saved so far, and what those cost that were reverted, signed."""

    total_s: float
    reverted_s: float


def gains(decisions: Sequence[Decision]) -> tuple[GainView, ...]:
    """Return the gains of all trials with a measurement, oldest first."""
    decisions = tuple(decisions)
    found = (
        _gain_of(each, decisions[index + 1 :])
        for index, each in enumerate(decisions)
        if each.verdict is Verdict.TRIAL
    )
    return tuple(view for view in found if view is not None)


def gain(found: Comparison, checkpoints: int, cost_s: float) -> Gain:
    """Return what a trial `found`, whose `checkpoints` cost `cost_s` more than the user's own settings."""
    level_s = sqrt(found.before_s * found.after_s)

    def saved(ratio: float) -> float:
        return level_s * (1 / sqrt(ratio) - sqrt(ratio))

    return Gain(
        checkpoints=checkpoints,
        before_s=found.before_s,
        saved_s=found.before_s - found.after_s,
        low_s=saved(found.high),
        high_s=saved(found.low),
        total_s=-cost_s,
    )


def together(views: Iterable[GainView]) -> Together:
    """Return the sums of `views`."""
    views = tuple(views)
    reverted_s = sum(-each.gain.total_s for each in views if each.verdict is Verdict.REVERTED)
    return Together(sum(each.gain.total_s for each in views), reverted_s)


def _gain_of(trial: Decision, later: Sequence[Decision]) -> GainView | None:
    if trial.comparison is None:
        return None
    end = next((each.verdict for each in later if each.verdict in _ENDS_A_TRIAL), Verdict.TRIAL)
    return GainView(
        generation=trial.generation,
        time_s=trial.time_s,
        rule=trial.rule,
        changes=trial.changes,
        previous=trial.previous,
        verdict=end if end in (Verdict.TRIAL, Verdict.ACCEPTED) else Verdict.REVERTED,
        gain=gain(trial.comparison, trial.checkpoints, trial.cost_s),
    )
