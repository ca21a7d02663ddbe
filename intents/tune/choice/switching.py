"""The price of going from one setting to another: some parameters change only by a re-init of SCR.

SCR_Finalize flushes what is not yet in the prefix directory and waits for a flush under way (scr.c): measured
on SCR 3.1.0, 4 to 29 ms without a flush on an idle node, up to 0.7 s on a busy one, 0.2 to 2.1 s with one.
"""

from collections.abc import Sequence

import numpy as np

from ...events import Values
from ...mutability import RunMutability
from ...rules.situation import Situation
from ...settings import flush_every, is_asynchronous, is_cached
from ..belief.belief import Belief
from ..belief.shape import Array


def out_of_reach(mutability: RunMutability, active: Values, candidates: Sequence[Values]) -> set[int]:
    """Return which of `candidates` this run cannot have instead of `active`."""
    fixed = [name for name in active if mutability.is_fixed(name)]
    return {i for i, each in enumerate(candidates) if _is_other(each, active, fixed)}


def switch_seconds(belief: Belief, active: Values, now: Situation, forced_s: float) -> tuple[Array, Array]:
    """Return the expected seconds of going from `active` to each candidate, and of coming back.

    A re-init now takes `forced_s` more, for the flush that it waits for or forces. Going back after a look at
    settings that flush every n-th checkpoint forces one in n - 1 of n cases.
    """
    once_s = now.reinit_s or now.reinit_prior_s
    by_reinit = [name for name in active if now.mutability.needs_reinit(name)]
    there, back = [], []
    for index, after in enumerate(belief.candidates):
        is_reinit = _is_other(after, active, by_reinit)
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


def _is_other(after: Values, before: Values, names: Sequence[str]) -> bool:
    return any(after[name] != before[name] for name in names)
