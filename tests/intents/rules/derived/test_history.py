"""Intent 6: the window of checkpoints that the prefix directory keeps, and the rollbacks that need more."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import FlushCompleted, OutputCompleted, RestartCompleted
from scrtune.intents.declared import Declared
from scrtune.intents.observe.faults.history import History, HistoryObserver
from scrtune.intents.rules.derived.restarts import prefix_size

from ....support.simulated_job import CACHED, Job
from ....support.situations import parameter, situation

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


def output(dataset: int, *, flush_s: float = 0.0, flush_due: bool = False) -> OutputCompleted:
    return OutputCompleted(
        dataset=dataset,
        name=f"d.{dataset}",
        start_s=dataset,
        end_s=dataset + 1,
        flush_s=flush_s,
        flush_due=flush_due,
    )


def restart(dataset: int) -> RestartCompleted:
    return RestartCompleted(dataset=dataset, name=f"d.{dataset}", start_s=100, end_s=101, source="prefix")


class TestObserver:
    def test_without_the_cache_every_checkpoint_arrives(self) -> None:
        seen = HistoryObserver()
        for number in range(1, 6):
            seen.add(output(number), is_cached=False)
        seen.add(restart(5), is_cached=False)
        assert (seen.observe(Declared()).kept, seen.observe(Declared()).rollback) == (5, 0)
        seen.add(restart(3), is_cached=False)
        assert (seen.observe(Declared()).rollback, seen.observe(Declared()).restarts) == (2, 2)
        seen.add(restart(1), is_cached=False)
        assert seen.observe(Declared()).rollback == 2, "what was newer belongs to a branch that was left"

    def test_in_the_cache_only_what_is_flushed_counts(self) -> None:
        seen = HistoryObserver()
        for number in range(1, 5):
            seen.add(output(number, flush_due=number % 2 == 0), is_cached=True)
        seen.add(FlushCompleted(dataset=2, start_s=3, end_s=4), is_cached=True)
        seen.add(FlushCompleted(dataset=4, start_s=5, end_s=6, valid=False), is_cached=True)
        seen.add(output(6, flush_s=1.0), is_cached=True)
        seen.add(output(6, flush_s=1.0), is_cached=True)
        assert seen.observe(Declared()).kept == 2
        seen.add(restart(2), is_cached=True)
        assert seen.observe(Declared()).rollback == 1


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
