"""The parts of the embedded engine by themselves, without MPI."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi4py import MPI

from scrtune.client.embedded.checkpoint_clock import CheckpointClock
from scrtune.client.embedded.copy import THREAD_NAME, Copied, Copy, Means, Transfer, temporary_of
from scrtune.client.embedded.launch import _read
from scrtune.client.embedded.output import Output, Times
from scrtune.client.embedded.prefix_index import Prefix, PrefixFile, RankSummary, entry_of
from scrtune.client.embedded.redundancy import (
    LogicalFile,
    Part,
    brings,
    can_rebuild,
    gets,
    redundancy_bytes,
    segment_bytes,
    segment_offset,
)
from scrtune.client.embedded.settings import Levers, UnsupportedSettingError, overlay
from scrtune.client.embedded.topology import (
    Topology,
    nodes_by_count,
    nodes_by_host,
    redundancy_sets,
)
from scrtune.client.engine import OutputFlags
from scrtune.scr_config.catalogue import defaults
from scrtune.scr_config.resolution import Resolved

GIVE_UP_S = 20.0

# ---- XOR ----

MEMBERS = st.lists(st.binary(max_size=200), min_size=2, max_size=6)


def xor_over_members(files: Sequence[np.ndarray], parities: Sequence[np.ndarray], lost: int | None) -> None:
    """What the members do with each other in redundancy.py, without messages."""
    members, segment = len(files), len(parities[0])

    def piece(member: int, owner: int, part: Part) -> np.ndarray:
        if part is Part.PARITY:
            return parities[member]
        begin = segment_offset(member, owner, members, segment)
        return files[member][begin : begin + segment]

    for owner in range(members):
        total = np.zeros(segment, np.uint8)
        for member in range(members):
            if (part := brings(member, owner, lost)) is not Part.NOTHING:
                total ^= piece(member, owner, part)
        for member in range(members):
            if (part := gets(member, owner, lost)) is not Part.NOTHING:
                piece(member, owner, part)[:] = total


@given(MEMBERS, st.data())
def test_any_lost_member_of_an_xor_set_is_rebuilt_with_its_parity(
    contents: list[bytes], data: st.DataObject
) -> None:
    sizes = [len(content) for content in contents]
    segment = segment_bytes(sizes)
    files = [np.zeros(segment * (len(sizes) - 1), np.uint8) for _ in sizes]
    for file, content in zip(files, contents, strict=True):
        file[: len(content)] = np.frombuffer(content, np.uint8)
    parities = [np.full(segment, 0xAA, np.uint8) for _ in sizes]
    xor_over_members(files, parities, None)
    before = [file.copy() for file in files], [parity.copy() for parity in parities]

    lost = data.draw(st.integers(0, len(sizes) - 1))
    files[lost][:] = 0x55
    parities[lost][:] = 0x55
    xor_over_members(files, parities, lost)

    assert all(map(np.array_equal, files, before[0]))
    assert all(map(np.array_equal, parities, before[1]))


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=64))
def test_segments_hold_the_largest_member_and_xor_stores_its_share(sizes: list[int]) -> None:
    segment = segment_bytes(sizes)
    assert segment % 8 == 0
    assert segment * (len(sizes) - 1) >= max(sizes)
    assert redundancy_bytes("XOR", 0, sizes) * (len(sizes) - 1) < max(sizes) + 8 * len(sizes)


@given(st.integers(2, 20), st.data())
def test_no_member_has_two_segments_in_one_parity(members: int, data: st.DataObject) -> None:
    member = data.draw(st.integers(0, members - 1))
    owners = [owner for owner in range(members) if owner != member]
    assert sorted(segment_offset(member, owner, members, 1) for owner in owners) == list(range(members - 1))


@pytest.mark.parametrize(
    ("scheme", "members", "lost", "survives"),
    [
        ("SINGLE", 1, set(), True),
        ("SINGLE", 1, {0}, False),
        ("XOR", 4, {3}, True),
        ("XOR", 4, {1, 3}, False),
        ("PARTNER", 4, {1, 3}, True),
        ("PARTNER", 4, {3, 0}, False),
        ("PARTNER", 2, {0, 1}, False),
    ],
)
def test_what_a_set_survives(scheme: str, members: int, lost: set[int], survives: bool) -> None:
    assert can_rebuild(scheme, members, lost) == survives


@given(
    st.lists(st.binary(max_size=30), min_size=1, max_size=5),
    st.integers(0, 80),
    st.integers(1, 60),
    st.binary(),
)
@settings(max_examples=50)
def test_a_logical_file_is_its_files_in_a_row(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], offset: int, count: int, patch: bytes
) -> None:
    root = tmp_path_factory.mktemp("logical")
    paths = [(root / f"sub{number}" / "file", len(content)) for number, content in enumerate(contents)]
    whole = bytearray(b"".join(contents))
    logical = LogicalFile(paths)
    logical.create()
    logical.write(0, np.frombuffer(whole, np.uint8))
    logical.write(offset, np.frombuffer(patch, np.uint8))
    whole[offset : offset + len(patch)] = patch[: max(0, len(whole) - offset)]
    read = np.full(count, 0xFF, np.uint8)
    logical.read(offset, read)
    logical.close()
    assert read.tobytes() == bytes(whole[offset : offset + count]).ljust(count, b"\0")
    assert b"".join(path.read_bytes() for path, _ in paths) == bytes(whole)


# ---- nodes and sets ----


def test_nodes_are_told_apart_by_host_name() -> None:
    topology = Topology(rank=2, node_of=nodes_by_host(["b", "a", "b", "a"]))
    assert topology.node_of == (0, 1, 0, 1)
    assert (topology.ranks, topology.nodes, topology.node, topology.is_leader) == (4, 2, 0, False)


def test_simulated_nodes_are_contiguous_blocks() -> None:
    assert nodes_by_count(5, 2) == (0, 0, 0, 1, 1)
    with pytest.raises(ValueError, match="3 nodes for 2 ranks"):
        nodes_by_count(2, 3)


def test_a_set_has_one_rank_of_each_node_and_at_least_set_size_of_them() -> None:
    assert redundancy_sets((0, 0, 1, 1), None) == [(0, 2), (1, 3)]
    assert redundancy_sets(range(8), 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert redundancy_sets(range(5), 2) == [(0, 1), (2, 3, 4)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=24), st.integers(2, 8))
def test_every_rank_is_in_one_set_and_no_set_has_a_node_twice(hosts: list[int], set_size: int) -> None:
    nodes = nodes_by_host([str(host) for host in hosts])
    sets = redundancy_sets(nodes, set_size)
    assert sorted(rank for members in sets for rank in members) == list(range(len(hosts)))
    assert all(len({nodes[rank] for rank in members}) == len(members) for members in sets)
    assert len(set(hosts)) < set_size or max(map(len, sets)) >= set_size


# ---- transfers ----


@pytest.fixture
def sources(tmp_path: Path) -> list[Copy]:
    copies = []
    for number in range(3):
        source = tmp_path / f"source{number}"
        source.write_bytes(bytes([number]) * (10_000 + number))
        copies.append(Copy(source, tmp_path / "to" / str(number) / "file", 10_000 + number))
    return copies


def start(copies: Sequence[Copy], means: Means) -> tuple[Transfer, list[Copied]]:
    published: list[Copied] = []
    return Transfer(copies, means, published.extend, time.time), published


def test_a_transfer_publishes_when_every_file_is_in_place(sources: list[Copy]) -> None:
    transfer, published = start(sources, Means(threads=2, buffer_bytes=999))
    transfer.wait()
    assert (transfer.done, transfer.error, transfer.threads, transfer.bytes) == (True, None, 2, 30_003)
    assert {copied.destination for copied in published} == {copy.destination for copy in sources}
    assert all(copy.destination.read_bytes() == copy.source.read_bytes() for copy in sources)
    assert all(copied.mtime_ns == copied.destination.stat().st_mtime_ns for copied in published)


def test_a_rank_without_files_publishes_too() -> None:
    transfer, _ = start([], Means(threads=None, buffer_bytes=1))
    transfer.wait()
    assert transfer.error is None


def test_threads_are_as_many_as_axl_takes_unless_told() -> None:
    cores = os.cpu_count() or 1
    assert [Means(None, 1).threads_for(files) for files in (0, 1, 100)] == [1, 1, min(cores, 16)]
    assert Means(7, 1).threads_for(100) == 7
    assert Means(7, 1).threads_for(3) == 3


def writes_of_a_transfer(copies: Sequence[Copy], buffer_bytes: int) -> int:
    """How often this process asked the kernel to write, meanwhile."""

    def writes() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("syscw")))

    before = writes()
    start(copies, Means(threads=1, buffer_bytes=buffer_bytes))[0].wait()
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
        copies.append(Copy(tmp_path / f"pipe{number}", tmp_path / f"copy{number}", 3))
    yield copies
    for copy in copies:
        copy.source.write_bytes(b"abc")


def flush_threads(count: int) -> list[threading.Thread]:
    give_up_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_s:
        threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]
        if len(threads) == count:
            return threads
        time.sleep(0.001)
    raise AssertionError(f"{threads} instead of {count} threads")


def masks_settle(threads: Sequence[threading.Thread], wanted: set[int]) -> bool:
    give_up_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_s:
        if all(os.sched_getaffinity(thread.native_id or 0) == wanted for thread in threads):
            return True
        time.sleep(0.001)
    return False


def test_each_thread_takes_the_mask_it_is_given_and_the_process_keeps_its_own(held: list[Copy]) -> None:
    mine = os.sched_getaffinity(0)
    wanted = {max(mine)}
    start(held, Means(threads=3, buffer_bytes=8, cpus=tuple(wanted)))
    assert masks_settle(flush_threads(3), wanted)
    assert os.sched_getaffinity(0) == mine


def test_without_a_mask_threads_inherit_and_impossible_cpus_are_as_none(held: list[Copy]) -> None:
    start(held, Means(threads=2, buffer_bytes=8, cpus=(8000,)))
    assert masks_settle(flush_threads(2), os.sched_getaffinity(0))


def test_a_file_that_changed_its_size_fails_the_transfer_and_leaves_the_destination_alone(
    sources: list[Copy],
) -> None:
    sources[1].source.write_bytes(b"short")
    sources[1].destination.parent.mkdir(parents=True)
    sources[1].destination.write_bytes(b"the older one")
    transfer, published = start(sources, Means(threads=1, buffer_bytes=100))
    transfer.wait()
    assert "5 bytes, not 10001" in str(transfer.error)
    assert published == []
    assert sources[1].destination.read_bytes() == b"the older one"
    assert not temporary_of(sources[1].destination).exists()
    assert not sources[0].destination.exists()


def test_a_full_disk_fails_the_transfer_only(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"abc")
    temporary_of(tmp_path / "to").symlink_to("/dev/full")
    transfer, published = start([Copy(tmp_path / "source", tmp_path / "to", 3)], Means(1, 100))
    transfer.wait()
    assert "No space left" in str(transfer.error)
    assert published == []


# ---- the prefix directory ----


def saved(prefix: Prefix, dataset: int, name: str, *, flags: int = 1, file: str = "") -> RankSummary:
    """A dataset of one rank and one file, flushed."""
    path = prefix.root / (file or f"{name}/file")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"{name} {dataset}".encode())
    os.utime(path, ns=(dataset, dataset))
    described = PrefixFile(
        name=str(path.relative_to(prefix.root)), size=path.stat().st_size, mtime_ns=dataset
    )
    summary = RankSummary(
        dataset=dataset, name=name, flags=flags, checkpoint=dataset, ranks=1, rank=0, files=(described,)
    )
    prefix.write_summary(summary)
    return summary


def names(prefix: Prefix) -> list[str]:
    """What another process finds."""
    other = Prefix(prefix.root)
    other.load()
    return [entry.name for entry in other.entries.values()]


def test_a_dataset_with_all_its_summaries_is_found_without_an_index(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    whole = saved(prefix, 1, "a")
    partial = saved(prefix, 2, "b")
    prefix.write_summary(RankSummary(**{**_fields(partial), "ranks": 2}))
    assert names(prefix) == ["a"]
    prefix.publish(entry_of(whole))
    prefix.index_file.write_bytes(b"{ torn")
    assert names(prefix) == ["a"]


def test_a_newer_dataset_of_the_same_name_replaces_the_older_one_and_keeps_its_files(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    prefix.publish(entry_of(saved(prefix, 1, "a")))
    prefix.publish(entry_of(saved(prefix, 2, "a")))
    assert names(prefix) == ["a"]
    assert (tmp_path / "a/file").read_bytes() == b"a 2"
    assert prefix.summary(1, 0) is None


def test_the_window_deletes_no_file_that_a_newer_dataset_wrote(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    for dataset, name in enumerate("abc", start=1):
        prefix.publish(entry_of(saved(prefix, dataset, name, file="same/file")))
    assert prefix.keep_newest(1, exempt=2) == [1, 2]
    assert (tmp_path / "same/file").read_bytes() == b"c 3"


def test_the_window_counts_neither_exempt_nor_failed_datasets(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    for dataset, (name, flags) in enumerate([("a", 1), ("b", 3), ("c", 1), ("d", 1)], start=1):
        prefix.publish(entry_of(saved(prefix, dataset, name, flags=flags)))
    prefix.mark_failed(4)
    assert prefix.keep_newest(0, exempt=2) == []
    assert prefix.keep_newest(1, exempt=2) == [1]
    assert names(prefix) == ["b", "c", "d"]
    assert not (tmp_path / "a").exists()


def test_a_file_is_whole_only_byte_for_byte(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    (tmp_path / "f").write_bytes(b"123456789")
    right = PrefixFile(name="f", size=9, mtime_ns=0, crc32=0xCBF43926)

    def whole(file: PrefixFile) -> bool:
        return prefix.is_intact(
            RankSummary(dataset=1, name="a", flags=1, checkpoint=1, ranks=1, rank=0, files=(file,))
        )

    assert whole(right)
    assert not whole(PrefixFile(name="f", size=9, mtime_ns=0, crc32=1))
    assert not whole(PrefixFile(name="f", size=8, mtime_ns=0, crc32=0xCBF43926))
    assert not whole(PrefixFile(name="g", size=9, mtime_ns=0, crc32=0xCBF43926))
    assert not whole(PrefixFile(name="f", size=9, mtime_ns=0))


def _fields(summary: RankSummary) -> dict[str, object]:
    return {name: getattr(summary, name) for name in summary.__struct_fields__}


# ---- settings ----


def test_advice_lies_over_the_users_settings_and_goes_with_it() -> None:
    own = {**defaults(), "SCR_FLUSH": 3}
    advised = overlay(own, own, {"SCR_FLUSH": 5, "SCR_COPY_TYPE": "PARTNER", "SCR_PREFIX": "/x", "NEW": 1})
    assert advised == {**own, "SCR_FLUSH": 5, "SCR_COPY_TYPE": "PARTNER"}
    assert overlay(own, advised, {}) == own


@pytest.mark.parametrize(
    "bad", [{"SCR_FILE_BUF_SIZE": 0}, {"SCR_FLUSH": "often"}, {"SCR_COPY_TYPE": "MIRROR"}]
)
def test_one_invalid_value_refuses_the_whole_advice(bad: dict[str, int | str]) -> None:
    own = defaults()
    current = {**own, "SCR_FLUSH": 5}
    assert overlay(own, current, {"SCR_FLUSH": 7, **bad}) == current


def test_what_only_scr_has_stays_as_it_was_and_the_rest_is_taken() -> None:
    own = defaults()
    current = {**own, "SCR_COPY_TYPE": "PARTNER"}
    advised = overlay(own, current, {"SCR_COPY_TYPE": "RS", "SCR_FLUSH_TYPE": "BBAPI", "SCR_FLUSH": 7})
    assert advised == {**own, "SCR_COPY_TYPE": "PARTNER", "SCR_FLUSH": 7}


def test_levers_are_scrs_defaults_until_set() -> None:
    levers = Levers.of({})
    assert (levers.scheme, levers.bypass, levers.cache_size, levers.flush) == ("XOR", True, 1, 10)
    assert levers.flush_means == Means(threads=1, buffer_bytes=32 << 20)
    threaded = Levers.of({"SCR_FLUSH_TYPE": "PTHREAD", "SCR_FLUSH_ASYNC": 1, "SCRTUNE_FLUSH_CPUS": "1,3-4"})
    assert threaded.flush_means == Means(threads=None, buffer_bytes=32 << 20, cpus=(1, 3, 4))
    assert threaded.flush_async
    assert not Levers.of({"SCR_FLUSH_ASYNC": 1}).flush_async  # FLUSH_TYPE=SYNC blocks all the same
    with pytest.raises(UnsupportedSettingError, match="choose one of SINGLE, PARTNER, XOR"):
        Levers.of({"SCR_COPY_TYPE": "RS"})


# ---- when a checkpoint is due ----


def test_without_any_rule_a_checkpoint_is_always_due() -> None:
    assert CheckpointClock(ended_s=0.0).is_due(Levers.of({}), 0.0)


def test_seconds_count_from_the_end_of_the_last_checkpoint() -> None:
    levers = Levers.of({"SCR_CHECKPOINT_SECONDS": 10})
    clock = CheckpointClock(ended_s=100.0)
    assert [clock.is_due(levers, now_s) for now_s in (109.0, 110.0)] == [False, True]
    clock.note(110.0, 115.0)
    assert [clock.is_due(levers, now_s) for now_s in (124.0, 125.0)] == [False, True]


def test_overhead_is_the_mean_cost_against_the_time_since() -> None:
    levers = Levers.of({"SCR_CHECKPOINT_OVERHEAD": 10.0})
    clock = CheckpointClock(ended_s=0.0)
    assert clock.is_due(levers, 0.0)  # no cost is known yet
    clock.note(0.0, 1.0)
    clock.note(10.0, 13.0)
    assert [clock.is_due(levers, now_s) for now_s in (30.9, 31.1)] == [False, True]  # 2 s of 20


def test_a_restart_finds_its_cache_whatever_scrtune_run_calls_the_run(tmp_path: Path) -> None:
    def cache(prefix: str, **variables: str) -> str:
        return _read({"SCR_PREFIX": str(tmp_path / prefix), **variables}).cache

    first = cache("a", SCRTUNE_JOB_ID="20261121-100000-1")
    assert cache("a", SCRTUNE_JOB_ID="20261121-110000-2") == first == cache("a")
    assert cache("b") != first, "two jobs without an id do not evict each other"
    assert cache("a", SLURM_JOB_ID="17").endswith("scr.17")
    assert cache("a", SLURM_JOB_ID="17", SCR_JOB_ID="own").endswith("scr.own")


@pytest.fixture
def system_conf(tmp_path: Path) -> Path:
    """Where the system's config file of an SCR in tmp_path/bin lies; it is not there yet."""
    program = tmp_path / "bin" / "scr_index"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc" / "scr.conf"


