"""Steps of a job by their starts, and what is said of them."""

from typing import Any

from scrtune.goodput.events import GoodputEvent, StepStarted
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.steps import summary as module
from scrtune.goodput.steps.summary import StepSummary
from scrtune.goodput.steps.table import StepTable
from scrtune.goodput.steps.table import step_table as table_of_columns


def starts(*times_s: float, first: int = 0, every: int = 1, writer: str = "") -> list[GoodputEvent]:
    """Steps that say when they begin; they last until the next."""
    return [
        StepStarted(step=first + every * index, time_s=time_s, writer=writer)
        for index, time_s in enumerate(times_s)
    ]


def step_summary(events: list[Any], window: tuple[float, float] | None = None) -> StepSummary | None:
    return module.step_summary(JobEvents(events), window, by_number=True)


def step_table(events: list[Any]) -> StepTable:
    return table_of_columns(JobEvents(events), by_number=True)


def summary(events: list[GoodputEvent], window: tuple[float, float] | None = None) -> StepSummary:
    made = step_summary(events, window)
    assert made is not None
    return made


def steps_of(events: list[GoodputEvent]) -> list[tuple[int, float]]:
    """Number and seconds of each step of the job, by start."""
    rows = step_table(events).job
    return list(zip(rows.number.tolist(), rows.took_s.tolist(), strict=True))
