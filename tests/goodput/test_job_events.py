"""A job's events in columns are the same events, in the order of time."""

from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import (
    GoodputEvent,
    IntervalEnded,
    IntervalStarted,
    JobStarted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.validation import span

times = st.integers(0, 50).map(float)
writers = st.sampled_from(["", "r0", "r1"])
kinds = st.sampled_from(["data_loading", "custom"])
numbers = st.integers(-(2**62), 2**62)
events = st.one_of(
    st.builds(StepStarted, step=numbers, time_s=times, writer=writers),
    st.builds(StepCompleted, step=numbers, start_s=times, end_s=times, writer=writers),
    st.builds(IntervalStarted, kind=kinds, time_s=times, name=st.just("n"), writer=writers),
    st.builds(IntervalEnded, kind=kinds, time_s=times, writer=writers),
    st.builds(JobStarted, time_s=times, writer=writers),
)


def by_content(listed: list[GoodputEvent]) -> list[str]:
    return sorted(map(repr, listed))


@given(st.lists(events), st.lists(events))
def test_all_events_come_back_in_the_order_of_time(
    first: list[GoodputEvent], more: list[GoodputEvent]
) -> None:
    job = JobEvents(first)
    job.update(JobEvents(more))
    listed = list(job)
    assert len(job) == len(listed) == len(first) + len(more)
    assert by_content(listed) == by_content(first + more)
    starts_s = [span(event)[0] for event in listed]
    assert starts_s == sorted(starts_s)


@given(st.lists(st.builds(StepStarted, step=numbers, time_s=st.just(1.0))))
def test_events_of_one_writer_at_the_same_time_stay_in_the_order_in_which_they_were_recorded(
    steps: list[GoodputEvent],
) -> None:
    assert list(JobEvents(steps)) == steps


def test_each_event_is_kept_once() -> None:
    once = [
        JobStarted(time_s=1.0),
        *(StepStarted(step=step, time_s=2.0 + step) for step in range(3)),
        StepStarted(step=7, time_s=3.0),
        StepCompleted(step=1, start_s=4.0, end_s=5.0, writer="a"),
        StepCompleted(step=1, start_s=4.0, end_s=6.0, writer="a"),
        IntervalStarted(kind="startup", time_s=1.0),
        IntervalEnded(kind="startup", time_s=1.0),
    ]
    columns = JobEvents([*once, *once[:4], *once])
    assert columns.drop_repeated() == 4 + len(once)
    assert sorted(map(repr, columns)) == sorted(map(repr, once))
    assert columns.drop_repeated() == 0


def test_the_times_are_those_of_all_columns() -> None:
    columns = JobEvents(
        [
            JobStarted(time_s=1.0),
            StepStarted(step=1, time_s=2.0),
            StepCompleted(step=1, start_s=3.0, end_s=4.0),
            IntervalStarted(kind="startup", time_s=5.0),
        ]
    )
    assert sorted(set(columns.times_s().tolist())) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(JobEvents().times_s()) == 0
