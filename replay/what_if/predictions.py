"""What checkpoints would cost under other settings: ranked, with intervals, reasons, and how far to trust it.

    from scrtune.replay.study import study
    from scrtune.replay.what_if.predictions import what_if

    found = study(runs)
    for row in what_if(runs, found, {"SCRTUNE_FLUSH_THREADS": (1, 2, 16)}).predictions:
        print(row.rank, row.settings, row.checkpoint_s)

Pure: nothing is read here. The rows are those of :mod:`.rows`; `docs/study.md` says what is assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...intents.events import Values
from ...intents.observe.faults.redundancy import SURVIVES
from ...intents.rules.levers import LEVERS
from ...intents.settings import flush_every, is_asynchronous, is_cached
from ...intents.tune.belief.model import LOWEST
from ...intents.tune.belief.shape import Array
from ..study import Run
from ..study_rows import Study
from .candidates import Candidate, Domains, candidates, domains, relevant
from .evidence import FACTS, RunEvidence, evidence, is_flushed, kind_of
from .fit import NAMES, NOISE, PRIORS_OF_RUNS, case_of, costs, fit_runs, measures
from .importance import permuted, why_none
from .rows import HeldOut, Importance, PredictedValue, Prediction, Rate, WhatIf

_Z = 1.6448536269514722
"""SDs from the middle of a normal distribution to the ends of 90 % of it (:data:`.rows.CONFIDENCE`)."""
_ENOUGH = 4
"""Held-out runs from which on they tell how wide intervals have to be."""
_LEARNT = 0.7
"""Of the prior's spread: a rate that is known better has been learnt from the runs."""
_OTHER_JOB = 1.25
"""Runs that write so many times as much are not the same job."""


class Stated(NamedTuple):
    """Bytes a second of a node that no trace shows: of the storage for which is predicted."""

    cache: float | None = None
    prefix: float | None = None


def what_if(
    runs: Sequence[Run],
    found: Study,
    asked: Domains | None = None,
    stated: Stated = Stated(),  # noqa: B008 - immutable
) -> WhatIf:
    """Return what the checkpoints of `runs`, of which `found` is the study, would cost under other settings.

    `asked` names the values of parameters, and of what :data:`.evidence.FACTS` says of the job; without
    parameters a grid is compared. Raises ValueError where nothing can be predicted.
    """
    asked = asked or {}
    seen = _evidence(runs, found)
    base = next((run for run in seen if run.run == found.base), seen[0])
    like = base if base.with_scr else next((run for run in seen if run.with_scr), base)
    varied = domains(like, seen, asked)
    fitted = fit_runs(seen)
    held_out = [row for index, run in enumerate(seen) for row in _held_out(index, run, seen, fitted.without)]
    model = _Model(like, seen, fitted.rates, _as_stated(fitted.rates, like, stated), _wider(held_out))
    compared = candidates(like, varied)
    told = model.distinct(compared) if asked.keys() <= {*FACTS} else compared
    rows = tuple(model.ranked(told, base))
    forest = permuted(seen)
    return WhatIf(
        base=base.run,
        like=like.run,
        runs=tuple(run.run for run in seen),
        predictions=rows,
        held_out=tuple(held_out),
        importances=tuple(_importances(varied, compared, model.middles(compared), forest)),
        rates=tuple(_rates(fitted.rates, like)),
        notes=(
            *_notes_of_runs(found, seen, like, held_out),
            *_notes_of_ranks(rows, like, asked),
            *([] if forest else [why_none(seen)]),
        ),
    )


def _evidence(runs: Sequence[Run], found: Study) -> list[RunEvidence]:
    """Return what runs show that have checkpoints and bytes in a tier. Raises ValueError without any."""
    rows = {row.name: row for row in found.runs}
    seen = []
    for run in runs:
        checkpoints = [row for row in found.checkpoints if row.run == run.name]
        if not checkpoints or rows[run.name].unseen:
            continue
        if (each := evidence(run, rows[run.name], checkpoints)).shape.rank_bytes > 0:
            seen.append(each)
    if not seen:
        unseen = "; ".join(f"{row.name}: {row.unseen}" for row in found.runs if row.unseen)
        nowhere = "no run has checkpoints that write below the cache or the prefix directory: name both"
        raise ValueError(unseen or f"{nowhere} directories")
    return seen


