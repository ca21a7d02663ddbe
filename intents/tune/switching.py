"""The price of going from one setting to another: some parameters change only by a re-init of SCR.

SCR_Finalize flushes what is not yet in the prefix directory and waits for a flush under way (scr.c): measured
on SCR 3.1.0, 4 to 29 ms without a flush on an idle node, up to 0.7 s on a busy one, 0.2 to 2.1 s with one.
"""

import numpy as np

from ..events import Values
from ..mutability import RunMutability
from ..rules.situation import Situation
from ..settings import difference, flush_every, is_asynchronous, is_cached
from .belief.belief import Belief
from .belief.model import Array


def can_go(mutability: RunMutability, active: Values, after: Values) -> bool:
    """Return whether this run can have `after` instead of `active`."""
    return not any(map(mutability.is_fixed, difference(after, active)))


def switch_seconds(belief: Belief, active: Values, now: Situation, forced_s: float) -> tuple[Array, Array]:
    """Return the expected seconds of going from `active` to each candidate, and of coming back.

    A re-init now takes `forced_s` more, for the flush that it waits for or forces. Going back after a look at
    settings that flush every n-th checkpoint forces one in n - 1 of n cases.
    """
    once_s = now.reinit_s or now.reinit_prior_s
    there, back = [], []
    for index, after in enumerate(belief.candidates):
        is_reinit = any(map(now.mutability.needs_reinit, difference(after, active)))
        there.append(once_s + forced_s if is_reinit else 0.0)
        back.append(once_s + (1 - 1 / flush_every(after)) * pending_s(belief, index) if is_reinit else 0.0)
    return np.array(there), np.array(back)


def pending_s(belief: Belief, index: int | None) -> float:
    """Return the expected seconds of the flush that a re-init waits for, or forces."""
    if index is None or not is_cached(belief.candidates[index]):
        return 0.0
    settings = belief.candidates[index]
    if flush_every(settings) > 1:
        return belief.rest_s(index, 0.0)
    return belief.rest_s(index, belief.shape.between_s) if is_asynchronous(settings) else 0.0
