"""A daemon's life: one a node, ended cleanly by a signal, and after a kill it goes on from its journal."""

import contextlib
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import zmq

from scrtune.client.transport import wire
from scrtune.daemon import views
from scrtune.daemon.journal.records import JournalReader
from scrtune.goodput.events import FlushCompleted, JobStarted, OutputCompleted, OutputStarted, StepCompleted
from scrtune.intents.events import Event, EventsLost, SettingsObserved, TraceDigest
from scrtune.intents.pipeline import Pipeline

WaitUntil = Callable[[Callable[[], object]], None]
LINE = b'{"id":1,"name":"write","cat":"POSIX","pid":7,"tid":7,"ts":%d,"dur":5,"ph":"X","args":{"ret":10}}\n'

BEGUN_S = float(int(time.time()) - 1000)  # a daemon does not believe in events of another age

# a job whose redundancy is below what its user declared: the first decision does not wait for evidence
SETTINGS = SettingsObserved(
    settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1},
    sources={"SCR_COPY_TYPE": "user config", "SCR_CACHE_BYPASS": "user config", "SCR_FLUSH": "user config"},
    engine="embedded",
    ranks=4,
    nodes=4,
    floor="XOR",
)


def job(checkpoints: int) -> Iterator[Event]:
    """What an application says: steps of a second, and after each a checkpoint that blocks for a tenth."""
    yield JobStarted(time_s=BEGUN_S, ranks=4, nodes=4)
    yield SETTINGS
    now = BEGUN_S
    for number in range(checkpoints):
        yield StepCompleted(step=number, start_s=now, end_s=now + 1)
        yield OutputStarted(dataset=number, name=f"c{number}", time_s=now + 1, generation=1)
        yield FlushCompleted(dataset=number, start_s=now + 1.05, end_s=now + 1.1, generation=1, bytes=2**20)
        yield OutputCompleted(
            dataset=number,
            name=f"c{number}",
            start_s=now + 1,
            end_s=now + 1.1,
            generation=1,
            bytes=2**20,
            files=4,
            write_s=0.04,
            encode_s=0.01,
            flush_s=0.05,
            flush_due=True,
        )
        now += 1.1


def state(daemon: Any) -> dict[str, Any]:
    """Everything that the daemon shows, but for what belongs to the process alone."""
    status = msgspec.structs.replace(daemon.view("status"), rewrites=0, goodput=0.0)
    # the job goes on while we look: only the closed part of the account can be the same
    account = msgspec.structs.replace(daemon.view("goodput").account, wall_s=0.0, buckets={})
    seen = (
        status,
        daemon.view("explain"),
        account,
        daemon.view("goodput").costs,
        daemon.view("recommendation"),
    )
    return msgspec.json.decode(msgspec.json.encode(seen))


