"""Replaced checkpoints past the cache leave the page cache; the newest, and those of nobody, stay."""

import os
import threading
from pathlib import Path

import pytest

from scrtune.client.embedded.prefix.drop_behind import THREAD_NAME, DropBehind

from ....support.page_cache import resident_share, skip_where_pages_stay
from ..job import Job


@pytest.fixture
def outputs(tmp_path: Path) -> list[Path]:
    """Five outputs of one file each, on the storage."""
    skip_where_pages_stay(tmp_path)
    files = [tmp_path / str(number) for number in range(5)]
    for path in files:
        path.write_bytes(b"x" * 300_000)
    os.sync()
    return files


def outputs_of(behind: DropBehind, files: list[Path]) -> None:
    for path in files:
        begin(behind)
        behind.published([path])


def begin(behind: DropBehind) -> None:
    behind.started()
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join()


def shares(files: list[Path]) -> list[float]:
    return [resident_share(path) for path in files]


def test_what_a_newer_checkpoint_replaces_is_dropped_when_the_next_begins(outputs: list[Path]) -> None:
    behind = DropBehind()
    outputs_of(behind, outputs)
    assert shares(outputs) == [0, 0, 0, 1, 1], "pages that lay free till then might go to the hypervisor"
    begin(behind)
    assert shares(outputs) == [0, 0, 0, 0, 1]


def test_the_first_output_finds_the_pages_of_those_before(outputs: list[Path]) -> None:
    behind = DropBehind()
    for path in outputs[:4]:
        behind.published([path])
    begin(behind)
    assert shares(outputs) == [1, 0, 0, 1, 1], (
        "the newest stays, and of those before the last three are known"
    )


def test_a_file_that_is_gone_or_written_again_is_no_error(outputs: list[Path]) -> None:
    behind = DropBehind()
    outputs_of(behind, outputs[:2])
    outputs[1].unlink()
    outputs_of(behind, [outputs[2], outputs[2], outputs[3]])
    assert resident_share(outputs[2]) == 1, "it is the newest, too"


@pytest.mark.mpi
@pytest.mark.parametrize("past_cache", [1, 0])
@pytest.mark.parametrize(("value", "share"), [(1, 0.0), (0, 1.0)])
def test_the_engine_does_so_past_the_cache_and_of_what_it_flushes(
    job: Job, value: int, share: float, past_cache: int
) -> None:
    skip_where_pages_stay(job.root)
    settings = {"SCR_CACHE_BYPASS": past_cache, "SCR_FLUSH": 1, "SCRTUNE_DROP_BEHIND": value}
    job(*(f"save {name}" for name in "abcde"), **settings)
    for rank in (0, 1):
        assert resident_share(job.prefix / f"b/rank_{rank}/layer_0.bin") == share
        assert resident_share(job.prefix / f"e/rank_{rank}/layer_0.bin") == 1
    (restarted,) = job("restart", **settings)
    assert (restarted["name"], restarted["intact"]) == ("e", True)


@pytest.mark.mpi
def test_who_leaves_the_cache_finds_the_pages_of_what_was_flushed(job: Job) -> None:
    skip_where_pages_stay(job.root)
    later = "apply SCR_CACHE_BYPASS=1 SCRTUNE_DROP_BEHIND=1"
    job(*(f"save {name}" for name in "abc"), later, "save d", "save e", SCR_CACHE_BYPASS=0, SCR_FLUSH=1)
    for rank in (0, 1):
        assert resident_share(job.prefix / f"b/rank_{rank}/layer_0.bin") == 0
        assert resident_share(job.prefix / f"e/rank_{rank}/layer_0.bin") == 1
