"""Checkpoints of different sizes are compared by what they take for their bytes."""

from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.intents.tune.belief.sizes import UsualSize, scaled
from scrtune.intents.tune.decisions import Verdict

from ....support.simulated_job import CACHED, GIB, REAL, Job

sizes = st.integers(1, 2**60)


def test_the_usual_size_moves_when_most_of_the_last_five_are_of_another() -> None:
    usual = UsualSize()
    larger = [usual.add(GIB * each) for each in (4, 4, 4, 4, 12, 12, 12, 12)]
    assert larger == [1, 1, 1, 1, 1, 1, 3, 1]
    assert usual.share(6 * GIB) == 0.5


@given(st.lists(st.integers(100, 120), min_size=1))
def test_it_stays_where_checkpoints_differ_by_less_than_a_quarter(seen: list[int]) -> None:
    usual = UsualSize()
    assert [usual.add(each) for each in seen] == [1.0] * len(seen)
    assert usual.share(seen[0]) == 1.0


@given(st.lists(sizes | st.just(0), min_size=1))
def test_what_is_larger_adds_up_to_the_usual_size_and_an_unknown_one_is_usual(seen: list[int]) -> None:
    usual, first, larger = UsualSize(), next((each for each in seen if each), 1), 1.0
    for each in seen:
        larger *= usual.add(each)
    assert abs(usual.share(first) * larger - 1) < 1e-9
    assert usual.share(0) == 1.0


@given(sizes, st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1e-3, 1e3))
def test_a_checkpoint_of_another_size_comes_after_as_much_computation(
    size: int, blocking_s: float, between_s: float, by: float
) -> None:
    cost = CheckpointCost(
        dataset=1,
        generation=0,
        time_s=0.0,
        bytes=size,
        blocking_s=blocking_s,
        between_s=between_s,
    )
    made = scaled(cost, by)
    assert abs(made.blocking_s - by * blocking_s) <= 1e-9 * max(1.0, by * blocking_s)
    assert made.between_s == between_s


def test_a_trial_is_not_blamed_for_checkpoints_that_grow() -> None:
    job = Job(CACHED, mutability=REAL, nodes=2)
    job.checkpoint_bytes, job.slower = GIB, 0.25
    job.until(Verdict.TRIAL)
    assert job.in_force["SCR_FLUSH_ASYNC"] == 1
    job.checkpoint_bytes, job.slower = 8 * GIB, 2.0
    job.checkpoints(20)
    assert job.in_force["SCR_FLUSH_ASYNC"] == 1
    assert not {Verdict.REVERTED, Verdict.BASELINE} & set(job.words)
