"""Texts of `scrtune study --what-if`, the same on the terminal and on the page."""

from ...intents.events import Values
from ...replay.what_if.rows import Importance, PredictedValue, Prediction, WhatIf
from ...units import bytes_text, count_text
from ..format import seconds_column, value_text

_SHOWN_S, _SHOWN_SHARE = 0.005, 0.005


def below(found: WhatIf) -> str:
    """Return what to know of the table of predictions."""
    return (
        f"Predicted for a job like {found.like}; what is not named is as it was there. In brackets:"
        f" {found.confidence:.0%} intervals. Survives: nodes that may be lost before a flush has ended."
    )


def hidden(found: WhatIf) -> str:
    """Return where the predictions are that only the page, JSON and CSV have."""
    more = len(found.predictions) - len(found.leading)
    return f"The cheapest of each way to write; {more} more are in the page, in JSON and CSV." if more else ""


def changes_text(changes: Values) -> str:
    """Return settings that change."""
    return " ".join(f"{name}={value_text(value)}" for name, value in changes.items()) or "as it was"


def reason_text(row: Prediction) -> str:
    """Return what the seconds consist of, the largest part first, and where they are from."""
    parts = sorted(row.parts_s.items(), key=lambda item: -item[1])
    shown = [f"{name} {seconds_column(seconds)}" for name, seconds in parts if seconds >= _SHOWN_S]
    return f"{', '.join(shown)} s; {row.source}"


def survives_text(row: Prediction) -> str:
    """Return how many nodes may be lost at any time."""
    return "all" if row.survives is None else str(row.survives)


def interval_text(seconds: PredictedValue | None) -> str:
    """Return a predicted value with its interval."""
    if seconds is None:
        return "-"
    low, high = seconds_column(seconds.low), seconds_column(seconds.high)
    return f"{seconds_column(seconds.value)} ({low} - {high})"


def errors_text(found: WhatIf) -> str:
    """Return the mean errors of runs that were held out, and how many lie within their intervals."""
    errors = {measure: found.errors(measure) for measure in ("checkpoint", "flush")}
    means = [
        f"{sum(each) / len(each):.1%} of {measure} seconds ({count_text(len(each), 'run')})"
        for measure, each in errors.items()
        if each
    ]
    covered = sum(row.is_covered for row in found.held_out)
    return f"Mean error: {', '.join(means)}; {covered} of {len(found.held_out)} within the interval."


def best_text(row: Importance) -> str:
    """Return the values of a parameter with the seconds that are possible with them, the best first."""
    best = sorted(row.best_s.items(), key=lambda item: item[1])
    return ", ".join(
        f"{value_text(value)}: {seconds_column(seconds)}"
        + (f" ({seconds_column(row.flush_s[value])})" if value in row.flush_s else "")
        for value, seconds in best
    )


def mattering(found: WhatIf) -> list[Importance]:
    """Return the parameters that matter at all."""
    return [
        row for row in found.importances if row.worth_s >= _SHOWN_S or (row.permuted or 0.0) >= _SHOWN_SHARE
    ]


def share_text(row: Importance) -> str:
    """Return how much a parameter mattered in the runs."""
    return "-" if row.permuted is None else f"{row.permuted:.0%}"


def rate_text(name: str, value: float) -> str:
    """Return a rate of the model with the unit that its name says."""
    if name.endswith("bytes_per_s"):
        return f"{bytes_text(value)}/s"
    return f"{value:.3g} s" if name.endswith("_s") else f"{value:.3g}"
