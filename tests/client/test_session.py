"""The application's side: equal settings on every rank at the same point, and never a wait for the daemon."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq

from scrtune.client.paths import JobPaths
from scrtune.client.transport.wire import Answer, decode
from scrtune.goodput.events import (
    FlushCompleted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    StepCompleted,
)
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event, SettingsObserved

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
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SCR", "DFTRACER"))}
    environment = {
        **own,
        "SCR_PREFIX": str(tmp_path / "prefix"),
        "SCR_CACHE_BASE": str(tmp_path / "cache"),
        "SCR_CACHE_BYPASS": "0",
        **variables,
    }
    ran = subprocess.run(
        [MPIEXEC, "-n", str(ranks), sys.executable, APPLICATION, str(outputs)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@contextmanager
def daemon(paths: JobPaths, answer: Callable[[int], bytes]) -> Iterator[list[Event]]:
    """Both sockets of a daemon; `answer(n)` is its n-th answer. Yields the events that arrive."""
    events: list[Event] = []
    context = zmq.Context()
    pull, router = context.socket(zmq.PULL), context.socket(zmq.ROUTER)
    pull.bind(paths.events_endpoint)
    router.bind(paths.control_endpoint)
    ended = threading.Event()

    def serve() -> None:
        poller = zmq.Poller()
        poller.register(pull, zmq.POLLIN)
        poller.register(router, zmq.POLLIN)
        asked = 0
        while not (ended.is_set() and not poller.poll(200)):
            ready = dict(poller.poll(20))
            if router in ready:
                *envelope, _question = router.recv_multipart()
                asked += 1
                router.send_multipart([*envelope, answer(asked)])
            if pull in ready:
                events.extend(decode(pull.recv()).events)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield events
    finally:
        ended.set()
        thread.join()
        context.destroy(linger=0)


def advice(generation: int, **settings: int | str) -> bytes:
    given = Advice(generation=generation, settings=settings)
    return msgspec.json.encode(Answer(result=msgspec.Raw(msgspec.json.encode(given))))


def test_every_rank_applies_the_same_advice_at_the_same_output(tmp_path: Path, paths: JobPaths) -> None:
    sizes = {1: 65536, 2: 131072, 3: 262144}
    with daemon(paths, lambda n: advice(n, SCR_FILE_BUF_SIZE=sizes[n])):
        applied = run(tmp_path, SCRTUNE_JOB_ID="session", SCRTUNE_RUN_DIR=str(paths.base))
    assert applied == [[[n, {"SCR_FILE_BUF_SIZE": sizes[n]}] for n in (1, 2, 3)]] * 3


def test_an_advice_is_applied_once(tmp_path: Path, paths: JobPaths) -> None:
    with daemon(paths, lambda _: advice(4, SCR_FLUSH=2)):
        applied = run(tmp_path, SCRTUNE_JOB_ID="session", SCRTUNE_RUN_DIR=str(paths.base))
    assert applied == [[[4, {"SCR_FLUSH": 2}]]] * 3


def test_what_happens_is_told_in_order_and_by_rank_zero_only(tmp_path: Path, paths: JobPaths) -> None:
    with daemon(paths, lambda _: advice(7)) as events:
        run(tmp_path, outputs=2, SCRTUNE_JOB_ID="session", SCRTUNE_RUN_DIR=str(paths.base))
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
    assert [output.bytes for output in outputs] == [6000, 6000]
    assert all(output.valid and output.files == 3 for output in outputs)


def test_the_daemon_hears_what_the_user_declared_and_who_the_ranks_are(
    tmp_path: Path, paths: JobPaths
) -> None:
    with daemon(paths, lambda _: advice(0)) as events:
        run(
            tmp_path,
            SCRTUNE_JOB_ID="session",
            SCRTUNE_RUN_DIR=str(paths.base),
            SCRTUNE_REDUNDANCY_FLOOR="XOR",
            SCRTUNE_TUNING="0",
        )
    observed = events[1]
    assert isinstance(observed, SettingsObserved)
    assert (observed.floor, observed.tuning, observed.override) == ("XOR", False, False)
    assert observed.sources["SCR_CACHE_BYPASS"] == "environment"
    assert len({pid for _, pid in observed.processes}) == 3
    assert {host for host, _ in observed.processes} == {paths.host}


def test_without_a_daemon_the_application_runs_on(tmp_path: Path, paths: JobPaths) -> None:
    assert run(tmp_path, SCRTUNE_JOB_ID="session", SCRTUNE_RUN_DIR=str(paths.base)) == [[], [], []]


def test_outside_of_scrtune_nobody_is_asked(tmp_path: Path) -> None:
    assert run(tmp_path) == [[], [], []]


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff\xfe", b"[]", b'{"result": {"generation": "many"}}', b'{"error": "no"}', b"{" * 5000],
)
def test_an_answer_that_is_none_changes_nothing(tmp_path: Path, paths: JobPaths, payload: bytes) -> None:
    with daemon(paths, lambda _: payload):
        applied = run(tmp_path, ranks=2, SCRTUNE_JOB_ID="session", SCRTUNE_RUN_DIR=str(paths.base))
    assert applied == [[], []]


def test_the_last_advice_on_disk_serves_when_the_daemon_is_gone(tmp_path: Path, paths: JobPaths) -> None:
    paths.advice.write_bytes(msgspec.json.encode(Advice(generation=3, settings={"SCR_FLUSH": 5})))
    applied = run(tmp_path, SCRTUNE_JOB_ID="session", SCRTUNE_RUN_DIR=str(paths.base))
    assert applied == [[[3, {"SCR_FLUSH": 5}]]] * 3


def test_a_secret_of_the_configuration_is_not_told(tmp_path: Path, paths: JobPaths) -> None:
    with daemon(paths, lambda _: advice(0)) as events:
        run(tmp_path, SCRTUNE_JOB_ID="session", SCRTUNE_RUN_DIR=str(paths.base), SCR_LOG_DB_PASS="hush")  # noqa: S106
    assert not any(b"hush" in msgspec.json.encode(event) for event in events)
