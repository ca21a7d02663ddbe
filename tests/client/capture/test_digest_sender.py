"""DFTracer's lines on their way to the daemon as digests: the sums of exactly those lines."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.client.capture.digest_sender import DigestSender
from scrtune.client.capture.environment import Mode, capture_environment
from scrtune.client.capture.forward import Forwarder, forward
from scrtune.client.libscr.library import libscrtune_path
from scrtune.client.paths import FIRST_ONLY, host_name
from scrtune.daemon.journal.records import JournalReader
from scrtune.intents.events import Event, TraceDigest

from ...support.ear import Ear

WaitUntil = Callable[[Callable[[], object]], None]
Sums = Counter[tuple[str, str, int]]
"""Accesses by tier, operation and size."""

TIERS = {"/job/prefix": "prefix", "/job/cache": "cache"}
PATHS = ("/job/prefix/a", "/job/cache/b", "/job/prefix/.scr/c", "/elsewhere/d")
DATA = Path(__file__).parents[2] / "data" / "traces" / "gen4-python-fork-plain"


def line(**fields: object) -> bytes:
    return json.dumps({"pid": 7, "tid": 7, **fields}, separators=(",", ":")).encode() + b"\n"


def explained(paths: Iterable[str] = PATHS) -> bytes:
    """The lines that explain what the hashes of the files stand for."""
    return b"".join(
        line(name="FH", cat="dftracer", ph=4, args={"hhash": "aa", "name": path, "value": f"f{number}"})
        for number, path in enumerate(paths)
    )


def accesses(start: int, stop: int) -> bytes:
    """Reads and writes of many sizes, of all files in turn."""
    return b"".join(
        line(
            id=number,
            name=("write", "read")[number % 3 == 0],
            cat="POSIX",
            ts=1_795_252_232_000_000 + number,
            dur=3,
            ph=1,
            args={"hhash": "aa", "ret": number % 17, "fhash": f"f{number % 4}"},
        )
        for number in range(start, stop)
    )


def independent(lines: bytes, tiers: dict[str, str]) -> Sums:
    """The reads and writes in `lines`, read with the json module."""
    found: list[dict[str, Any]] = []
    for text in lines.splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(text.strip().rstrip(b",")))
    names = {each["args"]["value"]: each["args"]["name"] for each in found if each["name"] == "FH"}
    moves = [each for each in found if each.get("cat") == "POSIX" and each["name"] in {"read", "write"}]
    return Counter(
        (tier_of(names.get(each["args"]["fhash"], ""), tiers), each["name"], each["args"]["ret"])
        for each in moves
    )


def tier_of(path: str, tiers: dict[str, str]) -> str:
    held = [directory for directory in tiers if path.startswith(f"{directory}/")]
    if not held:
        return "other"
    return "scr" if "/.scr/" in path else tiers[max(held, key=len)]


def summed(events: Iterable[Event]) -> Sums:
    """The reads and writes in the digests among `events`."""
    sums: Sums = Counter()
    for event in events:
        for access in event.accesses if isinstance(event, TraceDigest) else ():
            if access.op in {"read", "write"}:
                sums.update({(access.tier, access.op, size): count for size, count in access.sizes.items()})
    return sums


def lines_in(events: Iterable[Event]) -> int:
    return sum(event.lines for event in events if isinstance(event, TraceDigest))


@pytest.fixture
def digests(endpoint: str) -> Iterator[DigestSender]:
    digests = DigestSender(endpoint, TIERS)
    yield digests
    digests.close()


@contextlib.contextmanager
def forwarding(log_prefix: Path, endpoint: str, tiers: dict[str, str]) -> Iterator[None]:
    """A forwarder beside the block, ended after it."""
    stopped, stop = os.pipe()

    def ended(seconds: float, *fds: int) -> bool:
        return stopped in select.select([stopped, *fds], [], [], seconds)[0]

    thread = threading.Thread(target=lambda: forward(log_prefix, endpoint, ended, tiers=tiers))
    thread.start()
    try:
        yield
    finally:
        os.close(stop)
        thread.join()
        os.close(stopped)


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


# ---- what arrives


def test_the_sums_of_a_growing_file_are_those_of_its_lines(
    tmp_path: Path, digests: DigestSender, ear: Ear
) -> None:
    ear.listen()
    whole = accesses(0, 3000) + explained() + accesses(3000, 6000) + b"\n[\n{torn\n"
    forwarder = Forwarder(tmp_path / "app", digests)
    for start in range(0, len(whole), 100_003):
        append(tmp_path / "app-1.pfw", whole[start : start + 100_003])
        forwarder.scan()
        forwarder.poll()
    forwarder.drain()
    while lines_in(ear.events) < 6000 + len(PATHS) + 1:
        ear.hear_message()
    assert summed(ear.events) == independent(whole, TIERS)
    assert ear.hears_nothing()
    last = [event for event in ear.events if isinstance(event, TraceDigest)][-1]
    assert last.dropped == {"broken json": 1}
    assert {sender for sender, _ in ear.messages} == {f"forward:{host_name()}"}
    forwarder.close()


def test_the_files_of_a_real_job_give_its_sums(tmp_path: Path, endpoint: str, ear: Ear) -> None:
    ear.listen()
    tiers = {"/scratch/study/data": "prefix"}
    content = b""
    with forwarding(tmp_path / "app", endpoint, tiers):
        for path in sorted(DATA.iterdir()):
            append(tmp_path / path.name, path.read_bytes())
            content += path.read_bytes() + b"\n"
        while summed(ear.events).total() < independent(content, tiers).total():
            ear.hear_message()
    assert summed(ear.events) == independent(content, tiers)
    processes = {process for event in ear.events for process in getattr(event, "processes", ())}
    assert {host for host, _ in processes} == {"vm"}
    assert len(processes) == 3


class TestProcessesThatDoTheSame:
    """Only the first rank of a node is traced from then on, and stands for them all."""

    @pytest.fixture
    def forwarder(self, tmp_path: Path, digests: DigestSender, ear: Ear) -> Iterator[Forwarder]:
        ear.listen()
        forwarder = Forwarder(tmp_path / "app", digests)
        yield forwarder
        forwarder.close()

    def forward(self, forwarder: Forwarder, ear: Ear, **processes: bytes) -> TraceDigest:
        """Forward lines of processes, and return the digest that they become."""
        for name, content in processes.items():
            append(forwarder.prefix.with_name(f"app-{name}.pfw"), content)
        forwarder.drain()
        while True:
            (digest,) = ear.hear(1)
            if isinstance(digest, TraceDigest) and digest.events:
                return digest

    def test_one_is_traced_until_the_daemon_wants_all(self, forwarder: Forwarder, ear: Ear) -> None:
        first_only = forwarder.prefix.with_name(FIRST_ONLY)
        ours, theirs = accesses(0, 60), accesses(0, 60).replace(b'"pid":7', b'"pid":8')
        assert self.forward(forwarder, ear, first=explained() + ours, second=explained() + theirs).alike == 1
        assert first_only.read_text() == "2\n"
        assert self.forward(forwarder, ear, first=ours).alike == 2
        first_only.unlink()  # a new kind of output
        assert self.forward(forwarder, ear, first=ours + ours, second=theirs).alike == 1
        assert not first_only.exists(), "what one of them did while it alone was traced does not count"

    def test_all_are_traced_again_when_another_was_late(self, forwarder: Forwarder, ear: Ear) -> None:
        first_only = forwarder.prefix.with_name(FIRST_ONLY)
        ours, theirs, late = (accesses(0, 60).replace(b'"pid":7', b'"pid":%d' % pid) for pid in (7, 8, 9))
        self.forward(forwarder, ear, first=explained() + ours, second=explained() + theirs)
        assert first_only.exists()
        self.forward(forwarder, ear, third=late[: len(late) // 2])
        forwarder.drain()
        assert not first_only.exists()

    def test_all_are_traced_where_they_differ(self, forwarder: Forwarder, ear: Ear) -> None:
        ours, theirs = accesses(0, 60), accesses(0, 90).replace(b'"pid":7', b'"pid":8')
        self.forward(forwarder, ear, first=ours, second=theirs)
        assert not forwarder.prefix.with_name(FIRST_ONLY).exists()

    def test_a_forwarder_that_is_started_anew_knows_it(
        self, forwarder: Forwarder, endpoint: str, ear: Ear
    ) -> None:
        ours, theirs = accesses(0, 60), accesses(0, 60).replace(b'"pid":7', b'"pid":8')
        self.forward(forwarder, ear, first=explained() + ours, second=explained() + theirs)
        again = Forwarder(forwarder.prefix, DigestSender(endpoint, TIERS))
        assert self.forward(again, ear, first=ours).alike == 2
        again.close()


def test_accesses_to_files_that_no_line_explains_are_given_up_last(digests: DigestSender, ear: Ear) -> None:
    ear.listen()
    digests.add(accesses(0, 8))
    assert digests.send(0)
    (early,) = ear.hear(1)
    assert summed([early]) == Counter()
    assert digests.send(0, final=True)
    (late,) = ear.hear(1)
    assert isinstance(late, TraceDigest)
    assert late.unresolved == 8
    assert summed([late]) == independent(accesses(0, 8), TIERS)


def test_nothing_is_sent_when_there_is_nothing(digests: DigestSender, ear: Ear) -> None:
    ear.listen()
    assert digests.send(0)
    assert digests.send(0, final=True)
    assert ear.hears_nothing()


def test_what_was_learnt_explains_and_counts_nowhere(digests: DigestSender, ear: Ear) -> None:
    ear.listen()
    digests.learn(explained() + accesses(0, 100))
    assert digests.send(0)
    digests.add(accesses(100, 200))
    assert digests.send(0)
    (only,) = ear.hear(1)
    assert lines_in([only]) == 100
    assert summed([only]) == independent(explained() + accesses(100, 200), TIERS)


# ---- when the daemon is away


def test_digests_wait_while_nobody_listens_but_not_without_bound(digests: DigestSender, ear: Ear) -> None:
    digests.add(explained())
    digests.send(0)
    taken = 0
    while digests.add(accesses(taken, taken + 1)):
        digests.send(0)
        taken += 1
        assert taken < 1000
    assert taken > 0
    ear.listen()
    while not digests.send(0):
        ear.hear_message()
    assert digests.add(accesses(taken, taken + 1))
    assert digests.send(0)
    while lines_in(ear.events) < len(PATHS) + taken + 1:
        ear.hear_message()
    assert summed(ear.events) == independent(explained() + accesses(0, taken + 1), TIERS)
    assert [number for _, number in ear.messages] == list(range(len(ear.messages)))


def test_lines_that_were_dropped_reach_the_daemon_as_lost(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start()
    name = f"forward:{host_name()}: dropped, its queue was full"
    with contextlib.closing(DigestSender(daemon.paths.events_endpoint, TIERS)) as digests:
        digests.add(explained())
        digests.send(3)
        wait_until(lambda: daemon.view("status").counters.lost == {name: 3})
        digests.send(5)  # though no line came since
        wait_until(lambda: daemon.view("status").counters.lost == {name: 5})


def digests_in(daemon: Any) -> list[Event]:
    """The digests in the journal of a daemon that has ended."""
    return [event for _, event in JournalReader(daemon.paths.journal)]


def test_a_daemon_that_is_killed_and_restarted_gets_each_line_once(
    tmp_path: Path, real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start()
    file = tmp_path / "app-1.pfw"

    def counted() -> int:
        return int(daemon.view("status").counters.trace_lines)

    with forwarding(tmp_path / "app", daemon.paths.events_endpoint, TIERS):
        append(file, explained() + accesses(0, 1000))
        wait_until(lambda: counted() == 1004)
        wait_until(lambda: daemon.paths.journal.stat().st_size > 0)
        daemon.end(signal.SIGKILL)
        for start in range(1000, 4000, 100):
            append(file, accesses(start, start + 100))
        daemon.start()
        append(file, accesses(4000, 5000))
        wait_until(lambda: counted() == 5004)
    daemon.end(signal.SIGTERM)
    assert summed(digests_in(daemon)) == independent(explained() + accesses(0, 5000), TIERS)


def test_a_forwarder_that_is_killed_and_restarted_sends_each_line_once(
    tmp_path: Path, real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start()
    file = tmp_path / "app-1.pfw"
    environment = {**os.environ, "SCR_PREFIX": "/job/prefix", "SCR_CACHE_BASE": "/job/cache"}
    named = [str(tmp_path / "app"), daemon.paths.events_endpoint]
    command = [sys.executable, "-m", "scrtune", "forward", *named]
    append(file, explained())
    for start, number in ((0, signal.SIGKILL), (10_000, signal.SIGKILL), (20_000, signal.SIGTERM)):
        append(file, accesses(start, start + 10_000))
        size, lines = file.stat().st_size, len(PATHS) + start + 10_000
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            wait_until(lambda size=size: size in marked(tmp_path / "app.sent"))
            # what is marked is in ZeroMQ's hands, and may still be lost with the process
            wait_until(lambda lines=lines: daemon.view("status").counters.trace_lines == lines)
            process.send_signal(number)
    status = daemon.view("status").counters
    assert (status.unresolved, status.dropped, status.lost) == (0, {}, {})
    daemon.end(signal.SIGTERM)
    assert summed(digests_in(daemon)) == independent(explained() + accesses(0, 30_000), TIERS)


def marked(path: Path) -> list[int]:
    """How far the forwarder has sent its files."""
    return list(msgspec.json.decode(path.read_bytes(), type=dict[str, int]).values()) if path.exists() else []


# ---- a real DFTracer

APPLICATION = """
import os, sys, time
from pathlib import Path
from mpi4py import MPI
from scrtune.client.capture.gate import TraceGate
if os.environ["DFTRACER_INIT"] == "FUNCTION":
    from dftracer.python import dftracer
    log = dftracer.initialize_log(logfile=None, data_dir=None, process_id=-1)
