"""The choice of the next settings: expected net saving over the rest of the job, inside the trial budget.

A candidate may be tried when it is expected to save more than noise, is probably not worse than the user's
own settings, and the upper end of what it may cost, with the way there and back, fits into the budget. The
user's own settings are measured again while the belief is in doubt about them.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...settings import is_cached
from ..belief.belief import Belief
from ..belief.model import LOWEST
from ..belief.quantiles import quantile
from ..belief.shape import Array

Mask = NDArray[np.bool_]

OWN = 0
WORSE = 1.02
_SURELY_WORSE = 0.7
_FAR = 0.35
_SURE_OF_OWN = 2
_REPLAY_WAYS, _UNSURE_WAYS = 4, 2
_MOST_RISK, _NO_RISK, _MOST_BLIND, _MOST_BEYOND = 0.2, 0.02, 0.12, 0.5
_HUGE = 0.65
LEAST_GAIN, _LEAST_P = 0.03, 0.7
_LEAST_NET = 0.3
_NOTHING_S = 5e-4
_TAIL_CURIOUS, _LEAST_P_CURIOUS, _LEAST_P_AGAIN = 0.95, 0.02, 0.15
_OF_THE_EARNED, _OF_THE_REST = 0.02, 0.04
_MOST_REPLAYS, _SURE, _FASTER, _CHECKED = 4, 0.04, 0.5, 100


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Why a candidate is tried: gain and probabilities against the settings that it may replace."""

    index: int
    gain_s: float
    p_better: float
    net_s: float


class View(NamedTuple):
    """What the choice is made from: `seen` counts checkpoints by candidate, `remaining` are expected to come.

    `there_s` are the seconds of going to each candidate, `back_s` of returning, `forced_s` of the flush that
    a re-init now waits for or forces. `left_s` is the trial budget, `claimed_s` what of it came after the
    first credit, and `earned_s` what did so surely. `flush_share` is the incumbent's last flush to what is
    believed of it.
    """

    belief: Belief
    incumbent: int
    seen: Counter[int]
    there_s: Array
    back_s: Array
    left_s: float
    earned_s: float
    claimed_s: float
    remaining: int
    forced_s: float = 0.0
    flush_share: float = 1.0


def p_better(view: View, index: int) -> float:
    """Return the probability that `index` is cheaper than the incumbent."""
    totals = view.belief.totals
    return float(np.mean(totals[index] < totals[view.incumbent]))


def p_worse(view: View) -> Array:
    """Return the probability of each candidate to cost over 2 % more than the user's own settings."""
    totals = view.belief.totals
    return np.asarray((totals > WORSE * totals[OWN]).mean(axis=1))


def is_blind_bet(view: View, index: int) -> bool:
    """Return whether a candidate is worse more probably than its gain is worth, before a flush was measured.

    By the square of the share that is saved if it is a gain, and 0.12 at most: the next flush will tell.
    """
    gain = view.belief.totals[view.incumbent] - view.belief.totals
    most = np.clip(_share(view, gain)[index] ** 2, _NO_RISK, _MOST_BLIND)
    return bool(p_worse(view)[index] > most)


def is_surely_worse(view: View) -> bool:
    """Return whether the incumbent probably costs over 2 % more than the user's own settings."""
    return bool(p_worse(view)[view.incumbent] > _SURELY_WORSE)


def is_replay_due(view: View, replays: int) -> bool:
    """Return whether the user's own settings have to be measured again, after so many `replays`."""
    best, totals = view.incumbent, view.belief.totals
    if best == OWN or replays >= _MOST_REPLAYS:
        return False
    ratio = float(np.mean(totals[best]) / np.mean(totals[OWN]))
    # the only observation may be a spike; without any the machine has changed since
    is_unsure = view.seen[OWN] < (1 if replays else _SURE_OF_OWN) and ratio > _FAR
    ways_s = float(view.there_s[OWN] + view.back_s[OWN])
    if (_UNSURE_WAYS if is_unsure else _REPLAY_WAYS) * ways_s > view.left_s:
        return False
    is_doubted = view.seen[best] >= 3 * (1 + replays) and float(np.mean(totals[OWN] < totals[best])) > _SURE
    # a spike makes a flush longer; shorter it becomes by the prefix directory, which is the user's own, too
    is_overtaken = view.flush_share < min(_FASTER, ratio)
    # a job's first checkpoints may all have been slow: what is claimed is checked when that takes 1 % of it
    price_s = ways_s + float(np.mean(totals[OWN] - totals[best]))
    is_paid_for = replays == 0 and ratio > _FAR and view.claimed_s > _CHECKED * price_s
    return is_doubted or is_unsure or is_overtaken or is_paid_for


def best(view: View, veto: Callable[[int], str | None], banned: Collection[int]) -> Choice | None:
    """Return the candidate to try next, or None: the highest expected net saving that nothing stops."""
    totals = view.belief.totals
    gain = totals[view.incumbent] - totals
    net, looks = _net(gain, view), _is_worth_a_look(view, gain)
    allowed = _is_promising(view, gain, net, looks) & _is_safe(view, gain, looks)
    allowed[[view.incumbent, *banned]] = False
    for index in np.argsort(-net, kind="stable"):
        if allowed[index] and veto(int(index)) is None:
            return Choice(
                index=int(index),
                gain_s=float(gain[index].mean()),
                p_better=float((gain[index] > 0).mean()),
                net_s=float(net[index]),
            )
    return None


