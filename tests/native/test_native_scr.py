"""Applications on a real libscr, tuned by libscrtune.so: at the next output, on all ranks or on none.

Most are in C. What a Python application could have otherwise is tried with both: there libscrtune.so is not
preloaded, but loaded before libscr.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scrtune.client.libscr.library import WHY_NOT, libscrtune_path
from scrtune.intents.events import Value

from ..apps.mpi_libscr import content
from ..conftest import RealScr
from ..support.native_build import (
    POLITE_MPI,
    Told,
    build,
    build_application,
    build_library,
    compiler,
    decision,
)

pytestmark = pytest.mark.mpi

IN_CACHE = {"SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "0", "SCR_CACHE_SIZE": "2"}
MOST_CPUS = os.sched_getaffinity(0)
Decisions = dict[int, dict[str, Value]]
TWIN = (sys.executable, str(Path(__file__).parents[1] / "apps" / "mpi_libscr.py"))
MIB = 1 << 20

in_both = pytest.mark.parametrize("job", ["C", "Python"], indirect=True)
in_python = pytest.mark.parametrize("job", ["Python"], indirect=True)


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("native") / "libscrtune.so")


@pytest.fixture(scope="session")
def application(libscr: RealScr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_application(tmp_path_factory.mktemp("application") / "app", libscr.path)


class Job:
    """One run of an application below libscrtune.so."""

    def __init__(self, scr: RealScr, native: Path | None, application: tuple[str, ...], base: Path) -> None:
        """`native` is what is preloaded, if anything; `application` is how a rank is started."""
        self.scr, self.native, self.application, self.base = scr, native, application, base
        self.decision, self.events, self.plan = (base / name for name in ("decision", "events", "plan"))
        self.plan.mkdir()

    def run(
        self,
        outputs: int,
        *more: object,
        decisions: Decisions | None = None,
        nodes: int = 0,
        **variables: str,
    ) -> Told:
        """Four ranks; `decisions` are there before the output of their number."""
        for number, values in (decisions or {}).items():
            (self.plan / str(number)).write_text(decision(number, **values))
        arguments = [str(argument) for argument in (outputs, *(more or (1, 1000)))]
        ran = self.scr.mpiexec(
            self.base, 4, *self.application, *arguments, nodes=nodes, **self.variables(**variables)
        )
        return Told.of(ran, self.events)

    def variables(self, **more: str) -> dict[str, str]:
        return {
            **POLITE_MPI,
            **IN_CACHE,
            "SCRTUNE_DECISION_FILE": str(self.decision),
            "SCRTUNE_EVENTS_FILE": str(self.events),
            "DECISIONS": str(self.plan),
            "LD_PRELOAD": str(self.native or ""),
            **more,
        }

    @property
    def flushed(self) -> list[str]:
        """The datasets that SCR lists as complete in the prefix directory."""
        command = (
            self.scr.path.parent.parent / "bin" / "scr_index",
            "--prefix",
            self.base / "prefix",
            "--list",
        )
        environment = self.scr.environment(self.base)
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return sorted(line.split()[-1] for line in ran.stdout.splitlines()[1:] if line.split()[1] == "YES")


@pytest.fixture
def job(request: pytest.FixtureRequest, libscr: RealScr, tmp_path: Path) -> Job:
    if getattr(request, "param", "C") == "C":
        native, application = request.getfixturevalue("native"), request.getfixturevalue("application")
        return Job(libscr, native, (str(application),), tmp_path)
    if libscrtune_path() is None:
        pytest.skip(WHY_NOT)
    return Job(libscr, None, TWIN, tmp_path)


# ---- what changes


@in_both
def test_settings_change_with_the_next_output_on_every_rank(job: Job) -> None:
    live = {
        "SCR_FLUSH": 2,
        "SCR_PREFIX_SIZE": 7,
        "SCR_FILE_BUF_SIZE": 65536,
        "SCR_MPI_BUF_SIZE": 70000,
        "SCR_CHECKPOINT_INTERVAL": 5,
        "SCR_CHECKPOINT_SECONDS": 60,
        "SCR_CHECKPOINT_OVERHEAD": 2.5,
        "SCR_FLUSH_WIDTH": 1,  # what cannot change is left alone
        "SCR_PREFIX": "/elsewhere",
    }
    told = job.run(3, decisions={2: live, 3: {**live, "SCR_FILE_BUF_SIZE": 131072, "SCR_FLUSH": 0}})
    told.assert_sound(3)
    assert told.column("axl") == ["33554432", "65536", "131072"]
    assert told.column("flush") == ["0", "2", "0"]
    assert told.column("er")[1:] == ["70000", "70000"]
    for name, value in (("prefix_size", "7"), ("interval", "5"), ("seconds", "60"), ("overhead", "2.5")):
        assert told.column(name) == ["0", value, value]
    assert [(event["generation"], event["how"]) for event in told.of_type("applied")] == [
        (2, "live"),
        (3, "live"),
    ]
    assert [event["generation"] for event in told.of_type("output")] == [0, 2, 3]
    assert [event["due"] for event in told.of_type("asked")] == [False] * 3, (
        "one for each SCR_Need_checkpoint"
    )


@in_both
def test_scrs_answer_whether_a_checkpoint_is_due_is_told(job: Job) -> None:
    decisions: Decisions = {2: {"SCR_CHECKPOINT_INTERVAL": 2}, 5: {"SCR_CHECKPOINT_INTERVAL": 0}}
    told = job.run(6, decisions=decisions)
    told.assert_sound(6)
    assert [event["due"] for event in told.of_type("asked")] == [False, False, False, True, False, False]


@in_both
def test_the_cadence_of_the_flush_follows(job: Job) -> None:
    told = job.run(6, decisions={3: {"SCR_FLUSH": 2}, 5: {"SCR_FLUSH": 0}})
    told.assert_sound(6)
    assert job.flushed == ["ckpt.4"]


def test_the_flush_threads_have_their_number_and_their_cpus(job: Job) -> None:
    cpu = max(MOST_CPUS)
    decisions: Decisions = {
        2: {"SCRTUNE_FLUSH_THREADS": 3, "SCRTUNE_FLUSH_CPUS": str(cpu)},
        3: {"SCRTUNE_FLUSH_THREADS": 1, "SCRTUNE_FLUSH_CPUS": ""},
    }
    told = job.run(3, 4, 1000, decisions=decisions, SCR_FLUSH="1", SCR_FLUSH_TYPE="PTHREAD")
    told.assert_sound(3)
    everywhere = ",".join(map(str, sorted(MOST_CPUS)))
    assert told.column("threads")[1:] == ["3", "1"]
    assert told.column("mask") == [everywhere, str(cpu), everywhere]


def test_asynchronous_flushes_begin_and_end_and_none_is_lost(job: Job) -> None:
    decisions: Decisions = {
        number: {"SCR_FLUSH_ASYNC": number % 2, "SCR_FLUSH_ASYNC_USLEEP": 100 * number}
        for number in range(2, 8)
    }
    told = job.run(7, 2, 300000, decisions=decisions, SCR_FLUSH="1", SCR_FLUSH_TYPE="PTHREAD")
    told.assert_sound(7)
    assert told.column("async") == ["0", "0", "1", "0", "1", "0", "1"]
    assert job.flushed == [f"ckpt.{number}" for number in range(1, 8)]


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
    assert len(told.of_type("started")) == len(told.of_type("ended")) == 1


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


def test_a_restart_is_told(job: Job) -> None:
    first = job.run(2, SCR_FLUSH="1")
    first.assert_sound(2)
    assert first.of_type("restart") == []
    shutil.rmtree(job.base / "cache")
    told = job.run(1, SCR_FLUSH="1")
    told.assert_sound(1)
    (restart,) = told.of_type("restart")
    assert (restart["name"], restart["valid"]) == ("ckpt.2", True)


# ---- what does not


def limited(script: Path, application: tuple[str, ...], limit_bytes: int) -> str:
    """`application` whose files may not be larger: the kernel ends who writes more."""
    script.write_text(f'#!/bin/bash\nulimit -f {limit_bytes // 1024}\nexec {" ".join(application)} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("values", "variables", "nodes"),
    [
        ({"SCR_COPY_TYPE": "FILE"}, {}, 2),
        ({"SCR_FLUSH_TYPE": "BBAPI"}, {}, 0),
        ({"SCR_SET_FAILURES": 9}, {}, 2),
        ({"SCR_COPY_TYPE": "RS", "SCR_SET_FAILURES": 2}, {}, 2),
        ({"SCR_SET_SIZE": 1, "SCR_SET_FAILURES": 1}, {}, 2),
        ({"SCR_GROUP": "NOWHERE"}, {}, 2),
        ({"SCR_GROUP": "NOWHERE"}, {"SCR_COPY_TYPE": "SINGLE"}, 2),
        ({"SCR_GROUP": "NOWHERE"}, {}, 0),
        ({"SCR_COPY_TYPE": "XOR"}, {"SCR_COPY_TYPE": "SINGLE"}, 3),
    ],
)
def test_what_scr_would_abort_the_job_for_is_refused(
    job: Job, values: dict[str, Value], variables: dict[str, str], nodes: int
) -> None:
    told = job.run(2, decisions={2: {**values, "SCR_FLUSH": 1}}, nodes=nodes, **variables)
    told.assert_sound(2)
    assert told.column("flush") == ["0", "0"]
    assert len(told.of_type("refused")) == 1
    assert "scrtune: " in told.standard_error


def spoil(job: Job, how: str) -> None:
    match how:
        case "directory":
            job.decision.mkdir()
        case "link":
            job.decision.symlink_to(job.base / "other")
            (job.base / "other").write_text(decision(1, SCR_FLUSH=1))
        case "queue":
            os.mkfifo(job.decision)
        case "long":
            job.decision.write_bytes(b"x" * 70000)
        case "range":
            job.decision.write_text(decision(1, SCR_FLUSH=1, SCR_FILE_BUF_SIZE=0))
        case _:
            job.decision.write_text(decision(1, SCR_FLUSH=1).replace("generation 1", "generation 2"))


@in_both
@pytest.mark.parametrize("how", ["directory", "link", "queue", "long", "range", "checksum"])
def test_a_bad_decision_file_is_told_once_and_nothing_of_it_applied(job: Job, how: str) -> None:
    spoil(job, how)
    told = job.run(3)
    told.assert_sound(3)
    assert told.column("flush") == ["0", "0", "0"]
    assert len(told.of_type("refused")) == told.standard_error.count("scrtune: ") == 1


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


def test_without_a_decision_file_nothing_is_done_but_telling(job: Job) -> None:
    told = job.run(2, SCRTUNE_DECISION_FILE="")
    told.assert_sound(2)
    assert "scrtune" not in told.standard_error
    assert [event["type"] for event in told.events] == [
        "started",
        "asked",
        "output",
        "asked",
        "output",
        "ended",
    ]


def test_a_limit_of_the_size_of_files_ends_the_telling_and_not_the_job(job: Job) -> None:
    limit_bytes = 4 << 30
    full = job.base / "full"
    full.touch()
    os.truncate(full, limit_bytes)
    job.application = (limited(job.base / "limited", job.application, limit_bytes),)
    told = job.run(2, SCRTUNE_EVENTS_FILE=str(full))
    told.assert_sound(2)
    assert told.standard_error == ""
    assert full.stat().st_size == limit_bytes


def test_it_is_silent_where_nobody_listens(job: Job) -> None:
    told = job.run(2, SCRTUNE_EVENTS_FILE="/dev/full")
    told.assert_sound(2)
    assert "scrtune" not in told.standard_error


def test_ranks_without_the_library_hang_nobody(job: Job) -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    with_it, without_it = (
        ("-n", "2", "env", f"LD_PRELOAD={preload}", *job.application, "2") for preload in (job.native, "")
    )
    job.decision.write_text(decision(1, SCR_FLUSH=1))
    ran = subprocess.run(
        (mpiexec, *with_it, ":", *without_it),
        env=job.scr.environment(job.base, **{**job.variables(), "LD_PRELOAD": ""}),
        cwd=job.base / "prefix",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = Told.of(ran, job.events)
    told.assert_sound(2)
    assert told.column("flush") == ["0", "0"]
    assert "some ranks run without libscrtune.so" in told.standard_error


def test_scr_that_is_switched_off_stays_off(job: Job) -> None:
    told = job.run(1, SCR_ENABLE="0")
    assert "SCR_Init failed" in told.standard_error
    assert told.events == []


# ---- what must not go through the cache

BYPASSED = {"SCR_CACHE_BYPASS": "1", "SCR_COPY_TYPE": "XOR"}
TO_THE_CACHE: dict[str, Value] = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1}


@in_both
@pytest.mark.parametrize("kind", ["SHARED_FROM", "SAME_NAMES_FROM"])
def test_an_output_of_another_kind_brings_the_bypass_back(job: Job, kind: str) -> None:
    """SCR ends a job whose ranks write one file through the cache, and mixes up files of one name there."""
    told = job.run(
        6,
        decisions={3: TO_THE_CACHE, 6: {**TO_THE_CACHE, "SCR_PREFIX_SIZE": 9}},
        nodes=2,
        **BYPASSED,
        **{"PURE_FROM": "5", kind: "5"},
    )
    told.assert_sound(6)
    assert told.column("bypass") == ["1", "1", "0", "0", "1", "1"]
    shared = [event.get("shared") for event in told.of_type("output")]
    assert shared == [False, False, False, False, True, True]
    assert told.column("prefix_size") == ["0"] * 6, "what asks for the cache again is refused as a whole"
    refused = told.of_type("refused")
    assert [(event["generation"], event.get("in_force")) for event in refused] == [
        (3, {"SCR_CACHE_BYPASS": 1}),
        (6, None),
    ]
    assert [event["how"] for event in told.of_type("applied")] == ["re-init", "re-init"]
    complete = (job.base / "prefix" / ".scr").glob("scr.dataset.*/summary.scr")
    assert sorted(path.parent.name for path in complete) == [f"scr.dataset.{n}" for n in range(1, 7)]


@in_both
@pytest.mark.parametrize("kind", ["SHARED_FROM", "SAME_NAMES_FROM"])
def test_an_output_that_is_suddenly_shared_fails_and_the_job_goes_on(job: Job, kind: str) -> None:
    told = job.run(5, decisions={2: TO_THE_CACHE}, nodes=2, **BYPASSED, **{kind: "4"})
    assert told.returncode == 0, told.standard_error
    assert told.column("same") == ["1"] * 5
    assert told.column("bypass") == ["1", "0", "0", "0", "1"]
    assert told.column("valid") == ["1", "1", "1", "0", "1"]
    assert [event["valid"] for event in told.of_type("output")] == [True, True, True, False, True]


@in_both
@pytest.mark.parametrize("kind", ["SHARED_FROM", "SAME_NAMES_FROM"])
def test_the_cache_is_refused_to_who_shares_files(job: Job, kind: str) -> None:
    told = job.run(3, decisions={2: TO_THE_CACHE}, nodes=2, **BYPASSED, **{kind: "1"})
    told.assert_sound(3)
    assert told.column("bypass") == ["1"] * 3
    (refused,) = told.of_type("refused")
    assert "SCR_CACHE_BYPASS=0" in str(refused["why"])


@in_both
def test_the_cache_is_refused_where_others_may_write_in_the_user_s_directory(job: Job) -> None:
    cached = job.base / "cache" / "somebody"
    cached.mkdir(parents=True)
    cached.chmod(0o777)
    told = job.run(3, decisions={2: TO_THE_CACHE}, SCR_USER_NAME="somebody", SCR_CACHE_BYPASS="1")
    told.assert_sound(3)
    assert told.column("bypass") == ["1"] * 3
    (refused,) = told.of_type("refused")
    assert "others may write there" in str(refused["why"])


@in_both
def test_on_one_node_ranks_may_share_a_file_in_the_cache(job: Job) -> None:
    told = job.run(3, decisions={2: TO_THE_CACHE}, SCR_CACHE_BYPASS="1", SHARED_FROM="1")
    told.assert_sound(3)
    assert told.column("bypass") == ["1", "0", "0"]
    assert [event["shared"] for event in told.of_type("output")] == [False] * 3


def test_what_was_seen_is_looked_at_ever_less_often(job: Job) -> None:
    told = job.run(9, nodes=2, **BYPASSED, SHARED_FROM="6", PURE_FROM="9")
    told.assert_sound(9)
    looked_at = {event["dataset"]: event["shared"] for event in told.of_type("output") if "shared" in event}
    assert looked_at == {1: False, 2: False, 4: False, 8: True, 9: True}


def test_who_caches_by_themselves_is_not_looked_at(job: Job) -> None:
    told = job.run(2, decisions={2: {"SCR_FLUSH": 1}}, nodes=2)
    told.assert_sound(2)
    assert ["shared" in event for event in told.of_type("output")] == [False, False]


# ---- who calls


def test_the_old_functions_are_counted_once(job: Job) -> None:
    told = job.run(-3, decisions={2: {"SCR_FLUSH": 1}})
    told.assert_sound(3)
    assert told.column("flush") == ["0", "1", "1"]
    assert [event["name"] for event in told.of_type("output")] == [f"scr.dataset.{n}" for n in (1, 2, 3)]


def test_a_plugin_brings_an_scr_of_its_own(job: Job, tmp_path: Path) -> None:
    """Loaded with RTLD_LOCAL: the application's functions are found first, and SCR's by no global name."""
    plugin = build_application(
        tmp_path / "plugin.so",
        job.scr.path,
        "-shared",
        "-fPIC",
        "-Dmain=plugin_main",
        "-Dpthread_create=other",
    )
    host = build(
        tmp_path / "host",
        r"""
        #include <dlfcn.h>
        int main(int count, char **arguments)
        {
            void *plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
            int (*run)(int, char **);
            *(void **)&run = dlsym(plugin, "plugin_main");
            return run(count, arguments);
        }
        """,
        f'-DPLUGIN="{plugin}"',
        "-ldl",
    )
    job.application = (str(host),)
    told = job.run(2, decisions={2: {"SCR_FLUSH": 1, "SCR_CACHE_SIZE": 1}})
    told.assert_sound(2)
    assert told.column("flush") == ["0", "1"]
    assert told.column("cache_size") == ["2", "1"]


FORTRAN = r"""
/* The application by what a Fortran compiler makes of SCR's interface for Fortran. */
#define _GNU_SOURCE
#include <string.h>
void scr_init_(int *), scr_finalize_(int *), scr_start_output_(char *, int *, int *, int);
void scr_complete_output_(int *, int *), scr_config_(char *, char *, int *, int, int);

