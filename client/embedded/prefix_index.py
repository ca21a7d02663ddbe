"""The prefix directory: which datasets are whole there, by ``<SCR_PREFIX>/.scr/``.

``scr.dataset.<n>/summary.<rank>.json`` lists a rank's files and is written when all of them are in place;
``index.json`` names the datasets and is written last, by rank 0. A dataset whose ranks all wrote their
summary is whole even if the job was killed before rank 0 could note it: :meth:`Prefix.load` finds it.
"""

import contextlib
import re
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...scr_config.files import make_directory, write_atomic

_DATASET = re.compile(r"scr\.dataset\.(\d+)")
_READ_BYTES = 1 << 20


class PrefixFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file below the prefix directory. `crc32` is None when the application wrote it there by itself."""

    name: str
    size: int
    mtime_ns: int
    crc32: int | None = None


class RankSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's files of a dataset."""

    dataset: int
    name: str
    flags: int
    checkpoint: int
    ranks: int
    rank: int
    files: tuple[PrefixFile, ...]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset that is whole. `failed` is set when the application could not restart from it."""

    dataset: int
    name: str
    flags: int
    checkpoint: int
    ranks: int
    failed: bool = False


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The datasets, oldest first. `current`: the application went back to it, and wrote none since; or 0."""

    version: int = 1
    datasets: tuple[Entry, ...] = ()
    current: int = 0


