"""The cost model fitted to runs: rates, with what remains uncertain of them.

The rates are those of the tuner's model (:mod:`scrtune.intents.tune.belief.model`), with its priors, and
three more that a trace shows: how fast the application serialises, and what SCR's bookkeeping of a file
costs. Every member of an ensemble draws rates from the priors and noise for what was measured, and finds the
rates that fit both best (randomised maximum likelihood: Oliver, He & Reynolds 1996) by damped Gauss-Newton
steps, all members at once. The half that fits worse is left out: it has found another minimum, for where one
is says nothing of how well a member fits (in a linear model the two are independent). Runs are held out by
giving them no weight.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...intents.events import Values
from ...intents.settings import flush_every, is_asynchronous
from ...intents.tune.belief.model import GIB, LOWEST, PRIORS, Parts, Prior, Rates, predict
from ...intents.tune.belief.shape import Array, Columns, Shape
from .evidence import RunEvidence, is_flushed

OWN_PRIORS = {
    "contention": Prior(0.4, 0.7),
    "serialise_bytes_per_s": Prior(4 * GIB, 1.5),
    "scr_file_s": Prior(1e-2, 2.0),
    "prefix_file_factor": Prior(2.0, 0.4),
}
"""Bytes that a rank of the application serialises a second, seconds of SCR's bookkeeping for a file in the
cache, and by how much longer it takes below the prefix directory (in the LLNL study: 2.2). Ranks of a traced
training wait for GPUs: cores that a flush takes cost them less than others."""
_NOT_FITTED = (
    "cache_file_s",
    "prefix_file_s",
    "largest_file",
    "application_bytes_per_s",
    "shared_bytes_per_s",
    "create_s",
)
PRIORS_OF_RUNS = {name: prior for name, prior in PRIORS.items() if name not in _NOT_FITTED} | OWN_PRIORS
NAMES = tuple(PRIORS_OF_RUNS)
NOISE = {"checkpoint": 0.03, "outside": 0.15, "flush": 0.1}
"""SDs of the natural logarithm of what runs with the same settings show, the model's misfit included. In the
LLNL study runs with one setting differ by 3 % in their seconds below the cache."""
_AT_MOST_ONE = "bound_share"
_STEPS, _STEP, _NUDGE = 12, 1.5, 1e-4
_MEMBERS, _FEWEST, _COLUMNS = 192, 32, 1800
"""Members for all runs; without one of them as many, but no more than so many in all."""
_AT_ONCE = 500
"""Members: more would need much memory."""
_SEED = 1

_MIDDLE = np.log([PRIORS_OF_RUNS[name].median for name in NAMES])[:, None]
_SPREAD = np.array([PRIORS_OF_RUNS[name].spread for name in NAMES])[:, None]


class Case(NamedTuple):
    """Settings in a job of some shape, with SCR or without."""

    settings: Values
    shape: Shape
    largest_file: float
    with_scr: bool = True


class Costs(NamedTuple):
    """Predicted seconds, (cases, members) each; `checkpoint_s` is the mean over a flush cycle.

    `outside_s` are those of it that the saving thread does not spend in calls on files.
    """

    checkpoint_s: Array
    outside_s: Array
    flush_s: Array
    parts: "dict[str, Array]"


class Fit(NamedTuple):
    """Logarithms of the rates, (rates, members): fitted to all runs, and without each of them in turn."""

    rates: Array
    without: Sequence[Array]


def case_of(run: RunEvidence) -> Case:
    """Return the case that `run` was."""
    return Case(run.settings, run.shape, run.largest_file, run.with_scr)


def costs(cases: Sequence[Case], rates: Array) -> Costs:
    """Return what each of `cases` costs with each member of `rates`."""
    groups: dict[tuple[Shape, float, bool], list[int]] = {}
    for index, each in enumerate(cases):
        groups.setdefault((each.shape, each.largest_file, each.with_scr), []).append(index)
    size = len(cases), rates.shape[1]
    found = {name: np.zeros(size) for name in ("serialise", "write", "encode", "flush", "wait", "contention")}
    flush_s = np.zeros(size)
    for (shape, largest_file, with_scr), places in groups.items():
        named = _named(rates, largest_file, with_scr=with_scr)
        settings = [cases[place].settings for place in places]
        parts = predict(Columns.of(settings, shape), shape, named)
        found["serialise"][places] = shape.rank_bytes / named["serialise_bytes_per_s"]
        found["write"][places] = parts.write_s
        found["encode"][places] = parts.encode_s * with_scr
        _flushes(found, flush_s, places, settings, parts)
    checkpoint_s = sum(found.values(), np.zeros(size))
    return Costs(checkpoint_s, checkpoint_s - found["write"] - found["encode"], flush_s, found)


def _named(rates: Array, largest_file: float, *, with_scr: bool) -> Rates:
    named = dict(zip(NAMES, np.exp(rates), strict=True))
    named[_AT_MOST_ONE] = np.minimum(named[_AT_MOST_ONE], 1.0)
    plain = {name: np.full(rates.shape[1], PRIORS[name].median) for name in _NOT_FITTED}
    plain["largest_file"][:] = largest_file
    # what it serialises has a rate of its own here, and what all nodes share is in the node's rate
    plain |= {
        name: np.full(rates.shape[1], np.inf) for name in ("application_bytes_per_s", "shared_bytes_per_s")
    }
    plain["create_s"][:] = 0.0
    if with_scr:
        plain["cache_file_s"] = named["scr_file_s"]
        plain["prefix_file_s"] = named["scr_file_s"] * named["prefix_file_factor"]
    return named | plain


def _flushes(
    found: dict[str, Array], flush_s: Array, places: list[int], settings: Sequence[Values], parts: Parts
) -> None:
    """Enter what flushes cost a checkpoint: each n-th has one, beside the computation or before it."""
    flushed = np.array([float(is_flushed(each)) for each in settings])[:, None]
    every = np.array([float(flush_every(each)) for each in settings])[:, None]
    beside = np.array([float(is_asynchronous(each)) for each in settings])[:, None]
    flush_s[places] = flushed * parts.flush_s
    found["flush"][places] = flushed * (1 - beside) * parts.flush_s / every
    found["wait"][places] = flushed * parts.wait_s / every
    found["contention"][places] = flushed * parts.slowdown_s / every


def fit_runs(runs: Sequence[RunEvidence]) -> Fit:
    """Return the rates that fit `runs`, and those that fit all but each one of them, in their order."""
    few = min(_MEMBERS, max(_FEWEST, _COLUMNS // len(runs) // 2 * 2))
    sizes = [_MEMBERS, *([few] * len(runs) if len(runs) > 1 else [])]
    left_out = np.repeat([-1, *range(len(runs))][: len(sizes)], sizes)
    rng, seen = np.random.default_rng(_SEED), _MeasuredRun(runs, left_out)
    drawn = _MIDDLE + _SPREAD * _mirrored(rng, len(NAMES), sizes)
    noise = _mirrored(rng, len(seen.values), sizes)
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(left_out), _AT_ONCE)]
    found = [_nearest(_MeasuredRun(runs, left_out[part]), drawn[:, part], noise[:, part]) for part in parts]
    rates = np.concatenate([each for each, _ in found], axis=1)
    misfits = np.concatenate([misfit for _, misfit in found])
    ends = np.cumsum(sizes)[:-1]
    groups = [
        each[:, np.argsort(misfit, kind="stable")[: len(misfit) // 2]]
        for each, misfit in zip(np.split(rates, ends, axis=1), np.split(misfits, ends), strict=True)
    ]
    return Fit(groups[0], groups[1:])


def _mirrored(rng: np.random.Generator, count: int, sizes: Sequence[int]) -> Array:
    """Return `count` rows of normal draws for groups of `sizes`, each draw with its opposite."""
    halves = [rng.standard_normal((count, size // 2)) for size in sizes]
    return np.concatenate([part for half in halves for part in (half, -half)], axis=1)


class _MeasuredRun:
    """The logarithms of what runs show, with their noise; a column does not see the run `left_out` there."""

    def __init__(self, runs: Sequence[RunEvidence], left_out: NDArray[np.int64]) -> None:
        self._cases = [case_of(run) for run in runs]
        shown = [
            (index, place, np.log(value), (NOISE[measure] ** 2 + run.spread**2) ** 0.5)
            for index, run in enumerate(runs)
            for place, (measure, value) in enumerate(measures(run).items())
            if value is not None and value > LOWEST
        ]
        self._rows = [index for index, _, _, _ in shown]
        self._kinds = [place for _, place, _, _ in shown]
        self.values = np.array([value for _, _, value, _ in shown])[:, None]
        self._noises = np.array([noise for _, _, _, noise in shown])[:, None]
        self._weights = np.array(self._rows)[:, None] != left_out

    def misfit(self, rates: Array, columns: int) -> Array:
        """Return predicted less measured, in SDs; `rates` has `columns` once or several times."""
        predicted = np.stack(costs(self._cases, rates)[:3])
        logs = np.log(np.maximum(predicted[self._kinds, self._rows], LOWEST))
        weights = np.tile(self._weights, rates.shape[1] // columns)
        return np.asarray((logs - self.values) / self._noises * weights)

    def seen_by(self, noise: Array) -> Array:
        """Return `noise` of what a column sees."""
        return np.asarray(noise * self._weights)


def measures(run: RunEvidence) -> dict[str, float | None]:
    """Return what `run` shows, in the order of :class:`Costs`."""
    return {"checkpoint": run.checkpoint_s, "outside": run.outside_s, "flush": run.flush_s}


def _nearest(seen: _MeasuredRun, drawn: Array, noise: Array) -> tuple[Array, Array]:
    """Return, for each column, the rates that fit what is `seen`, with `noise`, and lie near those `drawn`.

    And the sum of squares that is left. By the method of Levenberg and Marquardt.
    """
    count, columns = drawn.shape
    noise = seen.seen_by(noise)
    rates, damping = drawn, np.ones(columns)

    def residuals(rates: Array) -> Array:
        return np.concatenate([seen.misfit(rates, columns) + noise, (rates - drawn) / _SPREAD])

    found = residuals(rates)
    cost = (found**2).sum(axis=0)
    for _ in range(_STEPS):
        slopes = _slopes(seen, rates, found[: len(noise)] - noise)
        curvature = np.einsum("rpm,rqm->mpq", slopes, slopes)
        gradient = np.einsum("rpm,rm->mp", slopes, found)
        damped = curvature + damping[:, None, None] * np.eye(count) * curvature
        step = np.linalg.solve(damped, -gradient[..., None])[..., 0].T
        tried = rates + np.clip(step, -_STEP, _STEP)
        after = residuals(tried)
        is_better = (after**2).sum(axis=0) < cost
        rates = np.where(is_better, tried, rates)
        found = np.where(is_better, after, found)
        cost = (found**2).sum(axis=0)
        damping = np.clip(np.where(is_better, damping * 0.4, damping * 4), 1e-7, 1e7)
    return rates, cost


def _slopes(seen: _MeasuredRun, rates: Array, misfit: Array) -> Array:
    """Return the derivatives of all residuals, (residuals, rates, columns)."""
    count, columns = rates.shape
    nudged = np.repeat(rates[:, None, :], count, axis=1)
    nudged[range(count), range(count)] += _NUDGE
    found = seen.misfit(nudged.reshape(count, -1), columns).reshape(-1, count, columns)
    slopes = np.zeros((len(misfit) + count, count, columns))
    slopes[: len(misfit)] = (found - misfit[:, None]) / _NUDGE
    slopes[range(len(misfit), len(misfit) + count), range(count)] = 1 / _SPREAD
    return slopes