@contextlib.contextmanager
def heard(number: signal.Signals) -> Iterator[None]:
    """Whoever runs the tests may ignore it (a shell does so for its background jobs); children do not."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_a_second_daemon_says_who_runs_already_and_exits_with_4(real_daemon: Any) -> None:
    first = real_daemon.start()
    pid = first.process.pid
    second = subprocess.run(
        [sys.executable, "-m", "scrtune", "daemon", "--job-id", "j"],
        env={"SCRTUNE_RUN_DIR": str(first.paths.base), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 4
    assert second.stderr.startswith("scrtune: ")
    assert f"(pid {pid})" in second.stderr
    assert first.answers()


def test_its_directory_and_sockets_are_the_users_alone(real_daemon: Any) -> None:
    paths = real_daemon.start().paths
    assert stat.S_IMODE(paths.root.stat().st_mode) == 0o700
    for path in (paths.events_socket, paths.control_socket, paths.journal, paths.lock):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_everything_on_disk_and_no_socket_left(
    real_daemon: Any, number: signal.Signals
) -> None:
    daemon = real_daemon
    with heard(number):
        daemon.start()
    told = list(job(5))
    daemon.tell(*told)
    daemon.until_events(len(told))
    assert daemon.end(number) == 0
    assert [event for _, event in JournalReader(daemon.paths.journal)] == told
    assert sorted(path.name for path in daemon.paths.root.iterdir()) == [
        "daemon.lock",
        "decision",
        "journal",
        "scr.conf",
    ]


@contextlib.contextmanager
def flood(endpoint: str) -> Iterator[None]:
    """A sender that pushes lines as fast as they are taken."""
    ended = threading.Event()
    batch = LINE % 1 * 256

    def push() -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(endpoint)
            while not ended.is_set():
                if socket.poll(10, zmq.POLLOUT):
                    with contextlib.suppress(zmq.Again):
                        socket.send(batch, zmq.NOBLOCK)

    thread = threading.Thread(target=push)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_under_full_load_a_signal_ends_it_too_and_what_was_taken_in_is_accounted_for(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start()
    with flood(daemon.paths.events_endpoint):
        wait_until(lambda: daemon.view("status").counters.trace_lines > 20_000)
        assert daemon.end(signal.SIGTERM) == 0
    pipeline = Pipeline()
    for now, event in JournalReader(daemon.paths.journal):
        pipeline.handle(event, now)
    messages = int(daemon.log().rpartition("ended after ")[2].split()[0])
    lost = dict(pipeline.counters.lost)
    lost.pop(views.UNREAD, 0)  # messages that are not among those taken in
    assert pipeline.counters.trace_lines + sum(lost.values()) == messages * 256


def test_a_signal_right_after_the_start_ends_it(real_daemon: Any, wait_until: WaitUntil) -> None:
    process = real_daemon.spawn()
    wait_until(real_daemon.paths.lock.exists)  # by now it hears signals
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert not real_daemon.paths.control_socket.exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_that_is_meant_for_the_application_is_not_heard(
    real_daemon: Any, number: signal.Signals
) -> None:
    daemon = real_daemon.start()
    daemon.process.send_signal(number)
    assert daemon.view("status").running
    assert daemon.end(signal.SIGTERM) == 0


def test_a_signal_while_it_reads_its_journal_leaves_the_journal_as_it_is(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start()
    daemon.tell(*job(500))
    daemon.until_events(2002)
    daemon.end(signal.SIGKILL)
    held = daemon.paths.journal.read_bytes()
    daemon.paths.lock.unlink()
    process = daemon.spawn()
    wait_until(daemon.paths.lock.exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert daemon.paths.journal.read_bytes() == held


def test_killed_and_started_again_it_is_where_it_was(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*job(12))
    daemon.push(wire_lines())
    daemon.until_events(2 + 4 * 12 + 1)  # the last is the digest of the lines
    before = state(daemon)
    assert before[0]["generation"] >= 1
    assert before[0]["checkpoints"] == len(before[3]) == 12
    assert before[1]["decisions"]
    daemon.end(signal.SIGKILL)
    assert daemon.paths.control_socket.exists(), "it was not ended cleanly"
    daemon.start()
    assert "recovered" in daemon.log()
    assert state(daemon) == before
    daemon.tell(StepCompleted(step=100, start_s=BEGUN_S + 900, end_s=BEGUN_S + 901))
    daemon.until_events(before[0]["counters"]["events"] + 1)


def wire_lines() -> bytes:
    return b"".join(LINE % time_us for time_us in range(100))


@pytest.mark.parametrize("heard", [0, 40])
def test_what_was_under_way_to_a_daemon_that_is_killed_is_counted(real_daemon: Any, heard: int) -> None:
    daemon = real_daemon.start()
    steps = [StepCompleted(step=number, start_s=BEGUN_S, end_s=BEGUN_S + 1) for number in range(heard + 20)]
    daemon.push(wire.encode(sender="other", sequence=0, events=(steps[0],)))  # by the same connection
    daemon.tell(*steps[:heard])
    daemon.until_events(1 + heard)
    daemon.process.send_signal(signal.SIGSTOP)
    daemon.tell(*steps[heard:-1])
    daemon.hand_over()  # to the system: nobody has them when that daemon is dead
    daemon.end(signal.SIGKILL)
    daemon.start()
    daemon.tell(steps[-1])
    counters = daemon.until_events(1 + heard + 1 + 1).counters
    assert counters.lost == {"test: messages that never arrived": 19}
    daemon.end(signal.SIGKILL)
    daemon.start()
    daemon.tell(StepCompleted(step=100, start_s=BEGUN_S, end_s=BEGUN_S + 1))
    assert daemon.until_events(1 + heard + 3).counters.lost == counters.lost, "counted once"


def test_nothing_is_shown_that_a_kill_can_take_back_and_all_is_accounted_for(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon, told = real_daemon.start(), 0

    def tell(count: int) -> None:
        nonlocal told
        for _ in range(count):
            daemon.tell(StepCompleted(step=told, start_s=BEGUN_S, end_s=BEGUN_S + 1))
            told += 1

    def accounted() -> int:
        steps = lost = 0
        for _, event in JournalReader(daemon.paths.journal):
            steps += isinstance(event, StepCompleted)
            lost += event.count if isinstance(event, EventsLost) else 0
        return steps + lost

    def is_accounted_for() -> bool:
        tell(1)  # what a kill took is known to be missing by the next message that arrives
        time.sleep(0.1)
        return accounted() == told

    for _ in range(4):
        tell(2000)
        shown = daemon.view("status").counters.events
        daemon.end(signal.SIGKILL)
        daemon.start()
        assert daemon.view("status").counters.events >= shown
    wait_until(is_accounted_for)


def test_a_long_job_goes_on_from_a_snapshot(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start()
    told = list(job(1100))
    daemon.tell(*told)
    daemon.until_events(len(told))
    wait_until(daemon.paths.snapshot.exists)
    before = state(daemon)
    assert before[1]["decisions"]
    daemon.end(signal.SIGKILL)
    daemon.start()
    recovered = re.search(r"recovered (\d+) events, (\d+) of them from the journal", daemon.log())
    assert recovered is not None
    assert int(recovered[1]) == len(told)
    assert int(recovered[2]) < len(told) - 4000
    assert state(daemon) == before
    assert [event for _, event in JournalReader(daemon.paths.journal)] == told


def test_a_torn_journal_costs_its_tail_and_is_told(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*job(3))
    daemon.until_events(14)
    daemon.end(signal.SIGKILL)
    whole = daemon.paths.journal.read_bytes()
    reader, end = JournalReader(daemon.paths.journal), 0
    for _ in reader:
        end = reader.recovered.end  # of this event; behind the last one is only who sent it
    daemon.paths.journal.write_bytes(whole[: end - 5])
    daemon.start()
    assert "the journal ended in half a record; it was cut there" in daemon.log()
    assert daemon.view("status").counters.events == 13
    assert daemon.paths.journal.stat().st_size < len(whole)


def test_a_file_that_is_no_journal_is_moved_aside(real_daemon: Any) -> None:
    real_daemon.paths.create().journal.write_text("a shopping list")
    daemon = real_daemon.start()
    assert daemon.paths.journal.with_suffix(".unreadable").read_text() == "a shopping list"
    assert "not a journal of this version" in daemon.log()
    assert daemon.view("status").counters.events == 0


def test_what_the_journal_holds_gives_the_views_that_were_shown_live(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*job(30))
    daemon.push(wire_lines())
    daemon.until_events(2 + 4 * 30 + 1)
    live = daemon.view("explain"), daemon.view("goodput").costs, daemon.view("status").counters
    assert daemon.end(signal.SIGTERM) == 0
    pipeline = Pipeline()
    for now, event in JournalReader(daemon.paths.journal):
        pipeline.handle(event, now)
    replayed = views.explain_view(pipeline), views.goodput_view(pipeline, 0.0).costs, pipeline.counters
    assert msgspec.json.encode(replayed) == msgspec.json.encode(live)
    assert live[0].decisions
    assert len(live[1]) == 30


JUMPING = """
import sys, time
from pathlib import Path
from scrtune.client.paths import JobPaths
from scrtune.daemon.loop import Daemon
from scrtune.daemon.options import DaemonOptions

