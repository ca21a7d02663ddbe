"""Recorded traces: files and directories of .pfw and .pfw.gz, as batches of whole lines, in order of time.

The lines themselves are :class:`.decoder.TraceDecoder`'s business: what is torn or broken
goes to it as it is, and it counts it. Only what never becomes a line is counted here, as :class:`Damage`.
"""

import heapq
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .salvage import MAGIC, Damage, inflate, read_at

PATTERNS = ("*.pfw", "*.pfw.gz")
MAX_LINE_BYTES = 1 << 20

_TIME = re.compile(rb'"ts":\s*"?(\d{1,19})')
_TIME_KEY = b'"ts"'
# epoch time says its unit by its size: each of these holds from 1973 until 5138
_LEAST_AND_UNIT_S = ((10**17, 1e-9), (10**14, 1e-6), (10**11, 1e-3), (10**8, 1.0))


class TraceNotFoundError(FileNotFoundError):
    """There is nothing to read where the user pointed to; the text says where and what to do."""


@dataclass(frozen=True)
class Batch:
    """Whole lines of one file (the file's last may lack its newline).

    `end_s` is the epoch time of the last event in it, or in the file so far; None before the first one.
    """

    source: str
    data: bytes
    end_s: float | None


@dataclass
class FileSummary:
    """What was read of one file so far: lines and bytes (decompressed), and what could not be."""

    source: str
    lines: int = 0
    bytes: int = 0
    damage: list[Damage] = field(default_factory=list)


@dataclass
class Summary:
    """What was read of each file so far. It is complete when the batches are exhausted."""

    files: list[FileSummary] = field(default_factory=list)

    @property
    def lines(self) -> int:
        """Lines of all files."""
        return sum(file.lines for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of all files, decompressed."""
        return sum(file.bytes for file in self.files)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Everything that could not be read."""
        return tuple(damage for file in self.files for damage in file.damage)


def find(paths: Iterable[Path]) -> list[Path]:
    """The trace files among `paths`, each once; directories are searched for .pfw and .pfw.gz.

    Raises :class:`TraceNotFoundError`.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            files = sorted(file for pattern in PATTERNS for file in path.rglob(pattern) if file.is_file())
            if not files:
                raise TraceNotFoundError(f"{path}: no .pfw or .pfw.gz file in it; name a directory with some")
        elif path.exists():
            files = [path]
        else:
            raise TraceNotFoundError(f"{path}: not there; name .pfw or .pfw.gz files, or a directory of them")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def read(paths: Iterable[Path], summary: Summary | None = None) -> Iterator[Batch]:
    """The lines of all traces in `paths`, in batches of about 64 KiB, merged in order of their times.

    Holds one batch of each file. A file that cannot be read, or not to its end, costs only what is missing
    of it; `summary` says what. Raises :class:`TraceNotFoundError`.
    """
    summary = Summary() if summary is None else summary
    streams = []
    for path in find(paths):
        entry = FileSummary(str(path))
        summary.files.append(entry)
        streams.append(_batches(path, entry))
    return heapq.merge(*streams, key=lambda batch: batch.end_s or 0.0)


def _batches(path: Path, entry: FileSummary) -> Iterator[Batch]:
    end_s: float | None = None
    for data in _whole_lines(_pieces(path, entry), entry):
        end_s = _last_time_s(data) or end_s
        entry.lines += data.count(b"\n") + (not data.endswith(b"\n"))
        entry.bytes += len(data)
        yield Batch(entry.source, data, end_s)


def _pieces(path: Path, entry: FileSummary) -> Iterator[bytes | Damage]:
    """The content of `path`, and where it is damaged. What it holds decides, not its name."""
    position = 0
    try:
        start = read_at(path, 0, len(MAGIC))
        if start == MAGIC or (start and path.suffix == ".gz" and start[:1] not in b"[{ \t\r\n"):
            yield from inflate(path, entry.source)
            return
        while piece := read_at(path, position):
            position += len(piece)
            yield piece
    except OSError as error:
        yield Damage(entry.source, position, f"cannot be read: {error.strerror}")


def _whole_lines(pieces: Iterable[bytes | Damage], entry: FileSummary) -> Iterator[bytes]:
    """`pieces` cut at line ends. A line that damage tore apart ends there, so that it spoils no other."""
    rest = b""
    skipping = False  # the remainder of a line that is too long
    for piece in pieces:
        if isinstance(piece, Damage):
            entry.damage.append(piece)
            if rest:
                yield rest + b"\n"
            rest, skipping = b"", False
            continue
        fresh = piece
        if skipping:
            fresh = piece[piece.find(b"\n") + 1 :] if b"\n" in piece else b""
            skipping = b"\n" not in piece
        lines = rest + fresh
        end = lines.rfind(b"\n") + 1
        rest = lines[end:]
        if end:
            yield lines[:end]
        if len(rest) > MAX_LINE_BYTES:
            reason = f"a line is longer than {MAX_LINE_BYTES} bytes; its end was skipped"
            entry.damage.append(Damage(entry.source, entry.bytes, reason))
            yield rest + b"\n"
            rest, skipping = b"", True
    if rest:
        yield rest


def _last_time_s(data: bytes) -> float | None:
    """Epoch seconds of the last event in `data`."""
    found = _TIME.match(data, max(0, data.rfind(_TIME_KEY)))
    if found is None:
        return None
    value = int(found[1])
    return next((value * unit_s for least, unit_s in _LEAST_AND_UNIT_S if value >= least), None)
