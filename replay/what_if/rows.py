"""The rows of a what-if: predictions, how well runs are predicted that were left out, what mattered."""

import msgspec

from ...intents.events import Values

CONFIDENCE = 0.9
"""Of all intervals here; with few runs nobody can tell a wider one from a narrower one."""

FEW = 15
"""Predictions that are read one by one."""
_WAY = ("SCR_CACHE_BYPASS", "SCR_COPY_TYPE", "SCR_FLUSH", "SCR_FLUSH_TYPE", "SCR_FLUSH_ASYNC")


class PredictedValue(msgspec.Struct, frozen=True):
    """A predicted value, and the ends of its interval."""

    value: float
    low: float
    high: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What one checkpoint costs under `settings`; `rank` counts from 1, the cheapest.

    `settings` are those that have an effect, `changes` those of them that are other than in the job they are
    predicted for, with what of the job is other than it was. `checkpoint_s` is the mean over the checkpoints
    of a flush cycle, with what a flush takes from the job, and `parts_s` are its parts; `difference_s` is by
    how much it is more than that of the base. `flush_s` is None without a flush. `survives` are the nodes
    that may be lost at any time: None where nothing is at risk, because every checkpoint is in the prefix
    directory once its output is complete. `measured_s` are the runs that had these settings.
    """

    rank: int
    settings: Values
    changes: Values
    checkpoint_s: PredictedValue
    difference_s: PredictedValue
    flush_s: PredictedValue | None
    parts_s: dict[str, float]
    survives: int | None
    source: str
    measured_s: dict[str, float] = {}


class HeldOut(msgspec.Struct, frozen=True, kw_only=True):
    """A measure of a run, and what the model predicts of it when it is fitted to all other runs.

    `has_kin`: another run writes to the same tier with the same scheme. Without one, all that is predicted of
    this kind follows from assumptions.
    """

    run: str
    measure: str
    measured_s: float
    predicted_s: PredictedValue
    has_kin: bool

    @property
    def error(self) -> float:
        """Of the prediction, relative to what was measured."""
        return self.predicted_s.value / self.measured_s - 1

    @property
    def is_covered(self) -> bool:
        """Whether what was measured lies within the interval."""
        return self.predicted_s.low <= self.measured_s <= self.predicted_s.high


class Importance(msgspec.Struct, frozen=True, kw_only=True):
    """How much a parameter matters: to what is predicted, and in the runs themselves.

    `best_s`: the predicted seconds of a checkpoint with the cheapest settings that have each of its values,
    and `flush_s` those of their flush.
    `permuted`: by how much a forest of regression trees, fitted to the runs alone, errs more once the
    parameter's values are exchanged between runs, as a share of all parameters; None where the parameter is
    the same in all runs, or it was not computed. `why` and `source` are those of the tuner's lever.
    """

    parameter: str
    best_s: dict[str, float] = {}
    flush_s: dict[str, float] = {}
    permuted: float | None = None
    why: str = ""
    source: str = ""

    @property
    def worth_s(self) -> float:
        """Seconds between the best and the worst of its values."""
        return max(self.best_s.values()) - min(self.best_s.values()) if self.best_s else 0.0


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate of the model: what is believed of it, and whether the runs or only assumptions say so."""

    name: str
    value: PredictedValue
    is_learnt: bool


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """What is predicted from `runs`: for a job like the run `like`, with gains against the run `base`."""

    base: str
    like: str
    runs: tuple[str, ...]
    predictions: tuple[Prediction, ...]
    held_out: tuple[HeldOut, ...]
    importances: tuple[Importance, ...]
    rates: tuple[Rate, ...]
    notes: tuple[str, ...]
    confidence: float = CONFIDENCE

    @property
    def leading(self) -> tuple[Prediction, ...]:
        """The predictions, if they are few; else the cheapest of each way to write a checkpoint."""
        if len(self.predictions) <= FEW:
            return self.predictions
        first = {tuple(row.settings.get(name) for name in _WAY): row for row in reversed(self.predictions)}
        return tuple(sorted(first.values(), key=lambda row: row.rank))

    def errors(self, measure: str) -> list[float]:
        """Return the relative errors of a measure of all runs that were left out, without their signs."""
        return [abs(row.error) for row in self.held_out if row.measure == measure]
