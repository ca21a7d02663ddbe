"""Ratios of paired seconds with their intervals, and the table. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean

import scipy.stats

SETTLED = 20
"""Checkpoints after which scrtune should have found what is best."""
NOISE = 0.02
"""Share of a job: less cannot be told from noise, nor be shared."""


@dataclass(frozen=True)
class Seconds:
    """One run: of the whole command, in checkpoints, and the same after checkpoint 20.

    After it the job's seconds are those of its steps and checkpoints. `kept` and `taken_back` are changes.
    """

    whole_s: float
    checkpoints_s: float
    late_s: float
    late_checkpoints_s: float
    kept: int = 0
    taken_back: int = 0


@dataclass(frozen=True)
class Ratio:
    """A ratio of means with its 95 % interval over rounds; of one round the interval is everything."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.high == inf:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Comparison:
    """A workload's runs, round by round: `alone` and `tuned` by start; one of "best" is the grid's best."""

    workload: str
    best: str
    alone: Mapping[str, Sequence[Seconds]]
    tuned: Mapping[str, Sequence[Seconds]]


def ratio_of(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Return the ratio of the means of pairs; its interval by their residuals (delta method, Student's t)."""
    count, mean = len(numerators), fmean(denominators)
    value = fmean(numerators) / mean
    if count < 2:
        return Ratio(value, -inf, inf)
    squares = sum((one - value * other) ** 2 for one, other in zip(numerators, denominators, strict=True))
    error = sqrt(squares / (count - 1) / count) / abs(mean)
    half = float(scipy.stats.t.ppf(0.975, count - 1)) * error
    return Ratio(value, value - half, value + half)


def share(
    alone: Sequence[Seconds],
    tuned: Sequence[Seconds],
    best: Sequence[Seconds],
    seconds: Callable[[Seconds], float],
) -> Ratio | None:
    """Return the share of the best's saving that tuning reached; None when that saving is within noise."""
    possible = ratio_of([seconds(each) for each in best], [seconds(each) for each in alone])
    if possible.value > 1 - NOISE or (possible.high != inf and possible.high >= 1):
        return None
    savings = [seconds(one) - seconds(other) for one, other in zip(alone, tuned, strict=True)]
    there = [seconds(one) - seconds(other) for one, other in zip(alone, best, strict=True)]
    return ratio_of(savings, there)


def table(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a workload's table, in Markdown."""
    yield f"### {comparison.workload}: best of the grid: {comparison.best}"
    yield ""
    yield (
        "| start | | whole job, s | to alone | checkpoints, s | to alone | job after 20, s | to alone |"
        " checkpoints after 20, s | share of the saving | after 20 | kept, back |"
    )
    yield "|---|---|" + "---:|" * 10
    for start, alone in comparison.alone.items():
        yield _row(start, "alone", alone, alone, "", "", "")
        if tuned := comparison.tuned.get(start):
            best = comparison.alone.get("best")
            shares = (
                ["", ""]
                if start == "best" or best is None
                else [
                    _or_dash(share(alone, tuned, best, lambda run: run.whole_s)),
                    _or_dash(share(alone, tuned, best, lambda run: run.late_s)),
                ]
            )
            changes = " ".join(f"{run.kept}/{run.taken_back}" for run in tuned)
            yield _row(start, "tuned", tuned, alone, *shares, changes)


def _row(start: str, how: str, runs: Sequence[Seconds], alone: Sequence[Seconds], *rest: str) -> str:
    def cells(seconds: Callable[[Seconds], float]) -> tuple[str, str]:
        values, others = [seconds(run) for run in runs], [seconds(run) for run in alone]
        to_alone = "" if runs is alone or not fmean(others) else str(ratio_of(values, others))
        return f"{fmean(values):.1f}", to_alone

    whole, checkpoints = cells(lambda run: run.whole_s), cells(lambda run: run.checkpoints_s)
    late = cells(lambda run: run.late_s)
    late_checkpoints, _ = cells(lambda run: run.late_checkpoints_s)
    return f"| {' | '.join((start, how, *whole, *checkpoints, *late, late_checkpoints, *rest))} |"


def _or_dash(found: Ratio | None) -> str:
    return "nothing to save" if found is None else str(found)
