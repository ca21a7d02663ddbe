"""What the next decision is made from: what is believed, what may still be lost, and what is ruled out."""

from collections import Counter

from ..events import Values
from ..mutability import RunMutability
from ..rules.explain import describe
from ..rules.guards import veto
from ..rules.levers import LEVERS, Component
from ..rules.situation import Proposal, Situation
from ..settings import difference
from .active_settings import ActiveSettings
from .belief.belief import Belief
from .belief.learner import Learner
from .belief.observations import Identity
from .choice.chooser import OWN, Choice, View, is_blind_bet, p_better
from .choice.judge import KEEP
from .choice.switching import out_of_reach, pending_s, switch_seconds
from .datasets import Datasets

TWICE = 2
"""Settings that were taken back so often are not tried again."""
_OF_FLUSHES = {lever.name for lever in LEVERS if Component.FLUSH in lever.components}


class TuningState(ActiveSettings):
    """The belief about a job, the budget for trials, and the settings that a trial may replace."""

    def _begin(self, baseline: Values, mutability: RunMutability) -> None:
        super()._begin(baseline, mutability)
        self.learner = Learner()
        self._incumbent = dict(self.wanted)
        self._dropped: Counter[Identity] = Counter()
        """How often settings were taken back; what failed counts as :data:`TWICE`."""
        self.datasets = Datasets()
        self.uncounted = 0
        """Tuned checkpoints of which nobody knows what they saved: the machine has changed."""

    @property
    def belief(self) -> Belief | None:
        """What is believed of all candidates; None before the first checkpoint."""
        return self.learner.belief

    @property
    def knows_own(self) -> bool:
        """Whether what is believed of the user's own settings rests on checkpoints under them.

        Not when the machine has changed since: what they would cost now follows from the models alone.
        """
        return not self.learner.is_shifted or OWN in self.learner.seen()

    @property
    def baseline_s(self) -> float:
        """Believed cost of a checkpoint under the user's settings; 0 while no measurement says it."""
        return self.belief.breakdown(OWN).cost_s if self.belief and self.knows_own else 0.0

    @property
    def current_s(self) -> float:
        """Believed cost of a checkpoint under the active settings, a trial aside; 0 before there was one."""
        index = self.belief.index(self._incumbent) if self.belief else None
        return self.belief.breakdown(index).cost_s if self.belief and index is not None else 0.0

    def _view(self, belief: Belief, now_is: Situation) -> View:
        incumbent = belief.index(self._incumbent) or OWN
        forced_s = 0.0 if self.datasets.is_newest_flushed else pending_s(belief, belief.index(self.settings))
        there_s, back_s = switch_seconds(belief, self.settings, now_is, forced_s)
        return View(
            belief=belief,
            incumbent=incumbent,
            seen=self.learner.seen(),
            there_s=there_s,
            back_s=back_s,
            forced_s=forced_s,
            left_s=self.budget.left_s,
            earned_s=self.budget.earned_s,
            claimed_s=self.budget.claimed_s,
            remaining=now_is.remaining,
            flush_share=self.learner.flush_share(incumbent),
        )

    def _banned(self, view: View) -> set[int]:
        """Return the candidates that were dropped, or that this run cannot have.

        What was taken back once may be tried again when it is believed to be cheaper after all.
        """
        belief = view.belief
        found = {belief.index_of(each): n for each, n in self._dropped.items()}
        dropped = {i for i, n in found.items() if i is not None and (n >= TWICE or p_better(view, i) < KEEP)}
        return dropped | out_of_reach(self.mutability, self.wanted, belief.candidates)

    def _stopped(self, view: View, index: int, now_is: Situation) -> str | None:
        changes = difference(view.belief.candidates[index], self.settings)
        is_blind = not self.learner.knows_prefix and bool(_OF_FLUSHES & changes.keys())
        if is_blind and is_blind_bet(view, index):
            return "no flush was measured yet: what the prefix directory takes is not known"
        return veto(changes, now_is)

    def _proposal(self, view: View, found: Choice) -> Proposal:
        belief = view.belief
        changes = difference(belief.candidates[found.index], self._incumbent)
        expected, present = belief.breakdown(found.index), belief.breakdown(view.incumbent)
        saved = f"{found.net_s:.3f} s in the rest of the job"
        because = (
            f"expected {expected.text} a checkpoint instead of {present.text}; cheaper with probability"
            f" {found.p_better:.2f}; {saved if found.net_s > 0 else 'to find out how fast its tier is'}"
        )
        return describe(changes, self.baseline, found.gain_s, because)
