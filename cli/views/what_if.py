"""`scrtune goodput --interval` and `--what-if`: the best interval of a job, or what another one would bring.

Costs are the pipeline's own, those that every other view shows; failures are counted in the same events.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.interval.failure_rate import RATE_WEIGHT, Prior, typical
from ...goodput.interval.failures import Failures, failures_of
from ...goodput.interval.model import IntervalError
from ...goodput.interval.recommend import (
    ASKED,
    Choice,
    Estimate,
    Measured,
    Outlook,
    measured,
    recommend,
    what_if,
)
from ...goodput.interval.save_costs import costs_of
from ...goodput.validation import span
from ...intents.rules.situation import number
from ...units import count_text, parse_duration_s, seconds_text
from ..job_record import Told
from ..text import tables as show

_FLUSH_EVERY = re.compile(r"[1-9][0-9]{0,5}")
_DAY_H = 24
_MOST_FAILURES = 1e6
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
    said = [each.strip().partition("=") for each in text.split(",")]
    given = {name: value for name, _, value in said}
    if len(given) < len(said):
        raise IntervalError(f"{text!r}: say interval and flush once each; one command answers one question")
    flush = given.pop("flush", None)
    if given.keys() != {"interval"} or not (flush is None or _FLUSH_EVERY.fullmatch(flush)):
        raise IntervalError(f"{text!r}: say interval=600 (seconds, or 10m, 2h), and flush=4 if you like")
    return Question(interval_s=duration(given["interval"]), flush_every=int(flush or 0))


def mtbf_prior(text: str) -> MtbfPrior:
    """``24h``, or ``24h:3``. Raises IntervalError, which says what is meant."""
    mtbf, _, weight = text.partition(":")
    wrong = f"{text!r}: say an MTBF of the job, and the failures it weighs: 24h:3"
    try:
        counts = float(weight) if weight else RATE_WEIGHT
        Prior(mtbf_s=duration(mtbf), weight=counts)
    except ValueError as error:
        raise IntervalError(wrong) from error
    if counts > _MOST_FAILURES:
        raise IntervalError(wrong)
    return MtbfPrior(mtbf_s=duration(mtbf), weight=counts)


def duration(text: str) -> float:
    """Seconds of ``600``, ``10m``, ``2.5h`` or ``1d``; above 0. Raises IntervalError."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise IntervalError(str(error)) from None


def inputs(job: Told) -> Inputs:
    """What was told of `job`: by its daemon's journal, with the settings in force, or by any logs.

    Where nobody said the settings, how often the job flushed is counted. Of writers that know nothing of SCR
    the saves count as checkpoints. Raises IntervalError.
    """
    in_order = sorted(job.events, key=lambda event: span(event)[1])
    failures = failures_of(in_order)
    costs, settings = job.tuning.costs or costs_of(in_order), job.tuning.settings
    if settings is None:
        return Inputs(measured=measured(costs, _flushed_every(costs)), failures=failures)
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


def _flushed_every(costs: Sequence[CheckpointCost]) -> int:
    flushed = sum(cost.flushed for cost in costs)
    return max(1, round(len(costs) / flushed)) if flushed else 0


def outlook(found: Inputs, known: MtbfPrior | None = None, asked: Question | None = None) -> Outlook:
    """The best schedule beside others, and what was `asked`. Raises IntervalError."""
    prior = typical(found.failures.nodes, survives_node=found.survives_node)
    if known is not None:
        prior = msgspec.structs.replace(
            prior, mtbf_s=known.mtbf_s, weight=known.weight, source="--mtbf-prior"
        )
    if asked is None:
        return recommend(found.measured, found.failures, prior)
    return what_if(found.measured, found.failures, prior, asked.interval_s, asked.flush_every)


def table(view: Outlook) -> RenderableType:
    """The schedules side by side, what they rest on, and what to set."""
    columns = ["schedule", "interval", "90 %", "flush every", "goodput", "90 %", "points\nlost", "90 %"]
    shown = show.plain_table(*columns, title="How long to compute between two checkpoints", right=columns[1:])
    for choice in view.choices:
        style = "bold green" if choice.name == view.best else ""
        shown.add_row(*_row(choice, view.best), style=style)
    return Group(shown, "", *(Text(line) for line in _grounds(view)), "", Text(_advice(view), style="bold"))


def _row(choice: Choice, best: str) -> list[str]:
    every, lost = choice.flush_every, choice.lost
    flush = f"{every.value:.0f}" + (f" ({_flushes(every)})" if every.low != every.high else "")
    return [
        choice.name,
        time(choice.interval_s.value),
        _between(choice.interval_s),
        flush if every.value else "-",
        f"{choice.goodput.value:.2%}",
        f"{choice.goodput.low:.2%} to {choice.goodput.high:.2%}",
        _points(lost.value),
        "" if choice.name == best else f"{_points(lost.low)} to {_points(lost.high)}",
    ]


def _points(share: float) -> str:
    return f"{round(100 * share, 2) + 0.0:.2f}"  # no -0.00


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
    for choice in view.choices:
        if choice.flush_wait_s:
            yield (
                f"{choice.name}: outputs wait {time(choice.flush_wait_s)} for each flush, which lasts"
                f" {time(found.flush_s)}; with {time(choice.shortest_interval_s)} or more they do not."
            )
    yield (
        f"{count_text(failures.total, 'failure')} seen in {time(failures.observed_s)} on"
        f" {count_text(failures.nodes, 'node')}; with the prior one in {time(view.mtbf_s.value)}"
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
    best = view.choice(view.best).gained
    if best is None:
        return f"{text}."
    text += f": {_a_day(best, ' of lasting work')}."
    asked = next((each.gained for each in view.choices if each.name == ASKED), None)
    return f"{text} What you ask about: {_a_day(asked)}." if asked else text


def _a_day(gained: Estimate, of: str = "") -> str:
    sign = 1 if gained.value >= 0 else -1
    low, high = sorted((sign * gained.low, sign * gained.high))
    return (
        f"{_DAY_H * abs(gained.value):.2f} h a day {'more' if sign > 0 else 'less'}{of} than now"
        f" ({_DAY_H * low:.2f} to {_DAY_H * high:.2f})"
    )


def time(value_s: float) -> str:
    """A time in the unit that suits it."""
    if value_s >= _LONG_S:
        return "over 10 years"
    for unit, size_s in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if value_s >= 2 * size_s:
            return f"{value_s / size_s:.1f} {unit}"
    return seconds_text(value_s)
