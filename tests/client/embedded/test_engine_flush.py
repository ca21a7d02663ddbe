"""How the embedded engine's checkpoints come into the prefix directory."""

import json
import shutil

import pytest

from scrtune.client.embedded.prefix.copy import TEMPORARY_SUFFIX

from .job import Job

pytestmark = pytest.mark.mpi


def test_bypass_writes_straight_to_the_prefix_directory(job: Job) -> None:
    saved, flushes = job("save a", "flushes", SCR_CACHE_BYPASS=1)
    assert (saved["valid"], saved["flush_due"], flushes) == (True, False, [])
    assert not list(job.cache.glob("node*/*"))
    (restarted,) = job("restart", SCR_CACHE_BYPASS=1)
    assert (restarted["source"], restarted["intact"]) == ("prefix", True)


def test_files_that_several_ranks_write_are_reported(job: Job) -> None:
    shared, own = job("share a", "save b", SCR_CACHE_BYPASS=1)
    assert (shared["shared_files"], own["shared_files"]) == (True, False)


def test_a_bypassed_file_that_was_written_since_is_not_taken_for_whole(job: Job) -> None:
    job("save a", "save b", SCR_CACHE_BYPASS=1)
    path = job.prefix / "b/rank_1/layer_0.bin"
    path.write_bytes(bytes(path.stat().st_size))
    (restarted,) = job("restart", SCR_CACHE_BYPASS=1)
    assert (restarted["name"], restarted["intact"]) == ("a", True)


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("kind", ["SYNC", "PTHREAD"])
def test_a_flushed_checkpoint_is_whole_in_the_prefix_directory(
    job: Job, asynchronous: int, kind: str
) -> None:
    saved, flushes = job(
        "save a", "await_flush", SCR_FLUSH=1, SCR_FLUSH_ASYNC=asynchronous, SCR_FLUSH_TYPE=kind,
        SCRTUNE_FLUSH_THREADS=2,
    )  # fmt: skip
    (flush,) = flushes
    assert saved["flush_due"]
    assert (flush["dataset"], flush["valid"], flush["bytes"]) == (1, True, saved["bytes"])
    assert flush["asynchronous"] == (bool(asynchronous) and kind == "PTHREAD")
    assert flush["threads"] == (2 if kind == "PTHREAD" else 1)
    assert flush["asynchronous"] or flush["end_s"] <= saved["end_s"]
    shutil.rmtree(job.cache)
    (restarted,) = job("restart", ranks=2)
    assert (restarted["source"], restarted["intact"]) == ("prefix", True)
    assert not list(job.prefix.rglob("*" + TEMPORARY_SUFFIX))


def test_every_nth_checkpoint_is_flushed_and_the_count_goes_on_in_the_next_run(job: Job) -> None:
    job("save a", "save b", "save c", SCR_FLUSH=2)
    assert job.index() == ["b"]
    job("save d", SCR_FLUSH=2)
    assert job.index() == ["b", "d"]


def test_finalize_flushes_the_latest_checkpoint_once(job: Job) -> None:
    _, _, flushes = job("save a", "save b", "finalize", SCR_FLUSH=10, SCR_CACHE_SIZE=2)
    assert [(flush["dataset"], flush["valid"]) for flush in flushes] == [(2, True)]
    assert job("restart", "finalize", SCR_FLUSH=10)[-1] == []
    assert job("save c", "finalize", SCR_FLUSH=0)[-1] == []
    assert job.index() == ["b"]


def test_the_oldest_dataset_makes_room_after_its_flush(job: Job) -> None:
    _, second, third, flushes = job(
        "save a", "save b", "save c", "await_flush",
        SCR_FLUSH=1, SCR_FLUSH_ASYNC=1, SCR_FLUSH_TYPE="PTHREAD", SCR_CACHE_SIZE=1,
    )  # fmt: skip
    assert job.cached() == ["scr.dataset.3"]
    assert [flush["dataset"] for flush in flushes][:2] == [1, 2]
    for output, flush in zip((second, third), flushes, strict=False):
        assert flush["valid"]
        assert flush["end_s"] <= output["end_s"] - output["write_s"]


