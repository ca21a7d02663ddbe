"""Schedules of checkpoints as people read them."""

from collections.abc import Iterable, Sequence

from ...goodput.interval.recommend import ASKED, Estimate, Outlook, ScheduleChoice
from ...units import count_text
from ...units import rounded_duration_text as _time
from ..blocks import Cell, Document, Styled, Table, table
from ..views.interval import JobOutlook
from .goodput import heading

_DAY_H = 24


def outlook(view: JobOutlook) -> Document:
    """Return the schedules side by side, what they rest on, and what to set."""
    return [[heading(view.job_name)], [schedules(view)], [*_grounds(view)], [Styled(advice(view))]]


def schedules(view: Outlook) -> Table:
    """Return a row for each schedule."""
    headings = (
        "schedule",
        ">interval",
        ">90 %",
        ">flush every",
        ">goodput",
        ">90 %",
        ">points\nlost",
        ">90 %",
    )
    rows = (_row(choice, is_best=choice.name == view.best) for choice in view.choices)
    return table(*headings, rows=rows, title="How long to compute between two checkpoints")


def _row(choice: ScheduleChoice, *, is_best: bool) -> Sequence[Cell]:
    every, lost = choice.flush_every, choice.lost
    flush = f"{every.value:.0f}"
    if every.low != every.high:
        flush += f" ({every.low:.0f} to {every.high:.0f})"
    cells = [
        choice.name,
        _time(choice.interval_s.value),
        _between(choice.interval_s),
        flush if every.value else "-",
        f"{choice.goodput.value:.2%}",
        f"{choice.goodput.low:.2%} to {choice.goodput.high:.2%}",
        _points(lost.value),
        "" if is_best else f"{_points(lost.low)} to {_points(lost.high)}",
    ]
    return [Styled(cell, "bold green") for cell in cells] if is_best else cells


def _points(share: float) -> str:
    return f"{round(100 * share, 2) + 0.0:.2f}"  # no -0.00


def _between(estimate: Estimate) -> str:
    if estimate.low == estimate.high:
        return ""
    low, high = _time(estimate.low), _time(estimate.high)
    figure, _, unit = low.partition(" ")
    return f"{figure if high.endswith(f' {unit}') else low} to {high}"


def _grounds(view: Outlook) -> Iterable[str]:
    """Yield what the numbers rest on, one line each."""
    found, failures = view.measured, view.failures
    flush = f" without its flush, which costs {_time(found.flush_cost_s)} more" if found.flush_every else ""
    last = count_text(found.checkpoints, "checkpoint")
    yield f"Mean cost of the last {last}, under the active settings: {_time(found.checkpoint_s)}{flush}."
    for choice in view.choices:
        if choice.flush_wait_s:
            yield (
                f"{choice.name}: outputs wait {_time(choice.flush_wait_s)} for each flush, which lasts"
                f" {_time(found.flush_s)}; with {_time(choice.shortest_interval_s)} or more they do not."
            )
    yield (
        f"{count_text(failures.total, 'failure')} seen in {_time(failures.observed_s)} on"
        f" {count_text(failures.nodes, 'node')}; with the prior one in {_time(view.mtbf_s.value)}"
        f" ({_between(view.mtbf_s)})."
    )
    yield (
        f"The schedules are for one in {_time(view.decided_for_s)}, the mean rate: too short an interval"
        " costs less than too long a one."
    )
    if found.flush_every:
        share = view.cache_share
        yield f"The cache survives {share.value:.0%} of them ({share.low:.0%} to {share.high:.0%})."
    yield (
        f"Prior: one failure in {_time(view.prior.mtbf_s)}, half sure within a factor of"
        f" {view.prior_half_within:.1f}: {view.prior.source}."
    )
    yield "Goodput here is as far as checkpoints and failures go; the rest of the job's time is as it is."


def advice(view: Outlook) -> str:
    """Return what to set, and what that brings."""
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
