"""The belief: what every joint setting is thought to cost, and how surely, given all that was measured.

An ensemble of cost models (:mod:`.model`), whose rates are drawn from wide priors, predicts the parts of a
checkpoint under each candidate. Every checkpoint's measured parts update all candidates at once, by one
ensemble Kalman step from the prior (G. Evensen 2003, "The Ensemble Kalman Filter"): what was seen under one
setting informs the others as far as the models tie them together. What no model explains has its own share of
the prior for each parameter value and each candidate.

Noise of checkpoints is autocorrelated: checkpoints under the same settings are combined by generalised least
squares, with 10 % independent and 10 % AR(1) noise. A spike is a surprise once: costs are winsorised within
their settings. Everything is drawn with fixed seeds and rounded before it is compared, so that a journal
gives the same decisions whatever the linear algebra underneath.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import log
from statistics import median, median_low
from typing import NamedTuple

import numpy as np

from ..events import Durability, Values
from ..rules.levers import NAMES
from ..rules.situation import Situation
from ..settings import flush_every, is_asynchronous, is_cached
from .decisions import Breakdown
from .model import MEMBERS, PRIORS, Array, Model, Parts, Prior, Rates, Shape, draw_rates, flush_threads, logs
from .observations import Identity, Observation, identity

CANDIDATES = 60
INDEPENDENT, AUTOCORRELATED, CORRELATION = 0.10, 0.10, 0.7
_FEW_NOISE = 0.12
"""Of one or two observations nobody knows whether they are spikes."""
_PART_NOISE = 0.12
_RUN_NOISE = 0.2
"""SD of log costs between two runs of a job: slow noise does not average out within one."""
_BY_VALUE, _BY_CANDIDATE, _BY_SCHEME, _BY_FLUSH, _BY_SLOWDOWN = 0.045, 0.05, 0.4, 0.15, 0.3
_HIGH, _LOW = 0.3, 0.5
_DIGITS = 9
_SURE_OF_FLUSH = 0.5
_SEED = 1

_SHOWN, _TWICE = 3, 2
"""Observations under the same settings from which the median, not the lowest, is the middle, and what was
seen is believed of them within its noise, whatever the models say; a slowdown twice is no hiccup."""
_LOOSE = 1.5
_MOST_SURPRISING = 4.0
"""SDs: what is farther from all that the models expect says nothing of other settings."""
_NEAR = 0.7
_MOST_AMPLIFIED = 6.0


class Row(IntEnum):
    """The rows of a candidate's prediction: natural logarithms of seconds, but for the slowdown."""

    UNFLUSHED = 0
    FLUSHED = 1
    SLOWDOWN = 2
    WRITE = 3
    ENCODE = 4
    FLUSH = 5


class _Known(NamedTuple):
    """An observation and its candidate."""

    candidate: int
    what: Observation


class _Seen(NamedTuple):
    """Measured quantities: what the members predict (n x members), what was seen (n), and its covariance.

    `where` has the candidate, the row and the number of checkpoints of each.
    """

    predicted: Array
    seen: Array
    covariance: Array
    where: Sequence[tuple[int, int, int]]


