"""The log of decisions: what was changed, why, and what became of it."""

from collections import deque
from collections.abc import Callable
from enum import Enum

import msgspec

from ..events import Values
from ..rules.situation import Proposal, changes_text
from .comparison import Comparison

_REMEMBERED = 1000


class Verdict(str, Enum):
    """What became of a change."""

    TRIAL = "trial"
    ACCEPTED = "accepted"
    REVERTED = "reverted"
    REQUIRED = "required"
    VETOED = "vetoed"
    BASELINE = "back to the user's settings"
    PENDING = "pending"


NOT_MADE = frozenset({Verdict.VETOED, Verdict.PENDING})
"""What was never in force."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log that `scrtune explain` shows.

    `changes` are what came into force with it (of a veto: what did not), `previous` the values before.
    `before_s` and `after_s` are geometric means of what a checkpoint costs, 0 if not measured, and
    `observations` how many were made under the change and are compared, each with one before: of a verdict.
    The entry of a trial has its `comparison` as it stands and, once it was taken back, its `checkpoints` and
    the `cost_s` that they took more than without it (:class:`scrtune.intents.tune.trial_costs.TrialCosts`).
    """

    generation: int
    time_s: float
    verdict: Verdict
    rule: str
    changes: Values = {}
    previous: Values = {}
    because: str = ""
    source: str = ""
    intent: str = ""
    expected_gain_s: float = 0.0
    before_s: float = 0.0
    after_s: float = 0.0
    observations: int = 0
    comparison: Comparison | None = None
    checkpoints: int = 0
    cost_s: float = 0.0

    @property
    def short(self) -> str:
        """What was done, without the reason."""
        return f"{self.verdict.value}: {self.rule} ({changes_text(self.changes)})"

    @property
    def text(self) -> str:
        """A line of the log."""
        return (
            f"generation {self.generation}, {self.verdict.value}: {self.rule}:"
            f" {changes_text(self.changes)}: {self.because} [{self.source}]"
        )

    @classmethod
    def of(
        cls, verdict: Verdict, proposal: Proposal, previous: Values, *, generation: int, now: float
    ) -> "Decision":
        """What became of `proposal` at `now`, nothing of it measured."""
        return cls(
            generation=generation,
            time_s=now,
            verdict=verdict,
            rule=proposal.rule,
            changes=proposal.changes,
            previous=previous,
            because=proposal.because,
            source=proposal.source,
            intent=proposal.intent,
            expected_gain_s=proposal.expected_gain_s,
        )

    def measured(self, found: Comparison | None) -> "Decision":
        """Itself, with what checkpoints cost before and after, if that was `found`."""
        if found is None:
            return self
        return msgspec.structs.replace(
            self, before_s=found.before_s, after_s=found.after_s, observations=found.pairs
        )


class DecisionLog:
    """The last 1,000 decisions, and those that nobody has asked for yet."""

    def __init__(self) -> None:
        self.entries: deque[Decision] = deque(maxlen=_REMEMBERED)
        self._untold: list[Decision] = []

    def successor(self, *, told: bool) -> "DecisionLog":
        """A log that goes on where this one ends; what was not told is told by it, unless it was `told`."""
        made = DecisionLog()
        made.entries.extend(self.entries)
        if not told:
            made._untold.extend(self._untold)
        return made

    def take_news(self) -> list[Decision]:
        """The decisions since the last call."""
        news, self._untold = self._untold, []
        return news

    def note(self, decision: Decision) -> None:
        """Enter a decision."""
        self.entries.append(decision)
        self._untold.append(decision)

    def compare(self, generation: int, comparison: Comparison | None) -> None:
        """The trial that began with `generation` says something else by now."""
        self._amend(generation, lambda trial: msgspec.structs.replace(trial, comparison=comparison))

    def charge(self, generation: int, checkpoints: int, cost_s: float) -> None:
        """`checkpoints` more of the trial that began with `generation`, and what they took more: `cost_s`."""
        self._amend(
            generation,
            lambda trial: msgspec.structs.replace(
                trial, checkpoints=trial.checkpoints + checkpoints, cost_s=trial.cost_s + cost_s
            ),
        )

    def _amend(self, generation: int, amended: Callable[[Decision], Decision]) -> None:
        for back, entry in enumerate(reversed(self.entries), start=1):
            if entry.verdict is Verdict.TRIAL and entry.generation == generation:
                self.entries[-back] = amended(entry)
                return
