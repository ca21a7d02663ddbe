"""What the embedded engine restarts from: the cache, a rebuilt node, the prefix directory."""

import shutil

import pytest

from .job import Job

pytestmark = pytest.mark.mpi
SCHEMES = ("SINGLE", "PARTNER", "XOR")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_checkpoint_comes_back_from_the_cache_bit_for_bit(job: Job, scheme: str) -> None:
    saved, _ = job("save a", "flushes", SCR_COPY_TYPE=scheme, SCR_FLUSH=0)
    assert saved["valid"]
    assert saved["files"] == 6
    assert not job.prefix.exists()
    (restarted,) = job("restart", SCR_COPY_TYPE=scheme, SCR_FLUSH=0)
    assert (restarted["name"], restarted["source"], restarted["intact"]) == ("a", "cache", True)


@pytest.mark.parametrize(
    ("scheme", "lost"), [("XOR", "0"), ("XOR", "2"), ("PARTNER", "3"), ("PARTNER", "0 2")]
)
def test_a_lost_node_is_rebuilt_bit_for_bit_and_can_be_lost_again(job: Job, scheme: str, lost: str) -> None:
    other = str((int(lost[-1]) + 1) % 4)
    _, _, first, _, second = job(
        "save a",
        f"lose {lost}",
        "restart",
        f"lose {other}",
        "restart",
        SCR_COPY_TYPE=scheme,
        SCR_FLUSH=0,
        ranks=4,
    )
    for restarted in (first, second):
        assert (restarted["name"], restarted["source"], restarted["intact"]) == ("a", "rebuild", True)


def test_a_lost_node_is_rebuilt_by_a_later_run(job: Job) -> None:
    job("save a", SCR_FLUSH=0)
    shutil.rmtree(job.cache / "node1")
    (restarted,) = job("restart", SCR_FLUSH=0, SCR_COPY_TYPE="SINGLE")
    assert (restarted["source"], restarted["intact"]) == ("rebuild", True)


def test_a_damaged_file_counts_as_lost(job: Job) -> None:
    job("save a", SCR_FLUSH=0)
    damaged = job.cache / "node1/scr.dataset.1/a/rank_1/layer_0.bin"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (restarted,) = job("restart", SCR_FLUSH=0)
    assert (restarted["source"], restarted["intact"]) == ("rebuild", True)


def test_each_set_of_scr_set_size_survives_a_loss_of_its_own(job: Job) -> None:
    settings = {"SCR_SET_SIZE": 2, "SCR_FLUSH": 0}
    _, _, restarted, _, nothing = job(
        "save a", "lose 1 2", "restart", "lose 0 1", "restart", ranks=4, **settings
    )
    assert (restarted["source"], restarted["intact"]) == ("rebuild", True)
    assert nothing is None


def test_ranks_that_share_a_node_are_in_different_sets(job: Job) -> None:
    _, _, restarted = job("save a", "lose 1", "restart", ranks=4, SCRTUNE_EMBEDDED_NODES=2, SCR_FLUSH=0)
    assert (restarted["source"], restarted["intact"]) == ("rebuild", True)


@pytest.mark.parametrize(("scheme", "lost"), [("SINGLE", "1"), ("XOR", "1 3"), ("PARTNER", "1 2")])
def test_more_losses_than_tolerated_fall_back_to_an_older_flushed_one(
    job: Job, scheme: str, lost: str
) -> None:
    results = job(
        "save a", "save b", "save c", f"lose {lost}", "restart",
        SCR_COPY_TYPE=scheme, SCR_FLUSH=2, SCR_CACHE_SIZE=3, ranks=4,
    )  # fmt: skip
    assert (results[-1]["name"], results[-1]["source"], results[-1]["intact"]) == ("b", "prefix", True)
    assert "more is lost" in job.errors or scheme == "SINGLE"


def test_nothing_left_is_no_restart(job: Job) -> None:
    assert job("save a", "lose 0 1", "restart", SCR_FLUSH=0)[-1] is None


def test_without_scr_fetch_the_prefix_is_not_read(job: Job) -> None:
    job("save a", SCR_FLUSH=1)
    shutil.rmtree(job.cache)
    assert job("restart", SCR_FETCH=0) == [None]


def test_redundancy_data_that_cannot_be_written_leaves_the_checkpoint_as_single(job: Job) -> None:
    saved, restarted, _, nothing = job("save a blocked", "restart", "lose 0", "restart", SCR_FLUSH=0)
    assert saved["valid"]
    assert (restarted["source"], restarted["intact"]) == ("cache", True)
    assert nothing is None
    assert "stays without redundancy" in job.errors


def test_an_output_that_is_invalid_on_one_rank_never_counts(job: Job) -> None:
    first, second, third, _ = job(
        "save a", "save b invalid", "save c missing", "finalize", SCR_CACHE_SIZE=3, SCR_FLUSH=1
    )
    assert [first["valid"], second["valid"], third["valid"]] == [True, False, False]
    assert not second["flush_due"]
    (restarted,) = job("restart")
    assert (restarted["name"], restarted["intact"]) == ("a", True)


def test_a_restart_that_fails_on_one_rank_leads_to_the_next_older_one_for_good(job: Job) -> None:
    job("save a", "save b", SCR_CACHE_SIZE=2, SCR_FLUSH=1)
    refused, older = job("restart refuse", "restart", SCR_CACHE_SIZE=2)
    assert (refused["name"], refused["valid"]) == ("b", False)
    assert (older["name"], older["valid"], older["intact"]) == ("a", True, True)
    (again,) = job("restart")
    assert again["name"] == "a"


def test_another_number_of_ranks_reads_the_prefix_by_file_names(job: Job) -> None:
    job("save a", SCR_FLUSH=1, ranks=3)
    (restarted,) = job("restart as 3", ranks=2, SCR_FLUSH=1)
    assert (restarted["source"], restarted["intact"]) == ("prefix", True)


def test_one_host_is_one_node_and_falls_back_to_single(job: Job) -> None:
    job("save a", SCR_FLUSH=0, SCRTUNE_EMBEDDED_NODES="")
    assert not list(job.cache.rglob("redundancy.*"))


@pytest.mark.parametrize("setting", [{"SCR_CACHE_PURGE": 1}, {"SCR_DISTRIBUTE": 0}])
def test_a_purge_deletes_what_is_cached_and_numbers_go_on(job: Job, setting: dict[str, int]) -> None:
    job("save a", SCR_FLUSH=0)
    restarted, saved = job("restart", "save b", SCR_FLUSH=0, **setting)
    assert restarted is None
    assert saved["dataset"] == 2
    assert job.cached() == ["scr.dataset.2"]
