"""The belief: what every joint setting is thought to cost, and how surely, given all that was measured.

An ensemble of cost models (:mod:`.model`), whose rates are drawn from wide priors, predicts the parts of a
checkpoint under each candidate. Every checkpoint's measured parts (:mod:`.measured`) update all candidates at
once, by one ensemble Kalman step from the prior (G. Evensen 2003, "The Ensemble Kalman Filter"): what was
seen under one setting informs the others as far as the models tie them together. What no model explains has
its own share of the prior for each parameter value and each candidate.

Everything is drawn with fixed seeds and rounded before it is compared, so that a journal gives the same
decisions whatever the linear algebra underneath.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import hypot

import numpy as np

from ....goodput.checkpoint_cost import CheckpointCost
from ...events import Values
from ...rules.levers import NAMES
from ...settings import flush_every, is_cached
from ..decisions import Breakdown
from .measured import SHOWN, Measured, Row, RowSeen, measure
from .model import HAVE_RATES, LOWEST, MEMBERS, PRIORS, Parts, Prior, draw_rates, logs, meanwhile_s, predict
from .observations import Identity, ObservedCheckpoint, identity
from .quantiles import median, quantile
from .rework import expected_rework_s, exposure_s, losses_per_s
from .shape import Array, Columns, Shape, places

CANDIDATES = 60
_BY_VALUE, _BY_CANDIDATE, _BY_SCHEME, _BY_FLUSH, _BY_SLOWDOWN = 0.045, 0.05, 0.25, 0.15, 0.3
"""SDs of log factors that no model explains."""
_DIGITS = 9
_SEED = 1
_TWICE = 2
"""A slowdown seen twice is no hiccup: it is believed of its settings, whatever the models say."""
_MOST_SURPRISING = 4.0
"""SDs: what is farther from all that the models expect says nothing of other settings."""
_SLIGHTLY = 1e-9
_HARDLY_LESS = 0.1


class Belief:
    """What is believed of `candidates`: the first are the user's own settings, the first `kept` always stay.

    `totals` are seconds of job time for a checkpoint, expected rework included, (candidates, members);
    `flush_s` the medians of a flush's seconds, (candidates,).
    """

    def __init__(
        self,
        candidates: Sequence[Values],
        shape: Shape,
        priors: Mapping[str, Prior] = PRIORS,
        kept: int = 1,
        seen: Sequence[ObservedCheckpoint] = (),
    ) -> None:
        self.shape = shape
        self._rng = np.random.default_rng(_SEED)
        self._doubts = np.random.default_rng(_SEED + 1).standard_normal((len(Row), MEMBERS))
        rates = draw_rates(self._rng, priors)
        columns = Columns.of(candidates, shape)
        parts = predict(columns, shape, rates)
        chosen = _distinct(candidates, parts, kept)
        self._kept = sum(index < kept for index in chosen)
        self._rate_names = tuple(priors)
        self._prior_rates = self._rates = np.array([np.log(rates[name]) for name in priors])
        parts = Parts(*(part[chosen] for part in parts))
        self._take([candidates[i] for i in chosen], columns.some(chosen), parts.haste)
        self._prior = self._predicted(parts)
        self.totals: Array
        self.flush_s: Array
        self._rows: Array
        self.update(seen)

    def prune(self, seen: Iterable[Identity]) -> None:
        """Keep what was `seen`, what is believed to be best, and the best with each value of a lever."""
        best = [int(i) for i in np.argsort(quantile(self.totals, 0.3), kind="stable")]
        first_with = {(name, self.candidates[i][name]): i for name in NAMES for i in reversed(best)}
        observed = {index for each in seen if (index := self.index_of(each)) is not None}
        chosen = sorted({*range(self._kept), *observed, *best[:CANDIDATES], *first_with.values()})
        self._take([self.candidates[i] for i in chosen], self._of.some(chosen), self._haste[chosen])
        self._prior = self._prior[chosen]
        self._believe(self._rows[chosen])

    def index(self, settings: Values) -> int | None:
        """Return the candidate with `settings`; None when there is none."""
        return self.index_of(identity(settings))

    def index_of(self, settings: Identity) -> int | None:
        """Return the candidate with these values of all levers; None when there is none."""
        return self._index.get(settings)

    def update(self, seen: Sequence[ObservedCheckpoint]) -> None:
        """Believe what follows from the prior and from all of `seen`."""
        known: dict[int, list[ObservedCheckpoint]] = {}
        for each in seen:
            if (index := self.index_of(each.settings)) is not None:
                known.setdefault(index, []).append(each)
        if not known:
            self._believe(self._prior)
            return
        slowdowns_s = self._prior[:, Row.SLOWDOWN].mean(axis=1)
        data = measure(known, self.shape.between_s, self._of.threads[:, 0], slowdowns_s)
        predicted = self._prior[[each.candidate for each in data.rows], [each.row for each in data.rows]]
        after = np.concatenate([self._prior.reshape(-1, MEMBERS), self._prior_rates])
        limit = _limit(predicted, data)
        _kalman(after, predicted, data, limit)
        rows = after[: -len(self._prior_rates)].reshape(self._prior.shape)
        is_odd = np.abs(data.values - predicted.mean(axis=1)) > limit
        self._show(rows, data, is_odd.tolist())
        np.maximum(rows[:, Row.SLOWDOWN], 0.0, out=rows[:, Row.SLOWDOWN])
        self._block(rows, {each.candidate: each.checkpoints for each in data.rows if each.row is Row.FLUSHED})
        self._rates = after[-len(self._prior_rates) :]
        self._believe(rows)

    def _show(self, rows: Array, data: Measured, is_odd: Sequence[bool]) -> None:
        """Believe what was seen often enough within its noise, and of others what the prior ties to it.

        So is what `is_odd`, farther off than all that the models expect: they are wrong about it, and it may
        be a spike, but nothing better is known of the settings under which it was seen.
        """
        noises = np.sqrt(data.covariance.diagonal())
        for row in Row:
            shown = [
                (seen.candidate, value, noise)
                for seen, value, noise, odd in zip(data.rows, data.values, noises, is_odd, strict=True)
                if seen.row is row and _is_shown(seen, is_odd=odd)
            ]
            if not shown:
                continue
            index, values, noise = (np.array(each) for each in zip(*shown, strict=True))
            middle = rows[index, row].mean(axis=1)
            moved = np.clip(middle, values - noise, values + noise) - middle
            prior = self._prior[:, row] - self._prior[:, row].mean(axis=1, keepdims=True)
            tied = prior @ prior[index].T / np.maximum((prior[index] ** 2).sum(axis=1), LOWEST**2)
            closest = tied.argmax(axis=1)
            share = np.clip(tied.max(axis=1), 0.0, 1.0)
            share[[seen.candidate for seen in data.rows if seen.row is row]] = 0.0
            unsure = np.minimum(np.abs(moved), noise)
            by, doubt = share * moved[closest], share * unsure[closest]
            by[index], doubt[index] = moved, unsure
            rows[:, row] += by[:, None] + doubt[:, None] * self._doubts[row]

    def _block(self, rows: Array, flushed: Mapping[int, int]) -> None:
        """An output takes at least as long as the flush that blocks it, or that a later one waits for.

        Of a candidate of which as many checkpoints were `flushed` that was measured. The first show no waits:
        flushes that outlast the interval have to queue up before.
        """
        flush_s = np.exp(rows[:, Row.FLUSH])
        free_s = meanwhile_s(self._of, self.shape.between_s, np.exp(rows[:, Row.WRITE]))
        wait_s = self._of.beside * np.maximum(0.0, flush_s - free_s) / self._haste
        blocked_s = np.where(self._of.beside, wait_s, flush_s)
        least = logs(np.exp(rows[:, Row.UNFLUSHED]) + self._of.cached * blocked_s)
        for index, count in flushed.items():
            waits = count < SHOWN + self._of.held[index] - 1
            least[index] = np.where(waits & (wait_s[index] > 0), least[index], -np.inf)
        rows[:, Row.FLUSHED] = np.maximum(rows[:, Row.FLUSHED], least)

    def shift(self, factors: Mapping[str, float]) -> None:
        """Doubt what is believed: the machine has changed. `factors` are SDs of log factors by tier."""
        prefix = factors["prefix"] * self._rng.standard_normal(MEMBERS)
        cache = factors["cache"] * self._rng.standard_normal(MEMBERS)
        tier = np.where(self._of.cached, cache, prefix)
        before, rows = self._rows, self._rows.copy()
        for row, factor in (
            (Row.FLUSH, prefix),
            (Row.UNFLUSHED, tier),
            (Row.WRITE, tier),
            (Row.ENCODE, cache),
        ):
            rows[:, row] += factor
        flush_s, flushed_s = np.exp(rows[:, Row.FLUSH]), np.exp(before[:, Row.FLUSHED] + tier)
        blocked_s = np.where(
            self._of.beside, flush_s - self.shape.between_s, flush_s - np.exp(before[:, Row.FLUSH])
        )
        longer_s = self._of.cached * np.where(self._of.beside, np.maximum(0.0, blocked_s), blocked_s)
        rows[:, Row.FLUSHED] = np.log(np.maximum(flushed_s + longer_s, np.exp(rows[:, Row.UNFLUSHED])))
        rows[:, Row.SLOWDOWN] *= np.where(self._of.beside, np.exp(prefix), 1.0)
        self._prior = rows
        self._believe(rows)

    def breakdown(self, index: int) -> Breakdown:
        """Return the medians of what is believed of the candidate `index`."""
        rows, every = self._rows[index], flush_every(self.candidates[index])
        blocked_s = np.maximum(0.0, np.exp(rows[Row.FLUSHED]) - np.exp(rows[Row.UNFLUSHED])) / every
        return Breakdown(
            cost_s=float(median(self.totals[index])),
            write_s=float(median(np.exp(rows[Row.WRITE]))),
            encode_s=float(median(np.exp(rows[Row.ENCODE]))),
            blocked_s=float(median(blocked_s)),
            flush_s=float(self.flush_s[index]) if is_cached(self.candidates[index]) else 0.0,
            slowdown_s=float(median(rows[Row.SLOWDOWN])),
            rework_s=self.rework_s(index),
        )

    @property
    def felt(self) -> Array:
        """Seconds that a checkpoint takes from the job, expected rework aside, (candidates, members)."""
        return np.asarray(self.totals - self._rework_s)

    def felt_s(self, index: int) -> float:
        """Return the median of what a checkpoint takes from the job, expected rework aside."""
        return max(0.0, float(median(self.felt[index])))

    def rest_s(self, index: int, passed_s: float) -> float:
        """Return how long ranks wait for a flush under the candidate `index` that began `passed_s` ago."""
        return max(0.0, float(self.flush_s[index]) - passed_s) / self._usual_haste[index]

    def may_be_less_s(self, index: int) -> float:
        """Return how much less than its mean the candidate `index` may cost, but for a probability of 0.1."""
        return float(self.totals[index].mean() - quantile(self.totals[index], _HARDLY_LESS))

    def rework_s(self, index: int) -> float:
        """Return the expected rework of a checkpoint under the candidate `index` (:mod:`.rework`)."""
        return float(self._rework_s[index].mean())

    def charged_s(self, index: int, cost: CheckpointCost) -> float:
        """Return the cost of a checkpoint as one of its flush cycle, expected rework aside.

        Of a slowdown as much as is likely: an estimate may be wrong by more than a checkpoint costs.
        """
        slowdown_s = self._likely_slowdown_s(index, cost)
        blocking_s = cost.blocking_s - self.beyond_mean_s(index, flushed=cost.flushed)
        return blocking_s + max(slowdown_s, -cost.blocking_s / 2)

    def _likely_slowdown_s(self, index: int, cost: CheckpointCost) -> float:
        seconds, error_s = cost.slowdown_s, hypot(cost.slowdown_error_s, cost.reference_error_s)
        if error_s <= 0:
            return seconds
        believed = self._rows[index, Row.SLOWDOWN]
        mean_s, variance = float(believed.mean()), float(believed.var())
        surprise = (seconds - mean_s) ** 2 + LOWEST**2
        weight = max(variance / (variance + error_s**2), 1 - error_s**2 / surprise)
        return weight * seconds + (1 - weight) * mean_s

    def beyond_mean_s(self, index: int, *, flushed: bool) -> float:
        """Return what a checkpoint costs beyond the mean of its flush cycle, being `flushed` or not."""
        every = flush_every(self.candidates[index])
        if every == 1:
            return 0.0
        rows = self._rows[index]
        kind = np.exp(rows[Row.FLUSHED]) + rows[Row.SLOWDOWN] if flushed else np.exp(rows[Row.UNFLUSHED])
        return float((kind - _cycle_s(rows, every)).mean())

    def learnt_rates(self) -> dict[str, tuple[float, float]]:
        """Return mean and SD of the natural logarithm of every rate."""
        rates = zip(self._rate_names, self._rates, strict=True)
        return {name: (round(float(each.mean()), 4), round(float(each.std()), 4)) for name, each in rates}

    def _take(self, candidates: Sequence[Values], columns: Columns, haste: Array) -> None:
        self.candidates, self._of = candidates, columns
        self._haste = haste
        self._usual_haste: list[float] = median(haste).tolist()
        self._index = {identity(each): i for i, each in enumerate(candidates)}
        self._losses_per_s = np.array([[losses_per_s(each, self.shape.nodes)] for each in candidates])

    def _believe(self, rows: Array) -> None:
        """Make `rows` what is believed, rounded: all that is decided follows from these digits."""
        self._rows = np.round(rows, _DIGITS)
        flush_s = np.exp(self._rows[:, Row.FLUSH])
        exposed_s = exposure_s(self._of.every, self._of.beside, self.shape.between_s, flush_s)
        self._rework_s = expected_rework_s(self._losses_per_s, self.shape.between_s, exposed_s)
        seconds = _cycle_s(self._rows.swapaxes(0, 1), self._of.every) + self._rework_s
        self.totals = np.maximum(np.round(seconds, _DIGITS), 10.0**-_DIGITS)
        self.flush_s = np.round(median(flush_s), _DIGITS)

    def _predicted(self, parts: Parts) -> Array:
        """Return the prior rows of all candidates, (candidates, rows, members)."""
        candidates, draws = self.candidates, self._rng.standard_normal
        size = (len(candidates), MEMBERS)

        def shared(kinds: Iterable[Hashable], spread: float) -> Array:
            """Return one draw for each kind."""
            kinds = list(kinds)
            places = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
            return spread * draws((len(places), MEMBERS))[[places[kind] for kind in kinds]]

        misfit = _BY_CANDIDATE * draws(size)
        for name in filter(lambda each: each not in HAVE_RATES, NAMES):
            misfit += shared((each[name] for each in candidates), _BY_VALUE)
        encode_s = parts.encode_s * np.exp(shared((each["SCR_COPY_TYPE"] for each in candidates), _BY_SCHEME))
        copies = [
            (each["SCR_FLUSH_TYPE"], bool(each["SCRTUNE_FLUSH_CPUS"]), each["SCRTUNE_FLUSH_NICE"], threads)
            for each, threads in zip(candidates, self._of.threads[:, 0].tolist(), strict=True)
        ]
        flush_s = parts.flush_s * np.exp(shared(copies, _BY_FLUSH))
        slowdown_s = parts.slowdown_s * np.exp(_BY_SLOWDOWN * draws(size))
        unflushed_s = parts.write_s + encode_s
        flushed_s = unflushed_s + np.where(self._of.beside, parts.wait_s, flush_s)
        rows = [
            *(logs(unflushed_s) + misfit, logs(flushed_s) + misfit, slowdown_s),
            *(logs(parts.write_s), logs(encode_s), logs(flush_s)),
            *(logs(parts.flush_cpu_s), logs(parts.cores)),
        ]
        return np.stack(rows, axis=1)


def _distinct(candidates: Sequence[Values], parts: Parts, kept: int) -> list[int]:
    """Return which candidates differ in their effect; the first `kept` only have to differ in a value.

    Of those with one effect the first stays, where the user's own settings cache; else that with the smallest
    cache, which more surely has room.
    """
    sums = np.stack(parts, axis=1).sum(axis=2).tolist()
    order = list(range(len(candidates)))
    if not is_cached(candidates[0]):
        order.sort(key=lambda index: (index >= kept, places(candidates[index])))
    known: set[Hashable] = set()
    chosen = []
    for index in order:
        effect, own = (*sums[index], flush_every(candidates[index])), identity(candidates[index])
        if own not in known and (index < kept or effect not in known):
            known |= {effect, own}
            chosen.append(index)
    return sorted(chosen)


def _is_shown(seen: RowSeen, *, is_odd: bool) -> bool:
    """Return whether what was seen is believed of its settings, whatever the models say."""
    if seen.row is Row.SLOWDOWN:
        return seen.checkpoints >= _TWICE
    return is_odd or seen.checkpoints >= SHOWN


def _limit(predicted: Array, data: Measured) -> Array:
    """Return how far off what was seen of each row may be for the models and noise to explain it."""
    variances = predicted.var(axis=1, ddof=1) + data.covariance.diagonal() + _SLIGHTLY
    return np.asarray(_MOST_SURPRISING * np.sqrt(variances))


def _cycle_s(rows: Array, every: Array | int) -> Array:
    """Return the mean seconds of a checkpoint over a flush cycle; `rows` come first in its shape."""
    flushed_s = np.exp(rows[Row.FLUSHED]) + rows[Row.SLOWDOWN]
    return np.asarray((flushed_s + (every - 1) * np.exp(rows[Row.UNFLUSHED])) / every)


def _kalman(state: Array, predicted: Array, data: Measured, limit: Array) -> None:
    """Update `state` (n x members) by `data`: the analysis step of the stochastic ensemble Kalman filter.

    In place, for it may have several MiB, and new pages cost more than the arithmetic.
    """
    count = len(data.values)
    covariance = data.covariance + _SLIGHTLY * np.eye(count)
    middle = predicted.mean(axis=1)
    expected = predicted - middle[:, None]
    spread = expected @ expected.T / (MEMBERS - 1) + covariance
    # the deviations of `expected` add up to nothing, so that the mean of `state` is of no effect
    gain = (state @ expected.T / (MEMBERS - 1)) @ np.linalg.inv(spread)
    drawn = np.linalg.cholesky(covariance) @ np.random.default_rng(_SEED).standard_normal((count, MEMBERS))
    seen = np.clip(data.values, middle - limit, middle + limit)
    state += gain @ (seen[:, None] + drawn - predicted)
