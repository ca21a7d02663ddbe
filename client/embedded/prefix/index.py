"""The prefix directory: the datasets that are whole there, by ``<SCR_PREFIX>/.scr/``.

``scr.dataset.<n>/summary.<rank>.json`` lists a rank's files and is written when all of them are in place;
``index.json`` names the datasets and is written last, by rank 0. A dataset whose ranks all wrote their
summary is whole even if the job was killed before rank 0 could note it: :meth:`Prefix.load` finds it.
"""

import os
import shutil
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ....scr_config.files import make_directory, write_atomic
from ..cache import Dataset, FileMap, datasets_in

_READ_BYTES = 1 << 20


class PrefixFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file below the prefix directory. `crc32` is None when the application wrote it there by itself."""

    name: str
    size: int
    mtime_ns: int
    crc32: int | None = None


class RankSummary(Dataset, frozen=True, kw_only=True):
    """One rank's files of a dataset."""

    rank: int
    files: tuple[PrefixFile, ...]

    @classmethod
    def of(cls, filemap: FileMap, files: Sequence[PrefixFile]) -> "RankSummary":
        """Return the summary of the map's rank, whose files are now `files`."""
        dataset = {name: getattr(filemap, name) for name in Dataset.__struct_fields__}
        return cls(**dataset, rank=filemap.rank, files=tuple(files))


