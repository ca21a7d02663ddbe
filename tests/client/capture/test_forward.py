"""DFTracer's files on their way to the daemon: every line exactly once, whatever happens to the files."""

import contextlib
import errno
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.capture.environment import Mode, capture_environment
from scrtune.client.capture.follow import FollowedFile, ForwardCounts, first_lines
from scrtune.client.capture.forward import Forwarder, forward
from scrtune.client.transport import wire

PATIENCE_S = 20.0
MIB = 1024 * 1024


class Sink:
    """A daemon's ear: a PULL socket, and the envelopes that came in by it."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self.socket = socket
        self.envelopes: list[wire.Envelope] = []

    @property
    def heard(self) -> bytes:
        return b"".join(envelope.lines for envelope in self.envelopes)

    def take(self, size: int) -> bytes:
        """The next `size` bytes of lines."""
        start = len(self.heard)
        while len(self.heard) < start + size:
            assert self.socket.poll(int(PATIENCE_S * 1000)), f"only {self.heard[start:]!r} came"
            envelope = wire.decode(self.socket.recv()).envelope
            assert envelope is not None
            self.envelopes.append(envelope)
        return self.heard[start:]


StartSink = Callable[[], Sink]


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path / 'events.sock'}"


@pytest.fixture
def start_sink(endpoint: str) -> Iterator[StartSink]:
    """Call it to have somebody listen at the endpoint, now."""
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())

        def start() -> Sink:
            socket = stack.enter_context(context.socket(zmq.PULL))
            socket.setsockopt(zmq.RCVHWM, 1)
            socket.bind(endpoint)
            return Sink(socket)

        yield start


@pytest.fixture
def sink(start_sink: StartSink) -> Sink:
    return start_sink()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Where the files are."""
    (tmp_path / "traces").mkdir()
    return tmp_path / "traces"


@pytest.fixture
def forwarder(traces: Path, endpoint: str) -> Iterator[Forwarder]:
    forwarder = Forwarder(traces / "app", endpoint)
    yield forwarder
    forwarder.close(0.0)


def work(forwarder: Forwarder) -> int:
    """Rounds, each with a look at the files, until one sends nothing. Returns the lines sent."""
    total = 0
    forwarder.scan()
    while sent := forwarder.poll():
        total += sent
        forwarder.scan()
    return total


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def numbered(start: int, stop: int) -> bytes:
    return b"".join(b'{"id":%d}\n' % number for number in range(start, stop))


