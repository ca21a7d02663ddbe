"""`scrtune goodput --interval` and `--what-if`: the best interval of a job, or what another one would bring.

Costs are the pipeline's own, those that every other view shows; failures are counted in the same events.
"""

import re
from collections.abc import Iterable

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from ..client.paths import JobPaths
from ..goodput.best_interval import (
    ASKED,
    IN_USE,
    Choice,
    Estimate,
    Measured,
    Outlook,
    measured,
    recommend,
    what_if,
)
from ..goodput.checkpoint_cost import CheckpointCosts
from ..goodput.events import GoodputEvent
from ..goodput.failure_rate import RATE_WEIGHT, Prior, typical
from ..goodput.failures import Failures, FailureWatch
from ..goodput.interval import IntervalError
from ..goodput.sanity import defect
from ..goodput.saves import costs_of_saves
from ..intents.intent import counted
from ..intents.pipeline import Pipeline
from ..intents.situation import number
from . import show
from .drive import drive
from .jobs import UnknownJobError
from .journal import JournalReader

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)")
_DAY_H = 24
_LONG_S = 10 * 365 * 86_400.0


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What `--what-if` asks about; `flush_every` 0 leaves flushes as they are."""

    interval_s: float
    flush_every: int = 0


class MtbfPrior(msgspec.Struct, frozen=True, kw_only=True):
    """What `--mtbf-prior` says: an MTBF of the whole job, and the failures that it weighs."""

    mtbf_s: float
    weight: float


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a job tells: its checkpoints, its failures, and whether its cache survives the loss of a node."""

    measured: Measured
    failures: Failures
    survives_node: bool = True


def question(text: str) -> Question:
    """``interval=600`` or ``interval=10m,flush=4``. Raises IntervalError, which says what is meant."""
    given = dict(each.strip().partition("=")[::2] for each in text.split(","))
    flush = given.pop("flush", "0")
    if given.keys() != {"interval"} or not flush.isdecimal():
        raise IntervalError(f"{text!r}: say interval=600 (seconds, or 10m, 2h), and flush=4 if you like")
    return Question(interval_s=duration(given["interval"]), flush_every=int(flush))


def mtbf_prior(text: str) -> MtbfPrior:
    """``24h``, or ``24h:3``. Raises IntervalError, which says what is meant."""
    mtbf, _, weight = text.partition(":")
    try:
        counts = float(weight) if weight else RATE_WEIGHT
        Prior(mtbf_s=duration(mtbf), weight=counts)
    except ValueError as error:
        raise IntervalError(f"{text!r}: say an MTBF of the job, and the failures it weighs: 24h:3") from error
    return MtbfPrior(mtbf_s=duration(mtbf), weight=counts)