class _Model:
    """The fitted model: what candidates cost, with intervals as wide as left-out runs ask for."""

    def __init__(
        self,
        like: RunEvidence,
        runs: Sequence[RunEvidence],
        rates: Array,
        stated_rates: Array,
        wider: Mapping[str, float],
    ) -> None:
        self._like, self._runs, self._wider = like, runs, wider
        self._rates, self._stated = rates, stated_rates
        self._kinds = {run.kind for run in runs}

    def middles(self, compared: Sequence[Candidate]) -> Array:
        """Return the medians of flush and checkpoint seconds, (2, candidates)."""
        found = costs([each.case for each in compared], self._stated)
        return np.asarray(np.median(np.stack([found.flush_s, found.checkpoint_s]), axis=2))

    def distinct(self, compared: Sequence[Candidate]) -> list[Candidate]:
        """Return one of candidates whose costs differ by less than noise: that with the fewest changes."""
        steps = np.array([[NOISE["flush"]], [NOISE["checkpoint"]]])
        classes = np.round(np.log(np.maximum(self.middles(compared), LOWEST)) / steps).T.tolist()
        nearest: dict[tuple[object, ...], tuple[int, Candidate]] = {}
        for each, place in zip(compared, classes, strict=True):
            key = (*place, _survives(each), tuple(each.job.items()))
            changes = len(self._changes(each))
            if key not in nearest or changes < nearest[key][0]:
                nearest[key] = changes, each
        return [each for _, each in nearest.values()]

    def ranked(self, compared: Sequence[Candidate], base: RunEvidence) -> Iterator[Prediction]:
        """Yield the predictions, the cheapest first."""
        found = costs([each.case for each in compared], self._stated)
        base_s = costs([case_of(base)], self._rates).checkpoint_s[0]
        order = np.lexsort(np.round(self.middles(compared), 9)).tolist()
        for rank, index in enumerate(order, start=1):
            each, cost_s = compared[index], found.checkpoint_s[index]
            flush_s = interval(found.flush_s[index], "flush", self._wider)
            yield Prediction(
                rank=rank,
                settings=each.shown,
                changes=each.job | self._changes(each),
                checkpoint_s=interval(cost_s, "checkpoint", self._wider),
                difference_s=self._difference(base_s, cost_s),
                flush_s=flush_s if is_flushed(each.case.settings) else None,
                parts_s={name: float(np.median(part[index])) for name, part in found.parts.items()},
                survives=_survives(each),
                source=self._source(each),
                measured_s={run.run: run.checkpoint_s for run in self._with(each)},
            )

    def _changes(self, each: Candidate) -> Values:
        own: Values = self._like.settings if self._like.with_scr else {}
        return {name: value for name, value in each.shown.items() if own.get(name) != value}

    def _difference(self, base_s: Array, cost_s: Array) -> PredictedValue:
        """Return how much more a checkpoint costs than one of the base: the noise of both is in it."""
        middle, half = float(np.median(cost_s - base_s)), _half(cost_s - base_s)
        noise_s = _Z * NOISE["checkpoint"] * float(np.hypot(np.median(base_s), np.median(cost_s)))
        wide = self._wider["checkpoint"] * (half**2 + noise_s**2) ** 0.5
        return PredictedValue(middle, middle - wide, middle + wide)

    def _with(self, each: Candidate) -> list[RunEvidence]:
        """Return the runs that had the settings of a candidate in the same job and on the same storage."""
        if each.job or self._stated is not self._rates:
            return []
        return [
            run
            for run in self._runs
            if run.with_scr
            and {name: run.settings[name] for name in relevant(run.settings, run.shape)} == each.shown
        ]

    def _source(self, each: Candidate) -> str:
        if measured := self._with(each):
            return "measured: " + ", ".join(f"{run.run} {run.checkpoint_s:,.2f} s" for run in measured)
        is_shown = kind_of(each.case.settings, each.case.shape) in self._kinds
        return "predicted" if is_shown else "predicted, but no run writes so"


def _importances(
    varied: Domains, compared: Sequence[Candidate], middles: Array, forest: Mapping[str, float]
) -> list[Importance]:
    """Return a row for each parameter that varies, or that runs differ in; what is worth most comes first."""
    levers = {lever.name: lever for lever in LEVERS}
    rows = []
    for name in dict.fromkeys((*varied, *forest)):
        best: dict[str, tuple[float, float]] = {}
        for each, flush_s, cost_s in zip(compared, *middles.tolist(), strict=True):
            if (value := (each.job | each.shown).get(name)) is not None:
                best[str(value)] = min((cost_s, flush_s), best.get(str(value), (cost_s, flush_s)))
        lever = levers.get(name)
        rows.append(
            Importance(
                parameter=name,
                best_s={value: cost_s for value, (cost_s, _) in best.items()},
                flush_s={value: flush_s for value, (_, flush_s) in best.items() if flush_s > 0},
                permuted=forest.get(name),
                why=lever.why if lever else "",
                source=lever.source if lever else "",
            )
        )
    return sorted(rows, key=lambda row: (-row.worth_s, -(row.permuted or 0.0)))


def interval(drawn: Array, measure: str, wider: Mapping[str, float]) -> PredictedValue:
    """Return the median of what members predict, and the interval of what a run would show."""
    logs = np.log(np.maximum(drawn, LOWEST))
    half = wider[measure] * (_half(logs) ** 2 + (_Z * NOISE[measure]) ** 2) ** 0.5
    middle = float(np.median(drawn))
    return PredictedValue(middle, middle * float(np.exp(-half)), middle * float(np.exp(half)))


def _half(values: Array) -> float:
    low, high = np.quantile(values, [0.05, 0.95])
    return float(high - low) / 2


