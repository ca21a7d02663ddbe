"""Goodput feedback: what a change really did decides whether it stays. Cautious, one change at a time.

1. The user's settings (the anchor) are observed first.
2. The most promising proposal is tried alone, for a few checkpoints.
3. It is compared with the checkpoints just before it, in pairs. Better with probability 0.8: it stays. Worse,
   or one checkpoint beyond 1.6 times the baseline: taken back at once, and not tried again. No difference
   within six pairs: taken back too, since a change needs a reason.
4. All that trials have cost is kept in a ledger of credit: savings against the anchor + 2 % of what the
   anchor would have cost + one checkpoint. At zero the anchor comes back. That is the stated bound: a job
   pays at most 2 % and one checkpoint more than under the user's own settings, up to the checkpoint that
   shows it.

Sources: noise of a paired difference 0.16 in log cost (simulation, `docs/tuning.md`); conservative bandits
with a budget (Kazerouni 2017, arXiv 1611.06426).
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from math import erf, exp, log, sqrt
from statistics import fmean, stdev

import msgspec

from .events import Settings
from .situation import Proposal

BASELINE_OBSERVATIONS = 3
MIN_PAIRS = 2
MAX_PAIRS = 6
PROBABILITY = 0.8
ABORT_RATIO = 1.6
INDIFFERENT = 0.02
ALLOWANCE = 0.02
PAIR_NOISE = 0.16
DRIFT_OBSERVATIONS = 5


class Verdict(str, Enum):
    """What became of a change."""

    TRIAL = "trial"
    ACCEPTED = "accepted"
    REVERTED = "reverted"
    REQUIRED = "required"
    VETOED = "vetoed"
    ANCHOR = "back to the user's settings"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log that `scrtune explain` shows.

    `before_s` and `after_s` are mean costs of a checkpoint, 0 if not measured.
    """

    generation: int
    time_s: float
    verdict: Verdict
    rule: str
    changes: Settings = {}
    previous: Settings = {}
    because: str = ""
    source: str = ""
    intent: str = ""
    expected_gain_s: float = 0.0
    before_s: float = 0.0
    after_s: float = 0.0
    observations: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison in log cost: `ratio` is after / before, `p_better` that after is cheaper."""

    pairs: int
    ratio: float
    p_better: float


def compare(before: Sequence[float], after: Sequence[float]) -> Comparison:
    """Compare equally many costs, each pair close in time. The noise is never taken below its prior."""
    differences = [log(max(a, 1e-9) / max(b, 1e-9)) for b, a in zip(before, after, strict=True)]
    mean = fmean(differences)
    noise = max(PAIR_NOISE, stdev(differences) if len(differences) > 2 else 0.0)  # noqa: PLR2004
    z = -mean / (noise / sqrt(len(differences)))
    return Comparison(pairs=len(differences), ratio=exp(mean), p_better=0.5 * (1 + erf(z / sqrt(2))))


class _Trial(msgspec.Struct, kw_only=True):
    proposal: Proposal
    previous: Settings
    before: tuple[float, ...]
    after: list[float] = msgspec.field(default_factory=list)


class Tuner:
    """Holds the settings in force and decides about them, one observation at a time.

    An observation is the cost of one flush cycle (one checkpoint, when every one is flushed). `settings` is
    always complete: the anchor with what was changed.
    """

    def __init__(self, anchor: Settings) -> None:
        self.anchor = dict(anchor)
        self.settings = dict(anchor)
        self.generation = 0
        self.decisions: list[Decision] = []
        self.banned: set[str] = set()
        self.touched: set[str] = set()
        self._anchor_costs: deque[float] = deque(maxlen=MAX_PAIRS)
        self._incumbent_costs: deque[float] = deque(maxlen=MAX_PAIRS)
        self._trial: _Trial | None = None
        self._saved_s = 0.0
        self._charged = 0

    @property
    def trying(self) -> Proposal | None:
        """The change that is being tried now."""
        return self._trial.proposal if self._trial else None

    @property
    def anchor_s(self) -> float:
        """Mean cost of a checkpoint under the user's settings; 0 before any was seen."""
        return fmean(self._anchor_costs) if self._anchor_costs else 0.0

    @property
    def current_s(self) -> float:
        """Mean cost of the last checkpoints under the settings in force."""
        return fmean(self._incumbent_costs) if self._incumbent_costs else 0.0

    @property
    def credit_s(self) -> float:
        """What may still be lost: savings so far, 2 % of what the anchor would have cost, one checkpoint."""
        return self._saved_s + self.anchor_s * (1 + ALLOWANCE * self._charged)

    def require(self, proposal: Proposal, now: float) -> None:
        """Make a change that the user's own declaration demands; the anchor moves with it."""
        if self._trial is not None:
            self.settings.update(self._trial.previous)
            self._trial = None
        previous = self._values_before(proposal.changes)
        self._put_in_force(proposal.changes)
        self._log(Verdict.REQUIRED, proposal, now, previous=previous)
        self.anchor.update(proposal.changes)
        self._incumbent_costs.clear()
        self._anchor_costs.clear()

    def veto(self, proposal: Proposal, reason: str, now: float) -> None:
        """Note that a guard rail stopped `proposal`, once."""
        if proposal.key not in self.banned:
            self.banned.add(proposal.key)
            stopped = msgspec.structs.replace(proposal, because=reason)
            self._log(Verdict.VETOED, stopped, now, previous=self._values_before(proposal.changes))

    def observe(self, cost_s: float, now: float, propose: Callable[[], Proposal | None]) -> bool:
        """Take one observation in and decide; `propose` gives the next change worth trying.

        Returns whether the settings changed.
        """
        before = self.generation
        self._charge(cost_s)
        if self._trial is not None:
            self._judge(self._trial, cost_s, now)
        else:
            self._incumbent_costs.append(cost_s)
            if self.settings == self.anchor:
                self._anchor_costs.append(cost_s)
        if self._trial is None:
            self._next(now, propose)
        return self.generation != before

    def _charge(self, cost_s: float) -> None:
        if self._anchor_costs:
            self._charged += 1
            self._saved_s += self.anchor_s - cost_s

    def _next(self, now: float, propose: Callable[[], Proposal | None]) -> None:
        if self._drifted():
            self._back_to_anchor(now)
        elif len(self._incumbent_costs) < (BASELINE_OBSERVATIONS if self.generation == 0 else MIN_PAIRS):
            return
        elif self.credit_s > 0 and (proposal := propose()) is not None:
            self._trial = _Trial(
                proposal=proposal,
                previous=self._values_before(proposal.changes),
                before=tuple(self._incumbent_costs),
            )
            self._put_in_force(proposal.changes)
            self._log(Verdict.TRIAL, proposal, now, previous=self._trial.previous)

    def _drifted(self) -> bool:
        """Whether the settings in force have become dearer than the anchor was."""
        if self.settings == self.anchor or not self._anchor_costs:
            return False
        recent = list(self._incumbent_costs)[-DRIFT_OBSERVATIONS:]
        dearer = len(recent) == DRIFT_OBSERVATIONS and fmean(recent) > (1 + INDIFFERENT) * self.anchor_s
        return dearer or self.credit_s <= 0

    def _judge(self, trial: _Trial, cost_s: float, now: float) -> None:
        trial.after.append(cost_s)
        baseline_s = fmean(trial.before)
        pairs = min(len(trial.after), len(trial.before))
        result = compare(trial.before[-pairs:], trial.after[-pairs:])
        if cost_s > ABORT_RATIO * baseline_s:
            self._revert(trial, now, f"one checkpoint cost {cost_s / baseline_s:.2f} x the baseline")
        elif self.credit_s <= 0:
            self._revert(trial, now, "the trials so far have used up what they may cost")
        elif len(trial.after) < MIN_PAIRS:
            return
        elif result.p_better >= PROBABILITY and result.ratio <= 1 - INDIFFERENT:
            self._accept(trial, now, result)
        elif 1 - result.p_better >= PROBABILITY and result.ratio >= 1 + INDIFFERENT:
            self._revert(trial, now, f"worse: {result.ratio:.2f} x in {result.pairs} pairs")
        elif len(trial.after) >= MAX_PAIRS:
            self._revert(trial, now, f"no measurable gain: {result.ratio:.2f} x in {result.pairs} pairs")

    def _accept(self, trial: _Trial, now: float, result: Comparison) -> None:
        why = f"{result.ratio:.2f} x in {result.pairs} pairs, cheaper with probability {result.p_better:.2f}"
        accepted = msgspec.structs.replace(trial.proposal, because=why)
        self._log(Verdict.ACCEPTED, accepted, now, previous=trial.previous, trial=trial)
        self._close_trial(trial)
        self._incumbent_costs.clear()
        self._incumbent_costs.extend(trial.after)

    def _revert(self, trial: _Trial, now: float, why: str) -> None:
        self._put_in_force(trial.previous)
        undone = msgspec.structs.replace(trial.proposal, changes=trial.previous, because=why)
        self._log(Verdict.REVERTED, undone, now, previous=trial.proposal.changes, trial=trial)
        self._close_trial(trial)

    def _close_trial(self, trial: _Trial) -> None:
        self.banned.add(trial.proposal.key)
        self._trial = None

    def _back_to_anchor(self, now: float) -> None:
        changes = {name: self.anchor[name] for name in self.touched}
        back = Proposal(
            rule="stay within the bound",
            intent="goodput",
            changes=changes,
            because=(
                f"checkpoints cost {self.current_s:.3f} s now, {self.anchor_s:.3f} s under your settings"
                f" (credit {self.credit_s:.3f} s)"
            ),
            source="goodput feedback",
        )
        previous = self._values_before(changes)
        self._put_in_force(changes)
        self._log(Verdict.ANCHOR, back, now, previous=previous)
        self._incumbent_costs.clear()
        self._anchor_costs.clear()

    def _values_before(self, changes: Settings) -> Settings:
        return {name: self.settings[name] for name in changes if name in self.settings}

    def _put_in_force(self, changes: Settings) -> None:
        self.generation += 1
        self.settings.update(changes)
        self.touched.update(changes)

    def _log(
        self,
        verdict: Verdict,
        proposal: Proposal,
        now: float,
        *,
        previous: Settings,
        trial: _Trial | None = None,
    ) -> None:
        self.decisions.append(
            Decision(
                generation=self.generation,
                time_s=now,
                verdict=verdict,
                rule=proposal.rule,
                changes=proposal.changes,
                previous=previous,
                because=proposal.because,
                source=proposal.source,
                intent=proposal.intent,
                expected_gain_s=proposal.expected_gain_s,
                before_s=fmean(trial.before) if trial else 0.0,
                after_s=fmean(trial.after) if trial else 0.0,
                observations=len(trial.after) if trial else 0,
            )
        )
