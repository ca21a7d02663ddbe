"""Goodput feedback: what a change really did decides whether it stays. Cautious, one change at a time.

1. The user's settings (the baseline) are observed first.
2. The most promising proposal is tried alone, two observations at a time, between as many under the settings
   it may replace: noise that changes slowly meets both alike.
3. After each such block: surely better (probability 0.95), it stays. Not better at all, it is taken back. In
   between, the next block; after three without proof it is taken back too, since a change needs a reason.
   One observation beyond 1.6 times the baseline (up to 3 times, where costs scatter more) ends a trial at
   once. So does a checkpoint that fails, and ranks that refuse.
4. What only a launch can change waits for the next run: one proposal is put in force with it, and compared
   with the run before.
5. What tuned checkpoints cost is kept in a ledger of credit: one checkpoint to begin with, 2 % of the
   baseline's cost for each checkpoint, and all that tuned checkpoints save or lose against it; what putting
   settings in force costs, there and back, goes off it. At zero the baseline comes back, and nothing is tried
   before there is credit again.

The bound. Count every checkpoint at the baseline's mean cost, as last measured when it ended. At any time all
tuned checkpoints and all changes of settings together have cost at most 2 % of that sum and one checkpoint
more than so counted, and what the last ones lost: the observation that used the credit up, checkpoints that
began before the job had the baseline back, and the way back. This holds for every job, whatever is proposed;
how dear those last ones are nobody can know in advance. What only a launch can take back is back at the next
launch, not before. Against what the user's settings would have cost at that very time, which nobody can know
either, it holds as far as that mean is right: `docs/tuning.md` says how often.

Sources: noise of checkpoints (8 % independent, 15 % autocorrelated: `docs/tuning.md`); conservative bandits
with a budget (Kazerouni 2017, arXiv 1611.06426).
"""

from collections import deque
from collections.abc import Callable
from statistics import fmean

from msgspec.structs import replace

from ..events import Values
from ..rules.mutability import Reach
from ..rules.situation import Proposal
from .active_settings import ActiveSettings, values
from .budget import DRIFT_OBSERVATIONS, TrialBudget
from .comparison import spread
from .cooldown import RuleCooldown
from .decisions import Verdict
from .trial import BLOCK, MAX_PAIRS, RUNS_SPREAD, Trial

_USED_UP = "the trials so far have used up what they may cost"
_OFF = "scrtune off: your own settings"


