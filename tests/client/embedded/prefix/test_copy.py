"""A rank's files on their way to the prefix directory."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from scrtune.client.embedded.prefix.copy import (
    THREAD_NAME,
    Copy,
    CopyOptions,
    CopyThreads,
)
from scrtune.client.embedded.prefix.index import PrefixFile

GIVE_UP_S = 20.0


@pytest.fixture
def sources(tmp_path: Path) -> list[Copy]:
    copies = []
    for number in range(3):
        source = tmp_path / f"source{number}"
        source.write_bytes(bytes([number]) * (10_000 + number))
        copies.append(Copy(source, tmp_path / "to", f"{number}/file", 10_000 + number))
    return copies


def start(copies: Sequence[Copy], options: CopyOptions) -> tuple[CopyThreads, list[PrefixFile]]:
    published: list[PrefixFile] = []
    return CopyThreads(copies, options, published.extend), published


def test_a_transfer_publishes_when_every_file_is_in_place(sources: list[Copy]) -> None:
    transfer, published = start(sources, CopyOptions(threads=2, buffer_bytes=999))
    transfer.wait()
    assert (transfer.done, transfer.error, transfer.count, transfer.bytes) == (True, None, 2, 30_003)
    assert {copied.name for copied in published} == {copy.name for copy in sources}
    assert all(copy.destination.read_bytes() == copy.source.read_bytes() for copy in sources)
    assert all(copied.mtime_ns == (sources[0].root / copied.name).stat().st_mtime_ns for copied in published)


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="this Linux has no schedstat")
def test_what_its_threads_took_of_cores_is_known(tmp_path: Path) -> None:
    (source := tmp_path / "large").write_bytes(bytes(32_000_000))
    copies = [Copy(source, tmp_path / "to", str(number), 32_000_000) for number in range(2)]
    transfer, _ = start(copies, CopyOptions(threads=2, buffer_bytes=1_000_000))
    transfer.wait()
    took_s = transfer.end_s - transfer.start_s
    assert 0 < transfer.core_time.cpu_s <= 2 * took_s
    assert transfer.core_time.cpu_s + transfer.core_time.run_delay_s <= 2 * took_s + 0.01


def test_a_rank_without_files_publishes_too() -> None:
    transfer, _ = start([], CopyOptions(threads=None, buffer_bytes=1))
    transfer.wait()
    assert transfer.error is None


def test_threads_are_as_many_as_axl_takes_unless_set() -> None:
    cores = os.cpu_count() or 1
    assert [CopyOptions(None, 1).threads_for(files) for files in (0, 1, 100)] == [1, 1, min(cores, 16)]
    assert CopyOptions(7, 1).threads_for(100) == 7
    assert CopyOptions(7, 1).threads_for(3) == 3


def writes_of_a_transfer(copies: Sequence[Copy], buffer_bytes: int) -> int:
    """How often this process asked the kernel to write, meanwhile."""

    def writes() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("syscw")))

    before = writes()
    start(copies, CopyOptions(threads=1, buffer_bytes=buffer_bytes))[0].wait()
    return writes() - before


def test_files_are_written_in_pieces_of_the_buffer(sources: list[Copy]) -> None:
    assert writes_of_a_transfer(sources, 1 << 20) == 3
    assert writes_of_a_transfer(sources, 1000) == 10 + 11 + 11


@pytest.fixture
def held(tmp_path: Path) -> Iterator[list[Copy]]:
    """Copies that go on only when somebody writes to their sources, which are pipes."""
    copies = []
    for number in range(4):
        os.mkfifo(tmp_path / f"pipe{number}")
        copies.append(Copy(tmp_path / f"pipe{number}", tmp_path, f"copy{number}", 3))
    yield copies
    for copy in copies:
        copy.source.write_bytes(b"abc")
    flush_threads(0)  # the next test counts its own


def flush_threads(count: int) -> list[threading.Thread]:
    give_up_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_s:
        threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]
        if len(threads) == count:
            return threads
        time.sleep(0.001)
    raise AssertionError(f"{threads} instead of {count} threads")


def settles(threads: Sequence[threading.Thread], of: Callable[[int], object], wanted: object) -> bool:
    give_up_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_s:
        if all(of(thread.native_id or 0) == wanted for thread in threads):
            return True
        time.sleep(0.001)
    return False


def nice_value(thread: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread)


def test_each_thread_takes_the_mask_it_is_given_and_the_process_keeps_its_own(held: list[Copy]) -> None:
    mine = os.sched_getaffinity(0)
    wanted = {max(mine)}
    start(held, CopyOptions(threads=3, buffer_bytes=8, cpus=tuple(wanted)))
    assert settles(flush_threads(3), os.sched_getaffinity, wanted)
    assert os.sched_getaffinity(0) == mine


def test_without_a_mask_threads_inherit_and_impossible_cpus_are_as_none(held: list[Copy]) -> None:
    start(held, CopyOptions(threads=2, buffer_bytes=8, cpus=(8000,)))
    assert settles(flush_threads(2), os.sched_getaffinity, os.sched_getaffinity(0))


def test_each_thread_is_as_nice_as_it_is_told_and_the_process_stays_as_it_was(held: list[Copy]) -> None:
    mine = nice_value(0)
    start(held, CopyOptions(threads=2, buffer_bytes=8, nice=19))
    assert settles(flush_threads(2), nice_value, 19)
    assert nice_value(0) == mine


@pytest.mark.parametrize("possible", [0, 1, 2])
def test_where_no_more_threads_can_be_started_those_there_are_do_the_work(
    sources: list[Copy], monkeypatch: pytest.MonkeyPatch, possible: int
) -> None:
    begin, left = threading.Thread.start, iter(range(possible))

    def start_some(thread: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    transfer, published = start(sources, CopyOptions(threads=3, buffer_bytes=100))
    transfer.wait()
    assert len(published) == (len(sources) if possible else 0)
    assert (transfer.error is None) == (possible > 0)


def test_a_file_that_changed_its_size_fails_the_transfer_and_leaves_the_destination_alone(
    sources: list[Copy],
) -> None:
    sources[1].source.write_bytes(b"short")
    sources[1].destination.parent.mkdir(parents=True)
    sources[1].destination.write_bytes(b"the older one")
    transfer, published = start(sources, CopyOptions(threads=1, buffer_bytes=100))
    transfer.wait()
    assert "5 bytes, not 10001" in str(transfer.error)
    assert published == []
    assert sources[1].destination.read_bytes() == b"the older one"
    assert not sources[1].temporary.exists()
    assert not sources[0].destination.exists()


def test_a_full_disk_fails_the_transfer_only(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"abc")
    copy = Copy(tmp_path / "source", tmp_path, "to", 3)
    copy.temporary.symlink_to("/dev/full")
    transfer, published = start([copy], CopyOptions(1, 100))
    transfer.wait()
    assert "No space left" in str(transfer.error)
    assert published == []
