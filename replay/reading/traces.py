"""Recorded traces: .pfw and .pfw.gz files, directories and archives of them, as batches of whole lines.

:class:`.TraceDecoder` judges the lines; only what never becomes a line is counted here, as :class:`Damage`.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from .archives import ARCHIVES, TRACES, Pieces, is_archive, traces_in
from .salvage import MAGIC, PIECE_BYTES, Damage, inflate, read_at

MAX_LINE_BYTES = 1 << 20

_TIME = re.compile(rb'"ts":\s*"?(\d{1,19})')
_TIME_KEY = b'"ts"'
# epoch time says its unit by its size: each of these holds from 1973 until 5138
_LEAST_AND_UNIT_S = ((10**17, 1e-9), (10**14, 1e-6), (10**11, 1e-3), (10**8, 1.0))


class TraceNotFoundError(FileNotFoundError):
    """There is nothing to read at a path; the text says where and what to do."""


@dataclass(frozen=True)
class Batch:
    """Whole lines of one file (the file's last may lack its newline).

    `end_s` is the epoch time of the last event in it, or in the file so far; None before the first one.
    """

    source: str
    data: bytes
    end_s: float | None


@dataclass
class Summary:
    """The amount read so far: lines and bytes (decompressed) of all files, and what could not be read.

    It is complete when the batches are exhausted.
    """

    files: int = 0
    lines: int = 0
    bytes: int = 0
    damage: list[Damage] = field(default_factory=list)
    spans: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Epoch seconds of the first and the last event of each trace that has any, by its file and its name."""


def tiers_of(prefix: str, cache: str) -> dict[str, str]:
    """Return the tier of each of a job's directories; one that is empty is not known."""
    return {directory: tier for directory, tier in ((cache, "cache"), (prefix, "prefix")) if directory}


def find_traces(paths: Iterable[Path]) -> list[Path]:
    """Return the trace files among `paths`, each once; directories are searched for .pfw and .pfw.gz.

    A directory without any is searched for archives: those beside traces are likely to hold the same ones.
    Raises :class:`TraceNotFoundError`.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            files = _ending(path, TRACES) or _ending(path, ARCHIVES)
            if not files:
                raise TraceNotFoundError(
                    f"{path}: no .pfw or .pfw.gz file in it, nor a .tar of them; name a directory with some"
                )
        elif path.exists():
            files = [path]
        else:
            raise TraceNotFoundError(f"{path}: not there; name .pfw or .pfw.gz files, or a directory of them")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _ending(directory: Path, ends: Iterable[str]) -> list[Path]:
    return sorted(file for end in ends for file in directory.rglob(f"*{end}") if file.is_file())


def read_traces(paths: Iterable[Path], summary: Summary) -> Iterator[Batch]:
    """Yield the lines of all traces in `paths`, in batches of about 64 KiB, merged in order of their times.

    Holds one batch of each file. A file that cannot be read, or not to its end, loses only what is missing;
    `summary` says what. The traces in an archive come one after the other: with each, time goes back.
    Raises :class:`TraceNotFoundError`.
    """
    files = find_traces(paths)
    return heapq.merge(*(_batches(path, summary) for path in files), key=lambda batch: batch.end_s or 0.0)


def _batches(path: Path, summary: Summary) -> Iterator[Batch]:
    sources: set[str] = set()
    end_s: float | None = None
    for source, data in whole_lines(path, summary.damage):
        if source not in sources:
            sources.add(source)
            end_s = None
        end_s = _last_time_s(data) or end_s
        if end_s is not None:
            first_s = _first_time_s(data) or end_s
            since_s, until_s = summary.spans.get((str(path), source), (first_s, end_s))
            summary.spans[str(path), source] = (min(since_s, first_s), max(until_s, end_s))
        summary.lines += data.count(b"\n") + (not data.endswith(b"\n"))
        summary.bytes += len(data)
        yield Batch(source, data, end_s)
    summary.files += max(1, len(sources))


def _contents(path: Path, on_read: Callable[[int], None], piece_bytes: int) -> Iterator[tuple[str, Pieces]]:
    """Yield the traces of a file, their names and contents: several, if it is an archive."""
    pieces = _pieces(path, str(path), on_read, piece_bytes)
    first = next(pieces, b"")
    pieces = chain((first,), pieces)
    if isinstance(first, bytes) and is_archive(first, path.name):
        yield from traces_in(pieces, str(path), _pieces)
    else:
        yield str(path), pieces


def _pieces(
    path: Path,
    source: str,
    on_read: Callable[[int], None] = lambda _: None,
    piece_bytes: int = PIECE_BYTES,
) -> Pieces:
    """Yield the content of `path`, and where it is damaged. Its content decides what it is, not its name."""
    position = 0
    try:
        start = read_at(path, 0, len(MAGIC))
        if start == MAGIC or (start and path.suffix == ".gz" and start[:1] not in b"[{ \t\r\n"):
            yield from inflate(path, source, on_read, piece_bytes)
            return
        while piece := read_at(path, position, piece_bytes):
            position += len(piece)
            on_read(len(piece))
            yield piece
    except OSError as error:
        yield Damage(source, position, f"cannot be read: {error.strerror}")


def whole_lines(
    path: Path,
    damage: list[Damage],
    on_read: Callable[[int], None] = lambda _: None,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of each trace in `path`, with its name, cut at line ends: up to `piece_bytes` at once.

    A line that damage tore apart ends there, so that it spoils no other. `on_read` is told the bytes that
    were read of the file.
    """
    for source, pieces in _contents(path, on_read, piece_bytes):
        for lines in _cut(pieces, source, damage):
            yield source, lines


def _cut(pieces: Pieces, source: str, damage: list[Damage]) -> Iterator[bytes]:
    rest = b""
    passed = 0  # bytes up to `rest`
    skipping = False  # the remainder of a line that is too long
    for piece in pieces:
        if isinstance(piece, Damage):
            damage.append(piece)
            passed += len(rest)
            if rest:
                yield rest + b"\n"
            rest, skipping = b"", False
            continue
        fresh = piece
        if skipping:
            fresh = piece[piece.find(b"\n") + 1 :] if b"\n" in piece else b""
            skipping = b"\n" not in piece
        end = fresh.rfind(b"\n") + 1
        if end:
            lines = b"".join((rest, memoryview(fresh)[:end]))  # copied once
            passed += len(lines)
            yield lines
            rest = b""
        rest += fresh[end:]
        if len(rest) > MAX_LINE_BYTES:
            reason = f"a line is longer than {MAX_LINE_BYTES} bytes; its end was skipped"
            damage.append(Damage(source, passed, reason))
            passed += len(rest)
            yield rest + b"\n"
            rest, skipping = b"", True
    if rest:
        yield rest


def cut_at_gaps(data: bytes, gap_s: float) -> Iterator[bytes]:
    """Yield whole lines cut where events follow each other by more than `gap_s` seconds."""
    start, before_s = 0, None
    for found in _TIME.finditer(data):
        time_s = _epoch_s(found)
        if time_s is not None and before_s is not None and time_s - before_s > gap_s:
            line = data.rfind(b"\n", 0, found.start()) + 1
            yield data[start:line]
            start = line
        before_s = time_s or before_s
    yield data[start:]


def _last_time_s(data: bytes) -> float | None:
    """Return the epoch seconds of the last event in `data`, None when it has no time."""
    found = _TIME.match(data, max(0, data.rfind(_TIME_KEY)))
    return None if found is None else _epoch_s(found)


def _first_time_s(data: bytes) -> float | None:
    """Return the epoch seconds of the first event in `data`, None when it has no time."""
    found = _TIME.search(data)
    return None if found is None else _epoch_s(found)


def _epoch_s(found: "re.Match[bytes]") -> float | None:
    value = int(found[1])
    return next((value * unit_s for least, unit_s in _LEAST_AND_UNIT_S if value >= least), None)