class Tuner(ActiveSettings):
    """Holds the settings in force and decides about them, one observation at a time.

    An observation is the mean cost of a checkpoint over one flush cycle (one checkpoint, when every one is
    flushed). `settings` is always complete: the baseline with what was changed, as far as `reach` goes; what
    is beyond it is in `at_launch`. Memory is bounded.
    """

    def __init__(
        self, baseline: Values, generation: int = 0, reach: Reach | None = None, *, on: bool = True
    ) -> None:
        super().__init__(baseline, generation, reach or Reach())
        self._budget = TrialBudget()
        self.on = on
        self._incumbent_costs: deque[float] = deque(maxlen=MAX_PAIRS)
        self._block: list[float] = []
        self._trial: Trial | None = None
        self.left: Proposal | None = None
        """What had won, after it was given up: the first thing to be tried again."""
        self.pending: Proposal | None = None
        """What the next run begins with, on trial."""
        self._cooldown = RuleCooldown()

    def successor(self, baseline: Values, reach: Reach, because: str, now: float) -> "Tuner":
        """A tuner for other settings of the user's: only the log goes on, and the generations."""
        self.add_together(self._pending)
        reach = self.sticking(reach, reach.found, baseline)
        made = Tuner(baseline, self.generation + 1, reach, on=self.on)
        made.together = self.together
        made.log = self.log.successor(told=True)
        changed = {name: value for name, value in baseline.items() if self.settings.get(name) != value}
        new = _users("a run under other settings", changed, because, intent="")
        made._log(Verdict.BASELINE, new, now, previous=values(self.settings, changed))
        return made

    def edited(self, baseline: Values, changes: Values, because: str, now: float) -> "Tuner":
        """A tuner for the settings that the user edited by `changes`: `baseline`, which is observed first.

        What had won before is the first thing to be tried again, but for what they changed. What of it only a
        launch can put in force is the baseline's from the next one on.
        """
        self._end_trial(now, because)
        left = self._won(but=changes)
        self.postpone(changes)
        later = self.later
        own = {name: value for name, value in baseline.items() if name not in later}
        own |= values(self.settings, later)
        self.together = [{n: v for n, v in each.items() if n not in changes} for each in self.together]
        reach = self.sticking(self.reach, self.settings, own)
        made = Tuner(own, self.generation + 1, reach, on=self.on)
        made.together = self.together
        made.touched = self.touched | changes.keys()
        made.later = later
        made.log = self.log.successor(told=False)
        edit = _users("your edit of the config file", changes, self.waiting(because, changes))
        made._log(Verdict.REQUIRED, edit, now, previous=values(self.settings, changes))
        if left and self.on:
            made.left = self._again(left)
        return made

    @property
    def at_launch(self) -> Values:
        """What the next launch puts in force beyond `settings`."""
        return self.beyond(self._pending)

    @property
    def kept(self) -> Values:
        """The settings that a launch shall begin with: what is only tried is not in them.

        A trial that began with a launch goes on with the next one.
        """
        trial = self._trial
        if trial is None or trial.since_launch:
            return self.for_launch(self.wanted, self._pending)
        return self.for_launch(trial.incumbent, self._pending)

    @property
    def _pending(self) -> Values:
        return self.pending.changes if self.pending else {}

    @property
    def trial_budget_s(self) -> float:
        """Seconds that trying may still cost."""
        return self._budget.left_s

    @property
    def baseline_s(self) -> float:
        """Mean cost of a checkpoint under the user's settings, as last measured; 0 before it was."""
        return self._budget.baseline_s

    @property
    def trying(self) -> Proposal | None:
        """The change that is being tried now."""
        return self._trial.proposal if self._trial else None

    @property
    def comparing(self) -> bool:
        """Whether a trial is on, and the settings it may replace have their turn."""
        return self._trial is not None and self.wanted == self._trial.incumbent

    @property
    def current_s(self) -> float:
        """Mean cost of the last checkpoints under the settings in force, a trial aside."""
        return fmean(self._incumbent_costs) if self._incumbent_costs else 0.0

    def may_try(self, proposal: Proposal) -> bool:
        """Whether its rule may ask (:class:`scrtune.intents.tune.cooldown.RuleCooldown`)."""
        return self._cooldown.may(proposal)

    def require(self, proposal: Proposal, now: float) -> None:
        """Make a change that the user's own declaration demands; the baseline moves with it.

        What only a launch can put in force is the baseline's from the next one on.
        """
        self._end_trial(now, proposal.because)
        previous = values(self.settings, proposal.changes)
        possible = self.postpone(proposal.changes)
        proposal = replace(proposal, because=self.waiting(proposal.because, proposal.changes))
        self.baseline.update(possible)
        self.put({**self.wanted, **possible})
        self._budget.measure_anew()
        self._log(Verdict.REQUIRED, proposal, now, previous=previous)

    def veto(self, proposal: Proposal, reason: str, now: float) -> None:
        """Note that a guard rail stopped `proposal`, once for each rule; it may pass at another time."""
        self._note_once(Verdict.VETOED, proposal, reason, now)

    def pend(self, proposal: Proposal, reason: str, now: float) -> None:
        """Keep `proposal` for the next launch; of several the first is put in force with it, alone."""
        self._note_once(Verdict.PENDING, proposal, reason, now)
        if self.pending is None:
            self.pending = proposal

    def begin_run(self, reach: Reach, now: float) -> None:
        """A run of the job begins: a trial ends without a verdict, but for one that goes on with this run.

        What is measured next stands by itself. What waited for a launch is in force if the run found it.
        """
        trial, came_with = self._trial, reach.began_with
        self._block.clear()
        self.add_together(self._pending)
        self.find(reach)
        if trial is not None and not trial.since_launch:
            self._end_trial(now, "the run ended before there was a verdict")
        elif trial is not None and not came_with(trial.proposal.changes):
            self._end_trial(now, "this run did not begin with it")
        elif trial is not None and not trial.after:
            self._revert(trial, now, "in the run that began with it no checkpoint was measured")
        if arrived := {name: value for name, value in self.later.items() if came_with({name: value})}:
            self._take_over(arrived, now)
        elif self.pending is not None and came_with(self._pending):
            self._try_since_launch(self.pending, now)
        elif not reach.waits(self._pending):
            self.pending = None

    def switch(self, *, on: bool, now: float) -> None:
        """``scrtune off``: the user's own settings, and nothing is tried, until ``scrtune on``."""
        goes_off, self.on = self.on and not on, on
        if goes_off:
            self._end_trial(now, _OFF)
            self._back_to_baseline(now, _OFF, rule="scrtune off")

    def failed(self, why: str, generation: int, now: float) -> None:
        """A checkpoint under the settings of `generation` failed: back a step, were they not the user's."""
        if not self.is_tuned(generation, default=False):
            return
        if self._trial is not None:
            self._revert(self._trial, now, why)
        elif self.wanted != self.baseline:
            self._back_to_baseline(now, why)
            self.left = None
            self._cooldown.close()

    def refused(self, generation: int, why: str, in_force: Values, now: float) -> None:
        """The ranks refused `generation` and stay with `in_force`: no cost under it will ever come."""
        if generation != self.generation:
            return
        why = f"the ranks refused it: {why}"
        trial, is_candidate = self._trial, not self.comparing
        if trial is not None:
            self._revert(trial, now, why)
            if is_candidate and not trial.since_launch:
                return
        held = self.other_than(in_force)
        wanted = values(self.settings, held)
        refusal = _users("what the ranks refused", wanted, why, intent="", source="SCR")
        if not held:  # another generation of the same would be refused, too
            self.veto(refusal, why, now)
            return
        self.reach = self.reach.holding(held)
        self.put(self.wanted)
        stays = replace(refusal, because=f"{why}; until the next launch it stays as it is")
        self._log(Verdict.VETOED, stays, now, previous=held)

    def charge(self, cost_s: float, generation: int) -> None:
        """Enter one checkpoint that ran under the settings of `generation` into the ledger of credit."""
        self._budget.charge(cost_s, is_tuned=self.is_tuned(generation, default=True))

    def charge_apply(self, apply_s: float) -> None:
        """Enter what putting settings in force took: on the way to a change, or back."""
        self._budget.charge_apply(apply_s)

    def observe(self, cost_s: float, now: float, propose: Callable[[], Proposal | None]) -> None:
        """Take in one observation under the settings in force and decide; `propose` gives the next change."""
        self._block.append(cost_s)
        del self._block[:-DRIFT_OBSERVATIONS]
        if self._trial is not None and not self.comparing:
            self._judge(self._trial, cost_s, now)
        else:
            self._note(cost_s)
            if self._trial is not None:
                self._compare_with_incumbent(self._trial, cost_s, now)
        if self._trial is None and self.on:
            self._next(now, propose)

    def _note(self, cost_s: float) -> None:
        self._incumbent_costs.append(cost_s)
        if self.settings == self.baseline:
            self._budget.observe_baseline(cost_s)

    def _next(self, now: float, propose: Callable[[], Proposal | None]) -> None:
        if self.wanted != self.baseline and (why := self._budget.why_back(self._block, self.current_s)):
            self._back_to_baseline(now, why)
            return
        is_measured = self.wanted != self.baseline or self._budget.is_measured
        if not is_measured or len(self._block) < BLOCK or self.trial_budget_s <= 0:
            return
        proposal, self.left = propose(), None
        if proposal is not None:
            self._try(proposal, self._block[-BLOCK:], now)

    def _try_since_launch(self, proposal: Proposal, now: float) -> None:
        """The run began with `proposal`: its costs against those of the last run."""
        before = list(self._incumbent_costs)
        self.pending = None
        if len(before) < BLOCK or self._trial is not None or not self.on:
            return
        noted = replace(proposal, because=f"{proposal.because}; this run began with it")
        self._try(noted, before, now, since_launch=True)

    def _try(
        self, proposal: Proposal, before: list[float], now: float, *, since_launch: bool = False
    ) -> None:
        self._cooldown.tried(proposal.rule)
        self._noted.discard((Verdict.PENDING, proposal.rule))
        if self.pending is not None and self.pending.rule == proposal.rule:
            self.pending = None
        between_runs = RUNS_SPREAD if since_launch else 0.0
        incumbent = self.wanted
        self.put({**incumbent, **proposal.changes})
        self._trial = Trial(
            generation=self.generation,
            proposal=proposal,
            incumbent=incumbent,
            candidate=self.wanted,
            baseline_s=self.current_s,
            spread=max(spread(self._incumbent_costs), spread(self._budget.baseline_costs), between_runs),
            before=before,
            since_launch=since_launch,
        )
        self._log(Verdict.TRIAL, proposal, now, previous=values(self._trial.incumbent, proposal.changes))

    def _judge(self, trial: Trial, cost_s: float, now: float) -> None:
        trial.after.append(cost_s)
        self.log.compare(trial.generation, trial.comparison)
        if why := trial.outrage(cost_s):
            self._revert(trial, now, why)
        elif self.trial_budget_s <= 0:
            self._revert(trial, now, _USED_UP)
        elif trial.is_ripe(self._block):
            match trial.judgement():
                case (Verdict.ACCEPTED, why):
                    self._accept(trial, now, why)
                case (_, why):
                    self._revert(trial, now, why)
                case None:
                    self.put(trial.incumbent)

    def _compare_with_incumbent(self, trial: Trial, cost_s: float, now: float) -> None:
        """The settings that the trial may replace have their turn."""
        trial.before.append(cost_s)
        if self.trial_budget_s <= 0:
            self._revert(trial, now, _USED_UP)
        elif len(self._block) >= BLOCK:
            self.put(trial.candidate)

    def _accept(self, trial: Trial, now: float, why: str) -> None:
        previous = values(trial.incumbent, trial.proposal.changes)
        self._log(Verdict.ACCEPTED, replace(trial.proposal, because=why), now, previous=previous, trial=trial)
        self._trial = None
        self.pending = None  # there it may gain something else now
        self._cooldown.won(previous)
        self._incumbent_costs.clear()
        self._incumbent_costs.extend(trial.after)

    def _revert(self, trial: Trial, now: float, why: str, *, lost: bool = True) -> None:
        previous = trial.proposal.changes
        if self.wanted != trial.incumbent:
            self.put(trial.incumbent)
        if any(
            self.settings.get(name) == value != trial.incumbent.get(name) for name, value in previous.items()
        ):
            why += "; until the next launch it stays in force"
        back = values(trial.incumbent, previous)
        undone = replace(trial.proposal, changes=back, because=why)
        self._log(Verdict.REVERTED, undone, now, previous=previous, trial=trial)
        self._trial = None
        if lost:
            self._cooldown.lost(trial.proposal.rule)

    def _end_trial(self, now: float, why: str) -> None:
        """A trial that is on ends without a verdict."""
        if self._trial is not None:
            self._revert(self._trial, now, why, lost=False)

    def _take_over(self, arrived: Values, now: float) -> None:
        """The user's word that waited for this launch is in force: they and it are measured anew."""
        why = f"{', '.join(sorted(arrived))}: in force since this launch, as you want it"
        self._end_trial(now, why)
        self.later = {name: value for name, value in self.later.items() if name not in arrived}
        self.baseline.update(arrived)
        self.wanted.update(arrived)
        self._back_to_baseline(now, why, rule="what waited for the launch")

    def _back_to_baseline(self, now: float, why: str, rule: str = "stay within the bound") -> None:
        left = self._won()
        back = Proposal(
            rule=rule,
            intent="goodput",
            changes=values(self.baseline, left),
            because=why,
            source="goodput feedback",
        )
        self.left = self._again(left) if left else self.left
        self.pending = None
        self.put(self.baseline)
        self._log(Verdict.BASELINE, back, now, previous=left)
        self._cooldown.forget()
        self._budget.measure_anew()
        self._incumbent_costs.clear()

    def _won(self, but: Values | None = None) -> Values:
        """What differs from the user's own settings."""
        won = {name: value for name, value in self.wanted.items() if self.baseline.get(name) != value}
        return {name: value for name, value in won.items() if name not in (but or {})}

    def _again(self, left: Values) -> Proposal:
        """To try once more what had won; it is expected to gain what it did."""
        why = "all of it, against your settings anew"
        proposal = _users("what had won before", left, why, intent="goodput", source="goodput feedback")
        gain_s = self.baseline_s - self.current_s if self._incumbent_costs else 0.0
        return replace(proposal, expected_gain_s=max(0.0, gain_s))

    def put(self, wanted: Values) -> None:
        """See :meth:`ActiveSettings.put`."""
        super().put(wanted)
        self._block = []


def _users(
    rule: str, changes: Values, because: str, *, intent: str = "your word", source: str = "user"
) -> Proposal:
    return Proposal(rule=rule, intent=intent, changes=changes, because=because, source=source)