int fortran_init(void) { int error; scr_init_(&error); return error; }
int fortran_finalize(void) { int error; scr_finalize_(&error); return error; }
int fortran_complete_output(int valid) { int error; scr_complete_output_(&valid, &error); return error; }
int fortran_start_output(const char *name, int flags)
{
    int error;
    scr_start_output_((char *)name, &flags, &error, (int)strlen(name));
    return error;
}
const char *fortran_config(const char *text)
{
    static char answer[64];
    int error;
    scr_config_((char *)text, answer, &error, (int)strlen(text), sizeof answer);
    return answer;
}
#define SCR_Init fortran_init
#define SCR_Finalize fortran_finalize
#define SCR_Config fortran_config
#define SCR_Start_output fortran_start_output
#define SCR_Complete_output fortran_complete_output
"""


def test_fortran_comes_through_the_same_functions(job: Job, tmp_path: Path) -> None:
    compiler()
    if not job.scr.path.with_name("libscrf.so").is_file():
        pytest.skip(f"this SCR was built without Fortran: no libscrf.so in {job.scr.path.parent}")
    (tmp_path / "fortran.h").write_text(FORTRAN)
    fortran = build_application(
        tmp_path / "fortran", job.scr.path, "-include", str(tmp_path / "fortran.h"), library="scrf"
    )
    job.application = (str(fortran),)
    told = job.run(
        3, 1, 1000, "SCR_CHECKPOINT_INTERVAL=9", decisions={2: {"SCR_FLUSH": 1}, 3: {"SCR_CACHE_SIZE": 1}}
    )
    told.assert_sound(3)
    assert told.column("flush")[:2] == ["0", "1"]
    assert told.column("cache_size") == ["2", "2", "1"]
    assert told.column("interval") == ["9", "9", "9"]
    assert len(told.of_type("output")) == 3


# ---- what was written


def read_back(job: Job, names: list[str], size: int) -> None:
    """Every file of the outputs `names` is in the prefix directory, bit for bit."""
    for name in names:
        for rank in range(4):
            data = (job.base / "prefix" / name / f"rank_{rank}.0").read_bytes()
            assert data == content(name, rank, size), f"{name} of rank {rank}"


@in_python
def test_the_size_of_writes_follows_the_file_buffer(job: Job) -> None:
    decisions: Decisions = {2: {"SCR_FILE_BUF_SIZE": 16384}, 3: {"SCR_FILE_BUF_SIZE": MIB}}
    told = job.run(3, 1, 4 * MIB, decisions=decisions, SCR_FLUSH="1")
    told.assert_sound(3)
    calls = [int(text) for text in told.column("writes")]
    assert calls[1] - calls[0] == pytest.approx(4 * MIB / 16384, rel=0.1)
    assert calls[2] - calls[0] == pytest.approx(4, abs=4)
    read_back(job, ["ckpt.1", "ckpt.2", "ckpt.3"], 4 * MIB)


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
def test_a_flush_under_way_is_not_forgotten_when_async_goes_off_and_on(job: Job) -> None:
    idle: dict[str, Value] = {"SCR_FLUSH": 0, "SCR_FILE_BUF_SIZE": MIB}
    decisions: Decisions = {
        2: {"SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1, "SCR_FILE_BUF_SIZE": 16},
        3: {**idle, "SCR_FLUSH_ASYNC": 0},
        4: {**idle, "SCR_FLUSH_ASYNC": 1},
    }
    told = job.run(4, 1, 16 * MIB, decisions=decisions, SCR_FLUSH_TYPE="PTHREAD", SCR_CACHE_SIZE="4")
    told.assert_sound(4)
    assert told.column("running") == ["0", "1", "1", "1"], "or nothing was tried"
    assert job.flushed == ["ckpt.2"]
    read_back(job, ["ckpt.2"], 16 * MIB)


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


# ---- a hostile decision file


LEVERS: dict[str, tuple[Value, ...]] = {
    "SCR_FLUSH": (0, 1, 2, 5),
    "SCR_FLUSH_ASYNC": (0, 1),
    "SCR_FLUSH_ASYNC_USLEEP": (1, 1000),
    "SCR_FILE_BUF_SIZE": (4096, 1 << 20),
    "SCR_MPI_BUF_SIZE": (8192, 1 << 20),
    "SCR_PREFIX_SIZE": (0, 400),
    "SCR_CHECKPOINT_SECONDS": (0, 3),
    "SCRTUNE_FLUSH_THREADS": (0, 1, 2),
    "SCRTUNE_FLUSH_CPUS": ("", "0", "1", "0-1"),
    "SCR_CACHE_SIZE": (1, 2, 3),
    "SCR_COPY_TYPE": ("SINGLE", "PARTNER", "XOR"),
    "SCR_FLUSH_TYPE": ("SYNC", "PTHREAD"),
}


class Vandal(threading.Thread):
    """Replaces, tears, empties, cuts and removes the decision file all the time."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__()
        self.path, self.random = path, random.Random(seed)
        self.is_over = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self.is_over.wait(self.random.choice((0.0005, 0.002, 0.01))):
            self.count += 1
            names = self.random.sample(sorted(LEVERS), 5)
            self.attack(
                decision(self.count, **{name: self.random.choice(LEVERS[name]) for name in names}).encode()
            )

    def attack(self, text: bytes) -> None:
        new = self.path.with_suffix(".new")
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        match self.random.randrange(12):
            case 0:
                self.path.unlink(missing_ok=True)
            case 1:  # in place, in two parts, with the reader between them
                self.path.unlink(missing_ok=True)
                with self.path.open("wb", buffering=0) as file:
                    file.write(text[: len(text) // 2])
                    self.is_over.wait(0.002)
                    file.write(text[len(text) // 2 :])
            case 2:
                new.write_bytes(text[: self.random.randrange(len(text))])
                new.rename(self.path)
            case 3:
                at = self.random.randrange(len(text))
                new.write_bytes(text[:at] + bytes([text[at] ^ 0x20]) + text[at + 1 :])
                new.rename(self.path)
            case 4:
                self.path.unlink(missing_ok=True)
                self.path.symlink_to("/dev/zero")
            case 5:
                self.path.unlink(missing_ok=True)
                os.mkfifo(self.path)
            case 6:
                self.path.unlink(missing_ok=True)
                self.path.mkdir()
            case 7:
                new.write_bytes(self.random.randbytes(70000))
                new.rename(self.path)
            case _:
                new.write_bytes(text)
                new.rename(self.path)


OUTPUTS = 40


@pytest.mark.timeout(600)
def test_whatever_happens_to_the_decision_file_ranks_agree_and_outputs_are_valid(job: Job) -> None:
    vandal = Vandal(job.decision, seed=4)
    vandal.start()
    try:
        told = job.run(OUTPUTS, 2, 3000, nodes=2, DECISIONS=str(job.base / "none"))
    finally:
        vandal.is_over.set()
        vandal.join()
    told.assert_sound(OUTPUTS)
    assert len(told.of_type("output")) == OUTPUTS
    assert {event["how"] for event in told.of_type("applied")} == {"live", "re-init"}
    assert told.of_type("refused")
    assert told.column("dataset") == [str(number) for number in range(1, OUTPUTS + 1)]
