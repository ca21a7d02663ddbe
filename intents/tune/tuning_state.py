"""What the next decision is made from: what is believed, what may still be lost, and what is ruled out.

Some parameters change only by a re-init of SCR. SCR_Finalize flushes what is not yet in the prefix directory
and waits for a flush under way (scr.c): measured on SCR 3.1.0, 4 to 29 ms without a flush on an idle node, up
to 0.7 s on a busy one, 0.2 to 2.1 s with one.
"""

import msgspec
import numpy as np

from ..events import Values
from ..mutability import RunMutability
from ..rules.explain import describe
from ..rules.guards import veto
from ..rules.levers import LEVERS, Component
from ..rules.situation import Proposal, Situation
from ..settings import difference, flush_every, is_asynchronous, is_cached
from .active_settings import ActiveSettings
from .belief.belief import Belief
from .belief.learner import Learner
from .belief.model import Array
from .belief.observations import Identity
from .budget import TrialBudget
from .chooser import OWN, Choice, View, p_worse

_BLIND = 0.02
"""Probability to be worse from which on nothing that changes flushes is tried before one was measured."""
_SHARE_BACK = 0.3
"""Of the flush that going back may force: it can mostly wait for the next one that is due."""
_OF_FLUSHES = {lever.name for lever in LEVERS if Component.FLUSH in lever.components}


class Trial(msgspec.Struct, kw_only=True):
    """The changes of `proposal` to the settings `incumbent`, since `generation`; `looks` counts checkpoints.

    A trial `since_launch` began with the launch of a run, and no other run can take it back.
    """

    generation: int
    incumbent: Values
    proposal: Proposal
    looks: int = 0
    flush_began_s: float = 0.0
    """Epoch seconds; 0 before there was one."""
    flush_ended: bool = False
    """The first flush has ended."""
    since_launch: bool = False


class TuningState(ActiveSettings):
    """The belief about a job, the budget for trials, and the settings that a trial may replace."""

    def _begin(self, baseline: Values, mutability: RunMutability) -> None:
        super()._begin(baseline, mutability)
        self.learner = Learner()
        self.budget = TrialBudget()
        self._incumbent = dict(self.wanted)
        self._dropped: set[Identity] = set()
        self._newest = self._last_flushed = 0

    @property
    def belief(self) -> Belief | None:
        """What is believed of all candidates; None before the first checkpoint."""
        return self.learner.belief

    @property
    def trial_budget_s(self) -> float:
        """Seconds that trials may still cost."""
        return self.budget.left_s

    @property
    def baseline_s(self) -> float:
        """Believed cost of a checkpoint under the user's settings; 0 before one was measured."""
        return self.belief.breakdown(OWN).cost_s if self.belief else 0.0

    @property
    def current_s(self) -> float:
        """Believed cost of a checkpoint under the active settings, a trial aside; 0 before there was one."""
        index = self.belief.index(self._incumbent) if self.belief else None
        return self.belief.breakdown(index).cost_s if self.belief and index is not None else 0.0

    @property
    def is_flushed(self) -> bool:
        """True when the newest checkpoint is in the prefix directory: a re-init forces no flush."""
        return self._newest <= self._last_flushed

    def _view(self, belief: Belief, now_is: Situation) -> View:
        incumbent = belief.index(self._incumbent)
        forced_s = 0.0 if self.is_flushed else pending_s(belief, belief.index(self.settings))
        there_s, back_s = switch_seconds(belief, self.settings, now_is, forced_s)
        return View(
            belief=belief,
            incumbent=OWN if incumbent is None else incumbent,
            seen=self.learner.seen(),
            there_s=there_s,
            back_s=back_s,
            forced_s=forced_s,
            left_s=self.budget.left_s,
            earned_s=self.budget.earned_s,
            remaining=now_is.remaining,
        )

    def _banned(self, belief: Belief) -> set[int]:
        """Return the candidates that were dropped, or that this run cannot have."""
        found = (belief.index_of(each) for each in self._dropped)
        stuck = (
            i for i, each in enumerate(belief.candidates) if not can_go(self.mutability, self.wanted, each)
        )
        return {*(index for index in found if index is not None), *stuck}

    def _stopped(self, view: View, index: int, now_is: Situation) -> str | None:
        changes = difference(view.belief.candidates[index], self.settings)
        is_blind = not self.learner.knows_prefix and bool(_OF_FLUSHES & changes.keys())
        if is_blind and p_worse(view)[index] > _BLIND:
            return "no flush was measured yet: what the prefix directory takes is not known"
        return veto(changes, now_is) or view.belief.why_at_risk(index, now_is) or None

    def _proposal(self, view: View, found: Choice) -> Proposal:
        belief = view.belief
        changes = difference(belief.candidates[found.index], self._incumbent)
        expected, present = belief.breakdown(found.index), belief.breakdown(view.incumbent)
        because = (
            f"expected {expected.text} a checkpoint instead of {present.text}; cheaper with probability"
            f" {found.p_better:.2f}; {found.net_s:.3f} s in the rest of the job"
        )
        return describe(changes, self.baseline, found.gain_s, because)


def users_change(
    rule: str, changes: Values, because: str, *, intent: str = "your word", source: str = "user"
) -> Proposal:
    """Return `changes` that nothing was expected of: the user's word, or what follows from a verdict."""
    return Proposal(rule=rule, intent=intent, changes=changes, because=because, source=source)


def can_go(mutability: RunMutability, active: Values, after: Values) -> bool:
    """Return whether this run can have `after` instead of `active`."""
    return not any(map(mutability.is_fixed, difference(after, active)))


def switch_seconds(belief: Belief, active: Values, now: Situation, forced_s: float) -> tuple[Array, Array]:
    """Return the expected seconds of going from `active` to each candidate, and of coming back.

    A re-init now takes `forced_s` more, for the flush that it waits for or forces.
    """
    once_s = now.reinit_s or now.reinit_prior_s
    there, back = [], []
    for index, after in enumerate(belief.candidates):
        is_reinit = any(map(now.mutability.needs_reinit, difference(after, active)))
        there.append(once_s + forced_s if is_reinit else 0.0)
        back.append(once_s + _SHARE_BACK * pending_s(belief, index) if is_reinit else 0.0)
    return np.array(there), np.array(back)


def pending_s(belief: Belief, index: int | None) -> float:
    """Return the expected seconds of the flush that a re-init waits for, or forces."""
    if index is None or not is_cached(belief.candidates[index]):
        return 0.0
    settings, flush_s = belief.candidates[index], float(belief.flush_s[index])
    if flush_every(settings) > 1:
        return flush_s
    return max(0.0, flush_s - belief.shape.between_s) if is_asynchronous(settings) else 0.0