def test_lines_arrive_once_and_in_order_as_the_file_grows(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    file = traces / "app-1-preload.pfw"
    for start in range(0, 30, 10):
        append(file, numbered(start, start + 10))
        assert work(forwarder) == 10
        assert sink.take(len(numbered(start, start + 10))) == numbered(start, start + 10)
    assert work(forwarder) == 0
    sender = f"forward:{socket.gethostname().split('.')[0]}"
    assert [(e.sender, e.sequence, e.dropped) for e in sink.envelopes] == [
        (sender, 0, 0),
        (sender, 1, 0),
        (sender, 2, 0),
    ]


def test_the_files_of_all_processes_are_followed_also_those_that_appear_later(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    append(traces / "app-1-app.pfw", b"one\n")
    append(traces / "app-2-fork.pfw", b"two\n")
    assert work(forwarder) == 2
    append(traces / "app-3-preload.pfw", b"three\n")
    assert work(forwarder) == 1
    assert sorted(sink.take(len(b"onetwothree\n\n\n")).split()) == [b"one", b"three", b"two"]
    assert len(sink.envelopes) == 2


def test_the_directory_may_appear_later(tmp_path: Path, endpoint: str, sink: Sink) -> None:
    forwarder = Forwarder(tmp_path / "later" / "app", endpoint)
    assert work(forwarder) == 0
    (tmp_path / "later").mkdir()
    append(tmp_path / "later" / "app-1.pfw", b"one\n")
    assert work(forwarder) == 1
    forwarder.close(0.0)


def test_what_is_not_ours_is_left_alone(traces: Path, forwarder: Forwarder) -> None:
    append(traces / "other-1.pfw", b"x\n")
    append(traces / "app-1.txt", b"x\n")
    append(traces / "application-1.pfw", b"x\n")
    os.mkfifo(traces / "app-fifo.pfw")
    (traces / "app-directory.pfw").mkdir()
    (traces / "app-dangling.pfw").symlink_to("nowhere")
    assert work(forwarder) == 0
    assert forwarder.counts.unreadable == 0


def test_compressed_files_are_counted_once_and_ignored(traces: Path, forwarder: Forwarder) -> None:
    append(traces / "app-1.pfw.gz", b"x\n")
    append(traces / "app-2.pfw.gz", b"x\n")
    assert work(forwarder) + work(forwarder) == 0
    assert forwarder.counts.compressed_files == 2


def test_a_torn_line_is_held_until_its_newline(traces: Path, forwarder: Forwarder, sink: Sink) -> None:
    file = traces / "app-1.pfw"
    append(file, b"whole\nto")
    assert work(forwarder) == 1
    append(file, b"r")
    assert work(forwarder) == 0
    append(file, b"n\n")
    assert work(forwarder) == 1
    assert sink.take(len(b"whole\ntorn\n")) == b"whole\ntorn\n"


def test_at_the_end_a_line_without_newline_is_sent_as_it_is(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    append(traces / "app-1.pfw", b"one\n{torn")
    append(traces / "app-2.pfw", b"{also torn")
    forwarder.drain()
    assert sink.take(len(b"one\n{torn{also torn")).startswith(b"one\n")
    assert {e.lines for e in sink.envelopes} == {b"one\n", b"{torn", b"{also torn"}
    assert forwarder.counts.lines == 3
    assert forwarder.lag_bytes() == 0


def test_a_deleted_file_is_followed_while_it_may_be_written_to(
    traces: Path, endpoint: str, sink: Sink
) -> None:
    forwarder = Forwarder(traces / "app", endpoint, deleted_quiet_s=PATIENCE_S)
    file = traces / "app-1.pfw"
    with file.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        forwarder.scan()
        file.unlink()
        writer.write(b"two\n")
        assert work(forwarder) == 2
        writer.write(b"three\nre")
        assert work(forwarder) == 1
    assert forwarder.files == (file,)
    assert sink.take(len(b"one\ntwo\nthree\n")) == b"one\ntwo\nthree\n"
    forwarder.close(0.0)


def test_a_deleted_file_that_is_quiet_is_read_to_its_end_and_closed(
    traces: Path, endpoint: str, sink: Sink
) -> None:
    forwarder = Forwarder(traces / "app", endpoint, deleted_quiet_s=-1.0)
    append(traces / "app-1.pfw", b"one\ntwo\nrest")
    forwarder.scan()
    (traces / "app-1.pfw").unlink()
    work(forwarder)
    assert sink.take(len(b"one\ntwo\nrest")) == b"one\ntwo\nrest"
    assert forwarder.files == ()
    forwarder.close(0.0)


def test_a_file_that_is_renamed_is_followed_on_and_its_successor_too(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    file = traces / "app-1.pfw"
    with file.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        assert work(forwarder) == 1
        writer.write(b"two\n")
        file.rename(traces / "app-1.pfw.old")
        append(file, b"three\n")
        assert work(forwarder) == 2
        writer.write(b"four\n")
        append(file, b"five\n")
        assert work(forwarder) == 2
    assert sorted(sink.take(len(b"onetwothreefourfive\n\n\n\n\n")).split()) == [
        b"five",
        b"four",
        b"one",
        b"three",
        b"two",
    ]


def test_a_file_renamed_within_the_pattern_is_not_sent_twice(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    append(traces / "app-1.pfw", b"one\n")
    assert work(forwarder) == 1
    (traces / "app-1.pfw").rename(traces / "app-1-old.pfw")
    (traces / "app-link.pfw").hardlink_to(traces / "app-1-old.pfw")
    assert work(forwarder) == 0


def test_a_truncated_file_is_read_from_its_start_again(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    file = traces / "app-1.pfw"
    append(file, numbered(0, 10))
    work(forwarder)
    file.write_bytes(b"new\n")
    assert work(forwarder) == 1
    assert sink.take(len(numbered(0, 10) + b"new\n")) == numbered(0, 10) + b"new\n"
    assert forwarder.counts.truncated == 1


def test_envelopes_are_bounded_and_filled(traces: Path, forwarder: Forwarder, sink: Sink) -> None:
    append(traces / "app-1.pfw", numbered(0, 1000))
    append(traces / "app-2.pfw", b"x" * 999 * 50 + b"\n")
    append(traces / "app-3.pfw", (b"y" * 999 + b"\n") * 400)
    sent = work(forwarder)
    assert sent == 1401
    sink.take(sum(path.stat().st_size for path in traces.iterdir()))
    sizes = [(envelope.lines.count(b"\n"), len(envelope.lines)) for envelope in sink.envelopes]
    assert max(lines for lines, _ in sizes) == 256
    assert max(size for _, size in sizes) <= 128 * 1024
    assert len(sizes) < 16


def test_one_flooding_file_does_not_keep_the_others_waiting(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    append(traces / "app-1.pfw", numbered(0, 5000))
    append(traces / "app-2.pfw", b"quiet\n")
    forwarder.scan()
    forwarder.poll()
    sink.take(2 * 256 * len(b'{"id":1}\n'))
    assert b"quiet\n" in sink.heard


def test_a_long_line_is_sent_whole(traces: Path, forwarder: Forwarder, sink: Sink) -> None:
    long = b"x" * 300_000 + b"\n"
    append(traces / "app-1.pfw", b"before\n" + long + b"after\n")
    assert work(forwarder) == 3
    assert sink.take(len(b"before\n" + long + b"after\n")) == b"before\n" + long + b"after\n"


def test_a_line_beyond_all_measure_is_dropped_and_counted(
    traces: Path, forwarder: Forwarder, sink: Sink
) -> None:
    file = traces / "app-1.pfw"
    append(file, b"before\n" + b"x" * (2 * MIB + 7))
    assert work(forwarder) == 1
    append(file, b"y" * MIB)
    assert work(forwarder) == 0
    append(file, b"y\nafter\n")
    assert work(forwarder) == 1
    assert sink.take(len(b"before\nafter\n")) == b"before\nafter\n"
    assert sink.envelopes[-1].dropped == forwarder.counts.dropped == 1


def test_while_nobody_listens_the_lines_wait_in_the_file(
    traces: Path, forwarder: Forwarder, start_sink: StartSink
) -> None:
    lines = numbered(0, 40_000)
    append(traces / "app-1.pfw", lines)
    before = work(forwarder)
    assert 0 < before < 40_000
    assert forwarder.lag_bytes() > 0
    sink = start_sink()
    stopped = threading.Event()
    thread = threading.Thread(target=forwarder.run, args=(stopped.is_set,))
    thread.start()
    try:
        assert sink.take(len(lines)) == lines
    finally:
        stopped.set()
        thread.join()
    assert forwarder.counts.lines == 40_000
    assert sink.envelopes[-1].dropped == 0


def test_too_long_a_lag_is_cut_at_a_line_and_counted(
    traces: Path, endpoint: str, start_sink: StartSink
) -> None:
    forwarder = Forwarder(traces / "app", endpoint, lag_limit_bytes=MIB)
    file = traces / "app-1.pfw"
    append(file, numbered(0, 100_000))
    work(forwarder)
    append(file, numbered(100_000, 200_000) + b'{"id":"torn')
    work(forwarder)
    append(file, b'"}\n')
    sink = start_sink()
    while forwarder.counts.lines + forwarder.counts.dropped < 200_001:
        work(forwarder)
        while sink.socket.poll(1):
            envelope = wire.decode(sink.socket.recv()).envelope
            assert envelope is not None
            sink.envelopes.append(envelope)
    forwarder.close(PATIENCE_S)
    while b'"torn"' not in sink.heard:
        sink.take(1)
    received = sink.heard.splitlines()
    assert forwarder.counts.dropped > 50_000
    assert len(received) + forwarder.counts.dropped == 200_001
    assert sink.envelopes[-1].dropped == forwarder.counts.dropped
    ids = [msgspec.json.decode(line)["id"] for line in received]  # whole lines, all of them
    assert ids[-2:] == [199_999, "torn"]
    assert len(set(ids)) == len(ids)


def test_a_file_that_fails_does_not_affect_the_others(
    traces: Path, forwarder: Forwarder, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(traces / "app-1.pfw", b"one\n")
    append(traces / "app-2.pfw", b"two\n")
    append(traces / "app-3.pfw", b"three\n")
    pread = os.pread

    def failing(fd: int, size: int, offset: int) -> bytes:
        if os.path.sameopenfile(fd, bad.fileno()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, size, offset)

    with (traces / "app-2.pfw").open("rb") as bad:
        monkeypatch.setattr(os, "pread", failing)
        forwarder.scan()
        assert forwarder.poll() == 2
    assert forwarder.counts.unreadable == 1
    monkeypatch.undo()
    assert work(forwarder) == 1  # and when it is well again it is read
    assert sorted(sink.take(len(b"onetwothree\n\n\n")).split()) == [b"one", b"three", b"two"]


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[Path]:
    """A directory on tmpfs, as in a real run, or else wherever temporary files are."""
    shared_memory = Path("/dev/shm")  # noqa: S108
    parent = shared_memory if os.access(shared_memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        yield Path(directory)


def test_what_was_sent_is_given_back_to_the_file_system(roomy: Path, endpoint: str, sink: Sink) -> None:
    forwarder = Forwarder(roomy / "app", endpoint, reclaim=True)
    file = roomy / "app-1.pfw"
    lines = (b"x" * 1023 + b"\n") * 4096
    append(file, lines)
    occupied = file.stat().st_blocks
    stopped = threading.Event()
    thread = threading.Thread(target=forwarder.run, args=(stopped.is_set,))
    thread.start()
    try:
        assert sink.take(len(lines)) == lines
    finally:
        stopped.set()
        thread.join()
    assert forwarder.counts.reclaim_error == ""
    assert file.stat().st_size == len(lines)
    assert file.stat().st_blocks * 512 <= occupied * 512 - 3 * MIB
    append(file, b"more\n")
    assert work(forwarder) == 1
    forwarder.close(0.0)


def test_a_file_that_takes_no_holes_is_remembered_and_harmless(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with contextlib.closing(FollowedFile(tmp_path / "pipe", counts := ForwardCounts(), reclaim=True)) as file:
        file.advance(MIB)
        assert counts.reclaim_error == f"{tmp_path / 'pipe'}: {os.strerror(errno.ESPIPE)}"
        counts.reclaim_error = ""
        file.advance(MIB)
    assert counts.reclaim_error == "", "it is not tried again"


@given(chunks=st.lists(st.binary(max_size=40).map(lambda chunk: chunk.replace(b"a", b"\n")), max_size=30))
def test_however_a_file_grows_whole_lines_come_out(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("grow") / "app-1.pfw"
    path.touch()
    seen = b""
    with contextlib.closing(FollowedFile(path, ForwardCounts())) as file:
        for chunk in chunks:
            append(path, chunk)
            while part := file.lines(2):
                assert part.endswith(b"\n")
                assert part.count(b"\n") <= 2
                file.advance(len(part))
                seen += part
        assert seen + file.rest() == b"".join(chunks)
        assert b"\n" not in file.rest()


@given(
    lines=st.lists(st.binary(max_size=5).map(lambda line: line.replace(b"\n", b"")), min_size=1),
    most=st.integers(1, 12),
)
def test_first_lines_are_the_first_lines(lines: list[bytes], most: int) -> None:
    chunk = b"".join(line + b"\n" for line in lines)
    assert first_lines(chunk, most) == b"".join(line + b"\n" for line in lines[:most])


@given(
    lines=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    targets=st.lists(st.integers(0, 300), max_size=3),
)
def test_what_is_skipped_and_what_is_read_make_the_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], targets: list[int]
) -> None:
    path = tmp_path_factory.mktemp("skip") / "app-1.pfw"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    read: list[bytes] = []
    with contextlib.closing(FollowedFile(path, counts := ForwardCounts())) as file:
        for target in [*sorted(targets), 0]:
            file.skip_to(target)
            part = file.lines(3)
            file.advance(len(part))
            read += part.split(b"\n")[:-1]
        while part := file.lines(1000):
            file.advance(len(part))
            read += part.split(b"\n")[:-1]
    assert len(read) + counts.dropped == len(lines)
    remaining = iter(lines)
    assert all(line in remaining for line in read)  # in order, and nothing that is not a line


SINK = """
import sys, zmq
socket = zmq.Context().socket(zmq.PULL)
socket.bind(sys.argv[1])
with open(sys.argv[2], "ab", buffering=0) as out:
    while True:
        message = socket.recv()
        out.write(len(message).to_bytes(4, "big") + message)
"""


def envelopes_in(record: Path) -> list[wire.Envelope]:
    content = record.read_bytes() if record.exists() else b""
    found = []
    while len(content) >= 4 and len(content) >= 4 + int.from_bytes(content[:4], "big"):
        size = int.from_bytes(content[:4], "big")
        envelope = wire.decode(content[4 : 4 + size]).envelope
        assert envelope is not None
        found.append(envelope)
        content = content[4 + size :]
    return found


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not happen"
        time.sleep(0.002)


def test_a_daemon_that_is_killed_and_restarted_misses_only_what_was_under_way(
    traces: Path, endpoint: str, tmp_path: Path
) -> None:
    file = traces / "app-1.pfw"
    stopped = threading.Event()
    thread = threading.Thread(target=forward, args=(traces / "app", endpoint, stopped.is_set))
    thread.start()
    first, second = tmp_path / "first", tmp_path / "second"
    try:
        with subprocess.Popen([sys.executable, "-c", SINK, endpoint, str(first)]) as process:
            for start in range(0, 2000, 100):
                append(file, numbered(start, start + 100))
            wait_for(lambda: len(envelopes_in(first)) > 3, "the first listener's hearing")
            process.kill()
        for start in range(2000, 60_000, 100):
            append(file, numbered(start, start + 100))
        with subprocess.Popen([sys.executable, "-c", SINK, endpoint, str(second)]) as process:
            last = b'{"id":59999}\n'
            wait_for(
                lambda: any(last in e.lines for e in envelopes_in(second)[-1:]), "the last line's coming"
            )
            process.kill()
    finally:
        stopped.set()
        thread.join()
    got = [*envelopes_in(first), *envelopes_in(second)]
    sequences = [envelope.sequence for envelope in got]
    lines = b"".join(envelope.lines for envelope in got).splitlines()
    assert len(set(lines)) == len(lines), "no line twice"
    assert sequences == sorted(set(sequences)), "no envelope twice or out of order"
    missing_envelopes = max(sequences) + 1 - len(sequences)
    missing_lines = 60_000 - len(lines)
    assert (missing_lines > 0) == (missing_envelopes > 0), "what is missing is seen to be missing"
    assert missing_lines <= missing_envelopes * 256


APPLICATION = """
import os, sys, time
from pathlib import Path
from mpi4py import MPI
if os.environ["DFTRACER_INIT"] == "FUNCTION":
    from dftracer.python import dftracer
    log = dftracer.initialize_log(logfile=None, data_dir=None, process_id=-1)
rank = MPI.COMM_WORLD.rank
data, go = Path(sys.argv[1]), Path(sys.argv[2])
fd = os.open(data / f"rank{rank}.ckpt", os.O_WRONLY | os.O_CREAT)
for size in range(1, 101):
    os.write(fd, b"x" * (rank * 1000 + size))
deadline = time.monotonic() + 20
while not go.exists() and time.monotonic() < deadline:
    time.sleep(0.005)
for size in range(101, 201):
    os.write(fd, b"x" * (rank * 1000 + size))
os.close(fd)
if os.environ["DFTRACER_INIT"] == "FUNCTION":
    log.finalize()
"""


def writes_in(lines: bytes) -> Counter[int]:
    """Sizes of the application's writes."""
    events = [msgspec.json.decode(line) for line in lines.splitlines()]
    return Counter(event["args"]["ret"] for event in events if event["name"] == "write")


@pytest.mark.mpi
def pids_in(lines: bytes) -> set[bytes]:
    return set(re.findall(rb'"pid":(\d+)', lines))


@pytest.mark.parametrize("mode", ["preload", "function"])
def test_a_real_mpi_job_under_dftracer_is_followed_live(
    traces: Path, endpoint: str, sink: Sink, tmp_path: Path, mode: Mode
) -> None:
    (tmp_path / "data").mkdir()
    environment = capture_environment(traces / "app", [tmp_path / "data"], mode, os.environ)
    stopped = threading.Event()
    thread = threading.Thread(target=forward, args=(traces / "app", endpoint, stopped.is_set))
    thread.start()
    try:
        mpiexec = Path(sys.executable).parent / "mpiexec"
        command = [mpiexec, "-n", "2", sys.executable, "-c", APPLICATION, tmp_path / "data", tmp_path / "go"]
        with subprocess.Popen(command, env={**os.environ, **environment}, cwd=tmp_path) as job:
            while len(writes_in(sink.heard)) < 200:
                sink.take(1)
            assert job.poll() is None, "the job's writes are heard while it runs"
            (tmp_path / "go").touch()
        assert job.returncode == 0
        # DFTracer removes the file of a process that did nothing (a launcher's); we may have been there first
        written = b"".join(path.read_bytes() for path in traces.glob("app-*.pfw"))
        there = pids_in(written)
        expected_lines = Counter(line for line in written.splitlines() if pids_in(line))
        while expected_lines - Counter(sink.heard.splitlines()):
            sink.take(1)
    finally:
        stopped.set()
        thread.join()
    assert Counter(line for line in sink.heard.splitlines() if pids_in(line) & there) == expected_lines
    expected = [rank * 1000 + size for rank in (0, 1) for size in range(1, 201)]
    assert writes_in(sink.heard) == Counter(expected)
