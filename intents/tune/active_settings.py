"""The active settings, the reasons for them, and what waits for the next launch."""

from collections import deque

from msgspec.structs import replace

from ..events import Values
from ..mutability import LEVER, RunMutability
from ..rules.situation import Proposal
from .choice.budget import TrialBudget
from .decisions import Breakdown, Decision, DecisionLog, Verdict

_REMEMBERED = 64


class ActiveSettings:
    """The settings generation by generation, with the log of decisions, and what this run cannot have.

    `baseline` are the user's own. `wanted` was decided, `settings` is active: they differ in what waits for
    the next launch. `later` are the user's values that wait for it. What came with a launch is changed as a
    whole (`together`): half of one change may protect less than all of it or nothing. Memory is bounded.
    """

    def __init__(self, baseline: Values, mutability: RunMutability) -> None:
        self.generation = 0
        self.log = DecisionLog()
        self.together: list[Values] = []
        self._begin(baseline, mutability)

    def _begin(self, baseline: Values, mutability: RunMutability) -> None:
        """Make `baseline` the settings; only the log, the generations and `together` go on."""
        self.baseline = dict(baseline)
        self.wanted = dict(baseline)
        self.later: Values = {}
        self.mutability = mutability
        self.settings = mutability.feasible(baseline)
        self.touched: set[str] = set()
        self.budget = TrialBudget()
        self._past: dict[int, tuple[Values, bool]] = {}
        self._noted: set[tuple[Verdict, str]] = set()
        self._remember()

    @property
    def decisions(self) -> deque[Decision]:
        """The decisions so far, oldest first."""
        return self.log.entries

    def put(self, wanted: Values) -> None:
        """Make `wanted` a new generation, as far as this run can have it."""
        self.mutability = self._holding(self.mutability, self.settings, wanted)
        settings = self.mutability.feasible(wanted)
        names = settings.keys() | self.settings.keys()
        self.touched |= {name for name in names if settings.get(name) != self.settings.get(name)}
        self.wanted, self.settings = dict(wanted), settings
        self.generation += 1
        self._remember()

    def _holding(self, mutability: RunMutability, active: Values, wanted: Values) -> RunMutability:
        """Return `mutability` that holds all of a change if one value cannot go from `active` to `wanted`."""
        for changes in self.together:
            if any(mutability.is_fixed(name) and active.get(name) != wanted.get(name) for name in changes):
                mutability = mutability.holding(values(active, changes))
        return mutability

    def _find(self, mutability: RunMutability) -> None:
        """A run begins in which other changes may be possible."""
        fixed = [{n: v for n, v in each.items() if mutability.is_fixed(n)} for each in self.together]
        self.together = [
            each
            for each, part in zip(self.together, fixed, strict=True)
            if part and mutability.started_with(part)
        ]
        self.mutability = self._holding(mutability, mutability.found, self.wanted)
        if self.mutability.feasible(self.wanted) != self.settings:
            self.put(self.wanted)

    def _add_together(self, changes: Values) -> None:
        """A launch may have made `changes` active, but for levers, which can change at any time."""
        changes = {name: value for name, value in changes.items() if not name.startswith(LEVER)}
        if changes and changes not in self.together:
            self.together.append(changes)

    def _postpone(self, changes: Values) -> Values:
        """Return what this run can have of the user's `changes`; the rest waits for the next launch."""
        waiting = {
            name: value
            for name, value in changes.items()
            if self.mutability.is_fixed(name) and self.settings.get(name) != value
        }
        self.later = {name: value for name, value in self.later.items() if name not in changes} | waiting
        return {name: value for name, value in changes.items() if name not in waiting}

    def _with_waiting(self, because: str, changes: Values) -> str:
        """Return `because`, and the names of `changes` that wait for the next launch."""
        names = ", ".join(sorted(self.later.keys() & changes.keys()))
        return f"{because}; {names} from the next launch on, which alone can change it" if names else because

    def _for_launch(self, wanted: Values, pending: Values) -> Values:
        """Return `wanted` with all that waits, but for levers, which no launch gets from a file."""
        wanted = {**wanted, **self.later, **pending}
        return {name: wanted[name] for name in sorted(wanted) if not name.startswith(LEVER)}

    def settings_of(self, generation: int) -> Values | None:
        """Return the settings of `generation`; None when they are no longer remembered."""
        return self._past[generation][0] if generation in self._past else None

    def is_tuned(self, generation: int) -> bool:
        """Return whether `generation` had other settings than the user's, as far as is remembered."""
        return generation in self._past and self._past[generation][1]

    def _note_once(self, verdict: Verdict, proposal: Proposal, reason: str, now: float) -> None:
        keys = {(verdict, proposal.rule), (verdict, reason)}
        if not keys & self._noted:
            self._noted |= keys
            self._log(
                verdict, replace(proposal, because=reason), now, values(self.settings, proposal.changes)
            )

    def _log(
        self,
        verdict: Verdict,
        proposal: Proposal,
        now: float,
        previous: Values,
        expected: Breakdown | None = None,
    ) -> None:
        decision = Decision(
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
            expected=expected,
            budget_s=self.budget.left_s,
        )
        self.log.add(decision)

    def _remember(self) -> None:
        self._past[self.generation] = (self.settings, self.settings != self.baseline)
        self._past.pop(self.generation - _REMEMBERED, None)


def values(settings: Values, names: Values) -> Values:
    """Return what `settings` has for `names`."""
    return {name: settings[name] for name in sorted(names) if name in settings}
