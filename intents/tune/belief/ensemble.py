"""The ensemble: draws of what nobody knows of a job before it has run, given what was measured.

A member has a value of every rate of the cost model (:mod:`.model`), and factors for what no model
explains: of each value of a lever and each candidate, of encodes by scheme, of flushes by how they copy, of
slowdowns. What is measured moves these, and the parts of every candidate are predicted from them again, so
that parts and totals agree, and those of neighbours.

The update is the ensemble smoother with multiple data assimilation (A. Emerick and A. Reynolds 2013): the
same measurements in several steps, with their covariance times a factor in each, whose inverses add up to 1.
The model is not linear, so the first steps, far from what was measured, are the most careful ones.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...events import Tier, Values
from ...rules.levers import NAMES
from .measured import Measured, Row
from .model import AT_MOST, MEMBERS, PRIORS, Array, Columns, Shape, flush_threads, logs, predict

_BY_VALUE, _BY_CANDIDATE, _BY_SCHEME, _BY_FLUSH, _BY_SLOWDOWN = 0.045, 0.05, 0.4, 0.15, 0.3
"""SDs of log factors that no model explains."""
_SEED = 1
_STEPS, _GROWTH = 6, 2.0
_WEIGHTS = _GROWTH ** np.arange(_STEPS) / np.sum(_GROWTH ** np.arange(_STEPS))
_MOST_SURPRISING = 4.0
"""SDs: what is farther from all that the models expect says nothing of other settings."""
_SLIGHTLY = 1e-9
_OF_TIER = {
    Tier.PREFIX: ("thread_bytes_per_s", "prefix_bytes_per_s", "prefix_file_s"),
    Tier.CACHE: (
        *("cache_bytes_per_s", "cache_fixed_s", "cache_file_s", "synced_bytes_per_s"),
        *("encode_read_bytes_per_s", "encode_send_bytes_per_s", "encode_xor_bytes_per_s"),
    ),
}
RATES = tuple(PRIORS)


class Ensemble(NamedTuple):
    """Natural logarithms of :data:`RATES`, (rates, members), and of factors, (candidates, members)."""

    rates: Array
    misfit: Array
    """Of what a checkpoint blocks."""
    encode: Array
    flush: Array
    slowdown: Array

    def chosen(self, indices: Sequence[int]) -> "Ensemble":
        """Return what is believed of the candidates `indices`."""
        return Ensemble(self.rates, *(factors[indices] for factors in self[1:]))

    def rows(self, columns: Columns, shape: Shape) -> Array:
        """Return the rows of all candidates, (candidates, rows, members)."""
        parts = predict(columns, shape, named(self.rates), np.exp(self.encode), np.exp(self.flush))
        unflushed_s = parts.write_s + parts.encode_s
        flushed_s = unflushed_s + np.where(columns.beside, parts.wait_s, parts.flush_s)
        rows = {
            Row.UNFLUSHED: logs(unflushed_s) + self.misfit,
            Row.FLUSHED: logs(flushed_s) + self.misfit,
            Row.SLOWDOWN: parts.slowdown_s * np.exp(self.slowdown),
            Row.WRITE: logs(parts.write_s),
            Row.ENCODE: logs(parts.encode_s),
            Row.FLUSH: logs(parts.flush_s),
        }
        return np.stack([rows[row] for row in Row], axis=1)

    def given(self, data: Measured, columns: Columns, shape: Shape) -> "Ensemble":
        """Return what follows from it and from `data`."""
        seen = sorted({each.candidate for each in data.rows})
        places = [seen.index(each.candidate) for each in data.rows], [each.row for each in data.rows]
        columns, rng = columns.chosen(seen), np.random.default_rng(_SEED)
        after = self
        for weight in _WEIGHTS:
            predicted = after.chosen(seen).rows(columns, shape)[places]
            after = after._step(predicted, data.values, data.covariance / weight, rng)
        return after

    def _step(
        self, predicted: Array, values: Array, covariance: Array, rng: np.random.Generator
    ) -> "Ensemble":
        """Return the stochastic ensemble Kalman filter's analysis (G. Evensen 2003)."""
        count = len(values)
        covariance = covariance + _SLIGHTLY * np.eye(count)
        middle = predicted.mean(axis=1)
        expected = predicted - middle[:, None]
        spread = expected @ expected.T / (MEMBERS - 1) + covariance
        limit = _MOST_SURPRISING * np.sqrt(spread.diagonal())
        noise = rng.standard_normal((count, MEMBERS))
        drawn = np.linalg.cholesky(covariance) @ (noise - noise.mean(axis=1, keepdims=True))
        seen = np.clip(values, middle - limit, middle + limit)
        moves = expected.T @ np.linalg.solve(spread, seen[:, None] + drawn - predicted) / (MEMBERS - 1)
        return Ensemble(*(each + (each - each.mean(axis=1, keepdims=True)) @ moves for each in self))

    def doubted(self, spreads: Mapping[Tier, float], rng: np.random.Generator) -> "Ensemble":
        """Return it after a change of the machine: `spreads` are SDs of a log factor of a tier's rates."""
        rates = self.rates.copy()
        for tier, spread in spreads.items():
            factor = spread * rng.standard_normal(MEMBERS)
            for name in _OF_TIER[tier]:
                rates[RATES.index(name)] += -factor if name.endswith("_per_s") else factor
        return self._replace(rates=rates)


def named(rates: Array) -> dict[str, Array]:
    """Return every rate by its name, from logarithms; shares are 1 at most."""
    return {
        name: np.minimum(np.exp(each), AT_MOST.get(name, np.inf))
        for name, each in zip(RATES, rates, strict=True)
    }


def draw(rng: np.random.Generator, rates: Array, candidates: Sequence[Values], shape: Shape) -> Ensemble:
    """Return the prior ensemble of `candidates`, with these logarithms of `rates`."""

    def shared(kinds: Iterable[Hashable], spread: float) -> Array:
        """Return one draw for each kind."""
        kinds = list(kinds)
        places = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
        return spread * rng.standard_normal((len(places), MEMBERS))[[places[kind] for kind in kinds]]

    size = (len(candidates), MEMBERS)
    misfit = _BY_CANDIDATE * rng.standard_normal(size)
    for name in NAMES:
        misfit += shared((each[name] for each in candidates), _BY_VALUE)
    copies = [
        (
            each["SCR_FLUSH_TYPE"],
            bool(each["SCRTUNE_FLUSH_CPUS"]),
            each["SCRTUNE_FLUSH_NICE"],
            flush_threads(each, shape),
        )
        for each in candidates
    ]
    return Ensemble(
        rates=rates,
        misfit=misfit,
        encode=shared((each["SCR_COPY_TYPE"] for each in candidates), _BY_SCHEME),
        flush=shared(copies, _BY_FLUSH),
        slowdown=_BY_SLOWDOWN * rng.standard_normal(size),
    )
