"""Tables of traces that were read before, remembered by path, size and time of the file."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from ..table import TraceTable

TABLE_VERSION = 2
"""Of what is remembered: a table of another version is made anew."""


@dataclass(frozen=True)
class TableCache:
    """Tables of files that were read before, in a directory of one's own."""

    directory: Path
    is_read: bool = True
    """Whether tables are taken from it; they are put into it in any case."""
    limit_bytes: int = 512 << 20

    def path_of(self, trace: Path, tiers: Mapping[str, str]) -> Path:
        """Return where the table of `trace` is remembered, as the file is now. Raises OSError."""
        status = trace.stat()
        key = (TABLE_VERSION, str(trace.resolve()), status.st_size, status.st_mtime_ns, sorted(tiers.items()))
        return self.directory / f"{hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()}.table"

    def get(self, trace: Path, tiers: Mapping[str, str]) -> TraceTable | None:
        """Return the table of `trace`, None where there is none that is of any use."""
        if self.is_read:
            with suppress(OSError, msgspec.MsgspecError):
                path = self.path_of(trace, tiers)
                table = msgspec.msgpack.decode(path.read_bytes(), type=TraceTable)
                with suppress(OSError):
                    os.utime(path)  # those that were not used for longest go first
                return table
        return None

    def put(self, trace: Path, tiers: Mapping[str, str], table: TraceTable) -> None:
        """Remember the table of `trace`; where that fails, it is read again the next time."""
        with suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self.directory, delete=False) as file:
                file.write(msgspec.msgpack.encode(table))
            Path(file.name).replace(self.path_of(trace, tiers))

    def files(self) -> list[tuple[float, int, Path]]:
        """Return when each table was used last (epoch seconds), its bytes and its path; oldest use first."""
        found: list[tuple[float, int, Path]] = []
        for path in self.directory.glob("*"):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return sorted(found)

    def prune(self, limit_bytes: int | None = None) -> None:
        """Remove tables until there are no more than `limit_bytes` (default: its own), oldest use first."""
        found = self.files()
        kept = sum(size for _, size, _ in found)
        for _, size, path in found:
            if kept <= (self.limit_bytes if limit_bytes is None else limit_bytes):
                break
            with suppress(OSError):
                path.unlink()
            kept -= size


def user_cache() -> TableCache:
    """Return the cache below the user's directory for such."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return TableCache(Path(base).expanduser() / "scrtune" / "tables")