paths, calls = JobPaths.of("j", base=Path(sys.argv[1])), iter(range(10**9))
clock = lambda: time.time() - 3600 * min(999, next(calls) // 5)
Daemon(DaemonOptions(paths=paths, scr_conf=paths.scr_conf), clock).run()
"""


def test_a_clock_that_jumps_back_by_hours_holds_nothing_up(real_daemon: Any, wait_until: WaitUntil) -> None:
    real_daemon.process = subprocess.Popen([sys.executable, "-c", JUMPING, str(real_daemon.paths.base)])
    wait_until(real_daemon.answers)
    real_daemon.tell(*job(3))
    real_daemon.push(wire_lines())
    wait_until(
        lambda: real_daemon.view("status").counters.trace_lines == 100
    )  # a tick: it was not slept away
    stamps = [now for now, _ in JournalReader(real_daemon.paths.journal)]
    assert min(stamps) < stamps[0] - 3600, "the clock did jump"
    assert real_daemon.end(signal.SIGTERM) == 0


def test_without_a_run_directory_it_says_what_to_do_and_exits_with_5(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    ran = subprocess.run(
        [sys.executable, "-m", "scrtune", "daemon", "--job-id", "j"],
        env={"SCRTUNE_RUN_DIR": str(long), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 5
    assert "set SCRTUNE_RUN_DIR to a shorter directory" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_on_a_full_disk_it_lives_counts_and_goes_on_when_there_is_room(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start()
    told = list(job(3))
    daemon.tell(*told)
    daemon.until_events(len(told))
    process = psutil.Process(daemon.process.pid)
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (daemon.paths.journal.stat().st_size + 10, hard))
    for step in range(20):
        daemon.tell(StepCompleted(step=step, start_s=0.0, end_s=1.0))
        daemon.until_events(len(told) + step + 1)
    wait_until(lambda: daemon.view("status").journal_lost == 20)
    assert daemon.log().count("the journal cannot be written (File too large)") == 1
    assert [event for _, event in JournalReader(daemon.paths.journal)] == told
    process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))
    last = StepCompleted(step=20, start_s=0.0, end_s=1.0)
    daemon.tell(last)
    daemon.until_events(len(told) + 21)
    assert daemon.end(signal.SIGTERM) == 0
    written = [event for _, event in JournalReader(daemon.paths.journal)]
    assert written[: len(told)] == told
    assert set(written[len(told) :]) == {last, EventsLost(source="journal", count=20)}


def test_a_job_is_unheard_until_its_application_has_spoken(real_daemon: Any, wait_until: WaitUntil) -> None:
    """Till then an application that ends waits longer for its daemon; what forwards its traces is not it."""
    unheard = real_daemon.paths.create().unheard
    unheard.touch()
    real_daemon.start()
    real_daemon.tell(TraceDigest(lines=1, events=1))
    real_daemon.until_events(1)
    assert unheard.exists()
    real_daemon.tell(JobStarted(time_s=BEGUN_S))
    wait_until(lambda: not unheard.exists())
