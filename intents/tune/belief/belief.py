"""The belief: what every joint setting is thought to cost, and how surely, given all that was measured.

An ensemble of cost models (:mod:`.ensemble`) predicts the parts of a checkpoint under each candidate. Every
checkpoint's measured parts (:mod:`.measured`) update all of it at once, from the prior: what was seen under
one setting informs the others as far as the models tie them together.

Everything is drawn with fixed seeds and rounded before it is compared, so that a journal gives the same
decisions whatever the linear algebra underneath.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from ....goodput.checkpoint_cost import CheckpointCost
from ...events import Durability, Tier, Values
from ...rules.levers import NAMES
from ...rules.situation import Situation
from ...settings import flush_every, is_asynchronous, is_cached, number
from ..decisions import Breakdown
from .ensemble import RATES, Ensemble, draw
from .measured import SHOWN, Measured, Row, measure
from .model import LOWEST, PRIORS, Array, Columns, Parts, Prior, Shape, draw_rates, meanwhile_s, predict
from .observations import Identity, ObservedCheckpoint, identity
from .rework import expected_rework_s, exposure_s, losses_per_s

CANDIDATES = 60
_DIGITS = 9
_SEED = 1
_TWICE = 2
"""A slowdown seen twice is no hiccup: it is believed of its settings, whatever the models say."""


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
    ) -> None:
        self.shape = shape
        self._rng = np.random.default_rng(_SEED)
        rates = draw_rates(self._rng, priors)
        chosen = _distinct(candidates, predict(Columns.of(candidates, shape), shape, rates), kept)
        self._kept = sum(index < kept for index in chosen)
        self._take([candidates[i] for i in chosen])
        logged = np.array([np.log(rates[name]) for name in RATES])
        self._prior = self._ensemble = draw(self._rng, logged, self.candidates, shape)
        self.totals: Array
        self.flush_s: Array
        self._rows: Array
        self._believe(self._predicted(self._prior))

    def prune(self, seen: Iterable[Identity]) -> None:
        """Keep what was `seen`, what is believed to be best, and the best with each value of a lever."""
        best = [int(i) for i in np.argsort(np.quantile(self.totals, 0.3, axis=1), kind="stable")]
        first_with = {(name, self.candidates[i][name]): i for name in NAMES for i in reversed(best)}
        observed = {index for each in seen if (index := self.index_of(each)) is not None}
        chosen = sorted({*range(self._kept), *observed, *best[:CANDIDATES], *first_with.values()})
        self._take([self.candidates[i] for i in chosen])
        self._prior, self._ensemble = self._prior.chosen(chosen), self._ensemble.chosen(chosen)
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
            return
        prior = self._predicted(self._prior)
        slowdowns_s, held = prior[:, Row.SLOWDOWN].mean(axis=1), self._columns.held[:, 0]
        data = measure(known, self.shape.between_s, slowdowns_s, held)
        self._ensemble = self._prior.given(data, self._columns, self.shape)
        rows = self._predicted(self._ensemble)
        _show(rows, prior, data)
        self._queue(rows, data)
        rows[:, Row.SLOWDOWN] = np.maximum(rows[:, Row.SLOWDOWN], 0.0)
        self._believe(rows)

    def shift(self, spreads: Mapping[Tier, float]) -> None:
        """Doubt what is believed: the machine has changed. `spreads` are SDs of log factors by tier."""
        self._prior = self._ensemble = self._ensemble.doubted(spreads, self._rng)
        self._believe(self._predicted(self._prior))

    def breakdown(self, index: int) -> Breakdown:
        """Return the medians of what is believed of the candidate `index`."""
        rows = self._rows[index]
        return Breakdown(
            cost_s=float(np.median(self.totals[index])),
            write_s=float(np.median(np.exp(rows[Row.WRITE]))),
            encode_s=float(np.median(np.exp(rows[Row.ENCODE]))),
            flush_s=float(self.flush_s[index]) if is_cached(self.candidates[index]) else 0.0,
            slowdown_s=float(np.median(rows[Row.SLOWDOWN])),
        )

    def felt_s(self, index: int) -> float:
        """Return the median of what a checkpoint takes from the job, expected rework aside."""
        return max(0.0, float(np.median(self.totals[index] - self._rework_s[index])))

    def charged_s(self, index: int, cost: CheckpointCost) -> float:
        """Return the cost of a checkpoint as one of its flush cycle.

        Of a slowdown as much as is likely: an estimate may be wrong by more than a checkpoint costs.
        """
        slowdown_s = self._likely_slowdown_s(index, cost)
        blocking_s = cost.blocking_s - self.beyond_mean_s(index, flushed=cost.flushed)
        return blocking_s + max(slowdown_s, -cost.blocking_s / 2)

    def _likely_slowdown_s(self, index: int, cost: CheckpointCost) -> float:
        seconds, error_s = cost.slowdown_s, cost.slowdown_error_s
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

    def why_at_risk(self, index: int, now: Situation) -> str:
        """Return why a flush may not end before the next output although it has to; empty where it does."""
        flush_s = float(self.flush_s[index])
        settings = self.candidates[index]
        # with one place SCR_Start_output waits for the flush before it, to have room
        is_late = is_asynchronous(settings) and number(settings, "SCR_CACHE_SIZE") > 1
        if now.rails.durability is not Durability.NEXT or not is_late or flush_s <= self.shape.between_s:
            return ""
        return (
            f"its flush may take {flush_s:.3f} s, longer than the {self.shape.between_s:.3f} s between two"
            f" checkpoints: two would be at risk ({now.rails.because})"
        )

    def learnt_rates(self) -> dict[str, tuple[float, float]]:
        """Return mean and SD of the natural logarithm of every rate."""
        rates = zip(RATES, self._ensemble.rates, strict=True)
        return {name: (round(float(each.mean()), 4), round(float(each.std()), 4)) for name, each in rates}

    def _take(self, candidates: Sequence[Values]) -> None:
        self.candidates = candidates
        self._index = {identity(each): i for i, each in enumerate(candidates)}
        self._columns = Columns.of(candidates, self.shape)
        self._losses_per_s = np.array([[losses_per_s(each, self.shape.nodes)] for each in candidates])

    def _believe(self, rows: Array) -> None:
        """Make `rows` what is believed, rounded: all that is decided follows from these digits."""
        self._rows = np.round(rows, _DIGITS)
        flush_s = np.exp(self._rows[:, Row.FLUSH])
        exposed_s = exposure_s(self._columns.every, self._columns.beside, self.shape.between_s, flush_s)
        self._rework_s = expected_rework_s(self._losses_per_s, self.shape.between_s, exposed_s)
        seconds = _cycle_s(self._rows.swapaxes(0, 1), self._columns.every) + self._rework_s
        self.totals = np.maximum(np.round(seconds, _DIGITS), 10.0**-_DIGITS)
        self.flush_s = np.round(np.median(flush_s, axis=1), _DIGITS)

    def _queue(self, rows: Array, data: Measured) -> None:
        """Believe of settings whose waits were not seen that outputs wait for flushes that outlast them."""
        unflushed_s, flush_s = np.exp(rows[:, Row.UNFLUSHED]), np.exp(rows[:, Row.FLUSH])
        wait_s = self._columns.beside * np.maximum(
            0.0, flush_s - meanwhile_s(self._columns, self.shape.between_s, unflushed_s)
        )
        wait_s[[each.candidate for each in data.rows if each.row is Row.FLUSHED]] = 0.0
        rows[:, Row.FLUSHED] = np.maximum(rows[:, Row.FLUSHED], np.log(unflushed_s + wait_s))

    def _predicted(self, ensemble: Ensemble) -> Array:
        return ensemble.rows(self._columns, self.shape)


def _distinct(candidates: Sequence[Values], parts: Parts, kept: int) -> list[int]:
    """Return which candidates differ in their effect; the first `kept` only have to differ in a value."""
    sums = np.stack(parts, axis=1).sum(axis=2).tolist()
    known: set[Hashable] = set()
    chosen = []
    for index, (settings, each) in enumerate(zip(candidates, sums, strict=True)):
        effect, own = (*each, flush_every(settings)), identity(settings)
        if own not in known and (index < kept or effect not in known):
            known |= {effect, own}
            chosen.append(index)
    return chosen


def _cycle_s(rows: Array, every: Array | int) -> Array:
    """Return the mean seconds of a checkpoint over a flush cycle; `rows` come first in its shape."""
    flushed_s = np.exp(rows[Row.FLUSHED]) + rows[Row.SLOWDOWN]
    return np.asarray((flushed_s + (every - 1) * np.exp(rows[Row.UNFLUSHED])) / every)


def _show(rows: Array, prior_rows: Array, data: Measured) -> None:
    """Believe what was seen, within and as surely as its noise, and of others what the prior ties to it.

    What was seen once or twice may be a spike: it says nothing of others, and a slowdown seen once nothing.
    """
    noises = np.sqrt(data.covariance.diagonal())
    for row in Row:
        shown = [
            (seen.candidate, value, noise, seen.checkpoints >= SHOWN)
            for seen, value, noise in zip(data.rows, data.values, noises, strict=True)
            if seen.row is row and (row is not Row.SLOWDOWN or seen.checkpoints >= _TWICE)
        ]
        if not shown:
            continue
        index, values, noise, is_often = (np.array(each) for each in zip(*shown, strict=True))
        moved = _within(rows[index, row], values[:, None], noise[:, None]) - rows[index, row]
        prior = prior_rows[:, row] - prior_rows[:, row].mean(axis=1, keepdims=True)
        tied = is_often * (prior @ prior[index].T) / np.maximum((prior[index] ** 2).sum(axis=1), LOWEST**2)
        by = np.clip(tied.max(axis=1, keepdims=True), 0.0, 1.0) * moved[tied.argmax(axis=1)]
        by[[seen.candidate for seen in data.rows if seen.row is row]] = 0.0
        by[index] = moved
        rows[:, row] += by


def _within(members: Array, values: Array, noise: Array) -> Array:
    """Return `members` with a mean within `noise` of `values`, and no wider than that."""
    middle, spread = members.mean(axis=1, keepdims=True), members.std(axis=1, keepdims=True)
    narrowed = np.minimum(1.0, noise / np.maximum(spread, LOWEST))
    return np.asarray(np.clip(middle, values - noise, values + noise) + narrowed * (members - middle))
