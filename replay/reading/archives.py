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
from typing import NamedTuple

from .salvage import MAGIC, Damage

ARCHIVES = (".tar", ".tar.gz", ".tgz")
TRACES = (".pfw", ".pfw.gz")
"""How the names of archives and of traces end."""

_BLOCK = tarfile.BLOCKSIZE
_MAGIC, _MAGIC_AT = b"ustar", 257
_LARGEST_EXTENSION = 1 << 16
_PAX_FIELD = re.compile(rb"\d+ (path|size)=([^\n]*)\n")
_PAX_SIZE = re.compile(rb"\d{1,18}")

Pieces = Iterator[bytes | Damage]
ReadFile = Callable[[Path, str], Pieces]


def is_archive(start: bytes, name: str) -> bool:
    """Return whether a file of that `name` is an archive; `start` are its first bytes, decompressed."""
    is_tar = start.startswith(_MAGIC, _MAGIC_AT) and not start.startswith((b"[", b"{"))
    return is_tar or name.endswith(ARCHIVES)


def traces_in(pieces: Pieces, source: str, read_file: ReadFile) -> Iterator[tuple[str, Pieces]]:
    """Yield the name and the content of each trace in an archive, and beside them what it has lost.

    Each content is to be read before the next is asked for; `read_file` reads those that are compressed.
    """
    for member in _Archive(pieces, source).members():
        if isinstance(member, Damage):
            yield source, iter([member])
        elif member.name.endswith(TRACES):
            name = f"{source}/{member.name}"
            yield name, _decompressed(member.content, name, read_file)


class _Member(NamedTuple):
    """A plain file of an archive."""

    name: str
    content: Pieces


class _Extension(NamedTuple):
    """What the next header has no room for: a long name, a large size."""

    name: str = ""
    size: int | None = None


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _has_content(header: tarfile.TarInfo) -> bool:
    return header.isreg() or header.type not in tarfile.SUPPORTED_TYPES


class _Archive:
    """The content of an archive, piece by piece, until it ends or is damaged."""

    def __init__(self, pieces: Pieces, source: str) -> None:
        self._pieces = pieces
        self._source = source
        self._rest = b""
        self._position = 0
        self._damage: Damage | None = None

    def members(self) -> Iterator[_Member | Damage]:
        """Yield the plain files, and what is lost."""
        extension = _Extension()
        has_end = is_damaged = is_torn = False
        while len(block := self.take(_BLOCK)) == _BLOCK:
            has_end = not block.strip(b"\0")
            if has_end:
                continue
            try:
                header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                if not is_damaged:  # the blocks behind it are no headers either
                    at = self._position - _BLOCK
                    yield Damage(self._source, at, f"a file of the archive is lost: {error}")
                is_damaged = True
                continue
            is_damaged = False
            if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
                extension = self._extension(header, extension)
                continue
            size = header.size if extension.size is None else extension.size
            size = size if _has_content(header) else 0
            content, end = self.pieces(size), self._position + size
            if header.isreg():
                yield _Member(extension.name or header.name, content)
            for _ in content:
                pass
            is_torn = self._position < end
            self.skip(_padded(size) - size)
            extension = _Extension()
        if self._damage is not None:
            yield self._damage
        elif not has_end and not is_torn:
            yield Damage(self._source, self._position, "the archive is cut off")

    def _extension(self, header: tarfile.TarInfo, known: _Extension) -> _Extension:
        text = self.take(min(header.size, _LARGEST_EXTENSION))
        self.skip(_padded(header.size) - len(text))
        if header.type == tarfile.GNUTYPE_LONGNAME:
            return known._replace(name=_text(text.rstrip(b"\0")))
        found = dict(_PAX_FIELD.findall(text))
        return _Extension(
            name=_text(found[b"path"]) if b"path" in found else known.name,
            size=int(found[b"size"]) if _PAX_SIZE.fullmatch(found.get(b"size", b"")) else known.size,
        )

    def pieces(self, size: int) -> Pieces:
        """Yield the next `size` bytes, and a Damage where there are fewer."""
        while size > 0:
            if not self._rest:
                self._rest = self._next()
            if not self._rest:
                yield Damage(self._source, self._position, "the archive ends within this file")
                return
            piece, self._rest = self._rest[:size], self._rest[size:]
            self._position += len(piece)
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
        while self._damage is None and (piece := next(self._pieces, None)) is not None:
            if isinstance(piece, Damage):
                self._damage = piece  # what follows it is nowhere in particular
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
