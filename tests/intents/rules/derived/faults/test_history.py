"""Intent 6: the window of checkpoints that the prefix directory keeps, and the rollbacks that need more."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import RestartCompleted
from scrtune.intents.declared import Declared
from scrtune.intents.observe.faults.history import History
from scrtune.intents.rules.derived.faults.history import prefix_size

from .....support.simulated_job import CACHED, Job
from .....support.situations import parameter, situation

bounds = st.none() | st.integers(0, 50)


@pytest.mark.parametrize(
    ("least", "most", "rollback", "size", "clipped"),
    [
        (None, None, 3, 0, ""),
        (5, None, 0, 5, ""),
        (5, None, 2, 7, ""),
        (5, 10, 2, 7, ""),
        (5, 6, 2, 6, "at most 6 was declared"),
        (None, 4, 9, 4, ""),
        (6, 3, 0, 6, "contradicts"),
        (0, 0, 1, 0, ""),
        (0, 3, 1, 3, ""),
    ],
)
def test_what_you_ask_for_and_the_rollbacks_seen(
    least: int | None, most: int | None, rollback: int, size: int, clipped: str
) -> None:
    found, why = prefix_size(History(least=least, most=most, rollback=rollback))
    assert found == size
    assert clipped in why
    assert bool(why) == bool(clipped)


@given(bounds, bounds, st.integers(0, 50), st.integers(0, 50))
def test_it_keeps_the_least_always_and_never_less_after_a_longer_rollback(
    least: int | None, most: int | None, rollback: int, more: int
) -> None:
    size, _ = prefix_size(History(least=least, most=most, rollback=rollback))
    assert size == 0 or size >= (least or 0)
    assert size == 0 or not most or size <= max(most, least or 0)
    assert prefix_size(History(least=least, most=most, rollback=rollback + more))[0] >= size


def test_without_your_word_nothing_is_deleted() -> None:
    found = parameter("SCR_PREFIX_SIZE", situation())
    assert found.value is None
    assert "--keep-checkpoints" in found.why_not
    asked = situation(said=Declared(keep_least=3))
    assert parameter("SCR_PREFIX_SIZE", asked).value == 3
    assert parameter("SCR_PREFIX_PURGE", asked).value is None


def test_what_your_environment_sets_stays() -> None:
    now = situation(
        {"SCR_PREFIX_SIZE": 2}, said=Declared(keep_least=3), sources={"SCR_PREFIX_SIZE": "environment"}
    )
    assert "your environment sets it" in parameter("SCR_PREFIX_SIZE", now).veto


def restart(dataset: int) -> RestartCompleted:
    return RestartCompleted(dataset=dataset, name=f"d.{dataset}", start_s=100, end_s=101, source="prefix")


class TestJob:
    def test_the_window_is_made_at_once_and_grows_with_a_rollback(self) -> None:
        job = Job({**CACHED, "SCR_FLUSH": 1}, declared=Declared(keep_least=3), mutability={
            "SCR_PREFIX_SIZE": "live", "SCR_FLUSH": "live"})  # fmt: skip
        assert job.pipeline.advice.settings["SCR_PREFIX_SIZE"] == 3
        job.checkpoints(6)
        job.tell(msgspec.structs.replace(restart(4), start_s=job.now, end_s=job.now))
        assert job.pipeline.advice.settings["SCR_PREFIX_SIZE"] == 5
        assert [
            each.changes for each in job.pipeline.decisions if each.rule.startswith("keep the history")
        ] == [
            {"SCR_PREFIX_SIZE": 3},
            {"SCR_PREFIX_SIZE": 5},
        ]

    def test_in_a_job_that_is_not_tuned_it_is_proposed(self) -> None:
        job = Job(CACHED, tuning=False, declared=Declared(keep_least=3))
        assert "SCR_PREFIX_SIZE" not in job.pipeline.advice.settings
        (proposal,) = job.pipeline.proposals()
        assert proposal.changes == {"SCR_PREFIX_SIZE": 3}
