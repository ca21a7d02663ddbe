"""Datasets in the cache of one node: their files, and the file maps that say which of them are complete.

``<SCR_CACHE_BASE>/<user>/scr.<job>/node<k>/scr.dataset.<n>/`` holds the files of the node's ranks, under
their names relative to the prefix directory; ``.scr/`` in it the redundancy data and one file map per rank.
A file map is written last: a rank without one has nothing there.
"""

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...scr_config.files import write_atomic
from ..paths import check_ours

_DATASET = re.compile(r"scr\.dataset\.(\d+)")


class CachedFile(msgspec.Struct, frozen=True):
    """A file of a dataset: its name relative to the prefix directory, and its bytes."""

    name: str
    size: int


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """One output by some ranks. `checkpoint` counts checkpoints (SCR's checkpoint id), 0 for pure output."""

    dataset: int
    name: str
    flags: int
    checkpoint: int
    ranks: int

    def __str__(self) -> str:
        return f"dataset {self.dataset} ({self.name})"


class FileMap(Dataset, frozen=True, kw_only=True):
    """One rank's part of a dataset in its cache: the files of its set's `members`, encoded by `scheme`."""

    generation: int
    rank: int
    scheme: str
    members: tuple[int, ...]
    files: tuple[tuple[CachedFile, ...], ...]

    @property
    def place(self) -> int:
        """The place of this rank in its set."""
        return self.members.index(self.rank)

    @property
    def own_files(self) -> tuple[CachedFile, ...]:
        """The files of this rank."""
        return self.files[self.place]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each member."""
        return tuple(sum(file.size for file in files) for files in self.files)


@dataclass(frozen=True)
class NodeCache:
    """The cache of one job on one node, below `root`."""

    root: Path

    def directory(self, dataset: int) -> Path:
        """Return the directory of dataset number `dataset`."""
        return self.root / f"scr.dataset.{dataset}"

    def file(self, dataset: int, name: str) -> Path:
        """Return the path of the file `name` (relative to the prefix directory) of a dataset."""
        return self.directory(dataset) / name

    def filemap(self, dataset: int, rank: int) -> Path:
        """Return the path of a rank's file map."""
        return self.directory(dataset) / ".scr" / f"filemap.{rank}.json"

    def redundancy(self, filemap: FileMap) -> Path:
        """Return the path of the redundancy data that the map's rank keeps."""
        return self.directory(filemap.dataset) / ".scr" / f"redundancy.{filemap.rank}"

    @property
    def _private(self) -> tuple[Path, ...]:
        """The user's directory in the cache, and ours in it."""
        return self.root.parents[1], self.root.parent, self.root

    def check(self) -> None:
        """Raise :class:`RunDirectoryError` when what is there may be somebody else's, or a link elsewhere."""
        for directory in self._private:
            with suppress(FileNotFoundError, NotADirectoryError):
                check_ours(directory, "SCR_CACHE_BASE")

    def create(self, dataset: int) -> None:
        """Make the directories of a new dataset, for this user only. Raises OSError, and as :meth:`check`."""
        for directory in self._private:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_ours(directory, "SCR_CACHE_BASE")
        self.filemap(dataset, 0).parent.mkdir(parents=True, exist_ok=True)

    def remove(self, dataset: int) -> None:
        """Delete a dataset, its file maps first."""
        shutil.rmtree(self.filemap(dataset, 0).parent, ignore_errors=True)
        shutil.rmtree(self.directory(dataset), ignore_errors=True)

    def write(self, filemap: FileMap) -> None:
        """Record that the files of a rank are complete. Raises OSError."""
        path = self.filemap(filemap.dataset, filemap.rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, msgspec.json.encode(filemap), durable=False)

    def read(self, dataset: int, rank: int) -> FileMap | None:
        """Return the file map of a rank, or None when there is none that can be read."""
        with suppress(OSError, msgspec.MsgspecError):
            filemap = msgspec.json.decode(self.filemap(dataset, rank).read_bytes(), type=FileMap)
            return filemap if (filemap.dataset, filemap.rank) == (dataset, rank) else None
        return None

    def sized_files(self, filemap: FileMap) -> list[tuple[Path, int]]:
        """Return the path and the bytes of each file of the map's rank."""
        return [(self.file(filemap.dataset, file.name), file.size) for file in filemap.own_files]


def datasets_in(directory: Path) -> set[int]:
    """Return the numbers of the directories ``scr.dataset.<n>`` in `directory`, which need not exist."""
    with suppress(OSError):
        return {int(m[1]) for path in directory.iterdir() if (m := _DATASET.fullmatch(path.name))}
    return set()


def has_size(path: Path, size: int) -> bool:
    """Return whether `path` is a file of `size` bytes."""
    with suppress(OSError):
        return path.is_file() and path.stat().st_size == size
    return False