def _survives(each: Candidate) -> int | None:
    settings = each.case.settings
    is_safe = is_flushed(settings) and flush_every(settings) == 1 and not is_asynchronous(settings)
    return None if is_safe or not is_cached(settings) else SURVIVES.get(str(each.shown["SCR_COPY_TYPE"]), 0)


def _held_out(
    index: int, run: RunEvidence, runs: Sequence[RunEvidence], without: Sequence[Array]
) -> Iterator[HeldOut]:
    if not without:
        return
    found = costs([case_of(run)], without[index])[:3]
    has_kin = any(other.kind == run.kind for other in runs if other is not run)
    narrow = dict.fromkeys(NOISE, 1.0)
    for place, (measure, value) in enumerate(measures(run).items()):
        if value is not None and measure != "outside":
            predicted = interval(found[place][0], measure, narrow)
            yield HeldOut(
                run=run.run, measure=measure, measured_s=value, predicted_s=predicted, has_kin=has_kin
            )


def _wider(held_out: Sequence[HeldOut]) -> dict[str, float]:
    """Return how many times wider intervals have to be for nine of ten left-out runs to lie in them."""
    factors = dict.fromkeys(NOISE, 1.0)
    for measure in factors:
        missed = [
            abs(np.log(row.measured_s / row.predicted_s.value))
            / np.log(row.predicted_s.high / row.predicted_s.value)
            for row in held_out
            if row.measure == measure
        ]
        if len(missed) >= _ENOUGH:
            factors[measure] = max(1.0, float(np.quantile(missed, 0.9)))
    return factors


def _true_share(like: RunEvidence) -> float:
    """Return by how much a node writes less than if all its ranks were as heavy as the heaviest."""
    return like.node_bytes / like.shape.node_bytes


def _as_stated(rates: Array, like: RunEvidence, stated: Stated) -> Array:
    """Return `rates` with those of the stated storage in place of the fitted ones."""
    if stated == Stated():
        return rates
    changed: Array = rates.copy()
    for tier, rate in stated._asdict().items():
        if rate is not None:
            changed[NAMES.index(f"{tier}_bytes_per_s"), :] = np.log(rate / _true_share(like))
    return changed


def _rates(rates: Array, like: RunEvidence) -> Iterator[Rate]:
    for name, logs in zip(NAMES, rates, strict=True):
        share = _true_share(like) if name in {"cache_bytes_per_s", "prefix_bytes_per_s"} else 1.0
        low, middle, high = (np.exp(np.quantile(logs, [0.05, 0.5, 0.95])) * share).tolist()
        is_learnt = _half(logs) / _Z < _LEARNT * PRIORS_OF_RUNS[name].spread
        yield Rate(name=name, value=PredictedValue(middle, low, high), is_learnt=is_learnt)


def _notes_of_runs(
    found: Study, runs: Sequence[RunEvidence], like: RunEvidence, held_out: Sequence[HeldOut]
) -> Iterator[str]:
    if not like.with_scr:
        yield "No run has SCR: what its files and copies cost is assumed"
    for row in found.runs:
        if row.name not in {run.run for run in runs}:
            why = (
                "writes are missing in its trace"
                if row.unseen
                else "no checkpoints that write below a directory"
            )
            yield f"Nothing is predicted from {row.name}: {why}"
    unsaid = [run.run for run in runs if run.with_scr and not run.said]
    if unsaid:
        yield f"Settings of {', '.join(unsaid)} are what the trace shows of them, else SCR's defaults"
    if "cores" not in like.said:
        yield (
            "How many cores a node has, and how many a rank may use, no trace says: threads of a flush are"
            " taken to find idle ones; settings = { cores = 48, cores_per_rank = 1 } says it"
        )
    sizes = [run.shape.rank_bytes for run in runs]
    if max(sizes) > _OTHER_JOB * min(sizes):
        yield f"Runs write different amounts: what is predicted is for as much as {like.run}"
    if not held_out:
        yield "One run alone: nothing can be held out to see how good the predictions are"
    elif alone := sorted({row.run for row in held_out if not row.has_kin}):
        yield f"No other run writes to the same place as {', '.join(alone)} with the same scheme"


def _notes_of_ranks(rows: Sequence[Prediction], like: RunEvidence, asked: Domains) -> Iterator[str]:
    shown = {name for row in rows for name in row.settings}
    if idle := sorted(asked.keys() - {*FACTS} - shown):
        yield f"No effect with the other settings of {like.run}: {', '.join(idle)}; vary those as well"
    alike = [row.rank for row in rows[1:] if row.checkpoint_s.value <= rows[0].checkpoint_s.high]
    if alike:
        yield f"Numbers 1 to {max(alike)} cannot be told apart: they lie within the interval of number 1"
    if rows[0].survives == 0 and (safer := next((row for row in rows if row.survives != 0), None)):
        yield (
            f"Until its flush has ended, number 1 is lost with a node; the cheapest that is not is number"
            f" {safer.rank}"
        )
