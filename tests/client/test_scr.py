"""The drop-in for SCR's Python module: one program gets the same answers from libscr and the embedded engine.

What is expected here is what SCR's own module answers (its scr_test.py has the same life over several runs).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrtune.client.embedded.launch import ConfigCalls
from scrtune.client.implicit_steps import ImplicitSteps
from scrtune.goodput.buckets import PRODUCTIVE, WASTED_PROGRESS
from scrtune.goodput.events import JobStarted, OutputCompleted, StepCompleted
from scrtune.goodput.ledger.ledger import Ledger

from ..conftest import RealScr

MPIEXEC = Path(sys.executable).parent / "mpiexec"
APPLICATION = Path(__file__).parents[1] / "apps" / "mpi_scr_drop_in.py"
RANKS = 2
FAR = str(2**31 - 1)

Run = Callable[..., list[list[Any]]]


def start(base: Path, environment: dict[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    """Run two ranks in the prefix directory."""
    return subprocess.run(
        [MPIEXEC, "-n", str(RANKS), sys.executable, *command],
        env=environment,
        cwd=base / "prefix",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(params=["embedded", "libscr"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of an application on one of the engines."""
    if request.param == "libscr":
        scr: RealScr = request.getfixturevalue("libscr")
        return scr.environment(tmp_path, SCRTUNE_ENGINE="libscr")
    (tmp_path / "prefix").mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SCR", "DFTRACER"))}
    places = {"SCR_PREFIX": str(tmp_path / "prefix"), "SCR_CACHE_BASE": str(tmp_path / "cache")}
    return {**own, **places, "SCRTUNE_ENGINE": "embedded"}


@pytest.fixture
def run(engine: dict[str, str], tmp_path: Path) -> Run:
    """Run commands; returns for each rank what they gave."""

    def run(*commands: str, **variables: str) -> list[list[Any]]:
        results = tmp_path / "results"
        results.mkdir(exist_ok=True)
        ran = start(tmp_path, {**engine, **variables}, str(APPLICATION), str(results), *commands)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return [json.loads((results / str(rank)).read_text()) for rank in range(RANKS)]

    return run


@pytest.mark.mpi
def test_parameters_are_asked_set_and_unset_before_init(run: Run) -> None:
    commands = ("config SCR_FLUSH", "config SCR_FLUSH=3", "config SCR_FLUSH", "config SCR_FLUSH=")
    answers = [None, None, "3", None, None, None]
    assert run(*commands, "config SCR_FLUSH", "init") == [answers] * RANKS
    # what one run sets does not hold for the next, and the environment wins
    answers = [None, "7", None, "7", None]
    commands = ("config SCR_CACHE_SIZE", "config SCR_FLUSH", "config SCR_FLUSH=3", "config SCR_FLUSH", "init")
    assert run(*commands, SCR_FLUSH="7") == [answers] * RANKS


@pytest.mark.mpi
def test_what_was_set_holds(run: Run) -> None:
    _, _, asked, _ = run("config SCR_CHECKPOINT_INTERVAL=2", "init", "need 4", "finalize")[0]
    assert asked == [False, True, False, True]


@pytest.mark.mpi
@pytest.mark.parametrize("bypass", ["0", "1"])
def test_a_job_restarts_from_its_newest_checkpoint_that_all_ranks_can_read(run: Run, bypass: str) -> None:
    settings = {"SCR_CACHE_BYPASS": bypass, "SCR_CACHE_SIZE": "3", "SCR_FLUSH": "1"}
    saved = [None, True]
    first = run("init", "restart", "save a", "save b", "save o output", "finalize", **settings)
    assert first == [[None, [], saved, saved, saved, None]] * RANKS
    second = run("init", "restart b", "save c", "finalize", **settings)
    not_found = "SCR_Route_file failed"
    went_back = ["b", not_found, True, False, "a", not_found, True, True]
    assert second == [[None, went_back, saved, None]] * RANKS
    third = run("init", "restart", "finalize", **settings)
    assert third == [[None, ["c", not_found, True, True], None]] * RANKS


@pytest.mark.mpi
def test_an_output_that_a_rank_calls_invalid_is_none(run: Run) -> None:
    assert run("init", "save a", "save b invalid", "finalize")[0][2] == [None, False]
    assert run("init", "restart", "finalize")[0][1][0] == "a"


