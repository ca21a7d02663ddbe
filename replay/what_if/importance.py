"""Which parameters mattered in runs that differ, by the runs alone: permutation importance."""

from collections.abc import Sequence

import numpy as np

from ...intents.settings import DEFAULTS
from .candidates import relevant
from .evidence import FACTS, RunEvidence

_FEWEST = 4
"""Runs; of fewer a forest learns nothing."""
_TREES, _REPEATS, _SEED = 100, 10, 1
WITH_SCR = "with SCR"


def permuted(runs: Sequence[RunEvidence]) -> dict[str, float]:
    """Return the permutation importance (L. Breiman 2001) of each parameter that differs between `runs`.

    Of a forest of regression trees for the logarithm of a checkpoint's seconds, as shares of 1. Empty for
    runs that are too few or do not differ, and without scikit-learn.
    """
    features = _differing(runs)
    if len(runs) < _FEWEST or not features:
        return {}
    try:
        from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415 - an extra
        from sklearn.inspection import permutation_importance  # noqa: PLC0415
    except ModuleNotFoundError:
        return {}
    coded = np.array([[sorted(set(each)).index(value) for value in each] for each in features.values()]).T
    logs = np.log([run.checkpoint_s for run in runs])
    forest = ExtraTreesRegressor(n_estimators=_TREES, random_state=_SEED).fit(coded, logs)
    found = permutation_importance(forest, coded, logs, n_repeats=_REPEATS, random_state=_SEED)
    means = np.maximum(found.importances_mean, 0.0)
    total = means.sum()
    return dict(zip(features, (means / total).tolist(), strict=True)) if total > 0 else {}


def why_none(runs: Sequence[RunEvidence]) -> str:
    """Return why nothing is known of what mattered in `runs`."""
    if len(runs) < _FEWEST:
        return f"Which parameters mattered in the runs: not told by fewer than {_FEWEST}"
    if not _differing(runs):
        return "Which parameters mattered in the runs: their settings do not differ"
    return "Which parameters mattered in the runs needs scikit-learn: pip install 'scrtune[what-if]'"


def _differing(runs: Sequence[RunEvidence]) -> dict[str, list[str]]:
    """Return the values of what differs between runs in which it has an effect, as texts; else empty ones."""
    effects = [set(relevant(run.settings, run.shape)) if run.with_scr else set() for run in runs]
    rows = {WITH_SCR: ["yes" if run.with_scr else "no" for run in runs]}
    for name in DEFAULTS:
        rows[name] = [
            _text(run.settings[name]) if name in had else "" for run, had in zip(runs, effects, strict=True)
        ]
    for name in FACTS:
        rows[name] = [_text(run.said[name]) if name in run.said else "" for run in runs]
    return {name: values for name, values in rows.items() if len({*values} - {""}) > 1}


def _text(value: object) -> str:
    """Return a value so that numbers are ordered as texts."""
    return f"{value:020}" if isinstance(value, int | float) else str(value)
