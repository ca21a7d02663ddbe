"""The checkpoints of the prefix directory: those to go back to, and how far restarts went."""

import pytest

from scrtune.goodput.events import FlushCompleted, OutputCompleted, RestartCompleted
from scrtune.intents.declared import Declared
from scrtune.intents.observe.faults.history import HistoryObserver

LONG = 1e12


def output(dataset: int, name: str = "", **more: float | bool) -> OutputCompleted:
    return OutputCompleted(
        dataset=dataset, name=name or f"c.{dataset}", start_s=10.0 * dataset, end_s=10.0 * dataset + 1, **more
    )


def flush(dataset: int, *, valid: bool = True) -> FlushCompleted:
    return FlushCompleted(dataset=dataset, start_s=0, end_s=1, valid=valid)


def restart(dataset: int) -> RestartCompleted:
    return RestartCompleted(dataset=dataset, name=f"c.{dataset}", start_s=100, end_s=101, source="prefix")


def filled(*flushed: int, cached: bool = True, count: int = 5) -> HistoryObserver:
    kept = HistoryObserver()
    for dataset in range(1, count + 1):
        kept.add(output(dataset), is_cached=cached)
    for dataset in flushed:
        kept.add(flush(dataset), is_cached=cached)
    return kept


@pytest.mark.parametrize(
    ("kept", "until_s", "keeps", "name"),
    [
        (filled(), LONG, 0, ""),  # in the cache alone
        (filled(cached=False), LONG, 0, "c.5"),
        (filled(2, 4), LONG, 0, "c.4"),
        (filled(2, 4), 41.0, 0, "c.4"),
        (filled(2, 4), 40.9, 0, "c.2"),
        (filled(2, 4), 20.9, 0, ""),
        (filled(2, 4), 40.9, 2, "c.2"),
        (filled(2, 4), 40.9, 1, ""),  # SCR has deleted it
        (filled(2, 4), float("-inf"), 0, ""),
    ],
)
def test_the_newest_from_before(kept: HistoryObserver, until_s: float, keeps: int, name: str) -> None:
    assert kept.newest(until_s, keeps) == name


def test_what_failed_or_is_no_checkpoint_is_none() -> None:
    kept = HistoryObserver()
    kept.add(output(1, valid=False), is_cached=False)
    kept.add(output(2, checkpoint=False), is_cached=False)
    kept.add(output(3), is_cached=True)
    kept.add(flush(3, valid=False), is_cached=True)
    assert kept.newest(LONG, 0) == ""


def test_a_flush_that_is_told_first_counts_and_so_does_one_that_blocked() -> None:
    kept = HistoryObserver()
    kept.add(flush(1), is_cached=True)
    kept.add(output(1), is_cached=True)
    kept.add(output(2, flush_s=1.0), is_cached=True)
    assert kept.newest(LONG, 0) == "c.2"
    assert kept.newest(11.0, 0) == "c.1"


def test_one_that_is_written_again_is_as_new_as_the_last_time() -> None:
    kept = filled(cached=False)
    kept.add(output(9, name="c.1"), is_cached=False)
    assert kept.newest(11.0, 0) == ""
    assert kept.newest(LONG, 0) == "c.1"


def test_only_the_last_are_remembered() -> None:
    kept = filled(cached=False, count=5000)
    assert kept.newest(LONG, 0) == "c.5000"
    assert kept.newest(100.0, 0) == ""


def test_what_is_newer_than_the_one_that_was_read_is_gone() -> None:
    kept = filled(cached=False)
    kept.add(restart(3), is_cached=False)
    assert kept.newest(LONG, 0) == "c.3"
    kept.add(output(9, name="c.4"), is_cached=False)
    assert kept.newest(LONG, 0) == "c.4"
    kept.add(RestartCompleted(dataset=1, name="of another job", start_s=60, end_s=61), is_cached=False)
    assert kept.newest(LONG, 0) == "c.4"


def test_one_whose_flush_has_not_ended_is_nothing_to_go_back_to() -> None:
    kept = filled(count=1)
    kept.add(output(2, flush_s=0.1, flush_due=True), is_cached=True)
    assert kept.newest(LONG, 0) == ""
    kept.add(flush(2), is_cached=True)
    assert kept.newest(LONG, 0) == "c.2"


def test_without_the_cache_every_checkpoint_arrives() -> None:
    seen = filled(cached=False)
    seen.add(restart(5), is_cached=False)
    assert (seen.observe(Declared()).kept, seen.observe(Declared()).rollback) == (5, 0)
    seen.add(restart(3), is_cached=False)
    assert (seen.observe(Declared()).rollback, seen.observe(Declared()).restarts) == (2, 2)
    seen.add(restart(1), is_cached=False)
    assert seen.observe(Declared()).rollback == 2, "what was newer belongs to a branch that was left"


def test_in_the_cache_only_what_is_flushed_counts() -> None:
    seen = HistoryObserver()
    for number in range(1, 5):
        seen.add(output(number, flush_due=number % 2 == 0), is_cached=True)
    seen.add(flush(2), is_cached=True)
    seen.add(flush(4, valid=False), is_cached=True)
    for _ in range(2):
        seen.add(output(6, flush_s=1.0), is_cached=True)
    assert seen.observe(Declared()).kept == 2
    seen.add(restart(2), is_cached=True)
    assert seen.observe(Declared()).rollback == 1
