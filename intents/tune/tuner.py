"""Goodput feedback: what a change really did decides whether it stays.

`docs/tuning.md` has the loop step by step, the bound on what trials cost, and how often both hold.
"""

from collections.abc import Callable, Iterable

import numpy as np
from msgspec.structs import replace

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import OutputCompleted
from ..events import ApplyRefused, Values
from ..mutability import RunMutability
from ..observe.shared_files import starts_past_the_cache
from ..rules.explain import LeverView, describe, why_fixed
from ..rules.guards import veto
from ..rules.levers import LEVERS, Lever
from ..rules.situation import Proposal, Situation
from ..settings import difference
from .active_settings import ActiveSettings, values
from .belief import Belief
from .budget import TrialBudget
from .chooser import (
    MOST_LOOKS,
    OWN,
    Looked,
    View,
    best,
    is_replay_due,
    is_surely_worse,
    p_better,
    p_worse,
    verdict,
    why_not,
)
from .comparison import compare
from .decisions import Breakdown, Outcome, Verdict
from .knowledge import Knowledge
from .learner import Learner
from .observations import Identity, WaitAttribution, identity
from .switching import can_go, switch_seconds
from .trial import Trial

_USED_UP = "the trial budget is used up"
_OFF = "scrtune off: your own settings"
_EDIT = "your edit of the config file"
_EDITED = "what you write into the config file wins: it is not tuned any more"
_STAY = 0.9
_QUIET = 6
_OVERDUE, _BLIND = 0.95, 0.02
_MORE_PREFIX = {"SCR_CACHE_BYPASS", "SCR_FLUSH"}

Look = Callable[[], Situation]


