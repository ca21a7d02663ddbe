"""Redundancy over nodes, as SCR's redset: PARTNER and XOR, encode and rebuild.

The files of a rank, one after the other, are its *logical file*.

**XOR** over n members: each logical file is cut into n - 1 segments of equal size (zeros behind its end).
Member r keeps one *parity* segment: the XOR of one segment of each other member. Any one member can be lost.
**PARTNER**: each member keeps a whole copy of its left neighbour. Neighbours must not be lost together.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from .cache import FileMap, NodeCache
from .settings import Levers
from .topology import RankGroup, redundancy_sets

Bytes = npt.NDArray[np.uint8]
_WORD_BYTES = 8
_LEAST_MEMBERS = 2


def segment_bytes(sizes: Sequence[int]) -> int:
    """Return the bytes of each segment of members with `sizes` bytes: a whole number of words."""
    return -(-max(sizes) // ((len(sizes) - 1) * _WORD_BYTES)) * _WORD_BYTES


def segment_offset(member: int, owner: int, members: int, segment: int) -> int:
    """Return the offset of the segment of `member` that is in the parity of `owner`."""
    return (owner - member - 1) % members * segment


def can_rebuild(scheme: str, members: int, lost: Collection[int]) -> bool:
    """Return whether a set of `members` survives the loss of members `lost` under `scheme`."""
    if scheme == "PARTNER":
        return all((member + 1) % members not in lost for member in lost)
    return len(lost) <= (1 if scheme == "XOR" else 0)


def redundancy_bytes(scheme: str, member: int, sizes: Sequence[int]) -> int:
    """Return the bytes that `member` keeps for the others, whose logical files have `sizes` bytes."""
    if scheme == "XOR":
        return segment_bytes(sizes)
    return sizes[member - 1] if scheme == "PARTNER" else 0


class LogicalFile:
    """Files in a row, as one: zeros are read behind the end, and what is written there is dropped.

    After the first OSError, :attr:`error`, nothing is done: the others of the set still get their messages.
    """

    def __init__(self, files: Sequence[tuple[Path, int]]) -> None:
        self._files = files
        self._open: tuple[Path, int, int] | None = None
        self.size = sum(size for _, size in files)
        self.error: OSError | None = None

    def create(self) -> None:
        """Make all files, with their sizes and the directories above them."""
        try:
            for path, size in self._files:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    file.truncate(size)
        except OSError as error:
            self.error = error

    def read(self, offset: int, target: Bytes) -> None:
        """Fill `target` from `offset` on."""
        target[:] = 0
        self._transfer(os.O_RDONLY, os.preadv, offset, target)

    def write(self, offset: int, source: Bytes) -> None:
        """Write `source` from `offset` on."""
        self._transfer(os.O_WRONLY, os.pwritev, offset, source)

    def close(self) -> None:
        """Close what is open; the next access opens it again."""
        if self._open is not None:
            os.close(self._open[2])
            self._open = None

    def _transfer(
        self, access: int, call: Callable[[int, list[memoryview], int], int], offset: int, buffer: Bytes
    ) -> None:
        if self.error is not None:
            return
        begin = 0
        try:
            for path, size in self._files:
                low, high = max(offset, begin), min(offset + len(buffer), begin + size)
                view, at = buffer[max(0, low - offset) : max(0, high - offset)].data, low - begin
                while view:
                    count = call(self._descriptor(path, access), [view], at)
                    if not count:
                        raise OSError(f"{path}: shorter than when the output was completed")  # noqa: TRY301 - kept, too
                    view, at = view[count:], at + count
                begin += size
        except OSError as error:
            self.error = error

    def _descriptor(self, path: Path, access: int) -> int:
        """Keep one file open at a time: accesses go in order, and ranks may have very many files."""
        if self._open is None or self._open[:2] != (path, access):
            self.close()
            self._open = (path, access, os.open(path, access))
        return self._open[2]


@dataclass(frozen=True)
class Member:
    """A rank in a set: its files, its redundancy data, and the bytes of all members' files."""

    comm: MPI.Intracomm
    files: Sequence[tuple[Path, int]]
    redundancy: Path
    sizes: Sequence[int]
    chunk_bytes: int

    @classmethod
    def of(cls, comm: MPI.Intracomm, cache: NodeCache, filemap: FileMap, chunk_bytes: int) -> "Member":
        """Return the rank of `filemap` in its set, whose communicator is `comm`."""
        return cls(comm, cache.sized_files(filemap), cache.redundancy(filemap), filemap.sizes, chunk_bytes)


def encode_set(scheme: str, member: Member) -> None:
    """Write the set's redundancy data. Collective; raises this rank's OSError after all messages."""
    rebuild_set(scheme, member, frozenset())


def rebuild_set(scheme: str, member: Member, lost: frozenset[int]) -> None:
    """Restore files and redundancy data of the members `lost`; as :func:`encode`."""
    me, members = member.comm.rank, member.comm.size
    own = redundancy_bytes(scheme, me, member.sizes)
    with (
        closing(LogicalFile(member.files)) as files,
        closing(LogicalFile([(member.redundancy, own)])) as redundancy,
    ):
        if me in lost:
            files.create()
        if me in lost or not lost:
            redundancy.create()
        if scheme == "XOR" and lost:
            _rebuild_xor(member, files, redundancy, *lost)
        elif scheme == "XOR":
            _encode_xor(member, files, redundancy)
        else:
            _shift(member, -1, redundancy, files, receivers=lost)
            _shift(member, 1, files, redundancy, receivers=lost or range(members))
    if error := files.error or redundancy.error:
        raise error


