"""Traces in a tar archive, one after the other as they lie in it.

The archive is not unpacked: of its compressed traces one at a time is copied into a temporary file, because
damaged gzip is read twice (:mod:`.salvage`). A damaged header costs its own trace alone, unlike with tarfile.
"""

import re
import tarfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile

from .salvage import MAGIC, Damage

ARCHIVES = (".tar", ".tar.gz", ".tgz")
TRACES = (".pfw", ".pfw.gz")
"""How the names of archives and of traces end."""

_BLOCK = tarfile.BLOCKSIZE
_MAGIC, _MAGIC_AT = b"ustar", 257
_LARGEST_NAME = 1 << 16
_PAX_FIELD = re.compile(rb"\d+ (path|size)=([^\n]*)\n")

Pieces = Iterator[bytes | Damage]
ReadFile = Callable[[Path, str], Pieces]


def is_archive(start: bytes, name: str) -> bool:
    """Return whether a file of that `name` is an archive; `start` are its first bytes, decompressed."""
    return start.startswith(_MAGIC, _MAGIC_AT) or name.endswith(ARCHIVES)


def traces_in(pieces: Pieces, source: str, read_file: ReadFile) -> Iterator[tuple[str, Pieces]]:
    """Yield the name and the content of each trace in an archive, and beside them what it has lost.

    Each content is to be read before the next is asked for; `read_file` reads those that are compressed.
    """
    archive = _Archive(pieces, source)
    name = ""  # of the next file, where it is too long for the file's own header
    size: int | None = None
    has_end = was_damaged = False
    while len(block := archive.take(_BLOCK)) == _BLOCK:
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            has_end = isinstance(error, tarfile.EOFHeaderError)
            if not has_end and not was_damaged:  # the blocks behind it are none either
                at = archive.position - _BLOCK
                yield source, iter([Damage(source, at, f"a file of the archive is lost: {error}")])
            was_damaged = was_damaged or not has_end
            continue
        has_end = was_damaged = False
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            text = archive.take(min(header.size, _LARGEST_NAME))
            archive.skip(_padded(header.size) - len(text))
            if header.type == tarfile.XHDTYPE:
                found = dict(_PAX_FIELD.findall(text))
                size = int(found[b"size"]) if found.get(b"size", b"").isdigit() else size
                text = found.get(b"path", name.encode("utf-8", "surrogateescape"))
            name = text.rstrip(b"\0").decode("utf-8", "surrogateescape")
            continue
        length = (header.size if size is None else size) if _has_content(header) else 0
        path, name, size = name or header.name, "", None
        content = archive.pieces(length)
        if header.isreg() and path.endswith(TRACES):
            yield f"{source}/{path}", _decompressed(content, f"{source}/{path}", read_file)
        for _ in content:
            pass
        archive.skip(_padded(length) - length)
    if archive.damage is not None:
        yield source, iter([archive.damage])
    elif not has_end:
        yield source, iter([Damage(source, archive.position, "the archive is cut off")])


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _has_content(header: tarfile.TarInfo) -> bool:
    return header.isreg() or header.type not in tarfile.SUPPORTED_TYPES


class _Archive:
    """The content of an archive, piece by piece, until it ends or is damaged."""

    def __init__(self, pieces: Pieces, source: str) -> None:
        self._pieces = pieces
        self._source = source
        self._rest = b""
        self.position = 0
        self.damage: Damage | None = None

    def pieces(self, size: int) -> Pieces:
        """Yield the next `size` bytes, and a Damage where there are fewer."""
        while size > 0:
            if not self._rest:
                self._rest = self._next()
            if not self._rest:
                yield Damage(self._source, self.position, "the archive is damaged, or ends, within this file")
                return
            piece, self._rest = self._rest[:size], self._rest[size:]
            self.position += len(piece)
            size -= len(piece)
            yield piece

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        return b"".join(piece for piece in self.pieces(size) if isinstance(piece, bytes))

    def skip(self, size: int) -> None:
        """Leave out the next `size` bytes."""
        for _ in self.pieces(size):
            pass

    def _next(self) -> bytes:
        while self.damage is None and (piece := next(self._pieces, None)) is not None:
            if isinstance(piece, Damage):
                self.damage = piece  # what follows it is nowhere in particular
            elif piece:
                return piece
        return b""


def _decompressed(pieces: Pieces, source: str, read_file: ReadFile) -> Pieces:
    """Yield the content of a trace, decompressed."""
    first = next(pieces, b"")
    pieces = chain((first,), pieces)
    if isinstance(first, Damage) or not (first.startswith(MAGIC) or source.endswith(".gz")):
        yield from pieces
        return
    damage: list[Damage] = []
    with NamedTemporaryFile(suffix=".pfw.gz") as file:
        for piece in pieces:
            if isinstance(piece, Damage):
                damage.append(piece)
            else:
                file.write(piece)
        file.flush()
        yield from read_file(Path(file.name), source)
    yield from damage