def launched(tmp_path: Path, **variables: str) -> Resolved:
    return _read({"PATH": str(tmp_path / "bin"), "SCR_PREFIX": str(tmp_path), **variables}).resolved


def test_the_systems_file_gives_what_nobody_above_it_gives(tmp_path: Path, system_conf: Path) -> None:
    assert launched(tmp_path).sources["SCR_FLUSH"] == "default"
    system_conf.write_text("SCR_FLUSH=5\nSCR_SET_SIZE=4\nSCR_CACHE_SIZE=6\n")
    (tmp_path / ".scrconf").write_text("SCR_SET_SIZE=3\n")
    resolved = launched(tmp_path, SCR_CACHE_SIZE="2")
    names = ("SCR_FLUSH", "SCR_SET_SIZE", "SCR_CACHE_SIZE")
    assert [resolved.settings[name] for name in names] == [5, 3, 2]
    assert [resolved.sources[name] for name in names] == ["system config", "user config", "environment"]
    assert resolved.problems == ()


def test_a_cache_that_the_systems_file_names_is_used(tmp_path: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_CACHE_BASE=/ssd\nSCR_USER_NAME=u\nSCR_JOB_ID=7\n")
    assert _read({"PATH": str(tmp_path / "bin")}).cache == "/ssd/u/scr.7"


def test_a_systems_file_that_cannot_be_read_is_told_and_fails_nothing(
    tmp_path: Path, system_conf: Path
) -> None:
    os.mkfifo(system_conf)  # whoever reads it waits for a writer
    resolved = launched(tmp_path, SCR_FLUSH="2")
    assert resolved.settings["SCR_FLUSH"] == 2
    (problem,) = resolved.problems
    assert str(problem) == (
        f"warning: {system_conf}: SCR's system config file cannot be read (it is no regular file);"
        " the job runs without what it says"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_systems_file_without_permission_is_told(tmp_path: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_FLUSH=5\n")
    system_conf.chmod(0)
    (problem,) = launched(tmp_path).problems
    assert "Permission denied" in problem.what


@given(data=st.binary(max_size=200))
def test_any_bytes_in_the_systems_file_start_the_engine(data: bytes) -> None:
    with TemporaryDirectory() as name:
        base = Path(name)
        (base / "bin").mkdir()
        (base / "etc").mkdir()
        (base / "bin/scr_index").write_text("#!/bin/sh\n")
        (base / "bin/scr_index").chmod(0o755)
        (base / "etc/scr.conf").write_bytes(data)
        Levers.of(launched(base).settings)


def test_what_the_systems_file_wants_and_the_engine_has_not_is_passed_over(
    tmp_path: Path, system_conf: Path
) -> None:
    system_conf.write_text("SCR_COPY_TYPE=FILE\nSCR_FLUSH_TYPE=BBAPI\nSCR_COPY_TYPE=RS\nSCR_FLUSH=5\n")
    resolved = launched(tmp_path)
    assert resolved.settings["SCR_COPY_TYPE"] == defaults()["SCR_COPY_TYPE"]
    assert resolved.settings["SCR_FLUSH_TYPE"] == defaults()["SCR_FLUSH_TYPE"]
    assert resolved.settings["SCR_FLUSH"] == 5
    told = [problem.what for problem in resolved.problems if problem.code == "system-config"]
    assert [what.split(": ")[0] for what in told] == [f"{system_conf}:{line}" for line in (3, 1, 2)]
    (tmp_path / ".scrconf").write_text("SCR_COPY_TYPE=PARTNER\nSCR_FLUSH_TYPE=SYNC\n")
    overruled = launched(tmp_path)
    assert not [problem for problem in overruled.problems if problem.code == "system-config"]


@pytest.mark.parametrize(
    ("bypass", "flush_due", "flush_s"),
    [(False, True, 2.0), (False, False, 0.0), (True, False, 2.0)],
    ids=["flushed", "cached only", "written in place"],
)
def test_only_what_reached_the_prefix_directory_has_a_flush_time(
    bypass: bool, flush_due: bool, flush_s: float
) -> None:
    """Else every checkpoint would look flushed, and no flush cycle of SCR_FLUSH=10 would ever end."""
    output = Output(
        dataset=1,
        name="a",
        flags=OutputFlags.CHECKPOINT,
        checkpoint=1,
        bypass=bypass,
        levers=Levers.of({}),
        generation=0,
        entered_s=0.0,
        opened_s=0.0,
        wait_s=0.0,
    )
    times = Times(
        entered_s=0.0,
        opened_s=0.0,
        completed_s=1.0,
        agreed_s=1.0,
        encoded_s=1.0,
        flushed_s=3.0,
        start_wait_s=0.0,
        flush_wait_s=0.0,
    )
    completed = output.completed(MPI.COMM_SELF, [], times, valid=True, flush_due=flush_due)
    assert completed.flush_s == flush_s
    assert completed.blocking_s == 3.0
