"""Whether checkpoints come absurdly often, or never: said to the user, whoever chooses the interval."""

from collections.abc import Sequence

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.interval.failure_rate import typical
from ...goodput.interval.failures import Failures
from ...goodput.interval.model import IntervalError
from ...goodput.interval.recommend import MeasuredCosts, measured, pace
from ...units import rounded_duration_text as _time
from ..events import SettingsObserved, Values
from ..settings import number
from .derived.interval import SECONDS, UNSET

_ENOUGH = 3
_ABSURD = 0.1
"""Of the job's time. What lies within is for `scrtune goodput --interval` to say."""
_LONG_S = 600.0
_INTERVALS = 2
"""So many intervals of the user's own without a checkpoint, and ten minutes, are never."""


class PaceAdvice(msgspec.Struct, frozen=True):
    """How absurdly often checkpoints come, or that none does, and what to set; empty while they are fair."""

    sentence: str = ""
    settings: Values = {}
    """What the sentence says to set."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """A job's checkpoints, its failures, and whether its cache survives the loss of a node."""

    measured: MeasuredCosts
    failures: Failures
    survives_node: bool = True


def inputs(costs: Sequence[CheckpointCost], failures: Failures, settings: Values) -> Inputs:
    """Return what the best interval of a job under `settings` follows from. Raises IntervalError."""
    is_cached = number(settings, "SCR_CACHE_BYPASS") == 0
    return Inputs(
        measured=measured(
            costs,
            number(settings, "SCR_FLUSH") if is_cached else 0,
            next_output_waits=number(settings, "SCR_CACHE_SIZE") == 1,
        ),
        failures=failures,
        survives_node=settings["SCR_COPY_TYPE"] != "SINGLE",
    )


def absurd(
    job: SettingsObserved | None, settings: Values, costs: Sequence[CheckpointCost], failures: Failures
) -> PaceAdvice:
    """Return whether checkpoints come absurdly often, or not at all."""
    if job is None:
        return PaceAdvice()
    if not costs:
        return _never(job, failures.observed_s)
    try:
        found = inputs(costs, failures, settings)
        now = pace(found.measured, failures, typical(failures.nodes, survives_node=found.survives_node))
    except IntervalError:
        return PaceAdvice()
    if found.measured.checkpoints < _ENOUGH or now.lost < _ABSURD:
        return PaceAdvice()
    sentence = (
        f"checkpoints come too {'often' if now.interval_s < now.best_s else 'seldom'}: after"
        f" {_time(now.interval_s)} of work each, at a mean cost of {_time(now.checkpoint_s)} under the"
        f" settings in use; after {_time(now.best_s)} they would cost {now.lost:.0%} of the time less:"
        f" {' '.join(f'{name}={value}' for name, value in now.settings.items())}, in applications that ask"
        " SCR_Need_checkpoint (scrtune goodput --interval says more)"
    )
    return PaceAdvice(sentence, {**now.settings})


def _never(job: SettingsObserved, observed_s: float) -> PaceAdvice:
    set_here = {name: job.settings.get(name, 0) for name in UNSET}
    is_set = any(isinstance(value, int | float) and value > 0 for value in set_here.values())
    if not is_set and job.engine.startswith("libscr"):
        return PaceAdvice(
            f"no checkpoint so far: without {', '.join(UNSET)} SCR_Need_checkpoint never asks for one; set"
            f" {SECONDS}={_LONG_S:.0f}; once some were taken scrtune goodput --interval says what is best",
            {SECONDS: round(_LONG_S)},
        )
    seconds = set_here[SECONDS]
    own_s = float(seconds) if isinstance(seconds, int) else 0.0
    if observed_s < max(_LONG_S, _INTERVALS * own_s):
        return PaceAdvice()
    said = " ".join(f"{name}={value}" for name, value in set_here.items() if value) or "no interval is set"
    return PaceAdvice(f"no checkpoint in {_time(observed_s)}: a failure destroys all of it ({said})")
