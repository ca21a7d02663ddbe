"""Trials: the belief decides what is tried next, what stays, and when the user's own settings come back.

`docs/tuning.md` has the choice, the verdict, and the bound on what trials cost.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import FlushCompleted, OutputCompleted
from ..events import Values
from ..mutability import RunMutability
from ..rules.explain import describe, users_change
from ..rules.guards import outgrown
from ..rules.levers import LEVERS, Component
from ..rules.situation import Proposal, Situation
from ..settings import difference, flush_every, is_cached
from .active_settings import values
from .belief.belief import Belief
from .belief.observations import Identity, WaitAttribution, identity
from .belief.sizes import scaled
from .choice.chooser import OWN, View, best, is_replay_due, is_surely_worse, p_better
from .choice.judge import KEEP_AT_LAST, judge
from .choice.next_launch import for_nothing, why_at_launch, without_launch
from .decisions import Breakdown, Outcome, Verdict, compare
from .trial import Trial, why_too_expensive
from .tuning_state import TuningState

USED_UP = "the trial budget is used up"
_STAY = 0.9
_QUIET = 6
_OF_OUTPUTS = {lever.name for lever in LEVERS if Component.OUTPUT in lever.components}

SituationNow = Callable[[], Situation]


class Trials(TuningState):
    """The trial that is on, and what becomes of it.

    `settings` is always complete: the baseline with what was changed, as far as `mutability` goes; the rest
    is in `at_launch`. Memory is bounded.
    """

    def __init__(self, baseline: Values, mutability: RunMutability | None = None, *, on: bool = True) -> None:
        self.on = on
        self.tuning_s = 0.0
        """Seconds that trying cost since the last :class:`Outcome`."""
        super().__init__(baseline, mutability or RunMutability())
        self._returned = (self.generation, self.kept)

    def _begin(self, baseline: Values, mutability: RunMutability) -> None:
        super()._begin(baseline, mutability)
        self._waits = WaitAttribution()
        self._trial: Trial | None = None
        self._replays = self._quiet = 0
        self._leaving: tuple[int, str] | None = None
        """The dataset after which to go back, and why."""
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
    def trying(self) -> Proposal | None:
        """The change that is on trial now."""
        return self._trial.proposal if self._trial else None

    def output(self, output: OutputCompleted, now: float) -> Outcome:
        """Take in that an output ended. Go back where that had to wait for it, or where it cost too much."""
        self._waits.output(output)
        settings = self.settings_of(output.generation)
        self.datasets.output(output.dataset, is_flushed=settings is not None and not is_cached(settings))
        if self._leaving is not None and output.dataset >= self._leaving[0]:
            self._go_back(self._leaving[1], now)
        elif self._trial is not None and self.belief is not None and output.generation == self.generation:
            share = self.learner.usual_size.share(output.bytes)
            most_s = max(self.budget.left_s, self.budget.overdraft_s)
            if why := why_too_expensive(self._trial, self.belief, output, share, most_s):
                self._go_back(why, now)
        return self._outcome()

    def flushed(self, flush: FlushCompleted) -> None:
        """Take in that a flush ended, although what it cost may not be known yet."""
        self.datasets.flush(flush)
        if self._trial is not None:
            self._trial.flushed(flush)

    def add(
        self, cost: CheckpointCost, situation_now: SituationNow, now: float, *, may_try: bool = True
    ) -> Outcome:
        """Take in the cost of a checkpoint, and decide by the situation as it is now."""
        for each in self._waits.add(cost):
            self._learn(each, situation_now, now, may_try=may_try)
        return self._outcome()

    def amend(self, cost: CheckpointCost) -> None:
        """Take in what is known by now of the slowdown of a checkpoint that was added before."""
        self._waits.amend(cost)
        self.learner.amend(cost)

    def _learn(self, cost: CheckpointCost, situation_now: SituationNow, now: float, *, may_try: bool) -> None:
        settings = self.settings_of(cost.generation)
        if settings is None:
            return
        situation = situation_now()
        is_settled = self._trial is None and self._quiet >= _QUIET and not self._may_go_back
        keep = [self._incumbent, self.settings]
        is_new = self.learner.take(cost, settings, situation, keep, settled=is_settled)
        belief = self.belief
        if belief is None:
            return
        cost_s = self._charge(belief, cost, settings)
        is_due = is_new or outgrown(situation) or self._may_go_back
        if not (self.on and may_try):
            self._quiet += 1
        elif is_due and cost.generation == self.generation:
            self._decide(belief, cost_s, situation, now, flushed=cost.flushed)

    @property
    def _may_go_back(self) -> bool:
        """Whether tuned settings have used up the budget: each checkpoint decides whether they stay."""
        return self.budget.left_s <= 0 and self.wanted != self.baseline

    def _charge(self, belief: Belief, cost: CheckpointCost, settings: Values) -> float:
        """Enter a checkpoint into the budget, and into the log of the trial that its settings came from.

        Returns what one of the usual size costs by it, as one of its flush cycle: job time, for the expected
        rework has not passed, and pays for nothing.
        """
        share = self.learner.usual_size.share(cost.bytes)
        cost = scaled(cost, 1 / share)
        own_s = float(belief.felt[OWN].mean())
        self.budget.believe(own_s, belief.may_be_less_s(OWN), self.learner.regime)
        index = belief.index(settings)
        cost_s = cost.cost_s if index is None else belief.charged_s(index, cost)
        is_tuned = settings != self.mutability.feasible(self.baseline)
        if self.budget.left_s > 0:
            self.datasets.within_budget = self.datasets.ended
        had_begun = cost.dataset <= self.datasets.within_budget
        self.budget.charge(share * cost_s, share, is_tuned=is_tuned, had_begun=had_begun)
        is_on = self._trial is not None and self._trial.generation == cost.generation
        trial = self._tried.get(identity(settings)) if is_tuned else self._trial if is_on else None
        self.uncounted += is_tuned and not self.knows_own
        if trial is None or index is None:
            return cost_s
        against, looks = belief.index(trial.incumbent), self.learner.seen()[index]
        found = compare(belief.totals[against], belief.totals[index], looks) if against is not None else None
        # nothing is claimed that nobody measured
        lost_s = share * (cost_s - own_s) if is_tuned and self.knows_own else 0.0
        rework_s = belief.rework_s(index)
        seen_s = cost.cost_s - belief.beyond_mean_s(index, flushed=cost.flushed) + rework_s
        self.log.measured(trial.generation, Breakdown.of(cost, seen_s, rework_s), found, lost_s)
        trial.lost_s += lost_s
        if trial is not self._trial and identity(settings) != identity(self._incumbent):
            self.tuning_s += lost_s  # it ended after its trial had been reverted
        return cost_s

    def _decide(self, belief: Belief, cost_s: float, now_is: Situation, now: float, *, flushed: bool) -> None:
        trial = self._trial
        # of changed flushes a checkpoint without one says nothing: what was decided at the last one stands
        is_judged = (
            trial is None
            or flushed
            or not is_cached(trial.settings)
            or not _OF_OUTPUTS.isdisjoint(trial.proposal.changes)
        )
        if is_judged:
            self._leaving = None
        view = self._view(belief, now_is)
        if self.wanted != self.baseline and (why := outgrown(now_is)):
            self._go_back(why, now)
        elif trial is not None:
            if is_judged:
                self._judge(trial, view, cost_s, now)
        elif self.wanted != self.baseline and (why := self._why_back(view)):
            self._leave(view, view.incumbent, OWN, why, now)
        if self._trial is None:
            self._choose(belief, now_is, now)

    def _choose(self, belief: Belief, now_is: Situation, now: float) -> None:
        """Try what is expected to save most, if anything may be tried."""
        if max(self.budget.left_s, self.budget.overdraft_s) <= 0:
            self._quiet += 1
            return
        now_is = replace(now_is, settings=self.settings)
        view = self._view(belief, now_is)
        can_replay = self.mutability.feasible(self.baseline) == self.baseline
        if can_replay and is_replay_due(view, self._replays):
            self._replays += 1
            self._replay(belief, now)
        elif found := best(view, lambda index: self._veto(view, index, now_is, now), self._banned(view)):
            self._quiet = 0
            self._try(self._proposal(view, found), belief, now)
        else:
            self._quiet += 1
            if self._quiet % _QUIET == 1:
                self._wait_for_launch(view, now_is, now)

    def _wait_for_launch(self, view: View, now_is: Situation, now: float) -> None:
        """Leave to the next launch what only a launch can change, or what it changes for nothing.

        Chosen anew each time, on top of what waits for that launch already.
        """
        if (job := now_is.job) is None:
            return
        self.pending = None
        now_is = replace(now_is, settings={**now_is.settings, **self.later})
        dropped = {i for i, each in enumerate(view.belief.candidates) if identity(each) in self._dropped}
        others = dropped | without_launch(view, self._incumbent, self.mutability, job)
        found = best(for_nothing(view), lambda index: self._stopped(view, index, now_is), others)
        if found and found.gain_s > 0:
            proposal = self._proposal(view, found)
            why = f"{why_at_launch(proposal.changes, self.mutability)}: {proposal.because}"
            self._note_once(Verdict.PENDING, proposal, why, now)
            self.pending = proposal

    def _why_back(self, view: View) -> str:
        """Return why tuned settings are given up; empty when they are not.

        Settings that are surely cheaper stay, as far as the overdraft goes: they fill the budget again.
        """
        if is_surely_worse(view):
            return "they probably cost over 2 % more than your own"
        if self._may_stay(view, 1 - p_better(view, OWN)):
            return ""
        return f"{USED_UP}: {self.budget.left_s:.3f} s"

    def _may_stay(self, view: View, p: float) -> bool:
        """Return whether settings that are cheaper with probability `p` may stay: the way back costs, too."""
        enough = _STAY if view.there_s[OWN] <= 0 else KEEP_AT_LAST
        return self.budget.left_s > 0 or (p >= enough and self.budget.overdraft_s > 0)

    def _judge(self, trial: Trial, view: View, cost_s: float, now: float) -> None:
        """Give a verdict after a checkpoint of a trial, which cost `cost_s`, or take another one."""
        trial.looks += 1
        index = view.belief.index(self.wanted)
        if index is None:
            self._revert(trial, now, "it is no candidate any more")
            return
        kept = judge(view, index, trial.looks, cost_s, self.log.trial(trial.generation))
        why = compare(view.belief.totals[view.incumbent], view.belief.totals[index], trial.looks).text
        if kept:
            self._accept(trial, now, why)
        elif kept is None and self._may_stay(view, p_better(view, index)):
            return
        else:
            self._leave(view, index, view.incumbent, why if kept is False else f"{USED_UP}; {why}", now)

    def _leave(self, view: View, index: int, to: int, why: str, now: float) -> None:
        """Go back, once the next flush is due where the one that a re-init forces now is more expensive."""
        every = flush_every(self.settings)
        left = -self.datasets.ended % every
        more_s = left * float((view.belief.totals[index] - view.belief.totals[to]).mean())
        due_s = max(0.0, float(view.belief.flush_s[index]) - view.belief.shape.between_s)
        is_later = left and view.there_s[to] > 0 and more_s + due_s < view.forced_s
        self._leaving = (self.datasets.ended + left, why) if is_later else None
        if not is_later:
            self._go_back(why, now)

    def _go_back(self, why: str, now: float) -> None:
        self._dropped[identity(self.wanted)] += 1
        if self._trial is None:
            self._back_to_baseline(now, why)
        else:
            self._revert(self._trial, now, why)

    def _veto(self, view: View, index: int, now_is: Situation, now: float) -> str | None:
        """Return why a candidate must not be tried; note it once."""
        reason = self._stopped(view, index, now_is)
        if reason:
            changes = difference(view.belief.candidates[index], self.settings)
            self._note_once(Verdict.VETOED, describe(changes, self.baseline, 0.0, reason), reason, now)
        return reason

    def _try(self, proposal: Proposal, belief: Belief, now: float, *, since_launch: bool = False) -> None:
        self._noted.discard((Verdict.PENDING, proposal.rule))
        if self.pending is not None and self.pending.rule == proposal.rule:
            self.pending = None
        wanted = {**self._incumbent, **proposal.changes}
        self._tried[identity(wanted)] = self._begin_trial(proposal, wanted, since_launch=since_launch)
        index = belief.index(self.wanted)
        expected = belief.breakdown(index) if index is not None else None
        self._log(Verdict.TRIAL, proposal, now, values(self._incumbent, proposal.changes), expected)

    def _begin_trial(self, proposal: Proposal, wanted: Values, *, since_launch: bool = False) -> Trial:
        self.put(wanted)
        self._trial = Trial(
            generation=self.generation,
            incumbent=self._incumbent,
            wanted=self.wanted,
            settings=self.settings,
            proposal=proposal,
            since_launch=since_launch,
            after=self.datasets.newest,
        )
        return self._trial

    def _replay(self, belief: Belief, now: float) -> None:
        """Try the user's own settings against those that won: a belief may be wrong."""
        changes = difference(self.baseline, self._incumbent)
        again = users_change(
            "your own settings once more",
            changes,
            "to compare them",
            intent="goodput",
            source="goodput feedback",
        )
        self._begin_trial(again, self.baseline)
        self._log(Verdict.TRIAL, again, now, values(self._incumbent, changes), belief.breakdown(OWN))

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
        del self._dropped[identity(self.wanted)]
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
        self._leaving = None
        self.tuning_s += trial.lost_s
        self._trial = None

    def _end_trial(self, now: float, why: str) -> None:
        """End a trial that is on without a verdict."""
        if self._trial is not None:
            self._revert(self._trial, now, why)

    def _back_to_baseline(self, now: float, why: str, rule: str = "stay within the bound") -> None:
        won = difference(self.wanted, self.baseline)
        own = values(self.baseline, won)
        back = users_change(rule, own, why, intent="goodput", source="goodput feedback")
        self.pending = None
        self.put(self.baseline)
        self._incumbent = dict(self.baseline)
        self._leaving = None
        self._log(Verdict.BASELINE, back, now, won)

    def _outcome(self) -> Outcome:
        before, self._returned = self._returned, (self.generation, self.kept)
        new, self.log.new = self.log.new, []
        tuning_s, self.tuning_s = self.tuning_s, 0.0
        return Outcome(new, changed=self._returned != before, tuning_s=tuning_s)
