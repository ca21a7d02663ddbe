"""What each output of a recorded trace wrote: its files, their sizes, and whether several ranks write one.

For this the trace is read again, line by line, so it is done for traces of up to :data:`MOST_LINES` lines.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from ..goodput.events import OutputCompleted
from ..intents.events import Access, Operation, Tier, TraceDigest
from ..intents.trace.decoder import TraceDecoder
from ..intents.trace.digest import AccessSum, AccessTable, Group, Tiers
from .reading.traces import Summary, read_traces
from .spans import JobInterval

MOST_LINES = 500_000
"""Read again in two seconds."""

_OUTSIDE = -1
_APPLICATION = (Tier.CACHE, Tier.PREFIX, Tier.OTHER)
"""The first of these that any output wrote to has the application's own files."""


class WrittenOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one output wrote. `are_shared`: several processes wrote one file, or files of one name."""

    bytes: int
    files: int
    are_shared: bool
    accesses: tuple[Access, ...]

    def told(self, output: OutputCompleted) -> OutputCompleted:
        """Return `output` with what is known of it."""
        return msgspec.structs.replace(
            output, bytes=self.bytes, files=self.files, shared_files=self.are_shared
        )

    @property
    def digest(self) -> TraceDigest:
        """The writes as a digest that counts no lines."""
        return _digest(self.accesses)


def read_outputs(
    paths: Iterable[Path], tiers: Mapping[str, str], saves: Sequence[JobInterval]
) -> tuple[list[WrittenOutput], TraceDigest]:
    """Return what each of `saves`, in order of time, wrote, and all writes outside them."""
    table = _WriteTable(saves)
    decoder = TraceDecoder(_Paths(), table=table)
    for batch in read_traces(paths, Summary()):
        decoder.feed(batch.data, batch.source)
    decoder.take(final=True)
    places = Tiers(tiers)
    written = {path: (places.of(path), group.parts) for path, group in table.files.items()}
    own = _own_tier(written.values())
    found = [_written(written, number, own) for number in range(len(saves))]
    return found, _digest(_accesses(written, _OUTSIDE))


def without_writes(digest: TraceDigest) -> TraceDigest:
    """Return `digest` without the writes that :func:`read_outputs` tells apart."""
    kept = tuple(access for access in digest.accesses if access.op != Operation.WRITE)
    return msgspec.structs.replace(digest, accesses=kept)


class _Paths:
    """Every file is a place of its own."""

    def of(self, path: str) -> str:
        return path


class _FileGroup(Group):
    """The accesses of one file, by the output that they were made in."""

    __slots__ = ("parts", "starts_ns", "windows")

    def __init__(self, windows: Sequence[tuple[int, int]], starts_ns: Sequence[int]) -> None:
        super().__init__()
        self.windows, self.starts_ns = windows, starts_ns
        self.parts: dict[int, Group] = {}

    def add(self, found: AccessSum) -> None:
        """Add accesses, as Group.add does."""
        number = bisect_right(self.starts_ns, found.start_ns) - 1
        if number < 0 or found.start_ns > self.windows[number][1]:
            number = _OUTSIDE
        self.parts.setdefault(number, Group()).add(found)

    def merge(self, other: Group) -> None:
        """Add all of `other`."""
        if isinstance(other, _FileGroup):
            for number, part in other.parts.items():
                self.parts.setdefault(number, Group()).merge(part)

    @property
    def size(self) -> int:
        """Number of things that are remembered here."""
        return 1 + sum(part.size for part in self.parts.values())


class _WriteTable(AccessTable):
    """The files that were written, each with its outputs."""

    def __init__(self, saves: Sequence[JobInterval]) -> None:
        windows = [(int(save.start_s * 1e9) - 1000, int(save.end_s * 1e9) + 1000) for save in saves]
        starts_ns = [start_ns for start_ns, _ in windows]
        super().__init__(lambda: _FileGroup(windows, starts_ns))
        self.files: dict[str, _FileGroup] = {}

    def take(self) -> tuple[tuple[()], int]:
        """Keep the files that were written; return nothing."""
        for (path, op), group in self._settled.items():
            if op is Operation.WRITE and isinstance(group, _FileGroup):
                self.files[path] = group
        return (), 0


_Written = Mapping[str, tuple[str, Mapping[int, Group]]]
"""Path -> its place, and the writes by the number of the output."""


def _own_tier(written: Iterable[tuple[str, Mapping[int, Group]]]) -> str:
    found = {place.partition("/")[0] for place, parts in written if parts.keys() - {_OUTSIDE}}
    return next((tier for tier in _APPLICATION if tier in found), Tier.OTHER)


def _written(written: _Written, number: int, own: str) -> WrittenOutput:
    files = {
        path: parts[number]
        for path, (place, parts) in written.items()
        if number in parts and place.partition("/")[0] == own and parts[number].bytes
    }
    names = {PurePosixPath(path).name for path in files}
    return WrittenOutput(
        bytes=sum(part.bytes for part in files.values()),
        files=len(files),
        are_shared=len(names) < len(files)
        or any(len({pid for pid, _ in part.threads}) > 1 for part in files.values()),
        accesses=_accesses(written, number),
    )


def _accesses(written: _Written, number: int) -> tuple[Access, ...]:
    groups: dict[str, Group] = {}
    for place, parts in written.values():
        if number in parts:
            groups.setdefault(place, Group()).merge(parts[number])
    return tuple(group.access(place, Operation.WRITE) for place, group in sorted(groups.items()))


def _digest(accesses: tuple[Access, ...]) -> TraceDigest:
    return TraceDigest(
        start_s=min((access.start_s for access in accesses), default=0.0),
        end_s=max((access.end_s for access in accesses), default=0.0),
        accesses=accesses,
    )
