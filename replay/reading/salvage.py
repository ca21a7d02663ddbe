"""Read damaged gzip files member by member: everything that can be read, and where something is missing.

dftracer 2.2.0 writes a member for each flush, the others one a file; a killed job cuts the last one off. A
damaged member is read a second time, by zlib: what lies before the damage does not depend on the library.
"""

import contextlib
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

_BAD: tuple[type[Exception], ...] = (zlib.error,)
try:  # inflates four times as fast; it is not to be had for every processor
    from isal import isal_zlib

    _BAD = (zlib.error, *cast("tuple[type[Exception]]", (isal_zlib.error,)))
except ImportError:
    import zlib as isal_zlib  # type: ignore[no-redef]

MAGIC = b"\x1f\x8b\x08"
PIECE_BYTES = 64 * 1024

_HEADER_BYTES = 10
_RESERVED_FLAGS = 0xE0
_TRIAL_BYTES = 4096
_TRIAL_OUTPUT_BYTES = 64
_GZIP = 31  # zlib's window bits for a gzip header and trailer
_CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r")


@dataclass(frozen=True)
class Damage:
    """A loss in `source`, `offset` bytes from its beginning."""

    source: str
    offset: int
    reason: str


def read_at(path: Path, offset: int, size: int = PIECE_BYTES) -> bytes:
    """Return up to `size` bytes from `offset`. The file is not kept open: thousands may be read together."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def inflate(
    path: Path,
    source: str,
    on_read: Callable[[int], None] = lambda _: None,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[bytes | Damage]:
    """Yield the content of the gzip file `path` in pieces, and a :class:`Damage` where something is missing.

    Continues with the next intact member after a damaged one; `on_read` is told the bytes that were read.
    Raises :class:`OSError`.
    """
    start: int | None = 0
    while start is not None and (header := read_at(path, start, _HEADER_BYTES)):
        if not _is_header(header):
            following = _next_member(path, start)
            if following is not None or not _only_zeros(path, start):  # zeros are allowed as padding
                yield Damage(source, start, "not a gzip member")
            start = following
            continue
        try:
            start = yield from _member(path, start, on_read, piece_bytes)
        except zlib.error as error:
            yield Damage(source, start, f"the gzip member that begins here is damaged: {error}")
            start = _next_member(path, start + 1)
        except EOFError:
            yield Damage(source, start, "the gzip member that begins here is cut off")
            start = _next_member(path, start + 1)


def _member(
    path: Path, start: int, on_read: Callable[[int], None], piece_bytes: int
) -> Generator[bytes, None, int]:
    """Yield one member's content; return where it ends. Raises :class:`EOFError` when it has none."""
    inflater, position, given = isal_zlib.decompressobj(wbits=_GZIP), start, 0
    while not inflater.eof:
        raw = inflater.unconsumed_tail
        if not raw:
            raw = read_at(path, position)
            position += len(raw)
            on_read(len(raw))
        try:
            piece = inflater.decompress(raw, piece_bytes) if raw else b""
        except _BAD:
            raw = piece = b""
        if not raw:
            return (yield from _damaged_member(path, start, given))
        given += len(piece)
        yield piece
    return position - len(inflater.unused_data)


def _damaged_member(path: Path, start: int, given: int) -> Generator[bytes, None, int]:
    """Yield what a member holds behind the `given` bytes. Raises zlib.error or EOFError."""
    inflater, position = zlib.decompressobj(wbits=_GZIP), start
    while not inflater.eof:
        raw = inflater.unconsumed_tail
        if not raw:
            raw = read_at(path, position)
            position += len(raw)
        before, failure = inflater.copy(), None
        try:
            piece = inflater.decompress(raw, PIECE_BYTES) if raw else inflater.flush()
        except zlib.error as error:
            piece, failure = _up_to_the_damage(before, raw), error
        yield piece[given:]
        given = max(0, given - len(piece))
        if failure is not None:
            raise failure
        if not raw and not inflater.eof:
            raise EOFError
    return position - len(inflater.unused_data)


def _up_to_the_damage(inflater: "zlib._Decompress", raw: bytes) -> bytes:
    """Return what `raw` holds before the bad byte: an error discards all that its call had decompressed."""
    good = bytearray()
    with contextlib.suppress(zlib.error):
        for at in range(len(raw)):
            good += inflater.decompress(raw[at : at + 1])
    return bytes(good)


def _is_header(header: bytes) -> bool:
    return len(header) == _HEADER_BYTES and header.startswith(MAGIC) and not header[3] & _RESERVED_FLAGS


def _next_member(path: Path, start: int) -> int | None:
    """Return where the next readable member begins, at `start` or after; the magic bytes may be chance."""
    position = start
    while len(raw := read_at(path, position, PIECE_BYTES + len(MAGIC) - 1)) >= len(MAGIC):
        found = raw.find(MAGIC)
        while found >= 0:
            if _looks_readable(read_at(path, position + found, _TRIAL_BYTES)):
                return position + found
            found = raw.find(MAGIC, found + 1)
        position += PIECE_BYTES
    return None


def _looks_readable(raw: bytes) -> bool:
    if not _is_header(raw[:_HEADER_BYTES]):
        return False
    try:
        text = zlib.decompressobj(wbits=_GZIP).decompress(raw, _TRIAL_OUTPUT_BYTES)
    except zlib.error:
        return False
    return bool(text) and _CONTROL.isdisjoint(text)


def _only_zeros(path: Path, start: int) -> bool:
    position = start
    while raw := read_at(path, position):
        if raw.strip(b"\0"):
            return False
        position += len(raw)
    return True
