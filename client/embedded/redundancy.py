"""Redundancy over nodes, as SCR's redset: PARTNER and XOR, encode and rebuild.

A rank's files are seen as one long *logical file*, one after the other.

**XOR** over n members: each logical file is cut into n - 1 segments of equal size (zeros behind its end).
Member r keeps one *parity* segment: the XOR of one segment of each other member. Every segment of a member is
in the parity of another one, so any one member can be lost. Storage: n / (n - 1).

**PARTNER**: each member keeps a whole copy of its left neighbour. Storage: 2. Losses that are not neighbours
are survived.
"""

import enum
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

Bytes = npt.NDArray[np.uint8]
_WORD_BYTES = 8


class Part(enum.Enum):
    """What a member brings to, or gets from, one segment's XOR."""

    FILES = enum.auto()
    PARITY = enum.auto()
    NOTHING = enum.auto()


def segment_bytes(sizes: Sequence[int]) -> int:
    """Bytes of each segment, when the members' logical files have `sizes` bytes: a whole number of words."""
    segments = len(sizes) - 1
    words = -(-max(sizes) // (segments * _WORD_BYTES))
    return words * _WORD_BYTES


def segment_offset(member: int, owner: int, members: int, segment: int) -> int:
    """Where in the logical file of `member` the segment begins that is in the parity of `owner`."""
    return (owner - member - 1) % members * segment


def brings(member: int, owner: int, lost: int | None) -> Part:
    """What `member` brings to the XOR of `owner`'s parity, to encode (`lost` None) or to rebuild."""
    if member == lost:
        return Part.NOTHING
    if member != owner:
        return Part.FILES
    return Part.NOTHING if lost is None else Part.PARITY


def gets(member: int, owner: int, lost: int | None) -> Part:
    """What `member` gets out of that XOR: its parity, or a segment of its files back."""
    if member != (owner if lost is None else lost):
        return Part.NOTHING
    return Part.PARITY if member == owner else Part.FILES


def can_rebuild(scheme: str, members: int, lost: Collection[int]) -> bool:
    """Whether a set of `members` survives the loss of members `lost` under `scheme`."""
    if not lost:
        return True
    if scheme == "XOR":
        return len(lost) == 1
    if scheme == "PARTNER":
        return all((member + 1) % members not in lost for member in lost)
    return False


def redundancy_bytes(scheme: str, member: int, sizes: Sequence[int]) -> int:
    """Bytes of what `member` keeps for the others, whose logical files have `sizes` bytes."""
    if scheme == "XOR":
        return segment_bytes(sizes)
    return sizes[member - 1] if scheme == "PARTNER" else 0


class LogicalFile:
    """Files in a row, as one: zeros are read behind the end, and what is written there is dropped."""

    def __init__(self, files: Sequence[tuple[Path, int]]) -> None:
        self._files = files
        self.size = sum(size for _, size in files)
        self._open: tuple[Path, int, int] | None = None

    def create(self) -> None:
        """Make all files, with their sizes and the directories above them."""
        for path, size in self._files:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(size)

    def read(self, offset: int, target: Bytes) -> None:
        """Fill `target` from `offset` on."""
        target[:] = 0
        for path, at, low, high in self._pieces(offset, len(target)):
            view = target[low:high].data
            while view:
                count = os.preadv(self._descriptor(path, os.O_RDONLY), [view], at)
                if not count:
                    raise OSError(f"{path}: shorter than when the output was completed")
                view, at = view[count:], at + count  # noqa: PLW2901 - a short read goes on where it ended

    def write(self, offset: int, source: Bytes) -> None:
        """Write `source` from `offset` on."""
        for path, at, low, high in self._pieces(offset, len(source)):
            view = source[low:high].data
            while view:
                count = os.pwrite(self._descriptor(path, os.O_WRONLY), view, at)
                view, at = view[count:], at + count  # noqa: PLW2901 - as in read

    def _pieces(self, offset: int, count: int) -> list[tuple[Path, int, int, int]]:
        """The files touched by a range: path, offset in it, and from where to where in the buffer."""
        pieces: list[tuple[Path, int, int, int]] = []
        begin = 0
        for path, size in self._files:
            low, high = max(offset, begin), min(offset + count, begin + size)
            if low < high:
                pieces.append((path, low - begin, low - offset, high - offset))
            begin += size
        return pieces

    def _descriptor(self, path: Path, access: int) -> int:
        """One open file at a time: accesses go in order, and ranks may have very many files."""
        if self._open is None or self._open[:2] != (path, access):
            self.close()
            self._open = (path, access, os.open(path, access))
        return self._open[2]

    def close(self) -> None:
        """Close what is open; the next access opens it again."""
        if self._open is not None:
            os.close(self._open[2])
            self._open = None


class _Careful:
    """Does I/O until the first error and keeps it: the other members still wait for our messages."""

    def __init__(self) -> None:
        self.error: OSError | None = None

    def __call__(self, action: Callable[..., None], *arguments: Any) -> None:
        if self.error is None:
            try:
                action(*arguments)
            except OSError as error:
                self.error = error


@dataclass(frozen=True)
class Member:
    """A rank's place in a set: its files, its redundancy data, and the bytes of all members' files."""

    comm: MPI.Intracomm
    files: Sequence[tuple[Path, int]]
    redundancy: Path
    sizes: Sequence[int]
    chunk_bytes: int


def encode(scheme: str, member: Member) -> OSError | None:
    """Write the redundancy data of the set; collective over it. Returns this rank's first error."""
    return _run(scheme, member, frozenset())


def rebuild(scheme: str, member: Member, lost: frozenset[int]) -> OSError | None:
    """Restore files and redundancy data of the members `lost`; collective over the set. As :func:`encode`."""
    return _run(scheme, member, lost)


def _run(scheme: str, member: Member, lost: frozenset[int]) -> OSError | None:
    me = member.comm.rank
    careful = _Careful()
    own = redundancy_bytes(scheme, me, member.sizes)
    with (
        closing(LogicalFile(member.files)) as files,
        closing(LogicalFile([(member.redundancy, own)])) as redundancy,
    ):
        if me in lost:
            careful(files.create)
        if me in lost or not lost:
            careful(redundancy.create)
        if scheme == "XOR":
            _xor(member, files, redundancy, next(iter(lost), None), careful)
        elif lost:
            _partner_rebuild(member, files, redundancy, lost, careful)
        else:
            _partner_encode(member, files, redundancy, careful)
    return careful.error


def _xor(
    member: Member, files: LogicalFile, parity: LogicalFile, lost: int | None, careful: _Careful
) -> None:
    """Encode (`lost` None) or rebuild: the same sums, added up at another member."""
    me, members = member.comm.rank, member.comm.size
    segment = segment_bytes(member.sizes)
    chunk = max(_WORD_BYTES, member.chunk_bytes // _WORD_BYTES * _WORD_BYTES)
    mine = np.zeros(min(chunk, segment), np.uint8)
    total = np.zeros_like(mine)
    for owner in range(members):
        root = owner if lost is None else lost
        base = segment_offset(me, owner, members, segment)
        for start in range(0, segment, chunk):
            count = min(chunk, segment - start)
            mine[:count] = 0
            match brings(me, owner, lost):
                case Part.FILES:
                    careful(files.read, base + start, mine[:count])
                case Part.PARITY:
                    careful(parity.read, start, mine[:count])
            target = total[:count].view(np.uint64) if me == root else None
            member.comm.Reduce(mine[:count].view(np.uint64), target, op=MPI.BXOR, root=root)
            match gets(me, owner, lost):
                case Part.FILES:
                    careful(files.write, base + start, total[:count])
                case Part.PARITY:
                    careful(parity.write, start, total[:count])


def _partner_encode(member: Member, files: LogicalFile, copy: LogicalFile, careful: _Careful) -> None:
    """Everybody sends to the right and keeps what comes from the left, at the same time."""
    comm, chunk = member.comm, member.chunk_bytes
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    outgoing, incoming = np.zeros(chunk, np.uint8), np.zeros(chunk, np.uint8)
    for start in range(0, max(member.sizes), chunk):
        out = outgoing[: max(0, min(chunk, files.size - start))]
        into = incoming[: max(0, min(chunk, copy.size - start))]
        careful(files.read, start, out)
        comm.Sendrecv(out, right, recvbuf=into, source=left)
        careful(copy.write, start, into)


def _partner_rebuild(
    member: Member, files: LogicalFile, copy: LogicalFile, lost: frozenset[int], careful: _Careful
) -> None:
    """First every lost member gets its files back from the right, then its copy again from the left."""
    members = member.comm.size
    for target in sorted(lost):
        _move(member, ((target + 1) % members, copy.read), (target, files.write), target, careful)
    for target in sorted(lost):
        left = (target - 1) % members
        _move(member, (left, files.read), (target, copy.write), left, careful)


def _move(
    member: Member,
    sender: tuple[int, Callable[[int, Bytes], None]],
    receiver: tuple[int, Callable[[int, Bytes], None]],
    whose: int,
    careful: _Careful,
) -> None:
    """Bring the logical file of member `whose` from one member to another."""
    me, chunk = member.comm.rank, member.chunk_bytes
    if me not in (sender[0], receiver[0]):
        return
    buffer = np.zeros(chunk, np.uint8)
    for start in range(0, member.sizes[whose], chunk):
        piece = buffer[: min(chunk, member.sizes[whose] - start)]
        if me == sender[0]:
            careful(sender[1], start, piece)
            member.comm.Send(piece, receiver[0])
        else:
            member.comm.Recv(piece, sender[0])
            careful(receiver[1], start, piece)
