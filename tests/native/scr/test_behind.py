"""Drop-behind: replaced checkpoints leave the page cache, while the job runs."""

import pytest

from ...support.page_cache import resident_share, skip_where_pages_stay
from .job import MIB, Decisions, Job, in_both, in_python, read_back

pytestmark = pytest.mark.mpi
PAST_CACHE = {"SCR_CACHE_BYPASS": "1", "PAUSE_MS": "300"}


def shares(job: Job, outputs: int) -> list[float]:
    """The share of each output's files that is in memory, of the one of four ranks that has most."""
    return [
        max(resident_share(job.base / "prefix" / f"ckpt.{n}" / f"rank_{rank}.0") for rank in range(4))
        for n in range(1, outputs + 1)
    ]


@in_both
def test_what_a_newer_checkpoint_replaces_is_dropped_when_the_next_begins(job: Job) -> None:
    skip_where_pages_stay(job.base)
    decisions: Decisions = {4: {"SCRTUNE_DROP_BEHIND": 1}}
    told = job.run(7, 1, MIB, decisions=decisions, **PAST_CACHE)
    told.assert_sound(7)
    first, *replaced, before, newest = shares(job, 7)
    assert first == 1, "there the ranks are counted: nobody knows its files"
    assert (before, newest) == (1, 1), "the pages of the one before are for the next output"
    assert replaced == [0] * 4


@in_python
def test_it_ends_with_the_next_output(job: Job) -> None:
    skip_where_pages_stay(job.base)
    decisions: Decisions = {2: {"SCRTUNE_DROP_BEHIND": 1}, 5: {"SCRTUNE_DROP_BEHIND": 0}}
    told = job.run(6, 1, MIB, decisions=decisions, **PAST_CACHE)
    told.assert_sound(6)
    assert shares(job, 6)[1:] == [0, 1, 1, 1, 1]
    read_back(job, [f"ckpt.{number}" for number in range(1, 7)], MIB)


@in_python
@pytest.mark.parametrize("is_async", ["0", "1"])
def test_what_was_flushed_is_dropped_too(job: Job, is_async: str) -> None:
    skip_where_pages_stay(job.base)
    decisions: Decisions = {2: {"SCRTUNE_DROP_BEHIND": 1}}
    told = job.run(5, 1, MIB, decisions=decisions, SCR_FLUSH="1", SCR_FLUSH_ASYNC=is_async, PAUSE_MS="300")
    told.assert_sound(5)
    assert shares(job, 5) == [0, 0, 0, 1, 1]
    read_back(job, [f"ckpt.{number}" for number in range(1, 6)], MIB)


def test_the_newest_that_was_flushed_stays_however_long_ago_that_was(job: Job) -> None:
    skip_where_pages_stay(job.base)
    decisions: Decisions = {2: {"SCRTUNE_DROP_BEHIND": 1}}
    told = job.run(7, 1, MIB, decisions=decisions, SCR_FLUSH="2", PAUSE_MS="300")
    told.assert_sound(7)
    flushed = [job.base / "prefix" / f"ckpt.{number}" / "rank_0.0" for number in (2, 4, 6)]
    assert [resident_share(each) for each in flushed] == [0, 0, 1]


def test_who_leaves_the_cache_finds_the_pages_of_what_was_flushed(job: Job) -> None:
    skip_where_pages_stay(job.base)
    decisions: Decisions = {3: {"SCR_CACHE_BYPASS": 0}, 6: {"SCR_CACHE_BYPASS": 1, "SCRTUNE_DROP_BEHIND": 1}}
    told = job.run(7, 1, MIB, decisions=decisions, SCR_FLUSH="1", **PAST_CACHE)
    told.assert_sound(7)
    assert shares(job, 7)[2:4] == [0, 0]
