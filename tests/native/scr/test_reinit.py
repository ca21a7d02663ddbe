"""Settings that change by a new initialization of SCR, which loses nothing."""

import random
import re
import shutil

import pytest

from scrtune.intents.events import Value

from ...apps.mpi_libscr import content
from .job import MIB, Decisions, Job, in_both, in_python, read_back

pytestmark = pytest.mark.mpi


@in_both
def test_other_settings_come_by_a_new_initialization(job: Job) -> None:
    decisions: Decisions = {
        2: {"SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": 3},
        3: {"SCR_COPY_TYPE": "PARTNER", "SCR_FLUSH": 3, "SCR_CACHE_SIZE": 1, "SCR_FLUSH_TYPE": "PTHREAD"},
        4: {"SCR_COPY_TYPE": "PARTNER", "SCR_FLUSH": 4, "SCR_CACHE_SIZE": 1, "SCR_FLUSH_TYPE": "PTHREAD"},
    }
    told = job.run(4, 1, 1000, "SCR_CHECKPOINT_INTERVAL=9", "SCR_FETCH=0", decisions=decisions, nodes=4)
    told.assert_sound(4)
    assert told.column("copy") == ["4", "1", "2", "2"]
    assert told.column("cache_size") == ["2", "2", "1", "1"]
    assert told.column("type") == ["SYNC", "SYNC", "PTHREAD", "PTHREAD"]
    assert told.column("flush") == ["0", "3", "3", "4"]
    assert told.column("interval") == ["9"] * 4
    assert told.column("dataset") == told.column("checkpoint") == told.column("needs") == ["1", "2", "3", "4"]
    assert [event["how"] for event in told.of_type("applied")] == ["re-init", "re-init", "live"]
    assert told.of_type("started")[0]["nodes"] == 4
    assert len(told.of_type("started")) == len(told.of_type("job_ended")) == 1


def test_scrs_log_goes_on_over_a_new_initialization(job: Job) -> None:
    decisions: Decisions = {3: {"SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": 1}}
    told = job.run(6, 1, 1000, decisions=decisions, nodes=2, SCR_LOG_ENABLE="1", SCR_FLUSH="1")
    told.assert_sound(6)
    log = (job.base / "prefix" / ".scr" / "log").read_text().splitlines()
    ended = [line for line in log if "CHECKPOINT_END" in line]
    assert [re.findall(r"dset=([0-9]+)", line) for line in ended] == [[str(n)] for n in range(1, 7)]


@in_both
def test_scrs_log_has_the_flush_that_a_new_initialization_forces(job: Job) -> None:
    told = job.run(3, decisions={3: {"SCR_CACHE_SIZE": 1}}, SCR_LOG_ENABLE="1", SCR_FLUSH="9")
    told.assert_sound(3)
    log = (job.base / "prefix" / ".scr" / "log").read_text()
    assert re.findall(r"xfer=FLUSH_SYNC.* dset=([0-9]+)", log) == ["2", "3"]
    assert job.flushed == ["ckpt.2", "ckpt.3"]


@in_both
def test_a_new_initialization_leaves_what_is_cached_as_it_is(job: Job) -> None:
    """SCR_Init takes apart what it rebuilds: who is killed meanwhile would lose it."""
    told = job.run(2, decisions={2: {"SCR_COPY_TYPE": "SINGLE"}}, nodes=2)
    told.assert_sound(2)
    (applied,) = told.of_type("applied")
    began_s = float(str(applied["time_s"])) - float(str(applied["seconds"]))
    files = [path for path in job.base.glob("node*/*/*/scr.dataset.1/**/*") if path.is_file()]
    assert len(files) > 4
    assert max(path.stat().st_mtime for path in files) < began_s


@in_both
def test_numbers_go_on_when_there_is_nothing_in_the_cache(job: Job) -> None:
    told = job.run(2, decisions={2: {"SCR_CACHE_SIZE": 1}}, INVALID_AT="1")
    assert told.returncode == 0, told.standard_error
    assert told.column("cache_size") == ["2", "1"]
    assert told.column("valid") == ["0", "1"]
    assert told.column("dataset") == told.column("checkpoint") == told.column("needs") == ["1", "2"]


def test_a_new_initialization_finds_its_datasets_whatever_the_user_s_file_says_by_now(job: Job) -> None:
    (job.plan / "conf.2").write_text("SCR_ENABLE=0\nSCR_JOB_ID=another\nSCR_USER_NAME=nobody\n")
    told = job.run(3, decisions={2: {"SCR_CACHE_SIZE": 1}}, SCR_CONF_FILE=str(job.base / "conf"))
    told.assert_sound(3)
    assert told.column("cache_size") == ["2", "1", "1"]
    assert told.column("dataset") == ["1", "2", "3"]
    assert {path.name for path in (job.base / "cache" / "tester").iterdir()} == {"scr.defjobid"}


def test_what_the_application_set_by_scr_config_stays(job: Job) -> None:
    told = job.run(
        2,
        1,
        1000,
        "SCR_GROUP =  WORLD",
        "SCR_FETCH",
        decisions={2: {"SCR_CACHE_SIZE": 1}},
        SCR_COPY_TYPE="SINGLE",
    )
    told.assert_sound(2)
    assert told.column("cache_size") == ["2", "1"]
    assert told.column("group") == ["WORLD", "WORLD"]


@in_both
def test_the_environment_of_the_application_stays_its_own(job: Job) -> None:
    told = job.run(2, decisions={2: {"SCR_CACHE_SIZE": 1}}, SCR_HALT_EXIT="1")
    told.assert_sound(2)
    assert told.column("halt_exit") == ["1", "1"]
    assert told.column("cache_size") == ["2", "1"]
    assert told.column("env_size") == ["2", "2"]
    assert told.column("env_purge") == ["-", "-"]


