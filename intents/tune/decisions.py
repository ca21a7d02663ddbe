"""The log of decisions: each change, its reason and its result."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...units import count_text
from ..events import TextEnum, Values
from ..settings import changes_text

if TYPE_CHECKING:  # what only shows decisions needs no numpy
    from .belief.shape import Array

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
_SHOWN_REWORK_S = 0.0005
"""Less would be shown as 0.000 seconds."""


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a checkpoint and of its parts; of the flush, which takes `flush_s`, only `blocked_s` is one.

    That is what it blocks, and what later outputs wait for it.

    The expected rework is no time that has passed, but it is in `cost_s`, as in all that is decided.
    """

    cost_s: float
    write_s: float = 0.0
    encode_s: float = 0.0
    blocked_s: float = 0.0
    flush_s: float = 0.0
    slowdown_s: float = 0.0
    rework_s: float = 0.0

    @classmethod
    def of(cls, cost: CheckpointCost, cost_s: float, rework_s: float) -> "Breakdown":
        """Return the parts of a checkpoint as they were measured, and `cost_s` as what it cost in all."""
        return cls(
            cost_s=cost_s,
            write_s=cost.write_s,
            encode_s=cost.encode_s,
            blocked_s=cost.blocked_on_flush_s + cost.wait_s,
            flush_s=cost.flush_s,
            slowdown_s=cost.slowdown_s,
            rework_s=rework_s,
        )

    @property
    def text(self) -> str:
        """The parts, for people."""
        parts = (
            f"write {self.write_s:.3f}, encode {self.encode_s:.3f}, blocked by the flush {self.blocked_s:.3f}"
        )
        rework = f", expected rework {self.rework_s:.3f}" if self.rework_s >= _SHOWN_REWORK_S else ""
        flush = f"; the flush takes {self.flush_s:.3f}" if self.flush_s > 0 else ""
        return f"{self.cost_s:.3f} s ({parts}, slowdown {self.slowdown_s:.3f}{rework}{flush})"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Costs after a change against those before: `ratio` is after / before, `p_better` that after is cheaper.

    Of the posterior: `before_s` and `after_s` are medians, `low` and `high` the 90 % interval of the ratio.
    `checkpoints` were measured under the change.
    """

    checkpoints: int
    before_s: float
    after_s: float
    ratio: float
    low: float
    high: float
    p_better: float

    @property
    def text(self) -> str:
        """The ratio, its interval and the number of checkpoints, for people."""
        between = f"{self.low:.2f} to {self.high:.2f} with 90 %"
        seen = count_text(self.checkpoints, "checkpoint")
        ratio = f"{self.ratio:.2f} times the cost before ({between}) after {seen}"
        return f"{ratio}, cheaper with {self.p_better:.2f}"


def compare(before: "Array", after: "Array", checkpoints: int) -> Comparison:
    """Return the comparison of two believed costs, in seconds, an array over the ensemble each."""
    from .belief.quantiles import median, quantile  # noqa: PLC0415 - see above

    low, ratio, high = (float(quantile(after / before, share)) for share in (0.05, 0.5, 0.95))
    return Comparison(
        checkpoints=checkpoints,
        before_s=float(median(before)),
        after_s=float(median(after)),
        ratio=ratio,
        low=low,
        high=high,
        p_better=float((after < before).mean()),
    )


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log that `scrtune explain` shows.

    `changes` became active with it (of a veto: did not), `previous` are the values before. The entry of a
    trial has what was `expected` of it, what was `seen`, the `comparison` believed so far, its `checkpoints`
    and what these cost more than under the user's own settings, `cost_s`. `budget_s` was left of the trial
    budget.
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
    expected: Breakdown | None = None
    seen: Breakdown | None = None
    comparison: Comparison | None = None
    checkpoints: int = 0
    cost_s: float = 0.0
    budget_s: float = 0.0

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
    call before. `tuning_s` are seconds that trying cost, to be charged to the account.
    """

    decisions: Sequence[Decision] = ()
    changed: bool = False
    tuning_s: float = 0.0


class DecisionLog:
    """The last 1,000 decisions; `new` are those not returned yet."""

    def __init__(self) -> None:
        self.entries: deque[Decision] = deque(maxlen=_REMEMBERED)
        self.new: list[Decision] = []

    def add(self, decision: Decision) -> None:
        """Enter a decision."""
        self.entries.append(decision)
        self.new.append(decision)

    def measured(
        self, generation: int, seen: Breakdown, comparison: Comparison | None, cost_s: float
    ) -> None:
        """Enter one more checkpoint of the trial that began with `generation`, and what is believed of it."""
        for back, entry in enumerate(reversed(self.entries), start=1):
            if entry.verdict is Verdict.TRIAL and entry.generation == generation:
                self.entries[-back] = msgspec.structs.replace(
                    entry,
                    seen=seen,
                    comparison=comparison or entry.comparison,
                    checkpoints=entry.checkpoints + 1,
                    cost_s=entry.cost_s + cost_s,
                )
                return

    def trial(self, generation: int) -> Decision | None:
        """Return the entry of the trial that began with `generation`."""
        trials = (each for each in reversed(self.entries) if each.verdict is Verdict.TRIAL)
        return next((each for each in trials if each.generation == generation), None)