rank = MPI.COMM_WORLD.rank
data, go = Path(sys.argv[1]), Path(sys.argv[2])
gate = TraceGate(str(data))
def write(sizes):
    gate.open()
    fd = os.open(data / f"rank{rank}.ckpt", os.O_WRONLY | os.O_CREAT)
    for size in sizes:
        os.write(fd, b"x" * (rank * 1000 + size))
    os.close(fd)
    gate.close()
    gate.deliver()
write(range(1, 101))
deadline = time.monotonic() + 60
while not go.exists() and time.monotonic() < deadline:
    time.sleep(0.005)
write(range(101, 201))
if os.environ["DFTRACER_INIT"] == "FUNCTION":
    log.finalize()
"""


@pytest.mark.mpi
@pytest.mark.parametrize(("mode", "gated"), [("preload", False), ("preload", True), ("function", False)])
def test_a_real_mpi_job_under_dftracer_is_followed_live(
    endpoint: str, ear: Ear, tmp_path: Path, mode: Mode, gated: bool
) -> None:
    if gated and libscrtune_path() is None:
        pytest.skip("libscrtune.so was not built")
    ear.listen()
    data, traces, go = tmp_path / "data", tmp_path / "traces", tmp_path / "go"
    for directory in (data, traces):
        directory.mkdir()
    tiers = {str(data): "prefix"}
    environment = capture_environment(traces / "app", [data], mode, os.environ, gated=gated)
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [mpiexec, "-n", "2", sys.executable, "-c", APPLICATION, data, go]
    with forwarding(traces / "app", endpoint, tiers):
        with subprocess.Popen(command, env={**os.environ, **environment}, cwd=tmp_path) as job:
            while summed(ear.events).total() < 200:
                ear.hear_message()
            assert job.poll() is None, "the job's writes are heard while it runs"
            go.touch()
        assert job.returncode == 0
        while summed(ear.events).total() < 400:
            ear.hear_message()
    sizes = [rank * 1000 + size for rank in (0, 1) for size in range(1, 201)]
    assert summed(ear.events) == Counter({("prefix", "write", size): 1 for size in sizes})
    written = b"".join(path.read_bytes() for path in traces.glob("app-*.pfw"))
    assert independent(written, tiers) == summed(ear.events)
