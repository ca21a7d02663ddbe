"""Impossible events: what the daemon, the recorder and the readers of logs reject."""

import math

import pytest

from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    JobStarted,
    OutputCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.validation import (
    AHEAD_S,
    BEHIND_S,
    LARGEST_INTEGER,
    LARGEST_S,
    LONGEST_TEXT,
    defect,
    defect_of_record,
    is_near,
    is_within_bounds,
)

T0 = 1_700_000_000.0
NOW = T0 + 10


def step(start: float, end: float, number: int = 0) -> StepCompleted:
    return StepCompleted(step=number, start_s=T0 + start, end_s=T0 + end)


def output(write_s: float) -> OutputCompleted:
    return OutputCompleted(dataset=1, name="d1", start_s=T0, end_s=T0 + 1, write_s=write_s)


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (step(0, 10), None),
        (step(10, 10), None),
        (step(10, 9), "an end before its start"),
        (step(math.nan, 10), "times that are no numbers"),
        (step(0, math.inf), "times that are no numbers"),
        (output(write_s=math.nan), "times that are no numbers"),
        (output(write_s=1e300), "times that cannot be"),
        (JobStarted(time_s=T0), None),
        (JobStarted(time_s=T0 + 1800), None),
        (JobStarted(time_s=0.0), "times that cannot be"),
        (step(0, 100_000), "times that cannot be"),
    ],
)
def test_a_live_event_lies_near_the_time_of_its_arrival(event: GoodputEvent, problem: str | None) -> None:
    assert defect(event, NOW) == problem


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (JobStarted(time_s=0.0), None),
        (step(0, 100_000), None),
        (step(10, 9), "an end before its start"),
        (JobStarted(time_s=1e12), "1000000000000.0 to 1000000000000.0 are no epoch seconds"),
        (StepStarted(step=LARGEST_INTEGER, time_s=T0), None),
        (StepStarted(step=-LARGEST_INTEGER - 1, time_s=T0), "-9007199254740993 is out of bounds"),
        (step(0, 1, LARGEST_INTEGER + 1), "9007199254740993 is out of bounds"),
        (output(write_s=1e300), "1e+300 is out of bounds"),
    ],
)
def test_an_event_of_a_log_may_be_of_any_age(event: GoodputEvent, problem: str | None) -> None:
    assert defect_of_record(event) == problem


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LARGEST_INTEGER, True),
        (-LARGEST_INTEGER - 1, False),
        (LARGEST_S, True),
        (-1.1 * LARGEST_S, False),
        (math.nan, False),
        (-math.inf, False),
        ("x" * LONGEST_TEXT, True),
        ("x" * (LONGEST_TEXT + 1), False),
        (None, True),
        (b"bytes", False),
        ({"SCR_FLUSH": 10, "SCR_COPY_TYPE": "XOR"}, True),
        ({"SCR_FLUSH": 2**60}, False),
        ({"x" * (LONGEST_TEXT + 1): 0}, False),
        ((1, (2.0, "three")), True),
        ((1, (2.0, math.nan)), False),
        (Interval(kind="custom", start_s=T0, end_s=T0, name="x"), True),
        (step(0, 0, 2**60), False),
    ],
)
def test_numbers_and_texts_have_bounds(value: object, expected: bool) -> None:
    assert is_within_bounds(value) is expected


@pytest.mark.parametrize(
    ("off_s", "expected"),
    [
        (0, True),
        (AHEAD_S, True),
        (AHEAD_S + 1, False),
        (-BEHIND_S, True),
        (-BEHIND_S - 1, False),
        (math.nan, False),
        (math.inf, False),
    ],
)
def test_a_time_is_near_from_a_year_before_to_an_hour_ahead(off_s: float, expected: bool) -> None:
    assert is_near(NOW + off_s, NOW) is expected
