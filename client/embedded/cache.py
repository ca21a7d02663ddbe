"""Datasets in the cache of one node: where their files are, and what is said about them.

``<SCR_CACHE_BASE>/<user>/scr.<job>/node<k>/scr.dataset.<n>/`` holds the files of the node's ranks, under
their names relative to the prefix directory; ``.scr/`` in it the redundancy data and one file map per rank.
A file map is written last: without it a rank has nothing there.
"""

import contextlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...scr_config.files import write_atomic

_DATASET = re.compile(r"scr\.dataset\.(\d+)")


class CachedFile(msgspec.Struct, frozen=True):
    """A file of a dataset: its name relative to the prefix directory, and its bytes."""

    name: str
    size: int


class FileMap(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank knows of a dataset in its cache: also the files of all `members` of its set, in order.

    `scheme` is what the dataset was encoded with: later settings do not change how it is rebuilt.
    `checkpoint` counts checkpoints (SCR's checkpoint id), 0 for pure output.
    """

    dataset: int
    name: str
    flags: int
    checkpoint: int
    generation: int
    ranks: int
    rank: int
    scheme: str
    members: tuple[int, ...]
    files: tuple[tuple[CachedFile, ...], ...]

    def files_of(self, rank: int) -> tuple[CachedFile, ...]:
        """The files of world rank `rank`, a member of this set."""
        return self.files[self.members.index(rank)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each member."""
        return tuple(sum(file.size for file in files) for files in self.files)


@dataclass(frozen=True)
class NodeCache:
    """The cache of one job on one node, below `root`."""

    root: Path

    def directory(self, dataset: int) -> Path:
        """Where dataset number `dataset` is."""
        return self.root / f"scr.dataset.{dataset}"

    def file(self, dataset: int, name: str) -> Path:
        """Where its file `name` (relative to the prefix directory) is."""
        return self.directory(dataset) / name

    def filemap(self, dataset: int, rank: int) -> Path:
        """Where the file map of a rank is."""
        return self.directory(dataset) / ".scr" / f"filemap.{rank}.json"

    def redundancy(self, dataset: int, rank: int) -> Path:
        """Where the redundancy data is that `rank` keeps."""
        return self.directory(dataset) / ".scr" / f"redundancy.{rank}"

    def datasets(self) -> set[int]:
        """Numbers of all datasets of which there is anything."""
        with contextlib.suppress(OSError):
            return {int(m[1]) for path in self.root.iterdir() if (m := _DATASET.fullmatch(path.name))}
        return set()

    def create(self, dataset: int) -> None:
        """Make room for a new dataset: its directories, for this user only. Raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.filemap(dataset, 0).parent.mkdir(parents=True, exist_ok=True)

    def remove(self, dataset: int) -> None:
        """Delete a dataset: first what says that it is there."""
        shutil.rmtree(self.filemap(dataset, 0).parent, ignore_errors=True)
        shutil.rmtree(self.directory(dataset), ignore_errors=True)

    def write(self, filemap: FileMap) -> None:
        """Say that the files of a rank are complete. Raises OSError."""
        path = self.filemap(filemap.dataset, filemap.rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, msgspec.json.encode(filemap), durable=False)

    def read(self, dataset: int, rank: int) -> FileMap | None:
        """The file map of a rank, or None when there is none that can be read."""
        try:
            filemap = msgspec.json.decode(self.filemap(dataset, rank).read_bytes(), type=FileMap)
        except (OSError, msgspec.MsgspecError):
            return None
        return filemap if (filemap.dataset, filemap.rank) == (dataset, rank) else None

    def has_files(self, filemap: FileMap) -> bool:
        """Whether all files of the map's rank are there, with their sizes."""
        own = filemap.files_of(filemap.rank)
        return all(has_size(self.file(filemap.dataset, file.name), file.size) for file in own)


def has_size(path: Path, size: int) -> bool:
    """Whether `path` is a file of so many bytes."""
    try:
        return path.is_file() and path.stat().st_size == size
    except OSError:
        return False
