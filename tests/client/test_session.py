"""The application on the embedded engine: equal settings on every rank, and never a wait for the daemon."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq

from scrtune.client.paths import JobPaths
from scrtune.client.transport.wire import decode
from scrtune.goodput.events import (
    FlushCompleted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    StepCompleted,
)
from scrtune.intents.effects import Advice
from scrtune.intents.events import ApplyRefused, Event, SettingsObserved, Value
from scrtune.scr_config.decision import decision_text

pytestmark = pytest.mark.mpi

MPIEXEC = Path(sys.executable).parent / "mpiexec"
APPLICATION = Path(__file__).parents[1] / "apps" / "mpi_session.py"


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[JobPaths]:
    paths = JobPaths.of("session", base=tmp_path / "r").create()
    yield paths
    shutil.rmtree(paths.trace_directory.parent)  # it is on tmpfs, and not below tmp_path


def run(tmp_path: Path, outputs: int = 3, ranks: int = 3, **variables: str) -> list[list[tuple[int, dict]]]:
    """Run the application; returns what each rank applied, in order."""
    ran = job(tmp_path, outputs, ranks, **variables)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def job(tmp_path: Path, outputs: int, ranks: int, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the application to its end."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SCR", "DFTRACER"))}
    environment = {
        **own,
        "SCR_PREFIX": str(tmp_path / "prefix"),
        "SCR_CACHE_BASE": str(tmp_path / "cache"),
        "SCR_CACHE_BYPASS": "0",
        **variables,
    }
    return subprocess.run(
        [MPIEXEC, "-n", str(ranks), sys.executable, APPLICATION, str(outputs)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def daemon(paths: JobPaths, messages: list[list[type]] | None = None) -> Iterator[list[Event]]:
    """A daemon's socket for events. Yields those that arrive; `messages` gets the kinds of each message's."""
    events: list[Event] = []
    context = zmq.Context()
    pull = context.socket(zmq.PULL)
    pull.bind(paths.events_endpoint)
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set() or pull.poll(200):
            if pull.poll(20):
                events.extend(heard := decode(pull.recv()).events)
                if messages is not None:
                    messages.append([type(each) for each in heard])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield events
    finally:
        ended.set()
        thread.join()
        context.destroy(linger=0)


def decision(generation: int, **settings: Value) -> str:
    return decision_text(Advice(generation=generation, settings=settings))


def in_job(paths: JobPaths, **variables: str) -> dict[str, str]:
    return {"SCRTUNE_JOB_ID": "session", "SCRTUNE_RUN_DIR": str(paths.base), **variables}


def test_every_rank_applies_the_same_decision_at_the_same_output(tmp_path: Path, paths: JobPaths) -> None:
    sizes = {1: 65536, 2: 131072, 3: 262144}
    for number, size in sizes.items():
        (tmp_path / str(number)).write_text(decision(number, SCR_FILE_BUF_SIZE=size))
    applied = run(tmp_path, **in_job(paths, DECISIONS=str(tmp_path)))
    assert applied == [[[n, {"SCR_FILE_BUF_SIZE": sizes[n]}] for n in (1, 2, 3)]] * 3


def test_a_decision_is_applied_once(tmp_path: Path, paths: JobPaths) -> None:
    paths.decision.write_text(decision(4, SCR_FLUSH=2))
    (tmp_path / "2").write_text(decision(4, SCR_FLUSH=2))
    assert run(tmp_path, **in_job(paths, DECISIONS=str(tmp_path))) == [[[4, {"SCR_FLUSH": 2}]]] * 3


def test_what_happens_is_reported_in_order_and_by_rank_zero_only(tmp_path: Path, paths: JobPaths) -> None:
    paths.decision.write_text(decision(7))
    with daemon(paths) as events:
        run(tmp_path, outputs=2, **in_job(paths))
    one_output = [StepCompleted, OutputStarted, OutputCompleted]
    assert [type(event) for event in events] == [
        JobStarted,
        SettingsObserved,
        *one_output * 2,
        FlushCompleted,
        JobEnded,
    ]
    started = events[0]
    assert isinstance(started, JobStarted)
    assert started.ranks == 3
    outputs = [event for event in events if isinstance(event, OutputCompleted)]
    assert [output.generation for output in outputs] == [7, 7]
    assert all(output.due for output in outputs), "the embedded engine says yes where nothing is set"
    assert [output.bytes for output in outputs] == [6000, 6000]
    assert all(output.valid and output.files == 3 for output in outputs)
    assert (outputs[0].cpu_s, outputs[0].run_delay_s) == (0, 0), "there was no output before it"
    assert 0 < outputs[1].cpu_s + outputs[1].run_delay_s <= outputs[1].start_s - outputs[0].end_s + 0.01


def test_an_output_wakes_the_daemon_once(tmp_path: Path, paths: JobPaths) -> None:
    """But for those before which nothing was sent for half a second, as on a machine that is busy."""
    messages: list[list[type]] = []
    with daemon(paths, messages):
        run(tmp_path, outputs=8, **in_job(paths))
    assert [StepCompleted, OutputStarted, OutputCompleted] in messages


def test_a_flush_that_ended_within_a_step_is_told_before_it(tmp_path: Path, paths: JobPaths) -> None:
    """Else it looks as if it had outlasted the step."""
    beside = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_TYPE": "PTHREAD"}
    with daemon(paths) as events:
        run(tmp_path, outputs=3, **in_job(paths, COMPUTE_S="0.3", **beside))
    within = [
        events.index(flush) < events.index(step)
        for flush in events
        for step in events
        if isinstance(flush, FlushCompleted) and isinstance(step, StepCompleted)
        if step.start_s <= flush.end_s <= step.end_s
    ]
    assert within
    assert all(within)


def test_the_daemon_hears_what_the_user_declared_and_who_the_ranks_are(
    tmp_path: Path, paths: JobPaths
) -> None:
    with daemon(paths) as events:
        declared = {
            "SCRTUNE_REDUNDANCY_FLOOR": "XOR",
            "SCRTUNE_DURABILITY": "next",
            "SCRTUNE_INTERVAL": "auto",
        }
        run(tmp_path, **in_job(paths, **declared, SCRTUNE_MODE="recommend"))
    observed = events[1]
    assert isinstance(observed, SettingsObserved)
    assert (observed.floor, observed.durability, observed.override) == ("XOR", "next", False)
    assert (observed.tuning, observed.recommend) == (False, True)
    assert observed.interval == "auto"
    assert observed.sources["SCR_CACHE_BYPASS"] == "environment"
    assert len({pid for _, pid in observed.processes}) == 3
    assert {host for host, _ in observed.processes} == {paths.host}


def test_the_application_asks_the_daemon_nothing() -> None:
    """It looks at a file: who never asks never waits, however slow the daemon is."""
    code = "import sys; import scrtune.client.session, scrtune.client.scr; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert {"scrtune.client.transport.sender", "scrtune.scr_config.decision"} <= set(ran.stdout.split())
    assert "scrtune.client.transport.daemon_client" not in ran.stdout.split()


def test_without_a_daemon_and_a_decision_the_application_runs_on(tmp_path: Path, paths: JobPaths) -> None:
    assert run(tmp_path, **in_job(paths)) == [[], [], []]


@pytest.mark.parametrize("odd", ["SCRTUNE_RUN_DIR", "SCR_PREFIX"])
def test_a_directory_whose_name_is_not_utf_8_costs_the_tuning_alone(tmp_path: Path, odd: str) -> None:
    named = {"SCRTUNE_RUN_DIR": str(tmp_path / "r"), odd: os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")}
    ran = job(tmp_path, 2, 2, SCRTUNE_JOB_ID="session", **named)
    assert (ran.returncode, ran.stdout) == (0, "[]\n[]\n"), ran.stderr
    assert "the job runs untuned, and is not reported" in ran.stderr


def test_the_decision_serves_when_the_daemon_is_gone(tmp_path: Path, paths: JobPaths) -> None:
    paths.decision.write_text(decision(3, SCR_FLUSH=5))
    assert run(tmp_path, **in_job(paths)) == [[[3, {"SCR_FLUSH": 5}]]] * 3


def test_a_decision_of_another_job_is_not_looked_at(tmp_path: Path, paths: JobPaths) -> None:
    paths.decision.write_text(decision(3, SCR_FLUSH=5))
    assert run(tmp_path, **{**in_job(paths), "SCRTUNE_JOB_ID": "another"}) == [[], [], []]
    assert run(tmp_path) == [[], [], []], "outside of scrtune there is none"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        decision(1, SCR_FLUSH=5)[:-5],
        decision(1, SCR_FLUSH=5).replace("=5", "=6"),
        decision(1, SCR_FLUSH=5, SCR_CACHE_SIZE="many"),
    ],
)
def test_what_is_no_decision_changes_nothing_and_is_refused_once(
    tmp_path: Path, paths: JobPaths, text: str
) -> None:
    paths.decision.write_text(text)
    with daemon(paths) as events:
        assert run(tmp_path, ranks=2, **in_job(paths)) == [[], []]
    assert len([event for event in events if isinstance(event, ApplyRefused)]) == 1


def test_a_secret_of_the_configuration_is_not_reported(tmp_path: Path, paths: JobPaths) -> None:
    with daemon(paths) as events:
        run(tmp_path, **in_job(paths, SCR_LOG_DB_PASS="hush"))  # noqa: S106
    assert not any(b"hush" in msgspec.json.encode(event) for event in events)


def test_an_output_that_scr_need_checkpoint_did_not_ask_for_is_told_apart(
    tmp_path: Path, paths: JobPaths
) -> None:
    with daemon(paths) as events:
        run(tmp_path, outputs=5, **in_job(paths, SCR_CHECKPOINT_INTERVAL="2"))
    assert [each.due for each in events if isinstance(each, OutputCompleted)] == [
        False,
        True,
        False,
        True,
        False,
    ]