class Tuner(ActiveSettings):
    """Holds the active settings and decides about them, one checkpoint at a time.

    `settings` is always complete: the baseline with what was changed, as far as `mutability` goes; the rest is
    in `at_launch`. Each call that may decide returns its :class:`Outcome`. Memory is bounded.
    """

    def __init__(self, baseline: Values, mutability: RunMutability | None = None, *, on: bool = True) -> None:
        self.on = on
        self.tuning_s = 0.0
        """Seconds that trying cost since the last :class:`Outcome`."""
        super().__init__(baseline, mutability or RunMutability())
        self._returned = (self.generation, self.kept)

    def _begin(self, baseline: Values, mutability: RunMutability) -> None:
        super()._begin(baseline, mutability)
        self.learner = Learner()
        self.budget = TrialBudget()
        self._waits = WaitAttribution()
        self._trial: Trial | None = None
        self._incumbent = dict(self.wanted)
        self._dropped: set[Identity] = set()
        self._replays = self._quiet = 0
        self._tried: dict[Identity, Trial] = {}
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
        wanted = self.wanted if trial is None or trial.since_launch else self._incumbent
        return self._for_launch(wanted, self._pending)

    @property
    def _pending(self) -> Values:
        return self.pending.changes if self.pending else {}

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
        """Believed cost of a checkpoint under the active settings, a trial aside; 0 before one was measured."""
        index = self.belief.index(self._incumbent) if self.belief else None
        return self.belief.breakdown(index).cost_s if self.belief and index is not None else 0.0

    def knowledge(self, recalled: Knowledge | None, time_s: float) -> Knowledge | None:
        """Return what was learnt up to `time_s`, on top of what earlier jobs taught."""
        if self.belief is None:
            return None
        before = recalled or Knowledge(jobs=0, checkpoints=0)
        return Knowledge(
            jobs=before.jobs + 1,
            checkpoints=before.checkpoints + self.learner.observations.count,
            settings=difference(self._incumbent, self.baseline),
            baseline_s=self.baseline_s,
            cost_s=self.current_s,
            rates=self.belief.learnt_rates(),
            time_s=time_s,
        )

    @property
    def trying(self) -> Proposal | None:
        """The change that is on trial now."""
        return self._trial.proposal if self._trial else None

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
        """Begin anew under the settings that the user edited by `changes`.

        What was learnt stays. What of the edit only a launch can change is the baseline's from the next one on.
        """
        self._end_trial(now, _EDITED)
        self._postpone(changes)
        before, later, touched = self.settings, self.later, self.touched | changes.keys()
        learner, budget = self.learner, self.budget
        edit = _users(_EDIT, changes, self._with_waiting(_EDITED, changes))
        own = {name: value for name, value in baseline.items() if name not in later}
        own |= values(before, later)
        self.together = [{n: v for n, v in each.items() if n not in changes} for each in self.together]
        self._begin_generation(own, self._holding(self.mutability, before, own))
        self.touched, self.later = touched, later
        self.learner, self.budget = learner, budget
        learner.rebase()
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
        self._incumbent = dict(self.wanted)
        self.learner.rebase()
        self._log(Verdict.REQUIRED, proposal, now, previous)

    def _pass_over(self, verdict: Verdict, proposal: Proposal, reason: str, now: float) -> None:
        """Note `verdict`, once for each rule; of several pending changes the first goes with a launch."""
        self._note_once(verdict, proposal, reason, now)
        if verdict is Verdict.PENDING and self.pending is None:
            self.pending = proposal

    def begin_run(self, mutability: RunMutability, now: float) -> Outcome:
        """A run of the job begins: a trial ends without a verdict, but for one that goes on with this run.

        What waited for a launch is active if the run found it.
        """
        trial, started_with = self._trial, mutability.started_with
        self._waits = WaitAttribution()
        self.learner.run += 1
        self._add_together(self._pending)
        self._find(mutability)
        if trial is not None and not trial.since_launch:
            self._end_trial(now, "the run ended before there was a verdict")
        elif trial is not None and not started_with(trial.proposal.changes):
            self._end_trial(now, "this run did not begin with it")
        elif trial is not None and not trial.looks:
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
        if goes_off:
            self._end_trial(now, _OFF)
            self._back_to_baseline(now, _OFF, rule="scrtune off")
        return self._outcome()

    def failed(self, why: str, generation: int, now: float) -> Outcome:
        """A checkpoint under the settings of `generation` failed: they are never tried again, if they were tuned."""
        if self.is_tuned(generation, default=False):
            self._dropped.add(identity(self.settings_of(generation) or self.settings))
            if self._trial is not None:
                self._revert(self._trial, now, why)
            elif self.wanted != self.baseline:
                self._dropped.add(identity(self.settings))
                self._back_to_baseline(now, why)
        return self._outcome()

    def refused(self, event: ApplyRefused, applied: Values, now: float) -> Outcome:
        """The ranks refused a generation and stay with `applied`: no cost under it will ever come."""
        if event.generation == self.generation:
            self._refused(f"the ranks refused it: {event.why}", applied, event.in_force, now)
        return self._outcome()

    def _refused(self, why: str, applied: Values, restored: Values, now: float) -> None:
        trial = self._trial
        if trial is not None:
            self._dropped.add(identity(self.wanted))
            self._revert(trial, now, why)
            if not trial.since_launch and values(self.settings, restored) == restored:
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

    def output(self, output: OutputCompleted) -> None:
        """Take in that an output ended: the flush of a trial's first one may have begun."""
        trial = self._trial
        if trial is not None and output.flush_due and output.generation == trial.generation:
            trial.flush_began_s = trial.flush_began_s or output.end_s

    def overdue(self, now: float) -> Outcome:
        """End a trial whose first flush takes far longer than expected: later outputs would wait for it."""
        trial, belief = self._trial, self.belief
        if trial is None or belief is None or not trial.flush_began_s or trial.looks or trial.since_launch:
            return self._outcome()
        index = belief.index(self.wanted)
        expected_s = belief.flush_quantile_s(index, _OVERDUE) if index is not None else 0.0
        if now - trial.flush_began_s > max(expected_s, belief.shape.between_s):
            self._dropped.add(identity(self.wanted))
            self._revert(trial, now, f"its flush has not ended after {now - trial.flush_began_s:.3f} s")
        return self._outcome()

    def charge_apply(self, apply_s: float) -> None:
        """Deduct the seconds of applying settings, to a change or back, from the trial budget."""
        self.budget.charge_apply(apply_s)

    def add(self, cost: CheckpointCost, look: Look, now: float, *, may_try: bool = True) -> Outcome:
        """Take in the cost of a checkpoint, and decide. `look` returns the situation as it is now."""
        for each in self._waits.add(cost):
            self._learn(each, look, now, may_try=may_try)
        return self._outcome()

    def _learn(self, cost: CheckpointCost, look: Look, now: float, *, may_try: bool) -> None:
        settings = self.settings_of(cost.generation)
        if settings is None:
            return
        situation = look()
        is_settled = self._trial is None and self._quiet >= _QUIET
        keep = [self._incumbent, self.settings]
        is_new = self.learner.take(cost, settings, situation, keep, settled=is_settled)
        belief = self.belief
        if belief is None:
            return
        self._charge(belief, cost, settings, now)
        if self.on and is_new and may_try and cost.generation == self.generation:
            self._decide(belief, situation, now)

    def _charge(self, belief: Belief, cost: CheckpointCost, settings: Values, now: float) -> None:
        """Enter a checkpoint into the budget, and into the log of the trial that its settings came from."""
        own_s = float(belief.totals[OWN].mean())
        self.budget.open(own_s)
        index = belief.index(settings)
        cost_s = cost.cost_s - (
            belief.beyond_mean_s(index, flushed=cost.flushed) if index is not None else 0.0
        )
        is_tuned = settings != self.mutability.feasible(self.baseline)
        self.budget.charge(cost_s, own_s, is_tuned=is_tuned)
        trial = self._tried.get(identity(settings))
        if trial is None or index is None or not is_tuned:
            return
        against, looks = belief.index(trial.incumbent), self.learner.seen()[index]
        found = compare(belief.totals[against], belief.totals[index], looks) if against is not None else None
        self.log.measured(trial.generation, _seen(cost, cost_s), found, cost_s - own_s)
        if self._trial is None and identity(settings) != identity(self._incumbent):
            self.tuning_s += cost_s - own_s  # it ended after its trial had been reverted

    def _decide(self, belief: Belief, now_is: Situation, now: float) -> None:
        trial = self._trial
        view = self._view(belief, now_is)
        if trial is not None:
            self._judge(trial, view, now)
        elif self.wanted != self.baseline and (why := self._why_back(view)):
            self._back_to_baseline(now, why)
        if self._trial is not None or self.budget.left_s <= 0:
            return
        view = self._view(belief, now_is)
        if is_replay_due(view, self._replays):
            self._replays += 1
            self._replay(now)
        elif found := best(view, lambda index: self._veto(view, index, now_is, now), self._banned(belief)):
            self._quiet = 0
            self._try(self._proposal(view, found), belief, now)
        else:
            self._quiet += 1
            if self._quiet % _QUIET == 1:
                self._wait_for_launch(view, now_is, now)

    def _wait_for_launch(self, view: View, now_is: Situation, now: float) -> None:
        """Leave to the next launch what only a launch can change, or what it changes for nothing."""
        if self.pending is not None or now_is.job is None:
            return
        nothing = np.zeros(len(view.belief.candidates))
        free = view._replace(there_s=nothing, back_s=nothing, left_s=float("inf"))
        changes = [difference(each, self._incumbent) for each in view.belief.candidates]
        others = {
            i
            for i, each in enumerate(changes)
            if not self.mutability.prefers_launch(each) or starts_past_the_cache(each, now_is.job)
        }
        dropped = {i for i, each in enumerate(view.belief.candidates) if identity(each) in self._dropped}
        found = best(free, lambda index: self._stopped(view, index, now_is), others | dropped)
        if found and found.gain_s > 0:
            fixed = sorted(filter(self.mutability.is_fixed, changes[found.index]))
            why = f"{', '.join(fixed)}: only a launch can change it" if fixed else "a re-init does not pay now"
            proposal = self._proposal(view, found)
            why += f"; the next launch begins with it: {proposal.because}"
            self._pass_over(Verdict.PENDING, proposal, why, now)

    def proposals(self, now_is: Situation) -> tuple[Proposal, ...]:
        """Return what would be tried next, by the belief so far."""
        belief = self.belief
        if belief is None:
            return ()
        view = self._view(belief, now_is)._replace(left_s=float("inf"))
        found = best(view, lambda index: self._stopped(view, index, now_is), self._banned(belief))
        return (self._proposal(view, found),) if found else ()

    def levers(self, now_is: Situation) -> tuple[LeverView, ...]:
        """Return, for each lever, the best other value as far as is believed, and why it is not in use."""
        belief = self.belief
        view = self._view(belief, now_is) if belief else None
        count = len(belief.candidates) if belief else 0
        stopped = [self._stopped(view, index, now_is) or "" for index in range(count)] if view else []
        return tuple(self._lever(lever, view, stopped, now_is) for lever in LEVERS)

    def _lever(self, lever: Lever, view: View | None, stopped: list[str], now_is: Situation) -> LeverView:
        value = self.settings[lever.name]
        seen = LeverView(name=lever.name, value=value, source=lever.source, why=why_fixed(lever, now_is))
        if seen.why or view is None:
            return seen if seen.why else replace(seen, why="no checkpoint was measured yet")
        if self._trial is not None and lever.name in self._trial.proposal.changes:
            return replace(seen, other=self._trial.incumbent.get(lever.name), why="on trial now")
        totals = view.belief.totals.mean(axis=1)
        others = [i for i, each in enumerate(view.belief.candidates) if each[lever.name] != value]
        if not others:
            return replace(seen, why="other values change nothing here, or are less durable than asked for")
        index = min(others, key=lambda each: (bool(stopped[each]), float(totals[each])))
        return replace(
            seen,
            other=view.belief.candidates[index][lever.name],
            gain_s=float(totals[view.incumbent] - totals[index]),
            p_better=p_better(view, index),
            why=stopped[index] or self._why_not(view, index),
        )

    def _why_not(self, view: View, index: int) -> str:
        """Return why a candidate that nothing forbids is not in use."""
        tried = identity(view.belief.candidates[index])
        if tried in self._dropped:
            return "it was tried, and taken back"
        if why := why_not(view, index):
            return why
        if not self.on:
            return "expected to pay, but tuning is off"
        if view.left_s <= 0:
            return f"expected to pay, but {_USED_UP}"
        return "expected to pay" if tried in self._tried else "expected to pay, not tried yet"

    def _view(self, belief: Belief, now_is: Situation) -> View:
        incumbent = belief.index(self._incumbent)
        there_s, back_s = switch_seconds(belief, self.settings, now_is, flushed=self.learner.is_flushed)
        return View(
            belief=belief,
            incumbent=OWN if incumbent is None else incumbent,
            seen=self.learner.seen(),
            there_s=there_s,
            back_s=back_s,
            left_s=self.budget.left_s,
            remaining=now_is.checkpoints,
            loose=belief.amplified(self.learner.observations.all, OWN),
        )

    def _banned(self, belief: Belief) -> set[int]:
        """Return the candidates that were dropped, or that this run cannot have."""
        found = (belief.index_of(each) for each in self._dropped)
        stuck = (
            i for i, each in enumerate(belief.candidates) if not can_go(self.mutability, self.wanted, each)
        )
        return {*(index for index in found if index is not None), *stuck}

    def _why_back(self, view: View) -> str:
        """Return why tuned settings are given up; empty when they are not.

        Settings that are surely cheaper stay, as far as the overdraft goes: they fill the budget again.
        """
        if is_surely_worse(view):
            return "they probably cost over 2 % more than your own"
        p_own = p_better(view, OWN)
        if self.budget.left_s > 0 or (1 - p_own >= _STAY and self.budget.overdraft_s > 0):
            return ""
        return f"{_USED_UP}: {self.budget.left_s:.3f} s"

    def _judge(self, trial: Trial, view: View, now: float) -> None:
        trial.looks += 1
        index = view.belief.index(self.wanted)
        if index is None:
            self._revert(trial, now, "it is no candidate any more")
            return
        kept = verdict(view, index, trial.looks)
        if kept and trial.looks < MOST_LOOKS and self.log.cost_of(trial.generation) > 0:
            kept = None  # what was measured of it was dearer: a hiccup, or the belief is wrong
        why = compare(view.belief.totals[view.incumbent], view.belief.totals[index], trial.looks).text
        if kept is None and self.budget.left_s <= 0:
            self._dropped.add(identity(self.wanted))
            self._revert(trial, now, f"{_USED_UP}; {why}")
        elif kept:
            self._accept(trial, now, why)
        elif kept is False:
            self._dropped.add(identity(self.wanted))
            self._revert(trial, now, why)

    def _veto(self, view: View, index: int, now_is: Situation, now: float) -> str | None:
        """Return why a candidate must not be tried; note it once."""
        reason = self._stopped(view, index, now_is)
        if reason:
            changes = difference(view.belief.candidates[index], self.settings)
            self._note_once(Verdict.VETOED, describe(changes, self.baseline, 0.0, reason), reason, now)
        return reason

    def _stopped(self, view: View, index: int, now_is: Situation) -> str | None:
        changes = difference(view.belief.candidates[index], self.settings)
        is_blind = not self.learner.knows_prefix and bool(_MORE_PREFIX & changes.keys())
        if is_blind and p_worse(view, index) > _BLIND:
            return "no flush was measured yet: what the prefix directory takes is not known"
        return veto(changes, now_is) or view.belief.why_at_risk(index, now_is) or None

    def _proposal(self, view: View, found: Looked) -> Proposal:
        belief = view.belief
        changes = difference(belief.candidates[found.index], self._incumbent)
        expected, present = belief.breakdown(found.index), belief.breakdown(view.incumbent)
        because = (
            f"expected {expected.text} a checkpoint instead of {present.text}; cheaper with probability"
            f" {found.p_better:.2f}; {found.net_s:.3f} s in the rest of the job"
        )
        return describe(changes, self.baseline, found.gain_s, because)

    def _try(self, proposal: Proposal, belief: Belief, now: float, *, since_launch: bool = False) -> None:
        self._noted.discard((Verdict.PENDING, proposal.rule))
        if self.pending is not None and self.pending.rule == proposal.rule:
            self.pending = None
        self.put({**self._incumbent, **proposal.changes})
        self._trial = Trial(
            generation=self.generation,
            incumbent=self._incumbent,
            proposal=proposal,
            since_launch=since_launch,
        )
        self._tried[identity(self.wanted)] = self._trial
        index = belief.index(self.wanted)
        expected = belief.breakdown(index) if index is not None else None
        self._log(Verdict.TRIAL, proposal, now, values(self._incumbent, proposal.changes), expected)

    def _replay(self, now: float) -> None:
        """Try the user's own settings against those that won: a belief may be wrong."""
        changes = difference(self.baseline, self._incumbent)
        again = _users(
            "your own settings once more",
            changes,
            "to compare them",
            intent="goodput",
            source="goodput feedback",
        )
        self.put(self.baseline)
        self._trial = Trial(generation=self.generation, incumbent=self._incumbent, proposal=again)
        self._log(Verdict.TRIAL, again, now, values(self._incumbent, changes))

    def _try_since_launch(self, proposal: Proposal, now: float) -> None:
        """The run began with `proposal`: its costs against those of the last run."""
        self.pending = None
        if self.belief is None or self._trial is not None or not self.on:
            return
        noted = replace(proposal, because=f"{proposal.because}; this run began with it")
        self._try(noted, self.belief, now, since_launch=True)

    def _accept(self, trial: Trial, now: float, why: str) -> None:
        previous = values(trial.incumbent, trial.proposal.changes)
        self._log(Verdict.ACCEPTED, replace(trial.proposal, because=why), now, previous)
        self._trial = None
        self._incumbent = dict(self.wanted)
        self.pending = None  # there it may gain something else now

    def _revert(self, trial: Trial, now: float, why: str) -> None:
        tried, incumbent = trial.proposal.changes, trial.incumbent
        if self.wanted != incumbent:
            self.put(incumbent)
        if any(self.settings.get(name) == value != incumbent.get(name) for name, value in tried.items()):
            why += "; until the next launch it stays active"
        undone = replace(trial.proposal, changes=values(incumbent, tried), because=why)
        self._log(Verdict.REVERTED, undone, now, tried)
        self.tuning_s += self.log.cost_of(trial.generation)
        self._trial = None

    def _end_trial(self, now: float, why: str) -> None:
        """End a trial that is on without a verdict."""
        if self._trial is not None:
            self._revert(self._trial, now, why)

    def _take_over(self, arrived: Values, now: float) -> None:
        """The user's values that waited for this launch are active: measure the baseline with them."""
        why = f"{', '.join(sorted(arrived))}: active since this launch, as you requested"
        self._end_trial(now, why)
        self.later = {name: value for name, value in self.later.items() if name not in arrived}
        self.baseline.update(arrived)
        self.wanted.update(arrived)
        self._back_to_baseline(now, why, rule="what waited for the launch")

    def _back_to_baseline(self, now: float, why: str, rule: str = "stay within the bound") -> None:
        won = difference(self.wanted, self.baseline)
        back = _users(rule, values(self.baseline, won), why, intent="goodput", source="goodput feedback")
        self.pending = None
        self.put(self.baseline)
        self._incumbent = dict(self.baseline)
        self._log(Verdict.BASELINE, back, now, won)

    def _outcome(self) -> Outcome:
        before, self._returned = self._returned, (self.generation, self.kept)
        new, self.log.new = self.log.new, []
        tuning_s, self.tuning_s = self.tuning_s, 0.0
        return Outcome(new, changed=self._returned != before, tuning_s=tuning_s)


def _seen(cost: CheckpointCost, cost_s: float) -> Breakdown:
    return Breakdown(
        cost_s=cost_s,
        write_s=cost.write_s,
        encode_s=cost.encode_s,
        flush_s=cost.flush_s,
        slowdown_s=cost.slowdown_s,
    )


def _users(
    rule: str, changes: Values, because: str, *, intent: str = "your word", source: str = "user"
) -> Proposal:
    return Proposal(rule=rule, intent=intent, changes=changes, because=because, source=source)