@pytest.mark.mpi
def test_outside_of_outputs_and_restarts_a_file_is_where_it_is(run: Run) -> None:
    assert run("init", "outside", "finalize") == [[None, "some/where", None]] * RANKS


@pytest.mark.mpi
def test_datasets_are_deleted_and_forgotten(run: Run) -> None:
    run("init", "save a", "save b", "finalize")
    commands = ("init", "delete a", "drop b", "drop nothing", "delete nothing", "there a b", "finalize")
    assert run(*commands) == [[None, None, None, None, None, [False, True], None]] * RANKS


@pytest.mark.mpi
def test_a_job_goes_on_from_the_checkpoint_that_it_restarted_from_by_itself(run: Run) -> None:
    run("init", "save a", "save b", "save c", "finalize")
    assert run("init", "current a", "current nothing", "finalize") == [[None, None, None, None]] * RANKS
    assert run("init", "restart", "save d", "finalize")[0][1][0] == "a"
    assert run("init", "restart", "finalize")[0][1][0] == "d"


@pytest.mark.mpi
def test_the_end_of_the_allocation_is_a_reason_to_exit(run: Run) -> None:
    assert run("init", "exit", SCR_HALT_SECONDS="60", SCR_END_TIME=FAR)[0] == [None, False]


@pytest.mark.mpi
def test_the_end_of_the_allocation_is_near(run: Run) -> None:
    # a prefix directory of its own: SCR goes by what its halt file says, once there is one
    assert run("init", "exit", "finalize", SCR_HALT_SECONDS=FAR, SCR_END_TIME=FAR)[0] == [None, True, None]


@pytest.mark.mpi
def test_what_scr_refuses_is_raised_in_the_words_of_its_own_module(run: Run) -> None:
    assert run("init", SCR_ENABLE="0") == [["RuntimeError: SCR_Init failed"]] * RANKS


@pytest.mark.mpi
def test_calls_out_of_turn_are_errors_on_the_embedded_engine(engine: dict[str, str], tmp_path: Path) -> None:
    if engine["SCRTUNE_ENGINE"] == "libscr":
        pytest.skip("SCR aborts the job")
    results = tmp_path / "results"
    results.mkdir()
    commands = ("exit", "finalize", "init", "init", "config SCR_FLUSH=1", "finalize", "init", "finalize")
    ran = start(tmp_path, engine, str(APPLICATION), str(results), *commands)
    assert ran.returncode == 0, ran.stderr
    refused = ("SCR_Should_exit", "SCR_Finalize", None, "SCR_Init", "SCR_Config", None, None, None)
    expected = [call and f"RuntimeError: {call} failed" for call in refused]
    assert json.loads((results / "0").read_text()) == expected


WITHOUT_LIBSCR = """
import sys
from mpi4py import MPI
from scrtune.client import session as choose
from scrtune.client.libscr.find import LibscrUnavailable

def find(environment):
    raise LibscrUnavailable("Looked at: /nowhere/libscr.so: no such file", short="no libscr.so was found")

choose.find_libscr = find
from scrtune.client import scr
scr.config("SCR_FLUSH=1")
scr.init()
scr.finalize()
"""


@pytest.mark.mpi
def test_without_a_libscr_the_embedded_engine_serves_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "prefix").mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith("SCR")}
    ran = start(tmp_path, own, "-c", WITHOUT_LIBSCR)
    assert ran.returncode == 0, ran.stderr
    (told,) = [line for line in ran.stderr.splitlines() if "no libscr.so was found" in line]
    assert told.endswith("the job runs on the embedded engine (SCRTUNE_ENGINE=libscr says where was looked)")
    assert "/nowhere" not in ran.stderr
    assert ran.stderr.count("embedded engine (SCR's semantics") == 1


@pytest.mark.mpi
@pytest.mark.parametrize(("asked", "why"), [("libscr", "/nowhere/libscr.so"), ("other", "choose one")])
def test_an_engine_that_cannot_be_had_is_an_error_on_every_rank(tmp_path: Path, asked: str, why: str) -> None:
    (tmp_path / "prefix").mkdir()
    ran = start(tmp_path, {**os.environ, "SCRTUNE_ENGINE": asked}, "-c", WITHOUT_LIBSCR)
    assert ran.returncode != 0
    assert f"EngineError: SCRTUNE_ENGINE={asked}" in ran.stderr
    assert why in ran.stderr


