"""The columns of `make bench-tuner`, each with the half width of its 95 % interval over jobs."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .drive import Outcome

AT = (20, 40, 100, 400)
WITHIN = 1.05
HARM = 1.02
RESAMPLES = 1000


def heading(checkpoints: int) -> list[str]:
    """Return the titles of the columns."""
    at = [f"x oracle at {each}" for each in _at(checkpoints)]
    within = [f"at {each}" for each in _within(checkpoints)]
    return [
        *at,
        "harm",
        "p99",
        "own / oracle",
        f"within 5 % {within[0]}",
        *within[1:],
        "trials",
        "levers left",
        "out of rails",
    ]


def cells(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Return one row's cells."""
    checkpoints = len(outcomes[0].tuned_s)
    for at in _at(checkpoints):
        yield _mean([each.tuned_s[at - 1] / each.oracle_s[at - 1] for each in outcomes])
    ratios = np.array([each.tuned_s[-1] / each.own_s[-1] for each in outcomes])
    yield _share(ratios > HARM)
    yield _quantile(ratios)
    yield _mean([each.own_s[-1] / each.oracle_s[-1] for each in outcomes])
    for at in _within(checkpoints):
        yield _share([each.steady_s[at - 1] <= WITHIN * each.steady_best_s[at - 1] for each in outcomes])
    yield f"{np.mean([each.trials for each in outcomes]):.1f}"
    yield _share([bool(each.left) for each in outcomes])
    yield str(sum(each.outside for each in outcomes))


def row(cells: Sequence[str]) -> str:
    """Return one line of a table."""
    return "| " + " | ".join(cells) + " |"


def _at(checkpoints: int) -> list[int]:
    return [each for each in AT if each < checkpoints] + [checkpoints]


def _within(checkpoints: int) -> list[int]:
    return [each for each in (5, 10, 20) if each < checkpoints] + [checkpoints]


def _quantile(ratios: npt.NDArray[np.float64]) -> str:
    """The 99th percentile with its bootstrap interval."""
    drawn = np.random.default_rng(0).choice(ratios, (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.quantile(drawn, 0.99, axis=1), (0.025, 0.975))
    return f"{np.quantile(ratios, 0.99):.3f} ({low:.2f}-{high:.2f})"


def _mean(values: Sequence[float]) -> str:
    half = 1.96 * np.std(values) / len(values) ** 0.5
    return f"{np.mean(values):.2f} ± {half:.2f}"


def _share(hits: Sequence[bool] | npt.NDArray[np.bool_]) -> str:
    """A share with the half width of its interval (Agresti and Coull)."""
    count, total = int(np.sum(hits)), len(hits)
    near = (count + 2) / (total + 4)
    return f"{count / total:.1%} ± {1.96 * (near * (1 - near) / (total + 4)) ** 0.5:.1%}"