def test_a_cache_that_is_purged_at_the_start_is_kept_by_a_re_init(job: Job) -> None:
    told = job.run(2, decisions={2: {"SCR_CACHE_SIZE": 3}}, SCR_CACHE_PURGE="1")
    told.assert_sound(2)
    assert told.column("cache_size") == ["2", "3"]
    assert told.column("env_purge") == ["1", "1"]
    cached = {path.name for path in (job.base / "cache").rglob("scr.dataset.*") if path.is_dir()}
    assert cached == {"scr.dataset.1", "scr.dataset.2"}


def test_a_failure_after_a_new_initialization_looks_like_a_failure(job: Job) -> None:
    told = job.run(3, decisions={2: {"SCR_CACHE_SIZE": 1}}, ABORT_AFTER="2")
    assert told.returncode != 0
    assert [event["how"] for event in told.of_type("applied")] == ["re-init"]
    halted = (job.base / "prefix" / ".scr" / "halt.scr").read_bytes()
    assert b"FINALIZE" not in halted


def test_the_same_decision_twice_is_no_second_initialization(job: Job) -> None:
    told = job.run(3, decisions={2: {"SCR_CACHE_SIZE": 1}, 3: {"SCR_CACHE_SIZE": 1}})
    told.assert_sound(3)
    assert [event["how"] for event in told.of_type("applied")] == ["re-init", "live"]


@pytest.mark.parametrize(
    "variable", ["SCR_DISTRIBUTE=0", "SCR_PREFIX_PURGE=1", "SCR_GLOBAL_RESTART=1", "SCR_FLUSH_POSTSTAGE=1"]
)
def test_nothing_is_initialized_again_where_that_deletes_checkpoints(job: Job, variable: str) -> None:
    name, _, value = variable.partition("=")
    told = job.run(2, decisions={2: {"SCR_CACHE_SIZE": 1, "SCR_FLUSH": 1}}, **{name: value})
    told.assert_sound(2)
    assert told.column("cache_size") == ["2", "2"]
    assert told.column("flush") == ["0", "1"]
    capabilities = told.of_type("started")[0]["capabilities"]
    assert isinstance(capabilities, dict)
    assert (capabilities["SCR_CACHE_SIZE"], capabilities["SCR_FLUSH"]) == ("launch", "live")


@in_python
def test_a_scheme_that_came_between_two_outputs_rebuilds_a_lost_node(job: Job) -> None:
    partner: dict[str, Value] = {"SCR_COPY_TYPE": "PARTNER", "SCR_CACHE_SIZE": 4}
    told = job.run(4, 1, 300_000, decisions={2: {"SCR_COPY_TYPE": "SINGLE"}, 3: partner}, nodes=2)
    told.assert_sound(4)
    cached = job.base.glob("node?/*/*/scr.dataset.*/.scr/*.grp_*")
    schemes = {path.parents[1].name: path.name.split(".")[3] for path in cached}
    expected = {"scr.dataset.2": "single", "scr.dataset.3": "partner", "scr.dataset.4": "partner"}
    assert {**schemes, **expected} == schemes, "the cache has kept all since"
    shutil.rmtree(job.base / "node1")
    again = job.run(0, 1, 300_000, nodes=2)
    assert again.returncode == 0, again.standard_error
    (restart,) = again.of_type("restart")
    assert (restart["name"], restart["valid"]) == ("ckpt.4", True), "every rank has read what it wrote"


@in_python
def test_the_prefix_stays_where_the_job_began(job: Job) -> None:
    elsewhere = job.base / "prefix" / "sub"
    elsewhere.mkdir(parents=True)
    decisions: Decisions = {2: {"SCR_CACHE_SIZE": 3, "SCR_FLUSH": 1}}
    there = {"CHDIR_AT": "2", "CHDIR_TO": str(elsewhere)}
    told = job.run(2, decisions=decisions, SCR_PREFIX="", USER="", **there)
    told.assert_sound(2)
    assert [event["how"] for event in told.of_type("applied")] == ["re-init"]
    assert (elsewhere / "ckpt.2" / "rank_3.0").read_bytes() == content("ckpt.2", 3, 1000)
    assert (job.base / "prefix" / ".scr" / "index.scr").is_file()


@in_python
def test_random_changes_lose_nothing(job: Job) -> None:
    draw, outputs, size = random.Random(1), 30, 200_000
    choices: dict[str, list[Value]] = {
        "SCR_FLUSH": [1],
        "SCR_FLUSH_ASYNC": [0, 1],
        "SCR_FILE_BUF_SIZE": [4096, 65536, MIB],
        "SCR_MPI_BUF_SIZE": [4096, MIB],
        "SCR_CHECKPOINT_INTERVAL": [0, 5],
        "SCR_FLUSH_TYPE": ["SYNC", "PTHREAD"],
        "SCR_CACHE_SIZE": [1, 2, 3],
        "SCR_CACHE_BYPASS": [0, 0, 0, 1],
    }
    decisions: Decisions = {
        number: {name: draw.choice(some) for name, some in choices.items()}
        for number in range(2, outputs + 1)
    }
    told = job.run(outputs, 1, size, decisions=decisions, SCR_FLUSH="1")
    told.assert_sound(outputs)
    assert {event["how"] for event in told.of_type("applied")} == {"live", "re-init"}
    names = [f"ckpt.{number}" for number in range(1, outputs + 1)]
    assert job.flushed == sorted(names)
    read_back(job, names, size)
