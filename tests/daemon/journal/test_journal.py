"""The journal: what was written is read back, whatever happens to the end of the file, and nothing more."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.daemon.journal.journal import SEALED_LIMIT_BYTES, Journal
from scrtune.daemon.journal.records import DAMAGED, JournalError, JournalReader
from scrtune.goodput.events import JobEnded, JobStarted, OutputStarted, StepCompleted
from scrtune.intents.events import Event, EventsLost, NodeObserved, ProcessUse, TraceDigest

seconds = st.floats(0, 1e10)
events = st.one_of(
    st.builds(StepCompleted, step=st.integers(0, 2**40), start_s=seconds, end_s=seconds),
    st.builds(OutputStarted, dataset=st.integers(0, 9), name=st.text(max_size=20), time_s=seconds),
    st.builds(
        TraceDigest, lines=st.integers(0, 99), dropped=st.dictionaries(st.text(max_size=9), st.just(1))
    ),
    st.builds(JobEnded, time_s=seconds, exit_code=st.none() | st.integers(0, 255)),
)
records = st.lists(st.tuples(seconds, events), max_size=8)

# 64 processes that may run on all of 128 CPUs: more than a thousand bytes, nearly all of them repeated
MANY = NodeObserved(
    host="n",
    cpus=tuple(range(128)),
    processes=tuple(
        ProcessUse(pid=pid, cpus=tuple(range(128)), cores_used=1 / (pid + 1)) for pid in range(64)
    ),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal") / "journal"


def write(path: Path, content: list[tuple[float, Event]]) -> bytes:
    path.unlink(missing_ok=True)
    journal = Journal(path)
    for now, event in content:
        journal.append(now, event)
    journal.flush(0.0)
    journal.close()
    return path.read_bytes()


def seal(path: Path) -> None:
    """As a daemon that is started on it does."""
    append(path, [], is_packed=True)


def append(path: Path, content: list[tuple[float, Event]], *, is_packed: bool = False) -> None:
    reader = JournalReader(path)
    for _ in reader:
        pass
    journal = Journal(path, reader.recovered)
    for now, event in content:
        journal.append(now, event)
    journal.flush(0.0)
    if is_packed:
        journal.seal()
    journal.close()


def read(path: Path) -> tuple[list[tuple[float, Event]], str]:
    reader = JournalReader(path)
    found = list(reader)
    return found, reader.recovered.torn


@given(content=records)
def test_what_is_written_is_read_back(place: Path, content: list[tuple[float, Event]]) -> None:
    write(place, content)
    assert read(place) == (content, "")


@given(content=records, cut=st.integers(0, 2000))
def test_any_prefix_of_a_journal_gives_a_prefix_of_its_records(
    place: Path, content: list[tuple[float, Event]], cut: int
) -> None:
    ends = [len(write(place, content[:count])) for count in range(len(content) + 1)]
    whole = place.read_bytes()
    place.write_bytes(whole[:cut])
    found, torn = read(place)
    assert found == content[: len(found)]
    assert len(found) == max(0, sum(end <= cut for end in ends) - 1)
    assert bool(torn) == (0 < cut < len(whole) and cut not in ends)


@given(content=records, at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_one_record_which_is_counted(
    place: Path, content: list[tuple[float, Event]], at: int, bit: int
) -> None:
    ends = [len(write(place, content[:count])) for count in range(len(content) + 1)]
    damaged = bytearray(place.read_bytes())
    at %= len(damaged)
    damaged[at] ^= 1 << bit
    place.write_bytes(damaged)
    found, torn = read(place)
    hit = sum(end <= at for end in ends) - 1
    if hit < 0:
        assert (found, torn) == (content, ""), "of the title a bit may be wrong"
    elif hit == len(content) - 1:
        assert found == content[:-1], "as any torn tail"
        assert torn
    else:
        told = (content[hit - 1][0] if hit else 0.0, EventsLost(source=DAMAGED, count=1))
        assert (found, torn) == ([*content[:hit], told, *content[hit + 1 :]], "")


@settings(max_examples=20)
@given(content=records, at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_packed_journal_costs_its_batch_and_all_of_it_is_counted(
    place: Path, content: list[tuple[float, Event]], at: int, bit: int
) -> None:
    many = [(1.0, StepCompleted(step=step, start_s=0.0, end_s=1.0)) for step in range(1024)]
    write(place, many)
    seal(place)
    append(place, content)
    damaged = bytearray(place.read_bytes())
    damaged[at % len(damaged)] ^= 1 << bit
    place.write_bytes(damaged)
    reader = JournalReader(place)
    found = [event for _, event in reader]
    lost = sum(event.count for event in found if isinstance(event, EventsLost) and event.source == DAMAGED)
    read_back = [event for event in found if not (isinstance(event, EventsLost) and event.source == DAMAGED)]
    missing = len(many) + len(content) - len(read_back)
    assert missing in (0, 1, 512)
    if reader.recovered.torn:  # the very last record: nothing is behind it that could be counted by
        assert (missing <= 1, lost) == (True, 0)
    else:
        assert lost - missing in (0, 1), "a record that is no event is taken for one"


@given(content=records, more=records, again=records)
def test_a_packed_journal_says_what_it_said_before(
    place: Path,
    content: list[tuple[float, Event]],
    more: list[tuple[float, Event]],
    again: list[tuple[float, Event]],
) -> None:
    write(place, content)
    seal(place)
    append(place, more)
    seal(place)
    append(place, again)
    reader = JournalReader(place)
    assert list(reader) == content + more + again
    found = reader.recovered
    assert (found.number, found.unsealed) == (len(content + more + again), len(again))


def test_steps_take_a_tenth_of_their_room_when_they_are_packed(place: Path) -> None:
    random, now, content = Random(1), 1.79e9, []
    for step in range(4096):
        begun, now = now, now + random.gauss(0.1, 0.002)
        content.append((now + random.random() / 1000, StepCompleted(step=step, start_s=begun, end_s=now)))
    before = len(write(place, content))
    seal(place)
    assert read(place) == (content, "")
    assert place.stat().st_size < before / 10


def test_an_event_of_the_future_is_packed_as_it_is(place: Path) -> None:
    future = (2.0, {"type": "quantum_flush"})
    write(place, [(1.0, JobEnded(time_s=1.0)), future])  # type: ignore[list-item]
    seal(place)
    reader = JournalReader(place)
    assert list(reader) == [(1.0, JobEnded(time_s=1.0))]
    assert reader.recovered.unknown == 1
    assert msgspec.msgpack.encode(future) in [record.payload for record in JournalReader(place).records()]


def test_beyond_its_limit_the_oldest_part_keeps_what_decides_and_says_what_it_left_out(place: Path) -> None:
    random = Random(2)
    place.unlink(missing_ok=True)
    journal, told = Journal(place), 0
    largest = 0
    while told < 3 * SEALED_LIMIT_BYTES // 50_000:
        for _ in range(10):
            noise = {f"{random.getrandbits(3200):x}": 1 for _ in range(125)}  # 50 kB however it is packed
            journal.append(float(told), TraceDigest(lines=1, dropped=noise))
            told += 1
        journal.append(float(told), JobStarted(time_s=float(told)))
        told += 1
        journal.flush(float(told))
        journal.seal()
        largest = max(largest, place.stat().st_size)
    journal.close()
    found = list(JournalReader(place))
    starts = [event for _, event in found if isinstance(event, JobStarted)]
    left_out = sum(event.count for _, event in found if isinstance(event, EventsLost))
    digests = sum(isinstance(event, TraceDigest) for _, event in found)
    assert largest < SEALED_LIMIT_BYTES * 1.2
    assert len(starts) + digests + left_out == told
    assert len(starts) == told // 11
    assert left_out > 0
    assert [now for now, _ in found] == sorted(now for now, _ in found)


def test_a_journal_that_cannot_be_packed_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    content: list[tuple[float, Event]] = [(1.0, MANY)] * 600
    journal = Journal(path)
    for now, event in content:
        journal.append(now, event)
    journal.flush(1.0)
    with file_size_limit(1000), pytest.raises(OSError, match="File too large"):
        journal.seal()
    assert [each.name for each in tmp_path.iterdir()] == ["journal"]
    journal.append(2.0, JobEnded(time_s=2.0))
    journal.flush(2.0)
    assert read(path) == ([*content, (2.0, JobEnded(time_s=2.0))], "")
    journal.seal()
    journal.close()
    assert read(path) == ([*content, (2.0, JobEnded(time_s=2.0))], "")


def test_what_senders_had_sent_is_known_again_whether_it_is_packed_or_not(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append(1.0, JobEnded(time_s=1.0))
    journal.flush(1.0, {"a": (7, 0), "b": (1, 2)})
    journal.seal()
    journal.flush(2.0, {"a": (8, 1)})
    journal.close()
    reader = JournalReader(path)
    assert len(list(reader)) == 1
    assert reader.recovered.senders == {"a": (8, 1), "b": (1, 2)}


@given(garbage=st.binary(max_size=200))
def test_garbage_behind_the_records_is_cut_off_when_it_is_opened_again(place: Path, garbage: bytes) -> None:
    first, second = (1.0, StepCompleted(step=1, start_s=0.0, end_s=1.0)), (2.0, JobEnded(time_s=2.0))
    place.write_bytes(write(place, [first]) + garbage)
    reader = JournalReader(place)
    assert list(reader) == [first]
    journal = Journal(place, reader.recovered)
    journal.append(*second)
    journal.flush(2.0)
    journal.close()
    assert read(place) == ([first, second], "")


def test_zeros_which_a_power_failure_leaves_are_no_records(place: Path) -> None:
    content: list[tuple[float, Event]] = [(1.0, JobEnded(time_s=1.0))]
    place.write_bytes(write(place, content) + bytes(64))
    assert read(place) == (content, "an impossible length")


def test_a_file_that_is_no_journal_is_refused(place: Path) -> None:
    place.write_bytes(b"scrtune journal 2\n...")
    with pytest.raises(JournalError, match="not a journal of this version; move it away"):
        list(JournalReader(place))


def test_a_record_of_an_event_from_the_future_costs_only_itself(place: Path) -> None:
    known: tuple[float, Event] = (1.0, JobEnded(time_s=1.0))
    future = (2.0, {"type": "quantum_flush"})
    write(place, [known, future, known])  # type: ignore[list-item]
    reader = JournalReader(place)
    assert list(reader) == [known, known]
    assert (reader.recovered.records, reader.recovered.unknown, reader.recovered.torn) == (2, 1, "")


def test_long_records_are_compressed(place: Path) -> None:
    assert len(write(place, [(1.0, MANY)] * 100)) < 100 * 1500
    assert read(place)[0] == [(1.0, MANY)] * 100


def test_a_directory_in_the_place_of_the_journal_is_said(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"cannot be opened .* check the run directory"):
        Journal(tmp_path)


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_without_room_records_are_counted_the_journal_stays_whole_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    kept = (1.0, StepCompleted(step=1, start_s=0.0, end_s=1.0))
    journal.append(*kept)
    journal.flush(1.0)
    with file_size_limit(path.stat().st_size + 20):  # half of the next record fits
        for step in (2, 3):
            journal.append(2.0, StepCompleted(step=step, start_s=1.0, end_s=2.0))
            journal.flush(2.0)
        assert journal.lost == 2
        assert journal.error
        assert read(path) == ([kept], "")
    journal.append(3.0, JobEnded(time_s=3.0))
    journal.flush(3.0)
    journal.close()
    assert journal.error == ""
    lost = (3.0, EventsLost(source="journal", count=2))
    assert read(path) == ([kept, (3.0, JobEnded(time_s=3.0)), lost], "")


def test_what_was_lost_is_said_with_the_first_room_although_nothing_more_comes(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.flush(1.0)
    with file_size_limit(path.stat().st_size):
        journal.append(2.0, JobEnded(time_s=2.0))
        journal.flush(2.0)
        journal.flush(3.0)
        assert journal.lost == 1
    journal.flush(4.0)
    journal.flush(5.0)
    journal.close()
    assert read(path) == ([(4.0, EventsLost(source="journal", count=1))], "")


def test_a_journal_that_never_had_room_begins_when_there_is_some(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with file_size_limit(0):
        journal = Journal(path)
        journal.append(1.0, JobEnded(time_s=1.0))
        journal.flush(1.0)
    journal.append(2.0, JobEnded(time_s=2.0))
    journal.flush(2.0)
    journal.close()
    assert [event for _, event in read(path)[0]] == [
        JobEnded(time_s=2.0),
        EventsLost(source="journal", count=1),
    ]


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a file system to fill up")
def test_a_disk_that_is_full_and_gets_room_again(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    try:
        path, ballast = tmp_path / "journal", tmp_path / "ballast"
        journal = Journal(path)
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        for step in range(200):
            journal.append(1.0, StepCompleted(step=step, start_s=0.0, end_s=1.0))
            journal.flush(1.0)
        assert journal.lost > 0
        written = len(read(path)[0])
        assert journal.lost + written == 200
        ballast.unlink()
        journal.append(2.0, JobEnded(time_s=2.0))
        journal.flush(2.0)
        found, torn = read(path)
        assert torn == ""
        assert [event for _, event in found[written:]] == [
            JobEnded(time_s=2.0),
            EventsLost(source="journal", count=journal.lost),
        ]
        journal.close()
    finally:
        subprocess.run(["umount", tmp_path], check=True)