class Prefix:
    """The prefix directory `root`. Only rank 0 may change the index, and it loads it first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: dict[int, Entry] = {}
        self.current = 0

    @property
    def scr_directory(self) -> Path:
        """SCR's own files."""
        return self.root / ".scr"

    @property
    def index_file(self) -> Path:
        """Names the datasets that are whole."""
        return self.scr_directory / "index.json"

    def summary_file(self, dataset: int, rank: int) -> Path:
        """Lists a rank's files."""
        return self.scr_directory / f"scr.dataset.{dataset}" / f"summary.{rank}.json"

    def datasets(self) -> set[int]:
        """Numbers of all datasets of which there is anything, whole or not."""
        with contextlib.suppress(OSError):
            return {
                int(m[1]) for path in self.scr_directory.iterdir() if (m := _DATASET.fullmatch(path.name))
            }
        return set()

    def load(self) -> None:
        """Read the index, and add what is whole but was not noted. An index that is broken is made anew."""
        try:
            index = msgspec.json.decode(self.index_file.read_bytes(), type=Index)
        except (OSError, msgspec.MsgspecError):
            index = Index()
        self.entries = {entry.dataset: entry for entry in index.datasets}
        self.current = index.current
        for dataset in sorted(self.datasets() - self.entries.keys()):
            first = self.summary(dataset, 0)
            if first and all(self.summary(dataset, rank) for rank in range(first.ranks)):
                self.entries[dataset] = entry_of(first)

    def write_summary(self, summary: RankSummary) -> None:
        """Say that a rank's files are in place. Raises OSError."""
        path = self.summary_file(summary.dataset, summary.rank)
        make_directory(path.parent)
        write_atomic(path, msgspec.json.encode(summary))

    def summary(self, dataset: int, rank: int) -> RankSummary | None:
        """A rank's files, or None when nothing readable says so."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self.summary_file(dataset, rank).read_bytes(), type=RankSummary)
        return None

    def is_intact(self, summary: RankSummary) -> bool:
        """Whether every file of `summary` is there, byte for byte.

        The bytes of a file without crc32 are not known: its size and time of change must be the same.
        """
        return all(_is_intact(self.root / file.name, file) for file in summary.files)

    def publish(self, entry: Entry) -> None:
        """Note a whole dataset; an older one of the same name is replaced. Raises OSError."""
        older = [
            old for old in self.entries.values() if old.name == entry.name and old.dataset != entry.dataset
        ]
        self.entries[entry.dataset] = entry
        if entry.checkpoint:
            self.current = 0
        self._forget([old.dataset for old in older])

    def mark_failed(self, dataset: int) -> None:
        """Never offer `dataset` for a restart again. Raises OSError."""
        if dataset in self.entries:
            self.entries[dataset] = msgspec.structs.replace(self.entries[dataset], failed=True)
            self._write()

    def named(self, name: str) -> list[int]:
        """Numbers of the datasets of that name, oldest first."""
        return sorted(dataset for dataset, entry in self.entries.items() if entry.name == name)

    def go_back_to(self, name: str) -> int:
        """The application goes on from checkpoint `name`: what came after it is the last choice from now on.

        Returns its number, 0 when there is no such checkpoint. Raises OSError.
        """
        checkpoints = [dataset for dataset in self.named(name) if self.entries[dataset].checkpoint]
        if not checkpoints:
            return 0
        self.current = checkpoints[-1]
        self.entries[self.current] = msgspec.structs.replace(self.entries[self.current], failed=False)
        self._write()
        return self.current

    def drop(self, name: str) -> int:
        """Forget the datasets of that name; their files stay. Returns how many. Raises OSError."""
        datasets = self.named(name)
        for dataset in datasets:
            del self.entries[dataset]
        if datasets:
            self._write()
        for dataset in datasets:  # a summary that is left would bring it back
            shutil.rmtree(self.summary_file(dataset, 0).parent, ignore_errors=True)
        return len(datasets)

    def delete(self, name: str) -> int:
        """Delete the datasets of that name: those of their files that nobody wrote since.

        Returns how many. Raises OSError.
        """
        if datasets := self.named(name):
            self._forget(datasets)
        return len(datasets)

    def keep_newest(self, count: int, exempt: int) -> list[int]:
        """Delete the oldest checkpoints beyond `count` (SCR_PREFIX_SIZE); 0 keeps all.

        Datasets with any of the flags `exempt`, or none of a checkpoint, do not count. Returns the deleted.
        """
        window = sorted(
            entry.dataset
            for entry in self.entries.values()
            if entry.checkpoint and not entry.flags & exempt and not entry.failed
        )
        oldest = window[:-count] if count > 0 else []
        if oldest:
            self._forget(oldest)
        return oldest

    def _forget(self, datasets: Sequence[int]) -> None:
        """Write the index without `datasets`, then delete their files: those that nobody wrote since."""
        ranks = {dataset: self.entries.pop(dataset).ranks for dataset in datasets}
        self._write()
        for dataset in datasets:
            summaries = [self.summary(dataset, rank) for rank in range(ranks[dataset])]
            shutil.rmtree(self.summary_file(dataset, 0).parent, ignore_errors=True)
            for summary in filter(None, summaries):
                self._delete(summary)

    def _delete(self, summary: RankSummary) -> None:
        parents: set[Path] = set()
        for file in summary.files:
            path = self.root / file.name
            with contextlib.suppress(OSError):
                if path.stat().st_mtime_ns == file.mtime_ns:
                    path.unlink()
                    parents.update(path.relative_to(self.root).parents)
        for parent in sorted(parents, key=lambda path: -len(path.parts))[:-1]:  # all but the prefix itself
            with contextlib.suppress(OSError):
                (self.root / parent).rmdir()

    def _write(self) -> None:
        make_directory(self.scr_directory)
        ordered = tuple(self.entries[dataset] for dataset in sorted(self.entries))
        write_atomic(
            self.index_file,
            msgspec.json.format(msgspec.json.encode(Index(datasets=ordered, current=self.current))),
        )


def entry_of(summary: RankSummary) -> Entry:
    """The index entry of the dataset that `summary` is a part of."""
    return Entry(
        dataset=summary.dataset,
        name=summary.name,
        flags=summary.flags,
        checkpoint=summary.checkpoint,
        ranks=summary.ranks,
    )


def written_in_place(root: Path, name: str) -> PrefixFile:
    """A file that the application wrote below the prefix directory itself. Raises OSError."""
    status = (root / name).stat()
    return PrefixFile(name=name, size=status.st_size, mtime_ns=status.st_mtime_ns)


def _is_intact(path: Path, file: PrefixFile) -> bool:
    try:
        status = path.stat()
        if status.st_size != file.size:
            return False
        if file.crc32 is None:
            return status.st_mtime_ns == file.mtime_ns
        return _crc32(path) == file.crc32
    except OSError:
        return False


def _crc32(path: Path) -> int:
    buffer, crc32 = bytearray(_READ_BYTES), 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            crc32 = zlib.crc32(memoryview(buffer)[:count], crc32)
    return crc32
