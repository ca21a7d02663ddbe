"""Goodput feedback: what a change really did decides whether it stays. Cautious, one change at a time.

1. The user's settings (the anchor) are observed first.
2. The most promising proposal is tried alone, two observations at a time, between as many under the settings
   it may replace: noise that changes slowly meets both alike.
3. After each such block: surely better (probability 0.95), it stays. Not better at all, it is taken back. In
   between, the next block; after three without proof it is taken back too, since a change needs a reason.
   One observation beyond 1.6 times the baseline (up to 3 times, where costs scatter more) ends a trial at
   once. So does a checkpoint that fails.
4. What tuned checkpoints cost is kept in a ledger of credit: one checkpoint to begin with, 2 % of the
   anchor's cost for each checkpoint, and all that tuned checkpoints save or lose against it. At zero the
   anchor comes back, and nothing is tried before there is credit again.

The bound. Count every checkpoint at the anchor's mean cost, as last measured when it ended. At any time all
tuned checkpoints together have cost at most 2 % of that sum and one checkpoint more than so counted, and what
the last ones lost: the observation that used the credit up, and checkpoints that began before the job had the
anchor back. This holds for every job, whatever is proposed; how dear those last ones are nobody can know in
advance. Against what the user's settings would have cost at that very time, which nobody can know either, it
holds as far as that mean is right: `docs/tuning.md` says how often.

Sources: noise of checkpoints (8 % independent, 15 % autocorrelated: `docs/tuning.md`); conservative bandits
with a budget (Kazerouni 2017, arXiv 1611.06426).
"""

from collections import deque
from collections.abc import Callable
from math import exp
from statistics import fmean

import msgspec

from .comparison import compare, spread
from .credit import Credit
from .decisions import Decision, DecisionLog, Verdict
from .events import Value, Values
from .situation import Proposal

BLOCK = 2
MAX_PAIRS = 6
PROBABILITY = 0.95
ABORT_RATIO = 1.6
NOISIEST_ABORT_RATIO = 3.0
INDIFFERENT = 0.02
DRIFT_OBSERVATIONS = 5
TRIES = 3
_OUTLIER = 2.8
"""Standard deviations: where costs scatter by 0.17, as simulated, 1.6 times the baseline."""
_REMEMBERED_GENERATIONS = 64
_WON_BEFORE = "what had won before"
_ANEW = "all of it, against your settings anew"


class _Trial(msgspec.Struct, kw_only=True):
    proposal: Proposal
    incumbent: Values
    candidate: Values
    baseline_s: float
    spread: float
    before: list[float]
    after: list[float] = msgspec.field(default_factory=list)