def duration(text: str) -> float:
    """Seconds of ``600``, ``10m``, ``2.5h`` or ``1d``; above 0. Raises IntervalError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS_S or float(match[1]) <= 0:
        raise IntervalError(f"{text!r} is no time: say 600 (seconds), 10m, 2.5h or 1d")
    return float(match[1]) * _UNITS_S[match[2]]


def of_job(paths: JobPaths) -> Inputs:
    """What the journal of a job tells, running or not. Raises UnknownJobError and IntervalError."""
    pipeline, watch = Pipeline(), FailureWatch()
    try:
        for now, event in JournalReader(paths.journal):
            drive(pipeline, event, now)
            if isinstance(event, GoodputEvent) and defect(event, now) is None:
                watch.handle(event)
    except FileNotFoundError as error:
        raise UnknownJobError(f"{paths.journal}: no journal; the job's daemon never ran") from error
    settings = pipeline.settings
    is_cached = number(settings, "SCR_CACHE_BYPASS") == 0
    return Inputs(
        measured=measured(pipeline.costs, number(settings, "SCR_FLUSH") if is_cached else 0),
        failures=watch.failures,
        survives_node=settings["SCR_COPY_TYPE"] != "SINGLE",
    )


def of_events(events: Iterable[GoodputEvent]) -> Inputs:
    """What logs tell of a job, which do not say its settings: how often it flushed is counted.

    Of writers that know nothing of SCR the saves count as checkpoints. Raises IntervalError.
    """
    meter, watch = CheckpointCosts(), FailureWatch()
    costs = []
    in_order = sorted(events, key=_time_s)
    for event in in_order:
        watch.handle(event)
        if (cost := meter.handle(event)) is not None:
            costs.append(cost)
    costs = costs or costs_of_saves(in_order)
    flushed = sum(cost.flushed for cost in costs)
    every = max(1, round(len(costs) / flushed)) if flushed else 0
    return Inputs(measured=measured(costs, every), failures=watch.failures)


def _time_s(event: GoodputEvent) -> float:
    return event.end_s if hasattr(event, "end_s") else event.time_s


def outlook(inputs: Inputs, known: MtbfPrior | None = None, asked: Question | None = None) -> Outlook:
    """The best schedule, or what was `asked` beside it. Raises IntervalError."""
    prior = typical(inputs.failures.nodes, survives_node=inputs.survives_node)
    if known is not None:
        prior = msgspec.structs.replace(
            prior, mtbf_s=known.mtbf_s, weight=known.weight, source="--mtbf-prior"
        )
    if asked is None:
        return recommend(inputs.measured, inputs.failures, prior)
    return what_if(inputs.measured, inputs.failures, prior, asked.interval_s, asked.flush_every)


def table(view: Outlook) -> RenderableType:
    """The schedules side by side, what they rest on, and what to set."""
    columns = ["schedule", "interval", "90 %", "flush every", "goodput", "90 %", "points below the best"]
    shown = show.plain_table(*columns, title="How long to compute between two checkpoints", right=columns[1:])
    for choice in view.choices:
        style = "bold green" if choice.name == view.best else ""
        shown.add_row(*_row(choice), style=style)
    return Group(shown, "", *(Text(line) for line in _grounds(view)), "", Text(_advice(view), style="bold"))


def _row(choice: Choice) -> list[str]:
    every, lost = choice.flush_every, choice.lost
    flush = f"{every.value:.0f}" + (f" ({_flushes(every)})" if every.low != every.high else "")
    return [
        choice.name,
        time(choice.interval_s.value),
        _between(choice.interval_s),
        flush if every.value else "-",
        f"{choice.goodput.value:.2%}",
        f"{choice.goodput.low:.2%} to {choice.goodput.high:.2%}",
        f"{max(0.0, 100 * lost.value):.3f}",
    ]


def _flushes(every: Estimate) -> str:
    return f"{every.low:.0f} to {every.high:.0f}"


def _between(estimate: Estimate) -> str:
    if estimate.low == estimate.high:
        return ""
    low, high = time(estimate.low), time(estimate.high)
    figure, _, unit = low.partition(" ")
    return f"{figure if high.endswith(f' {unit}') else low} to {high}"


def _grounds(view: Outlook) -> Iterable[str]:
    """What the numbers rest on, one line each."""
    found, failures = view.measured, view.failures
    flush = f", a flush {time(found.flush_cost_s)} more" if found.flush_every else ""
    yield f"A checkpoint takes {time(found.checkpoint_s)}{flush} (mean of {found.checkpoints})."
    yield (
        f"{counted(failures.total, 'failure')} seen in {time(failures.observed_s)} on"
        f" {counted(failures.nodes, 'node')}; with the prior one in {time(view.mtbf_s.value)}"
        f" ({_between(view.mtbf_s)})."
    )
    yield (
        f"The schedules are for one in {time(view.decided_for_s)}, the mean rate: too short an interval costs"
        " less than too long a one."
    )
    if found.flush_every:
        share = view.cache_share
        yield f"The cache survives {share.value:.0%} of them ({share.low:.0%} to {share.high:.0%})."
    yield (
        f"Prior: one failure in {time(view.prior.mtbf_s)}, half sure within a factor of"
        f" {view.prior_half_within:.1f}: {view.prior.source}."
    )
    yield "Goodput here is as far as checkpoints and failures go; the rest of the job's time is as it is."


def _advice(view: Outlook) -> str:
    setting = " ".join(f"{name}={value}" for name, value in view.settings.items())
    text = f"The best schedule is {setting}, in applications that ask SCR_Need_checkpoint"
    choices = {each.name: each for each in view.choices}
    if IN_USE not in choices:
        return f"{text}."
    lost = choices[IN_USE].lost
    text += (
        f": {_DAY_H * lost.value:.2f} h a day more of lasting work than now"
        f" ({_DAY_H * lost.low:.2f} to {_DAY_H * lost.high:.2f})."
    )
    if ASKED in choices:
        more = choices[ASKED].goodput.value - choices[IN_USE].goodput.value
        text += f" What you ask about: {_DAY_H * abs(more):.2f} h {'more' if more >= 0 else 'less'} than now."
    return text


def time(value_s: float) -> str:
    """A time in the unit that suits it."""
    if value_s >= _LONG_S:
        return "over 10 years"
    for unit, size_s in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if value_s >= 2 * size_s:
            return f"{value_s / size_s:.1f} {unit}"
    return show.seconds(value_s)