def test_a_dataset_that_is_being_flushed_is_the_last_to_make_room(job: Job) -> None:
    job.hold_flush("c/rank_1/layer_0.bin")
    killed = job.start(
        "save a", "save b", "save c", "save d", "save e", "flushes", "kill",
        SCR_FLUSH=3, SCR_FLUSH_ASYNC=1, SCR_FLUSH_TYPE="PTHREAD", SCR_CACHE_SIZE=2,
    )  # fmt: skip
    *_, last, ended = json.loads(killed.stdout.splitlines()[0])
    assert (last["valid"], ended) == (True, [])
    assert job.cached() == ["scr.dataset.3", "scr.dataset.5"]


def test_files_that_go_straight_to_the_prefix_wait_for_a_flush_that_may_replace_them(job: Job) -> None:
    _, _, second, flushes = job(
        "save a", "apply SCR_CACHE_BYPASS=1", "save a", "await_flush",
        SCR_FLUSH=1, SCR_FLUSH_ASYNC=1, SCR_FLUSH_TYPE="PTHREAD",
    )  # fmt: skip
    assert flushes[0]["end_s"] <= second["end_s"] - second["write_s"] - second["flush_s"]
    assert second["wait_s"] > 0


def test_a_flush_under_way_does_not_hold_up_outputs_that_have_room(job: Job) -> None:
    job.hold_flush("b/rank_1/layer_0.bin")
    killed = job.start(
        "save a", "save b", "flushes", "save c", "flushes", "kill",
        SCR_FLUSH=2, SCR_FLUSH_ASYNC=1, SCR_FLUSH_TYPE="PTHREAD", SCR_CACHE_SIZE=3,
    )  # fmt: skip
    _, second, before, third, after = json.loads(killed.stdout.splitlines()[0])
    assert (second["flush_due"], third["valid"], before, after) == (True, True, [], [])


def test_sliding_window_of_the_prefix_directory_spares_pure_output(job: Job) -> None:
    job("save a", "save plot output", "save b", "save c", SCR_FLUSH=1, SCR_PREFIX_SIZE=2)
    assert job.index() == ["plot", "b", "c"]
    assert sorted(path.name for path in job.prefix.iterdir()) == [".scr", "b", "c", "plot"]


def test_a_flush_that_fails_is_reported_and_the_checkpoint_stays_in_the_cache(job: Job) -> None:
    job.prefix.mkdir()
    (job.prefix / "a").write_text("a file where a directory must be")
    saved, flushes, restarted = job(
        "save a", "await_flush", "restart", SCR_FLUSH=1, SCR_FLUSH_ASYNC=1, SCR_FLUSH_TYPE="PTHREAD"
    )
    assert saved["valid"]
    assert [(flush["dataset"], flush["valid"]) for flush in flushes] == [(1, False)]
    assert (restarted["source"], restarted["intact"]) == ("cache", True)
    assert "not in the prefix directory" in job.errors
    (job.prefix / "a").unlink()
    (later,) = job("finalize", SCR_FLUSH=1)
    assert [(flush["dataset"], flush["valid"]) for flush in later] == [(1, True)]


def test_killed_in_the_middle_of_a_flush_the_cache_has_the_new_one_and_the_prefix_the_old_one(
    job: Job,
) -> None:
    pipe = job.hold_flush("b/rank_1/layer_0.bin")
    settings = {"SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_CACHE_SIZE": 2}
    killed = job.start("save a", "await_flush", "save b", "kill", **settings)
    assert killed.returncode != 0
    assert json.loads(killed.stdout.splitlines()[0])[-1]["valid"], killed.stderr
    pipe.unlink()
    assert job.index() == ["a"]
    (restarted,) = job("restart", **settings)
    assert (restarted["name"], restarted["source"], restarted["intact"]) == ("b", "cache", True)
    shutil.rmtree(job.cache)
    (restarted,) = job("restart", **settings)
    assert (restarted["name"], restarted["source"], restarted["intact"]) == ("a", "prefix", True)


def test_a_flush_that_ended_counts_even_if_the_job_was_killed_before_it_was_noted(job: Job) -> None:
    settings = {"SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
    job("save a", **settings)  # ends without another call to the engine: its threads finish
    assert not (job.prefix / ".scr/index.json").exists()
    shutil.rmtree(job.cache)
    (restarted,) = job("restart", **settings)
    assert (restarted["name"], restarted["source"], restarted["intact"]) == ("a", "prefix", True)
