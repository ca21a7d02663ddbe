"""The failures of a job, and from where its work went on."""

from statistics import fmean

from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.goodput.events import (
    AllocationEnded,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobHalted,
    JobStarted,
    NodeFailed,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.interval.failures import Failures, FailureWatch, failures_of
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.validation import span


def seen(*events: GoodputEvent) -> Failures:
    return failures_of(JobEvents(events))


def start(at_s: float, nodes: int = 4) -> JobStarted:
    return JobStarted(time_s=at_s, ranks=8, nodes=nodes)


def step(at_s: float) -> StepCompleted:
    return StepCompleted(step=int(at_s), start_s=at_s - 1, end_s=at_s)


def restart(at_s: float, source: str = "cache", *, valid: bool = True) -> RestartCompleted:
    return RestartCompleted(dataset=1, name="c", start_s=at_s - 1, end_s=at_s, source=source, valid=valid)


def test_a_run_that_another_one_follows_has_failed_and_where_from_it_went_on_is_the_kind() -> None:
    found = seen(
        *(start(0), step(100)),
        *(start(110), restart(115), step(200)),
        *(start(230), restart(240, "rebuild"), step(300)),
        *(start(360), restart(400, "prefix"), step(500)),
    )
    assert (found.cache, found.prefix, found.unknown) == (2, 1, 0)
    assert found.observed_s == 100 + 90 + 70 + 140
    assert found.cache_restart_s == fmean([15, 40])
    assert found.prefix_restart_s == 100
    assert found.restart_s == fmean([15, 40, 100])
    assert found.nodes == 4


def test_what_was_planned_is_no_failure_unless_a_node_failed() -> None:
    well = (step(100), JobEnded(time_s=101, exit_code=0))
    assert seen(start(0), *well, start(200), step(300)).total == 0
    assert seen(start(0), step(100), JobHalted(time_s=100), start(200)).total == 0
    assert seen(start(0), step(100), AllocationEnded(time_s=100), start(200)).total == 0
    assert seen(start(0), step(100), NodeFailed(time_s=150), NodeFailed(time_s=151), start(200)).total == 1
    halted = (JobHalted(time_s=100), NodeFailed(time_s=150))
    assert seen(start(0), step(100), *halted, start(200)).total == 1


def test_a_last_run_counts_when_it_said_that_it_ended_badly() -> None:
    assert seen(start(0), step(100)).total == 0
    assert seen(start(0), step(100), JobEnded(time_s=101, exit_code=0)).total == 0
    assert seen(start(0), step(100), JobEnded(time_s=101, exit_code=137)).unknown == 1
    timeout = (AllocationEnded(time_s=101), JobEnded(time_s=102, exit_code=143))
    assert seen(start(0), step(100), *timeout).total == 0


def test_each_rank_may_say_that_the_run_began_and_nobody_that_it_did() -> None:
    assert seen(start(0), start(0), step(50)).total == 0
    assert seen(step(50), step(90)).observed_s == 40
    assert seen() == Failures()


def test_a_rank_that_speaks_before_the_first_start_is_no_run_that_failed() -> None:
    early = Interval(kind="device_init", start_s=9.995, end_s=12, writer="rank1")
    assert seen(early, start(10), step(50)).total == 0
    assert seen(step(5), start(10), step(50)).total == 1


def test_ranks_of_one_launch_that_start_one_after_the_other_are_one_run() -> None:
    ranks = [JobStarted(time_s=at_s, writer=f"rank{at_s}") for at_s in range(4)]
    assert seen(*ranks, step(50), JobEnded(time_s=60, exit_code=0)).total == 0
    assert (
        seen(*ranks, step(50), *(JobStarted(time_s=100 + n, writer=f"rank{n}") for n in range(4))).total == 1
    )


def test_what_is_read_in_the_middle_of_a_run_or_could_not_be_read_is_no_restart() -> None:
    found = seen(start(0), step(100), start(110), restart(120, valid=False), step(150), restart(160))
    assert (found.cache, found.prefix, found.unknown) == (0, 0, 1)


def test_writers_that_know_nothing_of_scr_say_when_they_were_reading() -> None:
    told = Interval(kind="checkpoint_restore", start_s=115, end_s=120)
    found = seen(start(0), step(100), start(110), told, StepStarted(step=1, time_s=121), restart(150))
    assert (found.cache, found.unknown, found.restart_s) == (0, 1, 20)
    ended = IntervalEnded(kind="checkpoint_restore", time_s=130)
    assert seen(start(0), step(100), start(110), ended).restart_s == 30


TIMES_S = st.integers(0, 60).map(float)
EVENTS: st.SearchStrategy[GoodputEvent] = st.one_of(
    st.builds(StepStarted, step=st.just(1), time_s=TIMES_S, writer=st.sampled_from("ab")),
    st.builds(lambda at, s: StepCompleted(step=1, start_s=at, end_s=at + s), TIMES_S, TIMES_S),
    st.builds(IntervalStarted, kind=st.sampled_from(["custom", "checkpoint_restore"]), time_s=TIMES_S),
    st.builds(IntervalEnded, kind=st.sampled_from(["custom", "checkpoint_restore"]), time_s=TIMES_S),
    st.builds(JobStarted, time_s=TIMES_S),
    st.builds(JobEnded, time_s=TIMES_S, exit_code=st.sampled_from([0, 1])),
    st.builds(NodeFailed, node=st.just("n"), time_s=TIMES_S),
    st.builds(AllocationEnded, time_s=TIMES_S),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=40, unique_by=lambda event: span(event)[1]))
def test_failures_of_columns_are_those_of_the_events_one_by_one(events: list[GoodputEvent]) -> None:
    watch = FailureWatch()
    for event in sorted(events, key=lambda event: span(event)[1]):
        watch.handle(event)
    assert failures_of(JobEvents(events)) == watch.failures