class Belief:
    """What is believed of `candidates`: the first are the user's own settings, the first `kept` always stay.

    `rework_s` are the expected seconds lost to failures for a checkpoint under each candidate: no checkpoint
    shows them. `totals` are seconds of job time for a checkpoint, of shape (candidates, members).
    """

    def __init__(
        self,
        candidates: Sequence[Values],
        shape: Shape,
        priors: Mapping[str, Prior] = PRIORS,
        rework_s: Sequence[float] = (),
        kept: int = 1,
    ) -> None:
        self.shape = shape
        self._rng = np.random.default_rng(_SEED)
        self.rates: Rates = draw_rates(self._rng, priors)
        rows, chosen = self._predictions(candidates, kept)
        losses = np.array(rework_s or [0.0] * len(candidates))
        self._always = sum(index < kept for index in chosen)
        self.candidates = [candidates[i] for i in chosen]
        self._index = {identity(each): i for i, each in enumerate(self.candidates)}
        self._rework_s = losses[chosen]
        self._prior = rows
        self._log_rates = np.array([np.log(self.rates[name]) for name in priors])
        self._rate_names = tuple(priors)
        self.posterior_rates = self._log_rates
        self.totals: Array
        self._rows: Array
        self._believe(rows)

    def prune(self, seen: Sequence[Observation]) -> None:
        """Keep what was `seen`, what is believed to be best, and the best with each value of a lever."""
        best = [int(i) for i in np.argsort(np.quantile(self.totals, 0.3, axis=1), kind="stable")]
        first_with = {(name, self.candidates[i][name]): i for name in NAMES for i in reversed(best)}
        observed = {i for each in seen if (i := self.index_of(each.settings)) is not None}
        kept = sorted({*range(self._always), *observed, *best[:CANDIDATES], *first_with.values()})
        self.candidates = [self.candidates[i] for i in kept]
        self._index = {identity(each): i for i, each in enumerate(self.candidates)}
        self._rework_s, self._prior, self._rows = self._rework_s[kept], self._prior[kept], self._rows[kept]
        self.totals = self.totals[kept]

    def index(self, settings: Values) -> int | None:
        """Return the candidate with `settings`; None when there is none."""
        return self.index_of(identity(settings))

    def index_of(self, settings: Identity) -> int | None:
        """Return the candidate with these values of all levers; None when there is none."""
        return self._index.get(settings)

    def update(self, seen: Sequence[Observation]) -> None:
        """Believe what follows from the prior and from all of `seen`."""
        found = ((self.index_of(each.settings), each) for each in seen)
        known = [_Known(index, each) for index, each in found if index is not None]
        if not known:
            return
        data = self._data(known)
        state = np.concatenate([self._prior.reshape(-1, MEMBERS), self._log_rates])
        after = _kalman(state, data)
        rows = after[: -len(self._log_rates)].reshape(self._prior.shape).copy()
        rows[:, Row.SLOWDOWN] = np.maximum(rows[:, Row.SLOWDOWN], 0.0)
        noises = np.sqrt(data.covariance.diagonal())
        for (index, row, count), value, noise in zip(data.where, data.seen, noises, strict=True):
            if count >= (_TWICE if row == Row.SLOWDOWN else _SHOWN):
                mean = rows[index, row].mean()
                rows[index, row] += np.clip(mean, value - noise, value + noise) - mean
        self.posterior_rates = after[-len(self._log_rates) :]
        self._believe(rows)

    def shift(self, factors: Mapping[str, float]) -> None:
        """Doubt what is believed: the machine has changed. `factors` are SDs of log factors by tier."""
        rows, rng = self._rows.copy(), self._rng
        prefix = factors["prefix"] * rng.standard_normal(MEMBERS)
        cache = factors["cache"] * rng.standard_normal(MEMBERS)
        for row, settings in zip(rows, self.candidates, strict=True):
            before = np.exp(row[Row.FLUSH])
            row[Row.FLUSH] += prefix
            if not is_cached(settings):
                row[[Row.UNFLUSHED, Row.FLUSHED, Row.WRITE]] += prefix
                continue
            row[[Row.UNFLUSHED, Row.WRITE, Row.ENCODE]] += cache
            longer = np.exp(row[Row.FLUSH]) - before
            if is_asynchronous(settings):
                row[Row.SLOWDOWN] *= np.exp(prefix)
                longer = np.maximum(0.0, np.exp(row[Row.FLUSH]) - self.shape.between_s)
            blocked = np.maximum(np.exp(row[Row.FLUSHED] + cache) + longer, np.exp(row[Row.UNFLUSHED]))
            row[Row.FLUSHED] = np.log(blocked)
        self._prior = rows
        self._believe(rows)

    def breakdown(self, index: int) -> Breakdown:
        """Return the medians of what is believed of the candidate `index`."""
        rows = self._rows[index]
        part = {row: float(np.median(np.exp(rows[row]))) for row in (Row.WRITE, Row.ENCODE, Row.FLUSH)}
        return Breakdown(
            cost_s=float(np.median(self.totals[index])),
            write_s=part[Row.WRITE],
            encode_s=part[Row.ENCODE],
            flush_s=part[Row.FLUSH] if is_cached(self.candidates[index]) else 0.0,
            slowdown_s=float(np.median(rows[Row.SLOWDOWN])),
        )

    def beyond_mean_s(self, index: int, *, flushed: bool) -> float:
        """Return what a checkpoint costs beyond the mean of its flush cycle, being `flushed` or not."""
        if flush_every(self.candidates[index]) == 1:
            return 0.0
        rows = self._rows[index]
        kind = np.exp(rows[Row.FLUSHED]) + rows[Row.SLOWDOWN] if flushed else np.exp(rows[Row.UNFLUSHED])
        return float(kind.mean() - self.totals[index].mean())

    def why_at_risk(self, index: int, now: Situation) -> str:
        """Return why a flush may not end before the next output although it has to; empty where it does."""
        settings = self.candidates[index]
        if now.rails.durability is not Durability.NEXT or not is_asynchronous(settings):
            return ""
        flush_s = self.flush_quantile_s(index, _SURE_OF_FLUSH)
        if flush_s <= self.shape.between_s:
            return ""
        return (
            f"its flush may take {flush_s:.3f} s, longer than the {self.shape.between_s:.3f} s between two"
            f" checkpoints: two would be at risk ({now.rails.because})"
        )

    def flush_quantile_s(self, index: int, q: float) -> float:
        """Return the `q` quantile of the seconds of a flush under the candidate `index`."""
        return float(np.quantile(np.exp(self._rows[index, Row.FLUSH]), q))

    def learnt_rates(self) -> dict[str, tuple[float, float]]:
        """Return mean and SD of the natural logarithm of every rate."""
        rates = zip(self._rate_names, self.posterior_rates, strict=True)
        return {name: (round(float(each.mean()), 4), round(float(each.std()), 4)) for name, each in rates}

    def _believe(self, rows: Array) -> None:
        """Make `rows` what is believed, rounded: all that is decided follows from these digits."""
        self._rows = np.round(rows, _DIGITS)
        seconds = _totals(self._rows, self.candidates) + self._rework_s[:, None]
        self.totals = np.maximum(np.round(seconds, _DIGITS), 10.0**-_DIGITS)

    def _predictions(self, candidates: Sequence[Values], always: int) -> tuple[Array, list[int]]:
        """Return the prior rows of all candidates that differ in their effect, and which they are."""
        model, draws = Model(self.shape, self.rates), self._rng.standard_normal
        by_value: dict[tuple[str, object], Array] = {}
        by_kind: dict[tuple[object, ...], Array] = {}
        rows: list[Array] = []
        kept: list[int] = []
        known: set[tuple[object, ...]] = set()
        for index, settings in enumerate(candidates):
            parts = model.parts(settings)
            effect = (*(float(part.sum()) for part in parts), flush_every(settings))
            if identity(settings) in known or (index >= always and effect in known):
                continue
            known |= {effect, identity(settings)}
            misfit = _BY_CANDIDATE * draws(MEMBERS)
            for name in NAMES:
                key = (name, settings[name])
                if key not in by_value:
                    by_value[key] = _BY_VALUE * draws(MEMBERS)
                misfit = misfit + by_value[key]
            scheme = ("scheme", settings["SCR_COPY_TYPE"])
            copy = (
                "copy",
                settings["SCR_FLUSH_TYPE"],
                bool(settings["SCRTUNE_FLUSH_CPUS"]),
                flush_threads(settings, self.shape),
            )
            for kind, spread in ((scheme, _BY_SCHEME), (copy, _BY_FLUSH)):
                if kind not in by_kind:
                    by_kind[kind] = np.exp(spread * draws(MEMBERS))
            bent = parts._replace(
                encode_s=parts.encode_s * by_kind[scheme], flush_s=parts.flush_s * by_kind[copy]
            )
            rows.append(_rows(settings, bent, misfit, np.exp(_BY_SLOWDOWN * draws(MEMBERS))))
            kept.append(index)
        return np.array(rows), kept

    def _data(self, seen: Sequence[_Known]) -> _Seen:
        groups = _grouped(seen)
        blocking, covariance = _blocking(
            [each.what for each in seen], groups, [self._amplification(each) for each in seen]
        )
        where: list[tuple[int, int, int]] = [
            (i, Row.FLUSHED if flushed else Row.UNFLUSHED, len(each)) for (i, flushed), each in groups.items()
        ]
        values, variances = [], []
        for index in dict.fromkeys(each.candidate for each in seen):
            mine = [each.what for each in seen if each.candidate == index]
            for row, value, variance in self._parts_seen(index, mine):
                where.append((index, row, len(mine)))
                values.append(value)
                variances.append(variance)
        n, first = len(where), len(groups)
        whole = np.zeros((n, n))
        whole[:first, :first] = covariance
        whole[range(first, n), range(first, n)] = variances
        predicted = np.array([self._prior[index, row] for index, row, _ in where])
        return _Seen(predicted, np.array([*blocking, *values]), whole, where)

    def _parts_seen(self, index: int, mine: Sequence[Observation]) -> list[tuple[int, float, float]]:
        """Return (row, value, variance) of each part that was measured under one candidate."""
        found: list[tuple[int, float, float]] = []
        flushed = [each for each in mine if each.flushed]
        if is_asynchronous(self.candidates[index]) and flushed:
            mean, variance = _weighted([(each.slowdown_s, each.slowdown_error_s) for each in flushed])
            scale = max(abs(mean), 0.3 * float(self._prior[index, Row.SLOWDOWN].mean()))
            found.append((Row.SLOWDOWN, mean, variance + (0.15 * scale) ** 2 + 1e-6))
        for row, seconds in (
            (Row.WRITE, [each.write_s for each in mine]),
            (Row.ENCODE, [each.encode_s for each in mine if each.encode_s > 0]),
            (Row.FLUSH, [each.flush_s for each in mine if each.flush_s > 0]),
        ):
            if seconds and max(seconds) > 0:
                found.append(
                    (row, _middle([log(max(each, 1e-6)) for each in seconds]), _part_variance(len(seconds)))
                )
        return found

    def _amplification(self, known: _Known) -> float:
        """Return how much more a blocking time scatters where flushes nearly fill the interval."""
        each = known.what
        if not (each.flushed and is_asynchronous(self.candidates[known.candidate])):
            return 1.0
        if each.flush_s <= _NEAR * self.shape.between_s:
            return 1.0
        return min(_MOST_AMPLIFIED, max(1.0, each.flush_s / max(each.blocking_s, 0.02 * each.flush_s)))

    def amplified(self, seen: Sequence[Observation], index: int) -> bool:
        """Return whether costs under the candidate `index` scatter with waits for flushes."""
        here = identity(self.candidates[index])
        return any(
            self._amplification(_Known(index, each)) > _LOOSE for each in seen if each.settings == here
        )