def why_not(view: View, index: int) -> str:
    """Return why the candidate `index` is not tried now; empty when nothing but a better one is before it."""
    totals = view.belief.totals
    gain = totals[view.incumbent] - totals
    now_s, mean_s = float(totals[view.incumbent].mean()), float(gain[index].mean())
    better = float((gain[index] > 0).mean())
    if abs(mean_s) < _NOTHING_S:
        return "expected to make no difference"
    if mean_s <= 0:
        return f"expected to cost {-mean_s:.3f} s more"
    what = f"expected to save {mean_s:.3f} s of {now_s:.3f} s a checkpoint"
    if mean_s <= LEAST_GAIN * now_s or better < _LEAST_P:
        return f"{what}, with probability {better:.2f}: not told from noise"
    looks = _is_worth_a_look(view, gain)
    if not _is_promising(view, gain, _net(gain, view), looks)[index]:
        there_s = float(view.there_s[index])
        return (
            f"{what}: does not pay for trying it, and for {there_s:.3f} s of going there" if there_s else what
        )
    if not _is_safe(view, gain, looks)[index]:
        lost_s = float(np.maximum(0.0, _lost_s(view, gain)[index]).mean())
        return (
            f"{what}, but with probability {risk(view, gain)[index]:.2f} it loses more than the"
            f" {max(0.0, view.left_s):.3f} s that are left of the trial budget, {lost_s:.3f} s on the mean"
        )
    return ""


def _net(gain: Array, view: View) -> Array:
    """Return the expected net saving: a change that is no gain is taken back after two checkpoints."""
    up, down = np.maximum(gain, 0).mean(axis=1), np.maximum(-gain, 0).mean(axis=1)
    back = (gain <= 0).mean(axis=1)
    return np.asarray(view.remaining * up - 2 * down - view.there_s - back * view.back_s)


def _is_promising(view: View, gain: Array, net: Array, looks: Mask) -> Mask:
    now_s = float(view.belief.totals[view.incumbent].mean())
    likely = ((gain > 0).mean(axis=1) >= _LEAST_P) & (gain.mean(axis=1) > LEAST_GAIN * now_s)
    return np.asarray((net > _LEAST_NET * now_s) & likely | looks)


def _most_lost_s(view: View) -> Array:
    """Return the upper end (95 %) of what a look at each candidate loses against the incumbent, both ways."""
    lost_s = view.belief.felt - view.belief.felt[view.incumbent]
    return np.asarray(quantile(lost_s, _TAIL_CURIOUS) + view.there_s + view.back_s)


def _is_worth_a_look(view: View, gain: Array) -> Mask:
    """Return which candidates may be better in the other tier, where one checkpoint has used it at most.

    No other measurement says how fast that is, and the one may have been a spike: finding it out may cost
    what the job has earned. For a fiftieth of that, or 4 % of what the rest of the job is expected to cost,
    it is found out of a tier that was never used, however sure the belief is.
    """
    cached = np.array([is_cached(each) for each in view.belief.candidates])
    seen = Counter(bool(cached[index]) for index in view.seen.elements())
    looks = np.where(cached, seen[True], seen[False])
    most_lost_s = _most_lost_s(view)
    rest_s = view.remaining * float(view.belief.totals[view.incumbent].mean())
    little_s = max(_OF_THE_EARNED * view.earned_s, _OF_THE_REST * rest_s)
    least_unused = np.where(most_lost_s < little_s, 0.0, _LEAST_P_CURIOUS)
    least = np.where(looks == 0, least_unused, _LEAST_P_AGAIN)
    is_other = cached != cached[view.incumbent]
    may_be = is_other & (looks <= 1) & ((gain > 0).mean(axis=1) >= least)
    return np.asarray(may_be & (most_lost_s < view.earned_s))


def _is_safe(view: View, gain: Array, looks: Mask) -> Mask:
    """Return which candidates probably lose no more than the budget has.

    The more there is to gain, the more may be risked: by the square, for what is expected to save a little is
    as a rule slow noise, and costs as much as anything else if it is wrong. Of a re-init that takes several
    checkpoints a small risk is a large loss: beyond the budget a half of it may be lost on the mean.
    """
    most = _MOST_RISK if view.left_s > 0 else _NO_RISK
    beyond_s = np.maximum(0.0, _lost_s(view, gain) - view.left_s).mean(axis=1)
    safe = risk(view, gain) <= np.minimum(most, _share(view, gain) ** 2)
    safe &= beyond_s <= _MOST_BEYOND * max(0.0, view.left_s)
    safe |= looks
    if view.incumbent == OWN and view.seen[OWN] < _SURE_OF_OWN:  # the only observation may be a spike
        safe &= gain.mean(axis=1) > _HUGE * float(view.belief.totals[OWN].mean())
    return np.asarray(safe)


def _share(view: View, gain: Array) -> Array:
    """Return the share of a checkpoint's cost that each candidate is expected to save, if it is a gain.

    By how often it could be paid with what it saves, on the mean: what may be five times as cheap, or as
    expensive as now, is worth more than what is surely a third cheaper.
    """
    times = (np.maximum(gain, 0) / np.maximum(view.belief.totals, LOWEST)).mean(axis=1)
    return np.asarray(times / (1 + times))


def risk(view: View, gain: Array) -> Array:
    """Return the probability of each candidate to lose more than what is left of the budget."""
    return np.asarray((_lost_s(view, gain) > view.left_s).mean(axis=1))


def _lost_s(view: View, gain: Array) -> Array:
    """Return what each candidate loses against the user's own settings, (candidates, members).

    What is no gain is taken back; what is one pays for the way there with the checkpoints to come.
    """
    excess = view.belief.felt - view.belief.felt[OWN]
    lost = np.where(gain > 0, view.remaining * excess, excess + view.back_s[:, None])
    return np.asarray(lost + view.there_s[:, None])
