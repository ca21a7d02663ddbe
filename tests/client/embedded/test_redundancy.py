"""Redundancy within a set: any loss that the scheme survives is rebuilt, byte for byte."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi4py import MPI

from scrtune.client.embedded.redundancy import (
    Bytes,
    LogicalFile,
    Member,
    can_rebuild,
    encode_set,
    rebuild_set,
    redundancy_bytes,
    segment_bytes,
    segment_offset,
)

GIVE_UP_S = 20.0


@dataclass
class ThreadSet:
    """A set whose members are threads: the messages of mpi4py that the schemes exchange."""

    size: int
    pieces: dict[int, Bytes] = field(default_factory=dict)
    queues: dict[tuple[int, int], "SimpleQueue[Bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size)
        pairs = ((a, b) for a in range(self.size) for b in range(self.size))
        self.queues = {pair: SimpleQueue() for pair in pairs}


@dataclass
class ThreadComm:
    """One member's communicator."""

    members: ThreadSet
    rank: int

    @property
    def size(self) -> int:
        return self.members.size

    def Reduce(self, mine: Bytes, total: Bytes | None, op: MPI.Op, root: int) -> None:  # noqa: N802 - MPI's
        assert op == MPI.BXOR
        self.members.pieces[self.rank] = mine.copy()
        self.members.barrier.wait(GIVE_UP_S)
        if self.rank == root:
            assert total is not None
            total[:] = np.bitwise_xor.reduce(list(self.members.pieces.values()))
        self.members.barrier.wait(GIVE_UP_S)

    def Reduce_scatter_block(self, mine: Bytes, total: Bytes, op: MPI.Op) -> None:  # noqa: N802
        for root, piece in enumerate(mine):
            self.Reduce(piece, total if root == self.rank else None, op, root)

    def Send(self, piece: Bytes, to: int) -> None:  # noqa: N802
        self.members.queues[self.rank, to].put(piece.copy())

    def Recv(self, piece: Bytes, source: int) -> None:  # noqa: N802
        piece[:] = self.members.queues[source, self.rank].get(timeout=GIVE_UP_S)

    def Sendrecv(self, out: Bytes, to: int, *, recvbuf: Bytes, source: int) -> None:  # noqa: N802
        self.Send(out, to)
        self.Recv(recvbuf, source)


class SetOnDisk:
    """The files of a set's members in `root`: two for each."""

    def __init__(self, root: Path, contents: Sequence[bytes], chunk_bytes: int) -> None:
        self.sizes = [len(content) for content in contents]
        self.chunk_bytes = chunk_bytes
        self.contents = contents
        self.paths = [
            [root / f"{place}" / "a", root / f"{place}" / "b" / "c"] for place in range(len(contents))
        ]
        self.redundancy = [root / f"redundancy{place}" for place in range(len(contents))]
        for place in range(len(contents)):
            self.fill(place, contents[place])

    def fill(self, place: int, content: bytes) -> None:
        half = len(content) // 2
        for path, part in zip(self.paths[place], (content[:half], content[half:]), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(part)

    def lose(self, place: int) -> None:
        for path in (*self.paths[place], self.redundancy[place]):
            path.unlink()

    def content(self, place: int) -> bytes:
        return b"".join(path.read_bytes() for path in self.paths[place])

    def each(self, action: Callable[[Member], None]) -> list[OSError | None]:
        """Let all members do `action` at once; their errors."""
        members = ThreadSet(len(self.sizes))

        def run(place: int) -> OSError | None:
            half = self.sizes[place] // 2
            files = list(zip(self.paths[place], (half, self.sizes[place] - half), strict=True))
            comm = cast("Any", ThreadComm(members, place))
            try:
                action(Member(comm, files, self.redundancy[place], self.sizes, self.chunk_bytes))
            except OSError as error:
                return error
            return None

        with ThreadPoolExecutor(len(self.sizes)) as pool:
            return list(pool.map(run, range(len(self.sizes))))


@given(
    scheme=st.sampled_from(["XOR", "PARTNER"]),
    contents=st.lists(st.binary(max_size=200), min_size=2, max_size=5),
    chunk_bytes=st.integers(1, 300),
    data=st.data(),
)
@settings(max_examples=50)
def test_whatever_a_set_survives_is_rebuilt_with_its_redundancy(
    tmp_path_factory: pytest.TempPathFactory,
    scheme: str,
    contents: list[bytes],
    chunk_bytes: int,
    data: st.DataObject,
) -> None:
    on_disk = SetOnDisk(tmp_path_factory.mktemp("set"), contents, chunk_bytes)
    places = range(len(contents))
    assert on_disk.each(lambda member: encode_set(scheme, member)) == [None] * len(contents)
    kept = [path.read_bytes() for path in on_disk.redundancy]

    lost = data.draw(
        st.frozensets(st.sampled_from(places), min_size=1).filter(
            lambda lost: can_rebuild(scheme, len(contents), lost)
        )
    )
    for place in lost:
        on_disk.lose(place)
    assert on_disk.each(lambda member: rebuild_set(scheme, member, lost)) == [None] * len(contents)

    assert [on_disk.content(place) for place in places] == contents
    assert [path.read_bytes() for path in on_disk.redundancy] == kept
    assert [len(content) for content in kept] == [
        redundancy_bytes(scheme, place, on_disk.sizes) for place in places
    ]


@pytest.mark.parametrize("scheme", ["XOR", "PARTNER"])
def test_a_member_that_cannot_read_its_files_fails_alone_and_keeps_nobody_waiting(
    tmp_path: Path, scheme: str
) -> None:
    on_disk = SetOnDisk(tmp_path, [b"abcdefgh" * 10] * 3, 16)
    on_disk.paths[1][0].unlink()
    first, second, third = on_disk.each(lambda member: encode_set(scheme, member))
    assert (first, third) == (None, None)
    assert isinstance(second, FileNotFoundError)


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
    assert logical.error is None
    assert read.tobytes() == bytes(whole[offset : offset + count]).ljust(count, b"\0")
    assert b"".join(path.read_bytes() for path, _ in paths) == bytes(whole)
