"""The embedded engine's settings: whose they are, what advice changes, and a cache that is not safe."""

import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from .job import Job

pytestmark = pytest.mark.mpi


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


def test_the_systems_file_counts_below_the_users_and_its_problems_are_reported_once(
    job: Job, system_conf: Path
) -> None:
    job.prefix.mkdir()
    (job.prefix / ".scrconf").write_text("SCR_FLUSH=3\n")
    system_conf.write_text("SCR_FLUSH=5\nSCR_CACHE_SIZE=4\nSCR_COPY_TYPE=RS\nSCR_FLUSH_TYPE=fast\n")
    saved, described = job("save a", "describe")
    assert saved["valid"]
    in_force = {
        name: (described["settings"][name], described["sources"][name]) for name in described["settings"]
    }
    assert in_force["SCR_FLUSH"] == (3, "user config")
    assert in_force["SCR_CACHE_SIZE"] == (4, "system config")
    assert in_force["SCR_COPY_TYPE"] == ("XOR", "default"), "RS is not in this engine"
    assert job.errors.count(f"{system_conf}:3: SCR_COPY_TYPE=RS is not in") == 1
    assert (
        job.errors.count("system config: line 4, column 16: error: SCR_FLUSH_TYPE: 'fast' is no value for it")
        == 1
    )


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
