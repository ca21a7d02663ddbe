"""Goodput feedback: the measured effect of a change decides whether it stays. One change at a time.

`docs/tuning.md` has the loop step by step, the bound on what trials cost, and how often both hold.

Sources: noise of checkpoints (8 % independent, 15 % autocorrelated); conservative bandits with a budget
(Kazerouni 2017, arXiv 1611.06426).
"""

from collections import deque
from collections.abc import Iterable
from statistics import fmean

from msgspec.structs import replace

from ...goodput.checkpoint_cost import CheckpointCost
from ..events import Values
from ..mutability import RunMutability
from ..observe.flush import FlushCycles
from ..rules.situation import Proposal, flush_every
from .active_settings import ActiveSettings, values
from .budget import DRIFT_OBSERVATIONS, TrialBudget
from .chooser import TrialChoice
from .comparison import spread
from .decisions import Outcome, Verdict
from .trial import BLOCK, MAX_PAIRS, RUNS_SPREAD, RuleCooldown, Trial

_USED_UP = "the trial budget is used up"
_OFF = "scrtune off: your own settings"
_EDIT = "your edit of the config file"
_EDITED = "what you write into the config file wins: it is not tuned any more"


class Tuner(ActiveSettings):
    """Holds the active settings and decides about them, one observation at a time.

    An observation is the mean cost of a checkpoint over one flush cycle (one checkpoint, when every one is
    flushed). `settings` is always complete: the baseline with what was changed, as far as `mutability` goes;
    the rest is in `at_launch`. Each call that may decide returns its :class:`Outcome`. Memory is bounded.
    """

    def __init__(self, baseline: Values, mutability: RunMutability | None = None, *, on: bool = True) -> None:
        self.on = on
        super().__init__(baseline, mutability or RunMutability())
        self._returned = (self.generation, self.kept)

    def _begin(self, baseline: Values, mutability: RunMutability) -> None:
        super()._begin(baseline, mutability)
        self._cycles = FlushCycles()
        self._budget = TrialBudget()
        self._cooldown = RuleCooldown()
        self._incumbent_costs: deque[float] = deque(maxlen=MAX_PAIRS)
        self._block: list[float] = []
        self._trial: Trial | None = None
        self.given_up: Proposal | None = None
        """Changes that had won before the baseline came back: the first to be tried again."""
        self.pending: Proposal | None = None
        """The change that the next run begins with, on trial."""

    @property
    def at_launch(self) -> Values:
        """The settings that the next launch makes active beyond `settings`: all that waits for it."""
        wanted = self._for_launch(self.wanted, self._pending)
        return {name: value for name, value in wanted.items() if self.settings.get(name) != value}

    @property
    def kept(self) -> Values:
        """The settings that a launch shall begin with: what is only tried is not in them.

        A trial that began with a launch goes on with the next one.
        """
        trial = self._trial
        wanted = self.wanted if trial is None or trial.since_launch else trial.incumbent
        return self._for_launch(wanted, self._pending)

    @property
    def _pending(self) -> Values:
        return self.pending.changes if self.pending else {}

    @property
    def trial_budget_s(self) -> float:
        """Seconds that trials may still cost."""
        return self._budget.left_s

    @property
    def baseline_s(self) -> float:
        """Mean cost of a checkpoint under the user's settings, as last measured; 0 before it was."""
        return self._budget.baseline_s

    @property
    def current_s(self) -> float:
        """Mean cost of the last checkpoints under the active settings, a trial aside."""
        return fmean(self._incumbent_costs) if self._incumbent_costs else 0.0

    @property
    def trying(self) -> Proposal | None:
        """The change that is on trial now."""
        return self._trial.proposal if self._trial else None

    @property
    def comparing(self) -> bool:
        """True while a trial is on and the settings that it may replace have their turn."""
        return self._trial is not None and self.wanted == self._trial.incumbent

    def candidates(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Return the changes that may be tried: what was given up, then those of `proposals` in order."""
        first = [self.given_up.beyond(self.settings)] if self.given_up else []
        return first + [each for each in proposals if self._cooldown.may(each)]

    def restart(self, baseline: Values, mutability: RunMutability, because: str, now: float) -> Outcome:
        """Begin anew under other settings of the user's: only the log goes on, and the generations."""
        before = self.settings
        self._add_together(self._pending)
        self._begin_generation(baseline, self._holding(mutability, mutability.found, baseline))
        changed = {name: value for name, value in baseline.items() if before.get(name) != value}
        new = _users("a run under other settings", changed, because, intent="")
        self._log(Verdict.BASELINE, new, now, values(before, changed))
        return self._outcome()

    def edit(self, baseline: Values, changes: Values, now: float) -> Outcome:
        """Begin anew under the settings that the user edited by `changes`: `baseline` is observed first.

        What had won before is the first to be tried again, but for what they changed. What of it only a
        launch can change is the baseline's from the next one on.
        """
        self._end_trial(now, _EDITED)
        won = self._won(but=changes)
        again = self._again(won) if won and self.on else None
        self._postpone(changes)
        before, later, touched = self.settings, self.later, self.touched | changes.keys()
        edit = _users(_EDIT, changes, self._with_waiting(_EDITED, changes))
        own = {name: value for name, value in baseline.items() if name not in later}
        own |= values(before, later)
        self.together = [{n: v for n, v in each.items() if n not in changes} for each in self.together]
        self._begin_generation(own, self._holding(self.mutability, before, own))
        self.touched, self.later, self.given_up = touched, later, again
        self._log(Verdict.REQUIRED, edit, now, values(before, changes))
        return self._outcome()

    def reject_edit(self, why: str, now: float) -> Outcome:
        """Note once why a line that the user edited does not become active."""
        line = _users(f"{_EDIT}: {why.partition(':')[0]}", {}, why)
        self._pass_over(Verdict.VETOED, line, why, now)
        return self._outcome()

    def _begin_generation(self, baseline: Values, mutability: RunMutability) -> None:
        self.generation += 1
        self._begin(baseline, mutability)

    def require(self, proposals: Iterable[tuple[Proposal, str | None]], now: float) -> Outcome:
        """Make the changes that the user's own declaration demands, but for those with a reason for a veto.

        The baseline moves with them. What only a launch can change is the baseline's from the next one on.
        """
        for proposal, reason in proposals:
            if reason:
                self._pass_over(Verdict.VETOED, proposal, reason, now)
            else:
                self._require(proposal, now)
        return self._outcome()

    def _require(self, proposal: Proposal, now: float) -> None:
        self._end_trial(now, proposal.because)
        previous = values(self.settings, proposal.changes)
        possible = self._postpone(proposal.changes)
        proposal = replace(proposal, because=self._with_waiting(proposal.because, proposal.changes))
        self.baseline.update(possible)
        self.put({**self.wanted, **possible})
        self._budget.remeasure()
        self._log(Verdict.REQUIRED, proposal, now, previous)

    def _pass_over(self, verdict: Verdict, proposal: Proposal, reason: str, now: float) -> None:
        """Note `verdict`, once for each rule; of several pending changes the first goes with a launch."""
        self._note_once(verdict, proposal, reason, now)
        if verdict is Verdict.PENDING and self.pending is None:
            self.pending = proposal

    def begin_run(self, mutability: RunMutability, now: float) -> Outcome:
        """A run of the job begins: a trial ends without a verdict, but for one that goes on with this run.

        Observations start anew. What waited for a launch is active if the run found it.
        """
        trial, started_with = self._trial, mutability.started_with
        self._block.clear()
        self._cycles.clear()
        self._add_together(self._pending)
        self._find(mutability)
        if trial is not None and not trial.since_launch:
            self._end_trial(now, "the run ended before there was a verdict")
        elif trial is not None and not started_with(trial.proposal.changes):
            self._end_trial(now, "this run did not begin with it")
        elif trial is not None and not trial.after:
            self._revert(trial, now, "in the run that began with it no checkpoint was measured")
        if arrived := {name: value for name, value in self.later.items() if started_with({name: value})}:
            self._take_over(arrived, now)
        elif self.pending is not None and started_with(self._pending):
            self._try_since_launch(self.pending, now)
        elif not mutability.prefers_launch(self._pending):
            self.pending = None
        return self._outcome()

    def switch(self, *, on: bool, now: float) -> Outcome:
        """``scrtune off``: the user's own settings, and nothing is tried, until ``scrtune on``."""
        goes_off, self.on = self.on and not on, on
        self._cycles.clear()
        if goes_off:
            self._end_trial(now, _OFF)
            self._back_to_baseline(now, _OFF, rule="scrtune off")
        return self._outcome()

    def failed(self, why: str, generation: int, now: float) -> Outcome:
        """A checkpoint under the settings of `generation` failed: go back a step, if they were tuned."""
        if self.is_tuned(generation, default=False):
            if self._trial is not None:
                self._revert(self._trial, now, why)
            elif self.wanted != self.baseline:
                self._back_to_baseline(now, why)
                self.given_up = None
                self._cooldown.closed.update(self._cooldown.tries)
        return self._outcome()

    def refused(self, generation: int, why: str, applied: Values, now: float) -> Outcome:
        """The ranks refused `generation` and stay with `applied`: no cost under it will ever come."""
        if generation == self.generation:
            self._refused(f"the ranks refused it: {why}", applied, now)
        return self._outcome()

    def _refused(self, why: str, applied: Values, now: float) -> None:
        trial, is_candidate = self._trial, not self.comparing
        if trial is not None:
            self._revert(trial, now, why)
            if is_candidate and not trial.since_launch:
                return
        names = sorted(self.settings.keys() & applied.keys())
        held = {name: applied[name] for name in names if applied[name] != self.settings[name]}
        refusal = _users("what the ranks refused", values(self.settings, held), why, intent="", source="SCR")
        if not held:  # another generation of the same would be refused, too
            self._note_once(Verdict.VETOED, refusal, why, now)
            return
        self.mutability = self.mutability.holding(held)
        self.put(self.wanted)
        stays = replace(refusal, because=f"{why}; until the next launch it stays as it is")
        self._log(Verdict.VETOED, stays, now, held)

    def charge_apply(self, apply_s: float) -> None:
        """Deduct the seconds of applying settings, to a change or back, from the trial budget."""
        self._budget.charge_apply(apply_s)

    def add(self, cost: CheckpointCost, now: float) -> Outcome:
        """Charge the cost of a checkpoint to the trial budget; the end of a flush cycle is an observation."""
        self._budget.charge(cost.cost_s, is_tuned=self.is_tuned(cost.generation, default=True))
        if cost.generation != self.generation:
            return self._outcome()
        cost_s = self._cycles.add(cost, flush_every(self.settings))
        return self._outcome() if cost_s is None else self.observe(cost_s, now)

    def observe(self, cost_s: float, now: float) -> Outcome:
        """Take in one observation under the active settings and decide."""
        self._block.append(cost_s)
        del self._block[:-DRIFT_OBSERVATIONS]
        trial = self._trial
        if trial is not None and not self.comparing:
            self._judge(trial, cost_s, now)
        else:
            self._incumbent_costs.append(cost_s)
            if self.settings == self.baseline:
                self._budget.observe_baseline(cost_s)
            if trial is not None:
                self._compare_with_incumbent(trial, cost_s, now)
        is_free, is_tuned = self.on and self._trial is None, self.wanted != self.baseline
        if is_free and is_tuned and (why := self._budget.why_back(self._block, self.current_s)):
            self._back_to_baseline(now, why)
        is_measured = is_tuned or self._budget.is_measured
        is_ready = is_free and is_measured and len(self._block) >= BLOCK and self.trial_budget_s > 0
        return self._outcome(is_ready=is_ready)

    def start(self, choice: TrialChoice, now: float) -> Outcome:
        """Note what was passed over, and start the trial that was chosen."""
        for verdict, proposal, reason in choice.passed_over:
            self._pass_over(verdict, proposal, reason, now)
        self.given_up = None
        if choice.proposal is not None:
            self._try(choice.proposal, self._block[-BLOCK:], now)
        return self._outcome()

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
        self._cooldown.tries[proposal.rule] += 1
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
        self._log(Verdict.TRIAL, proposal, now, values(incumbent, proposal.changes))

    def _judge(self, trial: Trial, cost_s: float, now: float) -> None:
        trial.after.append(cost_s)
        self.log.compare(trial.generation, trial.comparison)
        if why := trial.abort_reason(cost_s):
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
        """Enter a cost of the settings that the trial may replace, in their turn."""
        trial.before.append(cost_s)
        if self.trial_budget_s <= 0:
            self._revert(trial, now, _USED_UP)
        elif len(self._block) >= BLOCK:
            self.put(trial.candidate)

    def _accept(self, trial: Trial, now: float, why: str) -> None:
        previous = values(trial.incumbent, trial.proposal.changes)
        self._log(Verdict.ACCEPTED, replace(trial.proposal, because=why), now, previous, trial)
        self._trial = None
        self.pending = None  # there it may gain something else now
        self._cooldown.won(previous)
        self._incumbent_costs.clear()
        self._incumbent_costs.extend(trial.after)

    def _revert(self, trial: Trial, now: float, why: str, *, lost: bool = True) -> None:
        tried, incumbent = trial.proposal.changes, trial.incumbent
        if self.wanted != incumbent:
            self.put(incumbent)
        if any(self.settings.get(name) == value != incumbent.get(name) for name, value in tried.items()):
            why += "; until the next launch it stays active"
        undone = replace(trial.proposal, changes=values(incumbent, tried), because=why)
        self._log(Verdict.REVERTED, undone, now, tried, trial)
        self._trial = None
        if lost:
            self._cooldown.closed.add(trial.proposal.rule)

    def _end_trial(self, now: float, why: str) -> None:
        """End a trial that is on without a verdict."""
        if self._trial is not None:
            self._revert(self._trial, now, why, lost=False)

    def _take_over(self, arrived: Values, now: float) -> None:
        """The user's values that waited for this launch are active: measure the baseline with them."""
        why = f"{', '.join(sorted(arrived))}: active since this launch, as you requested"
        self._end_trial(now, why)
        self.later = {name: value for name, value in self.later.items() if name not in arrived}
        self.baseline.update(arrived)
        self.wanted.update(arrived)
        self._back_to_baseline(now, why, rule="what waited for the launch")

    def _back_to_baseline(self, now: float, why: str, rule: str = "stay within the bound") -> None:
        won = self._won()
        changes = values(self.baseline, won)
        back = _users(rule, changes, why, intent="goodput", source="goodput feedback")
        self.given_up = self._again(won) if won else self.given_up
        self.pending = None
        self.put(self.baseline)
        self._log(Verdict.BASELINE, back, now, won)
        self._cooldown.reset()
        self._budget.remeasure()
        self._incumbent_costs.clear()

    def _won(self, but: Values | None = None) -> Values:
        """Return what differs from the user's own settings."""
        won = {name: value for name, value in self.wanted.items() if self.baseline.get(name) != value}
        return {name: value for name, value in won.items() if name not in (but or {})}

    def _again(self, won: Values) -> Proposal:
        """Return a proposal to try once more what had won; it is expected to gain what it did."""
        why = "all of it once more, against your settings"
        proposal = _users("what had won before", won, why, intent="goodput", source="goodput feedback")
        gain_s = self.baseline_s - self.current_s if self._incumbent_costs else 0.0
        return replace(proposal, expected_gain_s=max(0.0, gain_s))

    def put(self, wanted: Values) -> None:
        """See :meth:`ActiveSettings.put`."""
        super().put(wanted)
        self._block = []

    def _outcome(self, *, is_ready: bool = False) -> Outcome:
        before, self._returned = self._returned, (self.generation, self.kept)
        new, self.log.new = self.log.new, []
        return Outcome(new, changed=self._returned != before, is_ready=is_ready)


def _users(
    rule: str, changes: Values, because: str, *, intent: str = "your word", source: str = "user"
) -> Proposal:
    return Proposal(rule=rule, intent=intent, changes=changes, because=because, source=source)
