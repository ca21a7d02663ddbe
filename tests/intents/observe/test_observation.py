"""Whether the next output is traced: until it has nothing new to say, and never beyond its budget."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import JobStarted, OutputCompleted
from scrtune.intents.observe.io.buffers import BufferSizes
from scrtune.intents.observe.io.sizes import SizeShare
from scrtune.intents.observe.observation import DEFAULT_BUDGET, Observation, Observing, WhyEnded

T0 = 1_700_000_000.0
CALLS = 500
CALL_S = 6e-6


def sizes(size_bytes: int = 4096) -> BufferSizes:
    top = (SizeShare(size_bytes=size_bytes, count=CALLS, share=1.0),)
    return BufferSizes(bytes=size_bytes * CALLS, top=top, p90_bytes=size_bytes)


@dataclass
class Job:
    """A job whose ranks trace an output when they were asked to."""

    observing: Observing = field(default_factory=Observing)
    now: float = T0

    def start(self) -> "Job":
        self.observing.started(JobStarted(time_s=self.now))
        return self

    def output(  # noqa: PLR0913
        self,
        *,
        size_bytes: int = 4096,
        every_s: float = 60.0,
        cost_s: float = CALLS * CALL_S,
        total_bytes: int = 1 << 30,
        files: int = 8,
        checkpoint: bool = True,
        known: bool = True,
    ) -> Observation:
        """Take an output `every_s` after the last one, with writes of `size_bytes`."""
        is_traced = self.seen.on
        self.now += every_s
        completed = OutputCompleted(
            dataset=1,
            name="d",
            start_s=self.now - 1.0,
            end_s=self.now,
            generation=0,
            bytes=total_bytes,
            files=files,
            checkpoint=checkpoint,
            observed=CALLS if is_traced else 0,
            observe_s=cost_s if is_traced else 0.0,
        )
        self.observing.output(completed, sizes(size_bytes) if known else BufferSizes())
        return self.seen

    @property
    def seen(self) -> Observation:
        return self.observing.observation


@pytest.fixture
def job() -> Job:
    return Job().start()


# ---- the end


def test_it_begins_with_the_job(job: Job) -> None:
    assert job.seen == Observation()
    assert job.seen.on
    assert job.seen.sentence() == "no output was traced yet"


def test_three_outputs_with_the_same_sizes_end_it(job: Job) -> None:
    assert [job.output().on for _ in range(4)] == [True, True, False, False]
    assert (job.seen.outputs, job.seen.calls, job.seen.ended) == (3, 3 * CALLS, WhyEnded.STABLE)
    assert job.seen.cost_s == pytest.approx(3 * CALLS * CALL_S)
    assert job.seen.until_s == T0 + 3 * 60.0


def test_sizes_that_change_go_on_until_they_are_stable(job: Job) -> None:
    on = [job.output(size_bytes=size).on for size in (4096, 8192, 4096, 4096, 4096)]
    assert on == [True] * 4 + [False]


def test_outputs_whose_sizes_are_not_known_are_not_alike(job: Job) -> None:
    assert [job.output(known=False).on for _ in range(5)] == [True] * 5
    assert [job.output().on for _ in range(3)] == [True, True, False]


def test_ten_outputs_are_enough_whatever_they_say(job: Job) -> None:
    on = [job.output(size_bytes=4096 * number).on for number in range(1, 12)]
    assert on == [True] * 9 + [False] * 2
    assert job.seen.ended is WhyEnded.ENOUGH


def test_it_ends_when_the_budget_is_used_and_goes_on_when_there_is_room(job: Job) -> None:
    job.observing.set_budget(0.001)
    assert not job.output(every_s=10.0, cost_s=0.1, known=False).on
    assert job.seen.ended is WhyEnded.BUDGET
    assert job.seen.share == pytest.approx(0.01)
    on = [job.output(every_s=60.0, cost_s=0.1, known=False).on for _ in range(4)]
    assert on == [False, False, False, True], "at half the budget: 200 s of the job for 0.1 s"
    assert job.seen.ended is WhyEnded.NOT


def test_without_a_budget_one_output_is_traced(job: Job) -> None:
    job.observing.set_budget(0.0)
    assert [job.output().on for _ in range(50)] == [False] * 50
    assert job.seen.outputs == 1


def test_a_job_that_is_not_traced_never_ends_what_never_was(job: Job) -> None:
    for _ in range(20):
        job.now += 10.0
        untraced = OutputCompleted(dataset=1, name="d", start_s=job.now - 1, end_s=job.now, generation=0)
        job.observing.output(untraced, BufferSizes())
    assert job.seen == Observation()


# ---- and the next beginning


def test_an_output_of_another_kind_begins_it_again(job: Job) -> None:
    for _ in range(4):
        job.output()
    assert job.output(checkpoint=False, files=1, total_bytes=1000).on
    assert job.output(checkpoint=False, files=1, total_bytes=1000).outputs == 4


@pytest.mark.parametrize(
    ("changed", "begins"),
    [
        ({"total_bytes": (1 << 30) * 1.2}, False),
        ({"total_bytes": (1 << 30) * 1.3}, True),
        ({"total_bytes": (1 << 30) * 0.7}, True),
        ({"files": 10}, False),
        ({"files": 16}, True),
    ],
)
def test_an_output_that_has_changed_by_more_than_a_quarter_begins_it_again(
    job: Job, changed: dict[str, float], begins: bool
) -> None:
    for _ in range(3):
        job.output()
    assert not job.seen.on
    assert job.output(**{name: int(value) for name, value in changed.items()}).on is begins


def test_a_rare_kind_begins_it_once_and_not_each_time(job: Job) -> None:
    for _ in range(30):
        for _ in range(49):
            job.output()
        job.output(checkpoint=False, files=1, total_bytes=1000)
    assert job.seen.outputs <= 13, "three, and at most ten more in waiting for the other kind"


def test_it_goes_on_until_an_output_of_the_other_kind_was_traced(job: Job) -> None:
    for _ in range(4):
        job.output()
    job.output(checkpoint=False, files=1, total_bytes=1000)
    for _ in range(6):
        assert job.output().on, "the other kind was not traced yet"
    assert not job.output(checkpoint=False, files=1, total_bytes=1000).on


def test_small_changes_add_up(job: Job) -> None:
    for _ in range(3):
        job.output()
    assert not job.output(total_bytes=int(1.2 * (1 << 30))).on
    assert job.output(total_bytes=int(1.4 * (1 << 30))).on, "compared with what was traced"


def test_the_next_run_of_the_job_begins_it_again_and_its_cost_is_remembered(job: Job) -> None:
    for _ in range(3):
        job.output()
    before = job.seen
    job.start()
    assert job.seen.on
    assert (job.seen.outputs, job.seen.cost_s) == (before.outputs, before.cost_s)
    assert [job.output().on for _ in range(2)] == [True, False], "two say that nothing has changed"
    assert job.seen.outputs == 5


# ---- what it says


def test_it_says_what_was_seen_at_which_cost_and_why_it_ended(job: Job) -> None:
    job.output()
    assert job.seen.sentence() == (
        "1 output traced, 500 calls of rank 0, cost 0.003 s (0.01% of the job, budget 1.00%); goes on"
    )
    for _ in range(2):
        job.output()
    assert job.seen.sentence().endswith("budget 1.00%); ended: the intents are stable")


# ---- the budget


OUTPUTS = st.lists(
    st.fixed_dictionaries(
        {
            "every_s": st.floats(0.01, 3600.0),
            "cost_s": st.floats(0.0, 0.02),
            "size_bytes": st.sampled_from([4096, 8192]),
            "total_bytes": st.sampled_from([1 << 20, 1 << 30]),
            "checkpoint": st.booleans(),
            "known": st.booleans(),
        }
    ),
    max_size=60,
)


@given(outputs=OUTPUTS, budget=st.floats(0.0, 0.05), restarts=st.sets(st.integers(0, 59), max_size=3))
def test_it_never_costs_more_than_its_budget_and_one_output(
    outputs: list[dict[str, float]], budget: float, restarts: set[int]
) -> None:
    """And one more for each new run: what a run does is not known before its first output."""
    job = Job().start()
    job.observing.set_budget(budget)
    most_s = max((output["cost_s"] for output in outputs), default=0.0)
    spent_s = 0.0
    for number, output in enumerate(outputs):
        if number in restarts:
            job.start()
        spent_s += output["cost_s"] if job.seen.on else 0.0
        seen = job.output(**output)
        age_s = job.now - T0
        assert seen.budget == budget
        assert (seen.cost_s, seen.share) == pytest.approx((spent_s, spent_s / age_s))
        assert seen.share <= budget or not seen.on
        assert spent_s <= budget * age_s + (1 + len(restarts)) * most_s + 1e-9


def test_the_default_budget_is_a_hundredth() -> None:
    assert DEFAULT_BUDGET == Observation().budget == 0.01
