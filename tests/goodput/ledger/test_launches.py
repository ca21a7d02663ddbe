"""When the runs of a job began: the same of all events at once as the ledger finds them."""

from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import GoodputEvent, JobEnded, JobStarted, StepCompleted, StepStarted
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.ledger.launches import run_starts
from scrtune.goodput.ledger.ledger import Ledger

T = 1_760_000_000.0
moments = st.integers(0, 60).map(lambda second: T + second)
writers = st.sampled_from(["", "a", "b", "c"])
logs = st.lists(
    st.one_of(
        st.builds(JobStarted, time_s=moments, writer=writers),
        st.builds(JobEnded, time_s=moments, exit_code=st.sampled_from([None, 0, 1]), writer=writers),
        st.builds(StepStarted, step=st.integers(0, 9), time_s=moments, writer=writers),
        st.builds(
            StepCompleted, step=st.integers(0, 9), start_s=moments, end_s=st.just(T + 60), writer=writers
        ),
    ),
    max_size=30,
)


@given(logs)
def test_there_are_as_many_runs_as_in_the_account(log: list[GoodputEvent]) -> None:
    ledger = Ledger(remembered=None)
    ledger.extend(log)
    assert len(run_starts(JobEvents(log))) == ledger.account(T + 60).runs


def test_ranks_that_start_before_the_first_step_are_one_run() -> None:
    launch = [JobStarted(time_s=T + n, writer=f"rank{n}") for n in range(3)]
    again = [JobStarted(time_s=T + 30 + n, writer=f"rank{n}") for n in range(3)]
    assert run_starts(JobEvents([*launch, StepStarted(step=0, time_s=T + 5), *again])) == [T, T + 30]


def test_starts_without_a_writers_name_are_each_a_run() -> None:
    assert run_starts(JobEvents(JobStarted(time_s=at) for at in (T + 3, T, T))) == [T, T + 3]


def test_an_end_in_the_second_of_the_next_start_is_of_the_run_before() -> None:
    ledger = Ledger(remembered=None)
    made = StepCompleted(step=1, start_s=T + 1, end_s=T + 5)
    ledger.extend([JobStarted(time_s=T), made, JobEnded(time_s=T + 8, exit_code=0), JobStarted(time_s=T + 8)])
    account = ledger.account(T + 9)
    assert account.buckets["recovery"] == 0
    assert account.buckets["other"] == 3
    assert account.wall_s == 9