class Tuner:
    """Holds the settings in force and decides about them, one observation at a time.

    An observation is the mean cost of a checkpoint over one flush cycle (one checkpoint, when every one is
    flushed). `settings` is always complete: the anchor with what was changed. Memory is bounded.
    """

    def __init__(self, anchor: Values, generation: int = 0) -> None:
        self.anchor = dict(anchor)
        self.settings = dict(anchor)
        self.generation = generation
        self.log = DecisionLog()
        self.touched: set[str] = set()
        self._credit = Credit()
        self._is_tuned = {generation: False}
        self._incumbent_costs: deque[float] = deque(maxlen=MAX_PAIRS)
        self._block: list[float] = []
        self._trial: _Trial | None = None
        self.left: Proposal | None = None
        """What had won, after it was given up: the first thing to be tried again."""
        self._tries: dict[str, int] = {}
        self._closed: set[str] = set()
        self._given_up: set[tuple[str, Value]] = set()
        self._vetoed: set[str] = set()

    def successor(self, anchor: Values, because: str, now: float) -> "Tuner":
        """A tuner for other settings of the user's: only the log goes on, and the generations."""
        made = Tuner(anchor, self.generation + 1)
        made.log = self.log.successor(told=True)
        changed = {name: value for name, value in anchor.items() if self.settings.get(name) != value}
        new = Proposal(
            rule="a run under other settings", intent="", changes=changed, because=because, source="user"
        )
        made._log(Verdict.ANCHOR, new, now, previous=_values(self.settings, changed))
        return made

    def edited(self, anchor: Values, changes: Values, because: str, now: float) -> "Tuner":
        """A tuner for the settings that the user has edited by `changes`: `anchor`, which is observed first.

        What had won before is the first thing to be tried again, but for what they changed.
        """
        if self._trial is not None:
            self._revert(self._trial, now, because, lost=False)
        won = {name: value for name, value in self.settings.items() if self.anchor.get(name) != value}
        left = {name: value for name, value in won.items() if name not in changes}
        made = Tuner(anchor, self.generation + 1)
        made.touched = self.touched | changes.keys()
        made.log = self.log.successor(told=False)
        edit = Proposal(
            rule="your edit of the config file",
            intent="your word",
            changes=changes,
            because=because,
            source="user",
        )
        made._log(Verdict.REQUIRED, edit, now, previous=_values(self.settings, changes))
        if left:
            made.left = msgspec.structs.replace(edit, rule=_WON_BEFORE, changes=left, because=_ANEW)
        return made

    @property
    def decisions(self) -> deque[Decision]:
        """The decisions so far, oldest first."""
        return self.log.entries

    @property
    def credit_s(self) -> float:
        """Seconds that trying may still cost."""
        return self._credit.left_s

    @property
    def anchor_s(self) -> float:
        """Mean cost of a checkpoint under the user's settings, as last measured; 0 before it was."""
        return self._credit.anchor_s

    @property
    def trying(self) -> Proposal | None:
        """The change that is being tried now."""
        return self._trial.proposal if self._trial else None

    @property
    def comparing(self) -> bool:
        """Whether a trial is on, and the settings it may replace have their turn."""
        return self._trial is not None and self.settings == self._trial.incumbent

    @property
    def current_s(self) -> float:
        """Mean cost of the last checkpoints under the settings in force, a trial aside."""
        return fmean(self._incumbent_costs) if self._incumbent_costs else 0.0

    def may_try(self, proposal: Proposal) -> bool:
        """Whether its rule may ask: 3 times, and after a lost trial not before another change has won.

        No rule may undo what a change has won: A, then B, then A again is not tried.
        """
        is_open = proposal.rule not in self._closed and self._tries.get(proposal.rule, 0) < TRIES
        return is_open and not any(each in self._given_up for each in proposal.changes.items())

    def take_news(self) -> list[Decision]:
        """The decisions since the last call."""
        return self.log.take_news()

    def require(self, proposal: Proposal, now: float) -> None:
        """Make a change that the user's own declaration demands; the anchor moves with it."""
        previous = _values(self.settings, proposal.changes)
        self.anchor.update(proposal.changes)
        self._put_in_force({**self.settings, **proposal.changes})
        self._credit.measure_anew()
        self._log(Verdict.REQUIRED, proposal, now, previous=previous)

    def veto(self, proposal: Proposal, reason: str, now: float) -> None:
        """Note that a guard rail stopped `proposal`, once for each rule; it may pass at another time."""
        if proposal.rule not in self._vetoed:
            self._vetoed.add(proposal.rule)
            stopped = msgspec.structs.replace(proposal, because=reason)
            self._log(Verdict.VETOED, stopped, now, previous=_values(self.settings, proposal.changes))

    def interrupt(self, now: float) -> None:
        """A run of the job ended: a trial ends without a verdict, what is measured next stands by itself."""
        if self._trial is not None:
            self._revert(self._trial, now, "the run ended before there was a verdict", lost=False)
        self._block.clear()

    def failed(self, why: str, generation: int, now: float) -> None:
        """A checkpoint under the settings of `generation` failed: back a step, were they not the user's."""
        if not self._is_tuned.get(generation, False):
            return
        if self._trial is not None:
            self._revert(self._trial, now, why)
        elif self.settings != self.anchor:
            self._back_to_anchor(now, why)
            self.left = None
            self._closed.update(self._tries)

    def charge(self, cost_s: float, generation: int) -> None:
        """Enter one checkpoint that ran under the settings of `generation` into the ledger of credit."""
        self._credit.charge(cost_s, is_tuned=self._is_tuned.get(generation, True))

    def observe(self, cost_s: float, now: float, propose: Callable[[], Proposal | None]) -> None:
        """Take in one observation under the settings in force and decide; `propose` gives the next change."""
        self._block.append(cost_s)
        del self._block[:-DRIFT_OBSERVATIONS]
        if self._trial is not None and self.settings == self._trial.candidate:
            self._judge(self._trial, cost_s, now)
        else:
            self._note(cost_s)
            if self._trial is not None:
                self._compare_with_incumbent(self._trial, cost_s, now)
        if self._trial is None:
            self._next(now, propose)

    def _note(self, cost_s: float) -> None:
        self._incumbent_costs.append(cost_s)
        if self.settings == self.anchor:
            self._credit.observe_anchor(cost_s)

    def _next(self, now: float, propose: Callable[[], Proposal | None]) -> None:
        if self.settings != self.anchor and (why := self._why_back()):
            self._back_to_anchor(now, why)
            return
        is_measured = self.settings != self.anchor or self._credit.is_measured
        if not is_measured or len(self._block) < BLOCK or self.credit_s <= 0:
            return
        proposal, self.left = propose(), None
        if proposal is not None:
            self._try(proposal, now)

    def _try(self, proposal: Proposal, now: float) -> None:
        self._tries[proposal.rule] = self._tries.get(proposal.rule, 0) + 1
        self._trial = _Trial(
            proposal=proposal,
            incumbent=self.settings,
            candidate={**self.settings, **proposal.changes},
            baseline_s=self.current_s,
            spread=max(spread(self._incumbent_costs), spread(self._credit.anchor_costs)),
            before=self._block[-BLOCK:],
        )
        self._put_in_force(self._trial.candidate)
        self._log(Verdict.TRIAL, proposal, now, previous=_values(self._trial.incumbent, proposal.changes))

    def _why_back(self) -> str:
        """Why the settings in force are given up: dearer than the anchor was, or no credit left."""
        recent = fmean(self._block or self._incumbent_costs)
        dearer = len(self._block) >= DRIFT_OBSERVATIONS and recent > (1 + INDIFFERENT) * self.anchor_s
        if not dearer and self.credit_s > 0:
            return ""
        return (
            f"checkpoints cost {recent:.3f} s now, {self.anchor_s:.3f} s under your settings"
            f" (credit {self.credit_s:.3f} s)"
        )

    def _judge(self, trial: _Trial, cost_s: float, now: float) -> None:
        trial.after.append(cost_s)
        limit = min(NOISIEST_ABORT_RATIO, max(ABORT_RATIO, exp(_OUTLIER * trial.spread)))
        if cost_s > limit * trial.baseline_s:
            self._revert(trial, now, f"one cost {cost_s / max(1e-9, trial.baseline_s):.2f} x the baseline")
        elif self.credit_s <= 0:
            self._revert(trial, now, "the trials so far have used up what they may cost")
        elif len(self._block) >= BLOCK:
            result = compare(trial.before, trial.after, trial.spread)
            measured = f"{result.ratio:.2f} x in {result.pairs} pairs"
            if result.p_better >= PROBABILITY and result.ratio <= 1 - INDIFFERENT:
                self._accept(trial, now, f"{measured}, cheaper with probability {result.p_better:.2f}")
            elif result.ratio >= 1:
                self._revert(trial, now, f"not better: {measured}")
            elif result.pairs >= MAX_PAIRS:
                self._revert(trial, now, f"no proof of a gain: {measured}")
            else:
                self._put_in_force(trial.incumbent)

    def _compare_with_incumbent(self, trial: _Trial, cost_s: float, now: float) -> None:
        """The settings that the trial may replace have their turn."""
        trial.before.append(cost_s)
        if self.credit_s <= 0:
            self._revert(trial, now, "the trials so far have used up what they may cost")
        elif len(self._block) >= BLOCK:
            self._put_in_force(trial.candidate)

    def _accept(self, trial: _Trial, now: float, why: str) -> None:
        accepted = msgspec.structs.replace(trial.proposal, because=why)
        previous = _values(trial.incumbent, trial.proposal.changes)
        self._log(Verdict.ACCEPTED, accepted, now, previous=previous, trial=trial)
        self._trial = None
        self._closed.clear()  # what did not help before may help now
        self._given_up.update(previous.items())
        self._incumbent_costs.clear()
        self._incumbent_costs.extend(trial.after)

    def _revert(self, trial: _Trial, now: float, why: str, *, lost: bool = True) -> None:
        previous = trial.proposal.changes
        if self.settings != trial.incumbent:
            self._put_in_force(trial.incumbent)
        back = _values(trial.incumbent, previous)
        undone = msgspec.structs.replace(trial.proposal, changes=back, because=why)
        self._log(Verdict.REVERTED, undone, now, previous=previous, trial=trial)
        self._trial = None
        if lost:
            self._closed.add(trial.proposal.rule)

    def _back_to_anchor(self, now: float, why: str) -> None:
        left = {name: value for name, value in self.settings.items() if self.anchor.get(name) != value}
        back = Proposal(
            rule="stay within the bound",
            intent="goodput",
            changes=_values(self.anchor, left),
            because=why,
            source="goodput feedback",
        )
        self.left = msgspec.structs.replace(back, rule=_WON_BEFORE, changes=left, because=_ANEW)
        self._put_in_force(self.anchor)
        self._log(Verdict.ANCHOR, back, now, previous=left)
        self._closed.clear()
        self._given_up.clear()
        self._credit.measure_anew()
        self._incumbent_costs.clear()

    def _put_in_force(self, settings: Values) -> None:
        names = settings.keys() | self.settings.keys()
        self.touched |= {name for name in names if settings.get(name) != self.settings.get(name)}
        self.settings = dict(settings)
        self.generation += 1
        self._is_tuned[self.generation] = settings != self.anchor
        self._is_tuned.pop(self.generation - _REMEMBERED_GENERATIONS, None)
        self._block = []

    def _log(
        self,
        verdict: Verdict,
        proposal: Proposal,
        now: float,
        *,
        previous: Values,
        trial: _Trial | None = None,
    ) -> None:
        decision = Decision.of(verdict, proposal, previous, generation=self.generation, now=now)
        self.log.note(decision.measured(trial.before, trial.after) if trial else decision)


def _values(settings: Values, names: Values) -> Values:
    """What `settings` has for `names`."""
    return {name: settings[name] for name in sorted(names) if name in settings}