class IndexEntry(Dataset, frozen=True, kw_only=True):
    """A dataset that is whole. `failed` is set when the application could not restart from it."""

    failed: bool = False

    @classmethod
    def of(cls, dataset: Dataset) -> "IndexEntry":
        """Return the entry of `dataset`."""
        return msgspec.convert(dataset, cls, from_attributes=True)


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The datasets, oldest first; `current` is the checkpoint that the application went back to, else 0."""

    version: int = 1
    datasets: tuple[IndexEntry, ...] = ()
    current: int = 0


class Prefix:
    """The prefix directory `root`. Only rank 0 may change the index, and it loads it first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scr_directory = root / ".scr"
        self.index_file = self.scr_directory / "index.json"
        self.entries: dict[int, IndexEntry] = {}
        self.current = 0

    def summary_file(self, dataset: int, rank: int) -> Path:
        """Return the path of a rank's summary."""
        return self.scr_directory / f"scr.dataset.{dataset}" / f"summary.{rank}.json"

    def load(self) -> None:
        """Read the index, and add what is whole but was not noted. An index that is broken is made anew."""
        try:
            index = msgspec.json.decode(self.index_file.read_bytes(), type=Index)
        except (OSError, msgspec.MsgspecError):
            index = Index()
        self.entries = {entry.dataset: entry for entry in index.datasets}
        self.current = index.current
        for dataset in sorted(datasets_in(self.scr_directory) - self.entries.keys()):
            first = self.summary(dataset, 0)
            if first and all(self.summary(dataset, rank) for rank in range(first.ranks)):
                self.entries[dataset] = IndexEntry.of(first)

    def write_summary(self, summary: RankSummary) -> None:
        """Record that a rank's files are in place. Raises OSError."""
        path = self.summary_file(summary.dataset, summary.rank)
        make_directory(path.parent)
        write_atomic(path, msgspec.json.encode(summary))

    def summary(self, dataset: int, rank: int) -> RankSummary | None:
        """Return a rank's summary, or None when there is none that can be read."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self.summary_file(dataset, rank).read_bytes(), type=RankSummary)
        return None

    def is_intact(self, summary: RankSummary) -> bool:
        """Return whether every file of `summary` is there, byte for byte."""
        return all(_is_intact(self.root / file.name, file) for file in summary.files)

    def sync_written(self, name: str) -> PrefixFile:
        """Make durable a file that the application itself wrote here. Raises OSError."""
        with (self.root / name).open("rb") as file:
            os.fsync(file)
            status = os.fstat(file.fileno())
        return PrefixFile(name=name, size=status.st_size, mtime_ns=status.st_mtime_ns)

    def publish(self, entry: IndexEntry) -> None:
        """Note a whole dataset; an older one of the same name is replaced. Raises OSError."""
        older = [number for number in self._named(entry.name) if number != entry.dataset]
        self.entries[entry.dataset] = entry
        if entry.checkpoint:
            self.current = 0
        self._forget(older)

    def mark_failed(self, dataset: int) -> None:
        """Never offer `dataset` for a restart again. Raises OSError."""
        if dataset in self.entries:
            self.entries[dataset] = msgspec.structs.replace(self.entries[dataset], failed=True)
            self._write()

    def checkpoint_named(self, name: str) -> int:
        """Return the number of the newest checkpoint of that name, 0 when there is none."""
        return max((number for number in self._named(name) if self.entries[number].checkpoint), default=0)

    def go_back_to(self, dataset: int) -> None:
        """Offer checkpoint `dataset` first from now on, and those after it last. Raises OSError."""
        self.current = dataset
        self.entries[dataset] = msgspec.structs.replace(self.entries[dataset], failed=False)
        self._write()

    def drop(self, name: str) -> None:
        """Forget the datasets of that name; their files stay. Raises OSError."""
        if datasets := self._named(name):
            self._forget(datasets, keep_files=True)

    def delete(self, name: str) -> None:
        """Delete the datasets of that name: those of their files that nobody wrote since. Raises OSError."""
        if datasets := self._named(name):
            self._forget(datasets)

    def keep_newest(self, count: int, exempt: int) -> None:
        """Delete the oldest checkpoints beyond `count` (SCR_PREFIX_SIZE); 0 keeps all. Raises OSError.

        Pure output, failed checkpoints and those with any of the flags `exempt` neither count nor go.
        """
        window = sorted(
            entry.dataset
            for entry in self.entries.values()
            if entry.checkpoint and not entry.flags & exempt and not entry.failed
        )
        if count > 0 and len(window) > count:
            self._forget(window[:-count])

    def _named(self, name: str) -> list[int]:
        return [dataset for dataset, entry in self.entries.items() if entry.name == name]

    def _forget(self, datasets: Sequence[int], *, keep_files: bool = False) -> None:
        """Write the index without `datasets`, then delete their files: those that nobody wrote since."""
        ranks = {dataset: self.entries.pop(dataset).ranks for dataset in datasets}
        self._write()
        for dataset in datasets:
            summaries = [self.summary(dataset, rank) for rank in range(ranks[dataset])]
            # a summary that is left would bring the dataset back
            shutil.rmtree(self.summary_file(dataset, 0).parent, ignore_errors=True)
            for summary in filter(None, summaries if not keep_files else ()):
                self._delete(summary)

    def _delete(self, summary: RankSummary) -> None:
        parents: set[Path] = set()
        for file in summary.files:
            path = self.root / file.name
            with suppress(OSError):
                if path.stat().st_mtime_ns == file.mtime_ns:
                    path.unlink()
                    parents.update(path.relative_to(self.root).parents)
        for parent in sorted(parents, key=lambda path: -len(path.parts))[:-1]:  # all but the prefix itself
            with suppress(OSError):
                (self.root / parent).rmdir()

    def _write(self) -> None:
        make_directory(self.scr_directory)
        ordered = tuple(self.entries[dataset] for dataset in sorted(self.entries))
        index = msgspec.json.encode(Index(datasets=ordered, current=self.current))
        write_atomic(self.index_file, msgspec.json.format(index))


def _is_intact(path: Path, file: PrefixFile) -> bool:
    with suppress(OSError):
        status = path.stat()
        if file.crc32 is None:
            return (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns)
        return status.st_size == file.size and _crc32(path) == file.crc32
    return False


def _crc32(path: Path) -> int:
    crc32 = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_READ_BYTES):
            crc32 = zlib.crc32(piece, crc32)
    return crc32
