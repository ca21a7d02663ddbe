"""The verdict on a trial: it is kept, given up, or takes another checkpoint.

It is the posterior probability that the trial is cheaper than the settings it may replace. What speaks
against it is looked at once more before that decides: a checkpoint that was unlike what is believed, and one
that costs nothing to repeat.
"""

from ...settings import is_cached
from ..decisions import Decision
from .chooser import LEAST_GAIN, OWN, View, p_better

KEEP, DROP, KEEP_AT_LAST, _TIE = 0.8, 0.35, 0.6, 0.45
MOST_LOOKS = 6
_ODD = 1.35
_NEXT_TO_NOTHING = 0.1


def judge(view: View, index: int, looks: int, cost_s: float, trial: Decision | None) -> bool | None:
    """Return whether the `trial` of `index` is kept after so many `looks`; None when it takes another.

    The last one cost `cost_s`.
    """
    kept = _kept(view, index, looks)
    if kept is None or looks >= MOST_LOOKS:
        return kept
    if kept:
        return None if index != OWN and _is_odd(trial, looks, float(view.belief.totals[OWN].mean())) else True
    return None if _is_repeated_for_nothing(view, index, looks, cost_s) else False


def _kept(view: View, index: int, looks: int) -> bool | None:
    """Return what follows from the belief alone.

    At last it is kept if that probably gains something, or spares the way back. Of two settings of ours
    between which nothing decides those stay that were measured last: what is known of the others is older.
    """
    p = p_better(view, index)
    if p >= KEEP:
        return True
    if p < DROP:
        return False
    if looks < MOST_LOOKS:
        return None
    if OWN not in {view.incumbent, index}:
        return p >= _TIE
    totals = view.belief.totals
    is_gain = float(totals[index].mean()) < (1 - LEAST_GAIN) * float(totals[view.incumbent].mean())
    return p >= KEEP_AT_LAST and (is_gain or bool(view.there_s[view.incumbent] > 0))


def _is_odd(trial: Decision | None, looks: int, own_s: float) -> bool:
    """Return whether what was measured is more expensive: a hiccup, or the belief is wrong."""
    if trial is None or trial.seen is None:
        return False
    is_more = looks == 1 and trial.expected and trial.seen.cost_s > _ODD * trial.expected.cost_s
    return bool(is_more or trial.seen.cost_s > own_s or trial.cost_s > 0)


def _is_repeated_for_nothing(view: View, index: int, looks: int, cost_s: float) -> bool:
    """Return whether another checkpoint is expected to lose next to nothing.

    That is one under the user's own settings, as cheap as what won, or the second past the cache: what the
    last flush left to be written may have slowed the first one down.
    """
    belief = view.belief
    if index == OWN and cost_s <= belief.felt[view.incumbent].mean():
        return True
    cached, other = (is_cached(belief.candidates[each]) for each in (view.incumbent, index))
    lost_s = float((belief.felt[index] - belief.felt[view.incumbent]).mean())
    return looks == 1 and cached and not other and lost_s < _NEXT_TO_NOTHING * view.left_s