def _rows(settings: Values, parts: Parts, misfit: Array, slowdown_misfit: Array) -> Array:
    unflushed = parts.write_s + parts.encode_s
    blocked = parts.wait_s if is_asynchronous(settings) else parts.flush_s
    flushed = unflushed + blocked if is_cached(settings) else unflushed
    return np.array(
        [
            logs(unflushed) + misfit,
            logs(flushed) + misfit,
            parts.slowdown_s * slowdown_misfit,
            logs(parts.write_s),
            logs(parts.encode_s),
            logs(parts.flush_s),
        ]
    )


def _totals(rows: Array, candidates: Sequence[Values]) -> Array:
    """Return the mean seconds of a checkpoint over a flush cycle."""
    every = np.array([flush_every(each) for each in candidates])[:, None]
    flushed = np.exp(rows[:, Row.FLUSHED]) + rows[:, Row.SLOWDOWN]
    return np.asarray((flushed + (every - 1) * np.exp(rows[:, Row.UNFLUSHED])) / every)


def _grouped(seen: Sequence[_Known]) -> dict[tuple[int, bool], list[int]]:
    groups: dict[tuple[int, bool], list[int]] = {}
    for position, each in enumerate(seen):
        groups.setdefault((each.candidate, each.what.flushed), []).append(position)
    return groups