PART_OF_THE_JOB = """
from mpi4py import MPI
from scrtune.client.session import library_for
assert library_for(MPI.COMM_WORLD) is not None
assert library_for(MPI.COMM_SELF) is None
"""


@pytest.mark.mpi
def test_a_part_of_the_ranks_gets_the_embedded_engine(libscr: RealScr, tmp_path: Path) -> None:
    ran = start(tmp_path, libscr.environment(tmp_path), "-c", PART_OF_THE_JOB)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("libscr works over MPI_COMM_WORLD alone") == RANKS
    # simulated nodes are the embedded engine's
    ran = start(tmp_path, libscr.environment(tmp_path, SCRTUNE_EMBEDDED_NODES="2"), "-c", PART_OF_THE_JOB)
    assert "AssertionError" in ran.stderr


def test_configuration_is_asked_through_the_layers(tmp_path: Path) -> None:
    conf = tmp_path / "user.conf"
    conf.write_text("SCR_FLUSH=4\nSCR_COPY_TYPE=XOR\n")
    configuration = ConfigCalls({"SCR_COPY_TYPE": "SINGLE"})
    assert configuration.config("SCR_FLUSH") is None
    configuration.config(f"SCR_CONF_FILE={conf}")
    configuration.config("SCR_CACHE_SIZE=3")
    configuration.config("CKPT=0 TYPE=XOR")
    asked = [configuration.config(name) for name in ("SCR_FLUSH", "SCR_COPY_TYPE", "SCR_CACHE_SIZE")]
    assert asked == ["4", "SINGLE", "3"]
    assert configuration.text.split("\n")[1:] == ["SCR_CACHE_SIZE=3", "CKPT=0 TYPE=XOR"]


# ---- what counts as a step of an application that reports none ----


def spans(steps: list[StepCompleted]) -> list[tuple[float, float]]:
    return [(step.start_s, step.end_s) for step in steps]


def test_a_turn_of_a_loop_that_asks_is_a_step() -> None:
    work = ImplicitSteps(10.0)
    assert spans(work.asked(12.0, 12.5)) == [(10.0, 12.0)]
    assert spans(work.output_started(12.6)) == []
    work.resumed(1, 14.0)
    assert spans(work.asked(15.0, 15.1)) == [(14.0, 15.0)]
    assert spans(work.asked(16.1, 16.2)) == [(15.1, 16.1)]


def test_without_questions_it_is_what_lies_between_two_outputs() -> None:
    work = ImplicitSteps(10.0)
    assert spans(work.output_started(12.0)) == [(10.0, 12.0)]
    work.resumed(1, 13.0)
    assert spans(work.output_started(20.0)) == [(13.0, 20.0)]


def test_an_application_that_reports_its_steps_has_no_others() -> None:
    work = ImplicitSteps(10.0)
    work.has_explicit = True
    assert work.asked(12.0, 12.5) == work.output_started(13.0) == []


def test_what_was_computed_after_the_checkpoint_of_a_restart_is_wasted() -> None:
    ledger = Ledger()

    def compute(work: ImplicitSteps, *seconds: float) -> None:
        for start_s in seconds:
            work.paused(start_s)
            for step in work.asked(start_s + 1.0, start_s + 1.0):
                ledger.handle(step)

    ledger.handle(JobStarted(time_s=0.0))
    first = ImplicitSteps(0.0)
    compute(first, 0.0, 1.0)
    ledger.handle(OutputCompleted(dataset=7, name="a", start_s=2.0, end_s=3.0))
    first.resumed(7, 3.0)
    compute(first, 3.0, 4.0, 5.0)
    ledger.handle(JobStarted(time_s=10.0))
    second = ImplicitSteps(10.0)
    second.resumed(7, 11.0)
    compute(second, 11.0)
    buckets = ledger.account(12.0).buckets
    assert (buckets[PRODUCTIVE], buckets[WASTED_PROGRESS]) == (3.0, 3.0)