def _encode_xor(member: Member, files: LogicalFile, parity: LogicalFile) -> None:
    """Write this member's parity: all parities of the set are made together, a chunk of each at a time."""
    me, members = member.comm.rank, member.comm.size
    segment, chunk = segment_bytes(member.sizes), _chunk_bytes(member)
    pieces = np.zeros(members * min(chunk, segment), np.uint8)
    total = np.zeros(min(chunk, segment), np.uint8)
    for start in range(0, segment, chunk):
        count = min(chunk, segment - start)
        of_owner = pieces[: members * count].reshape(members, count)
        for owner in range(members):
            if owner != me:
                files.read(segment_offset(me, owner, members, segment) + start, of_owner[owner])
        of_owner[me] = 0
        sums = total[:count]
        member.comm.Reduce_scatter_block(of_owner.view(np.uint64), sums.view(np.uint64), op=MPI.BXOR)
        parity.write(start, sums)


def _rebuild_xor(member: Member, files: LogicalFile, parity: LogicalFile, lost: int) -> None:
    """Write segments and parity of the member `lost`: each is the XOR of what the others have of it."""
    me, members = member.comm.rank, member.comm.size
    segment, chunk = segment_bytes(member.sizes), _chunk_bytes(member)
    mine, total = np.zeros((2, min(chunk, segment)), np.uint8)
    for owner in range(members):
        file, base = (parity, 0) if me == owner else (files, segment_offset(me, owner, members, segment))
        for start in range(0, segment, chunk):
            piece, sums = mine[: segment - start], total[: segment - start]
            if me != lost:
                file.read(base + start, piece)
            target = sums.view(np.uint64) if me == lost else None
            member.comm.Reduce(piece.view(np.uint64), target, op=MPI.BXOR, root=lost)
            if me == lost:
                file.write(base + start, sums)


def _chunk_bytes(member: Member) -> int:
    return max(_WORD_BYTES, member.chunk_bytes // _WORD_BYTES * _WORD_BYTES)


def _shift(
    member: Member, step: int, source: LogicalFile, target: LogicalFile, receivers: Collection[int]
) -> None:
    """Copy each member's `source` to the `target` of the one `step` places on, if it is in `receivers`."""
    comm, chunk = member.comm, member.chunk_bytes
    to, origin = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
    out_bytes = source.size if to in receivers else 0
    in_bytes = target.size if comm.rank in receivers else 0
    outgoing, incoming = np.zeros(chunk, np.uint8), np.zeros(chunk, np.uint8)
    for start in range(0, max(member.sizes) if receivers else 0, chunk):
        out = outgoing[: max(0, min(chunk, out_bytes - start))]
        into = incoming[: max(0, min(chunk, in_bytes - start))]
        source.read(start, out)
        comm.Sendrecv(out, to, recvbuf=into, source=origin)
        target.write(start, into)


@dataclass(frozen=True)
class Encoder:
    """Completes datasets in the cache. Every method is collective over all ranks; none raises OSError."""

    ranks: RankGroup
    cache: NodeCache
    _sets: dict[tuple[str, int | None], MPI.Intracomm | None] = field(default_factory=dict)

    def complete(self, mine: FileMap, levers: Levers) -> FileMap | None:
        """Encode this rank's files and record them; return None when a rank could not record its own."""
        comm = self._set_of(levers)
        filemap = mine if comm is None else self._encode(mine, comm, levers)
        failure = f"{mine} is lost, the cache cannot record it"
        return filemap if self.ranks.attempt(lambda: self.cache.write(filemap), failure) else None

    def free(self) -> None:
        """Free the communicators of the sets."""
        for comm in filter(None, self._sets.values()):
            comm.Free()
        self._sets.clear()

    def _encode(self, mine: FileMap, comm: MPI.Intracomm, levers: Levers) -> FileMap:
        members, files = zip(*comm.allgather((mine.rank, mine.own_files)), strict=True)
        filemap = msgspec.structs.replace(mine, scheme=levers.scheme, members=members, files=files)
        member = Member.of(comm, self.cache, filemap, levers.mpi_buffer_bytes)
        if self.ranks.attempt(lambda: encode_set(levers.scheme, member), f"{mine} stays without redundancy"):
            return filemap
        with suppress(OSError):
            member.redundancy.unlink()
        return mine

    def _set_of(self, levers: Levers) -> MPI.Intracomm | None:
        """Return this rank's set; None for SINGLE, and where SCR, too, falls back to it: on a single node."""
        if levers.scheme == "SINGLE" or self.ranks.nodes == 1:
            return None
        size = max(_LEAST_MEMBERS, levers.set_size) if levers.scheme == "XOR" else None
        if (levers.scheme, size) not in self._sets:
            self._sets[levers.scheme, size] = self._new_set(levers.scheme, size)
        return self._sets[levers.scheme, size]

    def _new_set(self, scheme: str, size: int | None) -> MPI.Intracomm | None:
        sets = redundancy_sets(self.ranks.node_of, size)
        if min(map(len, sets)) < _LEAST_MEMBERS:
            self.ranks.warn(f"{scheme} needs equally many ranks on at least two nodes: SINGLE instead")
            return None
        rank = self.ranks.comm.rank
        members = next(members for members in sets if rank in members)
        return cast("MPI.Intracomm", self.ranks.comm.Split(members[0], members.index(rank)))