def _blocking(
    seen: Sequence[Observation], groups: Mapping[tuple[int, bool], list[int]], amplification: Sequence[float]
) -> tuple[Array, Array]:
    """Return the mean log of the blocking time of each group and their covariance."""
    amplified = np.array(amplification)
    logged = np.array([log(max(each.blocking_s, 1e-6)) for each in seen])
    times, runs = np.array([each.time for each in seen]), np.array([each.run for each in seen])
    member = np.zeros((len(seen), len(groups)))
    few = np.zeros(len(seen))
    for column, positions in enumerate(groups.values()):
        member[positions, column] = 1.0
        loose = float(amplified[positions].max())
        if len(positions) >= _SHOWN:
            middle = float(np.median(logged[positions]))
            logged[positions] = np.clip(logged[positions], middle - _LOW, middle + _HIGH * loose)
        else:
            logged[positions] = np.minimum(logged[positions], logged[positions].min() + _HIGH * loose)
            few[positions] = _FEW_NOISE**2
    same_run = runs[:, None] == runs[None]
    noise = np.where(
        same_run,
        AUTOCORRELATED**2 * CORRELATION ** np.abs(times[:, None] - times[None])
        + _RUN_NOISE**2 * (len(set(runs.tolist())) > 1),
        0.0,
    )
    noise = (noise + INDEPENDENT**2 * np.eye(len(seen))) * amplified[:, None] * amplified[None] + np.diag(few)
    inverse = np.linalg.inv(noise)
    covariance = np.linalg.inv(member.T @ inverse @ member)
    return covariance @ (member.T @ inverse @ logged), covariance


