"""The log of decisions: each change, its reason and its result."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..events import TextEnum, Values
from ..rules.situation import changes_text
from .comparison import Comparison

_REMEMBERED = 1000


class Verdict(TextEnum):
    """The result of a proposed change."""

    TRIAL = "trial"
    ACCEPTED = "accepted"
    REVERTED = "reverted"
    REQUIRED = "required"
    VETOED = "vetoed"
    BASELINE = "back to the user's settings"
    PENDING = "pending"


NOT_MADE = frozenset({Verdict.VETOED, Verdict.PENDING})
"""Verdicts on changes that were never active."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log that `scrtune explain` shows.

    `changes` became active with it (of a veto: did not), `previous` are the values before. Of a verdict
    `before_s` and `after_s` are geometric means of the cost of a checkpoint, 0 if not measured, and
    `observations` the number under the change that are compared, each with one before. The entry of a trial
    has its `comparison` so far and, once it was reverted, its `checkpoints` and their extra cost `cost_s`
    (:class:`scrtune.intents.tune.trial_costs.TrialCosts`).
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
        """The change without its reason."""
        return f"{self.verdict.value}: {self.rule} ({changes_text(self.changes)})"

    @property
    def text(self) -> str:
        """The decision as a line of the log."""
        return (
            f"generation {self.generation}, {self.verdict.value}: {self.rule}:"
            f" {changes_text(self.changes)}: {self.because} [{self.source}]"
        )


class Outcome(NamedTuple):
    """The result of one call of the tuner.

    `decisions` are the new ones. `changed`: the settings, or those of the next launch, are not those of the
    call before. `is_ready`: the next trial may start now.
    """

    decisions: Sequence[Decision] = ()
    changed: bool = False
    is_ready: bool = False


class DecisionLog:
    """The last 1,000 decisions; `new` are those not returned yet."""

    def __init__(self) -> None:
        self.entries: deque[Decision] = deque(maxlen=_REMEMBERED)
        self.new: list[Decision] = []

    def add(self, decision: Decision) -> None:
        """Enter a decision."""
        self.entries.append(decision)
        self.new.append(decision)

    def compare(self, generation: int, comparison: Comparison | None) -> None:
        """Update the `comparison` of the trial that began with `generation`."""
        self._amend(generation, lambda trial: msgspec.structs.replace(trial, comparison=comparison))

    def charge(self, generation: int, checkpoints: int, cost_s: float) -> None:
        """Add `checkpoints` and their extra cost, in seconds, to the trial that began with `generation`."""
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
