"""The settings in force, why they are, and what waits for the next launch."""

from collections import deque

from msgspec.structs import replace

from ..events import Values
from ..rules.mutability import LEVER, Reach
from ..rules.situation import Proposal
from .decisions import Decision, DecisionLog, Verdict
from .trial import Trial

_REMEMBERED = 64


class ActiveSettings:
    """The settings in force, generation by generation, with the log of why, and what this run cannot have.

    `baseline` are the user's own. `wanted` is what was decided, `settings` what is in force: they differ in
    what waits for the next launch. `later` is the user's word that waits for it. What came with a launch goes
    as a whole: `together` are such changes. Half of one may protect less than all of it or nothing. Memory is
    bounded.
    """

    def __init__(self, baseline: Values, generation: int, reach: Reach) -> None:
        self.baseline = dict(baseline)
        self.wanted = dict(baseline)
        self.later: Values = {}
        self.together: list[Values] = []
        self.reach = reach
        self.settings = reach.possible(baseline)
        self.generation = generation
        self.touched: set[str] = set()
        self._past: dict[int, tuple[Values, bool]] = {}
        self.log = DecisionLog()
        self._noted: set[tuple[Verdict, str]] = set()
        self._remember()

    @property
    def decisions(self) -> deque[Decision]:
        """The decisions so far, oldest first."""
        return self.log.entries

    def take_news(self) -> list[Decision]:
        """The decisions since the last call."""
        return self.log.take_news()

    def put(self, wanted: Values) -> None:
        """A new generation: `wanted`, as far as this run can have it."""
        self.reach = self.sticking(self.reach, self.settings, wanted)
        settings = self.reach.possible(wanted)
        names = settings.keys() | self.settings.keys()
        self.touched |= {name for name in names if settings.get(name) != self.settings.get(name)}
        self.wanted, self.settings = dict(wanted), settings
        self.generation += 1
        self._remember()

    def sticking(self, reach: Reach, in_force: Values, wanted: Values) -> Reach:
        """`reach`, with all of a change held of which one value cannot go from `in_force` to `wanted`."""
        for changes in self.together:
            if any(reach.is_fixed(name) and in_force.get(name) != wanted.get(name) for name in changes):
                reach = reach.holding(values(in_force, changes))
        return reach

    def find(self, reach: Reach) -> None:
        """A run begins in which other things may be possible."""
        fixed = [{n: v for n, v in each.items() if reach.is_fixed(n)} for each in self.together]
        self.together = [
            each for each, part in zip(self.together, fixed, strict=True) if part and reach.began_with(part)
        ]
        self.reach = self.sticking(reach, reach.found, self.wanted)
        if self.reach.possible(self.wanted) != self.settings:
            self.put(self.wanted)

    def add_together(self, changes: Values) -> None:
        """A launch may have put `changes` in force."""
        if changes and changes not in self.together:
            self.together.append(changes)

    def other_than(self, in_force: Values) -> Values:
        """What of `in_force` the settings do not say."""
        names = sorted(self.settings.keys() & in_force.keys())
        return {name: in_force[name] for name in names if in_force[name] != self.settings[name]}

    def postpone(self, changes: Values) -> Values:
        """Of the user's word `changes`, what this run can have; the rest waits for the next launch."""
        waiting = {
            name: value
            for name, value in changes.items()
            if self.reach.is_fixed(name) and self.settings.get(name) != value
        }
        self.later = {name: value for name, value in self.later.items() if name not in changes} | waiting
        return {name: value for name, value in changes.items() if name not in waiting}

    def waiting(self, because: str, changes: Values) -> str:
        """`because`, and what of `changes` waits for the next launch."""
        names = ", ".join(sorted(self.later.keys() & changes.keys()))
        return f"{because}; {names} from the next launch on, which alone can change it" if names else because

    def beyond(self, pending: Values) -> Values:
        """What the next launch shall have beyond what is in force: all that waits, and `pending`.

        No launch gets levers from a file: they follow when the run is under way.
        """
        wanted = self.for_launch(self.wanted, pending)
        return {name: value for name, value in wanted.items() if self.settings.get(name) != value}

    def for_launch(self, wanted: Values, pending: Values) -> Values:
        """`wanted` and all that waits, as far as a launch gets it from a file."""
        wanted = {**wanted, **self.later, **pending}
        return {name: wanted[name] for name in sorted(wanted) if not name.startswith(LEVER)}

    def settings_of(self, generation: int) -> Values | None:
        """The settings that `generation` put in force; None when nobody remembers."""
        return self._past[generation][0] if generation in self._past else None

    def is_tuned(self, generation: int, *, default: bool) -> bool:
        """Whether `generation` had other settings than the user's own; `default` when nobody remembers."""
        return self._past[generation][1] if generation in self._past else default

    def _note_once(self, verdict: Verdict, proposal: Proposal, reason: str, now: float) -> None:
        if (verdict, proposal.rule) not in self._noted:
            self._noted.add((verdict, proposal.rule))
            previous = values(self.settings, proposal.changes)
            self._log(verdict, replace(proposal, because=reason), now, previous=previous)

    def _log(
        self,
        verdict: Verdict,
        proposal: Proposal,
        now: float,
        *,
        previous: Values,
        trial: Trial | None = None,
    ) -> None:
        decision = Decision.of(verdict, proposal, previous, generation=self.generation, now=now)
        self.log.note(decision.measured(trial.comparison) if trial else decision)

    def _remember(self) -> None:
        self._past[self.generation] = (self.settings, self.settings != self.baseline)
        self._past.pop(self.generation - _REMEMBERED, None)


def values(settings: Values, names: Values) -> Values:
    """What `settings` has for `names`."""
    return {name: settings[name] for name in sorted(names) if name in settings}