def _kalman(state: Array, data: _Seen) -> Array:
    """Return `state` (n x members) given `data`: the stochastic ensemble Kalman filter's analysis step."""
    count = len(data.seen)
    centred = state - state.mean(axis=1, keepdims=True)
    expected = data.predicted - data.predicted.mean(axis=1, keepdims=True)
    spread = expected @ expected.T / (MEMBERS - 1) + data.covariance + 1e-9 * np.eye(count)
    limit = _MOST_SURPRISING * np.sqrt(spread.diagonal())
    seen = np.clip(data.seen, data.predicted.mean(axis=1) - limit, data.predicted.mean(axis=1) + limit)
    gain = (centred @ expected.T / (MEMBERS - 1)) @ np.linalg.inv(spread)
    root = np.linalg.cholesky(data.covariance + 1e-9 * np.eye(count))
    perturbed = seen[:, None] + root @ np.random.default_rng(_SEED).standard_normal((count, MEMBERS))
    return np.asarray(state + gain @ (perturbed - data.predicted))


def _weighted(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of (value, SD) weighted by precision, the median of many, and its variance."""
    weights = [1 / (error * error + 1e-9) for _, error in values]
    lowest, highest = min(values), max(values)
    if len(values) > 4 or highest[0] - lowest[0] > 3 * (lowest[1] + highest[1]):  # noqa: PLR2004 - or a hiccup
        return median_low(value for value, _ in values), 1 / sum(weights)
    return sum(w * value for w, (value, _) in zip(weights, values, strict=True)) / sum(weights), 1 / sum(
        weights
    )


def _middle(values: Sequence[float]) -> float:
    """Return the median; of two the lower one and a little, for the other may be a spike."""
    return min(values) + 0.05 if len(values) == 2 else median(values)  # noqa: PLR2004


def _part_variance(count: int) -> float:
    return _PART_NOISE**2 * (1 + 1 / count)
