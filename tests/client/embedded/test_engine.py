"""The embedded engine under a real MPI application (mpi_embedded.py): it has SCR's guarantees."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scrtune.client.embedded.copy import TEMPORARY_SUFFIX

pytestmark = pytest.mark.mpi

MPIEXEC = Path(sys.executable).parent / "mpiexec"
APPLICATION = Path(__file__).parents[2] / "apps" / "mpi_embedded.py"
SCHEMES = ("SINGLE", "PARTNER", "XOR")


@dataclass
class Job:
    """One job in directories of its own; each call is one run of it."""

    root: Path
    errors: str = ""

    def __post_init__(self) -> None:
        """An SCR of this job's own, so that the system config file is its own too."""
        program = self.root / "scr" / "bin" / "scr_index"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)

    @property
    def system_conf(self) -> Path:
        return self.root / "scr" / "etc" / "scr.conf"

    @property
    def prefix(self) -> Path:
        return self.root / "prefix"

    @property
    def cache(self) -> Path:
        return self.root / "cache" / "somebody" / "scr.job1"

    def start(self, *commands: str, ranks: int = 2, **settings: object) -> "subprocess.CompletedProcess[str]":
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SCR_", "SCRTUNE_"))}
        environment = {
            **own,
            "PATH": f"{self.root}/scr/bin:{own['PATH']}",
            "SCR_PREFIX": str(self.prefix),
            "SCR_CACHE_BASE": str(self.root / "cache"),
            "SCR_USER_NAME": "somebody",
            "SCR_JOB_ID": "job1",
            "SCR_CACHE_BYPASS": "0",
            "SCR_MPI_BUF_SIZE": "3000",
            "SCRTUNE_EMBEDDED_NODES": str(ranks),
            **{name: str(value) for name, value in settings.items()},
        }
        ran = subprocess.run(
            [MPIEXEC, "-n", str(ranks), sys.executable, APPLICATION, *commands],
            env=environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        self.errors = ran.stderr
        return ran

    def __call__(self, *commands: str, ranks: int = 2, **settings: object) -> list[Any]:
        ran = self.start(*commands, ranks=ranks, **settings)
        assert ran.returncode == 0, ran.stderr
        results: list[Any] = json.loads(ran.stdout)
        return results

    def index(self) -> list[str]:
        datasets = json.loads((self.prefix / ".scr/index.json").read_bytes())["datasets"]
        return [dataset["name"] for dataset in datasets]

    def cached(self) -> list[str]:
        return sorted(path.name for path in (self.cache / "node0").iterdir())

    def hold_flush(self, file: str) -> Path:
        """Let the flush of `file` hang: who opens this pipe waits for a reader that never comes."""
        pipe = self.prefix / (file + TEMPORARY_SUFFIX)
        pipe.parent.mkdir(parents=True)
        os.mkfifo(pipe)
        return pipe


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


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


def test_bypass_writes_straight_to_the_prefix_directory(job: Job) -> None:
    saved, flushes = job("save a", "flushes", SCR_CACHE_BYPASS=1)
    assert (saved["valid"], saved["flush_due"], flushes) == (True, False, [])
    assert not list(job.cache.glob("node*/*"))
    (restarted,) = job("restart", SCR_CACHE_BYPASS=1)
    assert (restarted["source"], restarted["intact"]) == ("prefix", True)


def test_a_trial_of_the_cache_that_was_taken_back_leaves_nothing_there(job: Job) -> None:
    cached = ("save a", "apply SCR_CACHE_BYPASS=0 SCR_FLUSH=1 SCR_FLUSH_ASYNC=1", "save b", "save c")
    job(*cached, "await_flush", SCR_CACHE_BYPASS=1)
    assert job.cached() == ["scr.dataset.3"]
    job("apply SCR_CACHE_BYPASS=1", "save d invalid", "save e output", SCR_CACHE_BYPASS=0)
    assert job.cached() == ["scr.dataset.3"]  # still the newest checkpoint
    job("save f", "restart", SCR_CACHE_BYPASS=1)
    assert job.cached() == []
    assert job.index()[-1] == "f"
    (restarted,) = job("restart", SCR_CACHE_BYPASS=1)
    assert (restarted["name"], restarted["intact"]) == ("f", True)


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


def test_redundancy_data_that_cannot_be_written_leaves_the_checkpoint_as_single(job: Job) -> None:
    saved, restarted, _, nothing = job("save a blocked", "restart", "lose 0", "restart", SCR_FLUSH=0)
    assert saved["valid"]
    assert (restarted["source"], restarted["intact"]) == ("cache", True)
    assert nothing is None
    assert "stays without redundancy" in job.errors


def test_sliding_window_of_the_prefix_directory_spares_pure_output(job: Job) -> None:
    job("save a", "save plot output", "save b", "save c", SCR_FLUSH=1, SCR_PREFIX_SIZE=2)
    assert job.index() == ["plot", "b", "c"]
    assert sorted(path.name for path in job.prefix.iterdir()) == [".scr", "b", "c", "plot"]


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


def test_advice_changes_the_scheme_from_one_output_to_the_next(job: Job) -> None:
    results = job(
        "save a", "apply SCR_COPY_TYPE=SINGLE", "save b", "apply SCR_COPY_TYPE=PARTNER", "save c", "lose 1",
        "restart", "restart refuse", "restart", SCR_CACHE_SIZE=3, SCR_FLUSH=0, ranks=3,
    )  # fmt: skip
    assert [results[at]["generation"] for at in (0, 2, 4)] == [0, 1, 2]
    partner, _, xor = results[-3:]
    assert (partner["name"], partner["source"], partner["intact"]) == ("c", "rebuild", True)
    assert (xor["name"], xor["source"], xor["intact"]) == ("a", "rebuild", True)  # b was SINGLE: it is lost


def test_advice_that_is_not_valid_or_not_ours_changes_nothing(job: Job) -> None:
    elsewhere = job.root / "elsewhere"
    settings = {"SCR_FLUSH": 0, "SCR_CACHE_SIZE": 2}
    results = job(
        f"apply SCR_PREFIX={elsewhere} SCR_JOB_ID=x SCR_CACHE_BASE={elsewhere} NO_SUCH=1 SCR_COPY_TYPE=RS",
        "save a",
        "apply SCR_CACHE_BYPASS=1 SCR_FILE_BUF_SIZE=0",
        "save b",
        **settings,
    )
    assert job.cached() == ["scr.dataset.1", "scr.dataset.2"]
    results += job("apply SCR_CACHE_BYPASS=1", "save c", **settings)
    assert all(output["valid"] for output in results if output)
    assert not elsewhere.exists()
    assert job.index() == ["c"]


def test_advice_turns_flush_and_window_and_cache_size(job: Job) -> None:
    job(
        "save a", "apply SCR_FLUSH=1 SCR_CACHE_SIZE=2", "save b", "save c", "save d",
        "apply SCR_FLUSH=1 SCR_CACHE_SIZE=1 SCR_PREFIX_SIZE=1", "save e",
        SCR_FLUSH=0, SCR_CACHE_SIZE=3,
    )  # fmt: skip
    assert job.cached() == ["scr.dataset.5"]
    assert job.index() == ["e"]


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


def test_without_a_usable_cache_outputs_go_to_the_prefix_directory(job: Job) -> None:
    (job.root / "cache").write_text("not a directory")
    saved, restarted = job("save a", "restart")
    assert saved["valid"]
    assert (restarted["source"], restarted["intact"]) == ("prefix", True)
    assert "the cache cannot be used" in job.errors


def plant(job: Job, how: str) -> Path:
    """Somebody was there first; return what must stay as it is."""
    cached = job.root / "cache" / "somebody"
    theirs = job.root / "theirs" if how == "link" else cached
    shutil.copytree(cached, job.root / "theirs")
    shutil.rmtree(cached)
    if how == "link":
        cached.symlink_to(theirs)
    else:
        (job.root / "theirs").rename(cached)
    if how == "uid":
        os.chown(cached, 12345, 12345)
    if how == "mode":
        cached.chmod(0o777)
    return theirs


@pytest.mark.parametrize(
    "how",
    [
        "link",
        "mode",
        pytest.param("uid", marks=pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give away")),
    ],
)
def test_a_cache_that_somebody_else_has_made_is_not_used_and_the_job_goes_on_in_the_prefix(
    job: Job, how: str
) -> None:
    job("save a", SCR_FLUSH=0)
    theirs = plant(job, how)
    before = sorted(theirs.rglob("*"))
    described, restarted, written = job("describe", "restart", "save b")
    assert restarted is None, "what lies there is not believed"
    assert "goes on as with SCR_CACHE_BYPASS=1" in job.errors
    assert re.search("cache/somebody: .*set SCR_CACHE_BASE to", job.errors), job.errors
    assert described["settings"]["SCR_CACHE_BYPASS"] == 1
    assert described["sources"]["SCR_CACHE_BYPASS"] == "unsafe cache", "the tuner leaves it alone"
    assert written["valid"]
    assert sorted(theirs.rglob("*")) == before
    (restarted,) = job("restart")
    assert (restarted["name"], restarted["source"], restarted["intact"]) == ("b", "prefix", True)


def test_the_cache_is_the_users_alone_whatever_their_umask_is(job: Job) -> None:
    before = os.umask(0)
    try:
        job("save a")
    finally:
        os.umask(before)
    made = [job.cache.parent, job.cache, *job.cache.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


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


def test_another_number_of_ranks_reads_the_prefix_by_file_names(job: Job) -> None:
    job("save a", SCR_FLUSH=1, ranks=3)
    (restarted,) = job("restart as 3", ranks=2, SCR_FLUSH=1)
    assert (restarted["source"], restarted["intact"]) == ("prefix", True)


def test_need_checkpoint_counts_calls(job: Job) -> None:
    (needed,) = job("need 6", SCR_CHECKPOINT_INTERVAL=3)
    assert needed == [False, False, True, False, False, True]


def test_describe_gives_the_users_own_settings_and_where_they_come_from(job: Job) -> None:
    job.prefix.mkdir()
    (job.prefix / ".scrconf").write_text("SCR_FLUSH=3\nSCR_CACHE_SIZE=4\n")
    _, described = job("apply SCR_FLUSH=7", "describe", SCR_CACHE_SIZE=2, SCRTUNE_EMBEDDED_NODES=1)
    assert (described["engine"], described["ranks"], described["nodes"]) == ("embedded", 2, 1)
    assert (described["prefix"], described["cache"]) == (str(job.prefix), str(job.cache))
    assert (described["settings"]["SCR_FLUSH"], described["sources"]["SCR_FLUSH"]) == (3, "user config")
    assert (described["settings"]["SCR_CACHE_SIZE"], described["sources"]["SCR_CACHE_SIZE"]) == (
        2,
        "environment",
    )
    assert (described["settings"]["SCR_COPY_TYPE"], described["sources"]["SCR_COPY_TYPE"]) == (
        "XOR",
        "default",
    )
    assert "embedded engine" in job.errors
    assert "not libscr" in job.errors
    assert job.errors.count("\n") == 1


def test_the_systems_file_counts_below_the_users_and_its_problems_are_reported_once(job: Job) -> None:
    job.prefix.mkdir()
    (job.prefix / ".scrconf").write_text("SCR_FLUSH=3\n")
    job.system_conf.parent.mkdir()
    job.system_conf.write_text("SCR_FLUSH=5\nSCR_CACHE_SIZE=4\nSCR_COPY_TYPE=RS\nSCR_FLUSH_TYPE=fast\n")
    saved, described = job("save a", "describe")
    assert saved["valid"]
    in_force = {
        name: (described["settings"][name], described["sources"][name]) for name in described["settings"]
    }
    assert in_force["SCR_FLUSH"] == (3, "user config")
    assert in_force["SCR_CACHE_SIZE"] == (4, "system config")
    assert in_force["SCR_COPY_TYPE"] == ("XOR", "default"), "RS is not in this engine"
    assert job.errors.count(f"{job.system_conf}:3: SCR_COPY_TYPE=RS is not in") == 1
    assert job.errors.count("SCR_FLUSH_TYPE: 'fast' is no value for it") == 1


def test_one_host_is_one_node_and_falls_back_to_single(job: Job) -> None:
    job("save a", SCR_FLUSH=0, SCRTUNE_EMBEDDED_NODES="")
    assert not list(job.cache.rglob("redundancy.*"))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("SCR_COPY_TYPE", "RS"), ("SCR_FLUSH_TYPE", "BBAPI"), ("SCRTUNE_EMBEDDED_NODES", "9")],
)
def test_unsupported_values_are_refused_at_the_start(job: Job, setting: str, value: str) -> None:
    ran = job.start("describe", **{setting: value})
    assert ran.returncode != 0
    assert f"{setting}" in ran.stderr
    assert value in ran.stderr


def test_calls_out_of_turn_say_what_to_call_first(job: Job) -> None:
    (errors,) = job("misuse")
    assert all(errors), errors


@pytest.mark.parametrize("setting", [{"SCR_CACHE_PURGE": 1}, {"SCR_DISTRIBUTE": 0}])
def test_a_purge_deletes_what_is_cached_and_numbers_go_on(job: Job, setting: dict[str, int]) -> None:
    job("save a", SCR_FLUSH=0)
    restarted, saved = job("restart", "save b", SCR_FLUSH=0, **setting)
    assert restarted is None
    assert saved["dataset"] == 2
    assert job.cached() == ["scr.dataset.2"]
