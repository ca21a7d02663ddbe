"""Accounts by the peer's rules, over events."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.compat.goodput_utils import BadputType
from scrtune.goodput.compat.rules import (
    CompatAccount,
    CompatError,
    CompatEvents,
    compat_account,
    compat_window,
)
from scrtune.goodput.events import (
    INTERVAL_KINDS,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    SlicesObserved,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.validation import span


def test_a_job_accounts_for_its_parts() -> None:
    events: list[GoodputEvent] = [
        JobStarted(time_s=0),
        Interval(kind="device_init", start_s=0, end_s=4),
        Interval(kind="training_prep", start_s=4, end_s=10),
        *(StepStarted(step=step, time_s=10 + 10 * step) for step in range(9)),
        JobEnded(time_s=100),
    ]
    account = compat_account(events, now=1e9)
    assert account.goodput_percent == 90
    breakdown = account.breakdown()
    assert breakdown[BadputType.TPU_INITIALIZATION] == 4
    assert breakdown[BadputType.TRAINING_PREP] == 6
    assert breakdown[BadputType.OTHER] == 0
    assert account.max_productive_step == account.last_step == 8


def test_our_own_events_are_understood_by_the_same_rules() -> None:
    events: list[GoodputEvent] = [
        JobStarted(time_s=0),
        RestartCompleted(dataset=1, name="a", start_s=1, end_s=3),
        *(StepCompleted(step=step, start_s=10 + 10 * step, end_s=19 + 10 * step) for step in range(9)),
        OutputCompleted(dataset=2, name="b", start_s=99, end_s=100),
        JobEnded(time_s=100),
    ]
    breakdown = compat_account(events, now=1e9).breakdown()
    assert breakdown[BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] == 1
    assert breakdown[BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME] == 2


def test_a_job_that_never_ended_lasts_until_now() -> None:
    events = [JobStarted(time_s=0), StepStarted(step=0, time_s=0), StepStarted(step=1, time_s=50)]
    assert compat_account(events, now=100).goodput_percent == 50
    assert compat_account(events, now=200).goodput_percent == 25


def test_without_a_start_of_the_job_the_error_says_what_to_do() -> None:
    with pytest.raises(CompatError, match="record_job_start_time was not called"):
        compat_account([StepStarted(step=0, time_s=0)], now=1)
    with pytest.raises(CompatError, match="no events in the window"):
        compat_window([JobStarted(time_s=0)], 10, 20)


times = st.integers(0, 400).map(lambda quarter: quarter / 4)
kinds = st.sampled_from(INTERVAL_KINDS)
names = st.sampled_from(["", "eval", "EVAL", "sdc"])
events_in_any_order = st.lists(
    st.one_of(
        st.builds(JobStarted, time_s=times),
        st.builds(JobEnded, time_s=times),
        st.builds(StepStarted, step=st.integers(-1, 12), time_s=times, writer=names),
        st.builds(StepCompleted, step=st.integers(0, 12), start_s=times, end_s=times),
        st.builds(Interval, kind=kinds, start_s=times, end_s=times, name=names),
        st.builds(IntervalStarted, kind=kinds, time_s=times, name=names),
        st.builds(IntervalEnded, kind=kinds, time_s=times, name=names),
        st.builds(SlicesObserved, time_s=times, active=st.integers(0, 4), total=st.integers(0, 4)),
    ),
    max_size=40,
)


@given(events_in_any_order, times, st.booleans())
def test_any_events_give_an_account_or_say_why_not(
    events: list[GoodputEvent], now: float, elastic: bool
) -> None:
    for account_for in (
        lambda: compat_account(events, now, elastic=elastic),
        lambda: compat_window(events, now, now + 50, elastic=elastic),
    ):
        try:
            account = account_for()
        except CompatError:
            continue
        assert 0 <= account.goodput_percent <= 100
        for percent in account.breakdown().values():
            for part in percent.values() if isinstance(percent, dict) else [percent]:
                assert 0 <= part < 100


@given(
    st.lists(times, min_size=2, max_size=12),
    st.lists(st.tuples(times, times, st.sampled_from("AB")), max_size=8),
    st.booleans(),
)
def test_a_custom_event_belongs_to_the_step_it_lies_inside_of(
    starts: list[float], customs: list[tuple[float, float, str]], in_order: bool
) -> None:
    """Looked up: the same as asking each step about each event."""
    starts = sorted(starts) if in_order else starts
    customs = [custom for custom in customs if custom[0] < custom[1]]
    account = compat_account(
        [
            JobStarted(time_s=0),
            *(Interval(kind="custom", start_s=start, end_s=end, name=name) for start, end, name in customs),
            *(StepStarted(step=step, time_s=start_s) for step, start_s in enumerate(starts)),
        ],
        now=1e4,
    )
    expected = [
        (name, end - start)
        for begin, until in pairwise(starts)
        for start, end, name in customs
        if begin <= start and end <= until
    ]
    found = account.badput_s[BadputType.CUSTOM_BADPUT_EVENTS]
    assert isinstance(found, dict)
    assert set(found) == {name for name, _ in expected}
    assert sum(found.values()) == pytest.approx(sum(spent_s for _, spent_s in expected))


@given(
    st.lists(
        st.builds(StepStarted, step=st.integers(0, 9), time_s=times)
        | st.builds(StepCompleted, step=st.integers(0, 9), start_s=times, end_s=times),
        max_size=40,
    )
)
def test_a_step_lasts_until_the_next_number_if_that_comes_next(
    events: list[StepStarted | StepCompleted],
) -> None:
    expected: dict[int, float] = {}
    for one, following in pairwise(events):
        if following.step == one.step + 1:
            expected[one.step] = span(following)[0] - span(one)[0]
    assert CompatEvents(events).step_times() == expected


@given(events_in_any_order, times, st.booleans())
def test_columns_of_a_job_are_accounted_as_its_events_by_time(
    events: list[GoodputEvent], now: float, elastic: bool
) -> None:
    columns = JobEvents(events)
    found: list[CompatAccount | str] = []
    for given_as in (columns, list(columns)):
        try:
            found.append(compat_account(given_as, now, elastic=elastic))
        except CompatError as error:
            found.append(str(error))
    assert found[0] == found[1]
