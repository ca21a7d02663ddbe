"""The tuner: what the user says and what a launch finds, on top of goodput feedback (:mod:`.trials`)."""

from collections.abc import Iterable

from msgspec.structs import replace

from ..events import ApplyRefused, UserEdited, Values
from ..mutability import RunMutability
from ..rules.explain import LeverView, users_change, why_fixed
from ..rules.levers import LEVERS, Lever
from ..rules.situation import Proposal, Situation
from ..settings import changes_text, difference
from .active_settings import values
from .belief.observations import WaitAttribution, identity
from .choice.chooser import OWN, View, best, p_better, why_not
from .datasets import Datasets
from .decisions import Outcome, Verdict
from .knowledge import Knowledge
from .trial import Trial
from .trials import USED_UP, Trials
from .tuning_state import TWICE

_OFF = "scrtune off: your own settings"
_EDIT = "your edit of the config file"


class Tuner(Trials):
    """Decides about the active settings, one checkpoint at a time; each call returns its :class:`Outcome`."""

    def knowledge(self, recalled: Knowledge | None, time_s: float) -> Knowledge | None:
        """Return what was learnt up to `time_s`, on top of what earlier jobs taught.

        A job that has tried nothing has found no cheaper settings than those before it.
        """
        if self.belief is None:
            return None
        before = recalled or Knowledge(jobs=0, checkpoints=0)
        cheapest = self.found if self._tried else before.settings
        index = self.belief.index({**self.baseline, **cheapest})
        return Knowledge(
            jobs=before.jobs + 1,
            checkpoints=before.checkpoints + self.learner.observations.count,
            settings=cheapest,
            baseline_s=self.baseline_s,
            cost_s=before.cost_s if index is None else self.belief.breakdown(index).cost_s,
            rates=self.belief.learnt_rates(),
            time_s=time_s,
        )

    @property
    def found(self) -> Values:
        """What of the settings that won differs from the user's own."""
        return difference(self._incumbent, self.baseline)

    @property
    def felt_s(self) -> float:
        """Believed seconds that a checkpoint takes, expected rework aside; 0 while something is on trial."""
        index = self.belief.index(self._incumbent) if self.belief else None
        return self.belief.felt_s(index) if self.belief and index is not None and not self._trial else 0.0

    def restart(self, baseline: Values, mutability: RunMutability, because: str, now: float) -> Outcome:
        """Begin anew under other settings of the user's: only the log goes on, and the generations."""
        before = self.settings
        self._add_together(self._pending)
        self._begin_generation(baseline, self._holding(mutability, mutability.found, baseline))
        changed = {name: value for name, value in baseline.items() if before.get(name) != value}
        new = users_change("a run under other settings", changed, because, intent="")
        self._log(Verdict.BASELINE, new, now, values(before, changed))
        return self._outcome()

    def edit(self, baseline: Values, changes: Values, edit: UserEdited, now: float) -> Outcome:
        """Begin anew under the settings that the user's word, an `edit` or a pin, has changed by `changes`.

        What was learnt stays. What of the edit only a launch can change is the baseline's from the next one
        on.
        """
        rule, why = _word(edit)
        self._end_trial(now, f"{rule} comes first")
        if won := difference(self._incumbent, self.baseline):
            why += f"; what was kept is taken back, and may be tried again: {changes_text(won)}"
        self._postpone(changes)
        before, later, touched = self.settings, self.later, self.touched | changes.keys()
        learner, budget = self.learner, self.budget
        change = users_change(rule, changes, self._with_waiting(why, changes))
        own = {name: value for name, value in baseline.items() if name not in later}
        own |= values(before, later)
        self.together = [{n: v for n, v in each.items() if n not in changes} for each in self.together]
        self._begin_generation(own, self._holding(self.mutability, before, own))
        self.touched, self.later = touched, later
        self.learner, self.budget = learner, budget
        learner.rebase()
        self._log(Verdict.REQUIRED, change, now, values(before, changes))
        return self._outcome()

    def reject_edit(self, why: str, now: float) -> Outcome:
        """Note once why a line that the user edited does not become active."""
        line = users_change(f"{_EDIT}: {why.partition(':')[0]}", {}, why)
        self._note_once(Verdict.VETOED, line, why, now)
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
                self._note_once(Verdict.VETOED, proposal, reason, now)
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

    def begin_run(self, mutability: RunMutability, now: float) -> Outcome:
        """A run of the job begins: a trial ends without a verdict, but for one that goes on with this run.

        What waited for a launch is active if the run found it.
        """
        trial, started_with = self._trial, mutability.started_with
        self._waits = WaitAttribution()
        self.datasets = Datasets()
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
        self._quiet = 0  # so that the first decision is made from all that was seen
        if goes_off:
            self._end_trial(now, _OFF)
            self._back_to_baseline(now, _OFF, rule="scrtune off")
        return self._outcome()

    def failed(self, why: str, generation: int, now: float) -> Outcome:
        """A checkpoint under the settings of `generation` failed: never again, if they were tuned."""
        if self.is_tuned(generation):
            failed = identity(self.settings_of(generation) or self.settings)
            self._dropped[failed] = TWICE
            kept = identity(self.mutability.feasible(self._incumbent))  # the rest of it waits for a launch
            if failed == kept and self._incumbent != self.baseline:
                self._end_trial(now, why)
                self._back_to_baseline(now, why)
            elif self._trial is not None and failed == identity(self.settings):
                self._revert(self._trial, now, why)
        return self._outcome()

    def refused(self, event: ApplyRefused, applied: Values, now: float) -> Outcome:
        """The ranks refused a generation and stay with `applied`: no cost under it will ever come."""
        if event.generation == self.generation:
            self._refused(f"the ranks refused it: {event.why}", applied, event.in_force, now)
        return self._outcome()

    def _refused(self, why: str, applied: Values, restored: Values, now: float) -> None:
        trial = self._trial
        if trial is not None:
            self._dropped[identity(self.wanted)] = TWICE
            self._revert(trial, now, why)
            if not trial.since_launch and values(self.settings, restored) == restored:
                return
        names = sorted(self.settings.keys() & applied.keys())
        held = {name: applied[name] for name in names if applied[name] != self.settings[name]}
        wanted = values(self.settings, held)
        refusal = users_change("what the ranks refused", wanted, why, intent="", source="SCR")
        if not held:  # another generation of the same would be refused, too
            self._note_once(Verdict.VETOED, refusal, why, now)
            return
        self.mutability = self.mutability.holding(held)
        self.put(self.wanted)
        stays = replace(refusal, because=f"{why}; until the next launch it stays as it is")
        self._log(Verdict.VETOED, stays, now, held)

    def proposals(self, now_is: Situation) -> tuple[Proposal, ...]:
        """Return what would be tried next, by the belief so far."""
        belief = self.belief
        if belief is None:
            return ()
        view = self._view(belief, now_is)._replace(left_s=float("inf"))
        found = best(view, lambda index: self._stopped(view, index, now_is), self._banned(view))
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
        if seen.why:
            return seen
        if view is None:
            is_seen = self.learner.observations.count > 0
            why = "weighed anew at the next checkpoint" if is_seen else "no checkpoint was measured yet"
            return replace(seen, why=why)
        if self._trial is not None and lever.name in self._trial.proposal.changes:
            return self._on_trial(self._trial, seen, view)
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

    def _on_trial(self, trial: Trial, seen: LeverView, view: View) -> LeverView:
        totals, tried = view.belief.totals, view.belief.index(self.wanted)
        gain = (totals[tried if tried is not None else OWN] - totals[view.incumbent]).mean()
        other = trial.incumbent.get(seen.name)
        return replace(seen, other=other, gain_s=float(gain), why="on trial, against this value")

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
            return f"expected to pay, but {USED_UP}"
        return "expected to pay" if tried in self._tried else "expected to pay, not tried yet"

    def _take_over(self, arrived: Values, now: float) -> None:
        """The user's values that waited for this launch are active: measure the baseline with them."""
        why = f"{', '.join(sorted(arrived))}: active since this launch, as you requested"
        self._end_trial(now, why)
        self.later = {name: value for name, value in self.later.items() if name not in arrived}
        self.baseline.update(arrived)
        self.learner.rebase()
        self.wanted.update(arrived)
        self._back_to_baseline(now, why, rule="what waited for the launch")


def _word(edit: UserEdited) -> tuple[str, str]:
    """Return what the user did, and what follows from it."""
    if edit.released:
        return "scrtune unpin", "the values from before are back, and may be tuned"
    if edit.is_pin:
        return "scrtune pin", "what you pin is not tuned any more"
    return _EDIT, "what you write into the config file wins: it is not tuned any more"
