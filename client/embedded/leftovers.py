"""What the embedded engine left in the cache of a job, and may go: what restarts no longer need."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .cache import FileMap, NodeCache, datasets_in, has_size
from .prefix.index import IndexEntry, Prefix


@dataclass(frozen=True)
class Leftovers:
    """The datasets in the `cache` of a job, as far as they are on its `prefix` directory or were superseded.

    One that is whole nowhere else stays, unless a newer checkpoint is on the prefix directory: SCR itself
    would delete it then, to make room. So it costs no job a restart, not even one that still runs.
    """

    cache: Path
    prefix: Path

    def removable(self) -> Iterator[Path]:
        """Yield the directories that may go."""
        prefix = Prefix(self.prefix)
        prefix.load()
        whole = {entry.dataset for entry in prefix.entries.values() if _is_whole(prefix, entry)}
        newest = max((number for number in whole if prefix.entries[number].checkpoint), default=0)
        for node in self._nodes():
            for dataset in sorted(datasets_in(node.root)):
                if dataset in whole or (
                    dataset < newest and all(map(_is_checkpoint, _filemaps(node, dataset)))
                ):
                    yield node.directory(dataset)

    @property
    def is_needed(self) -> bool:
        """Whether something is left that may not go."""
        kept = {node.directory(number) for node in self._nodes() for number in datasets_in(node.root)}
        return bool(kept.difference(self.removable()))

    def remove(self) -> None:
        """Delete what may go, and the directories that are empty then."""
        for directory in [*self.removable()]:
            NodeCache(directory.parent).remove(int(directory.name.rpartition(".")[2]))
        for directory in (*(node.root for node in self._nodes()), self.cache):
            with suppress(OSError):  # something is left
                directory.rmdir()

    def _nodes(self) -> Iterator[NodeCache]:
        yield from (NodeCache(path) for path in sorted(self.cache.glob("node*")))


def _filemaps(node: NodeCache, dataset: int) -> Iterator[FileMap | None]:
    for path in node.filemap(dataset, 0).parent.glob("filemap.*.json"):
        yield node.read(dataset, int(path.name.split(".")[1]))


def _is_checkpoint(filemap: FileMap | None) -> bool:
    return filemap is not None and filemap.checkpoint > 0


def _is_whole(prefix: Prefix, entry: IndexEntry) -> bool:
    """Return whether every file of every rank is on the prefix directory, with its size."""
    summaries = [prefix.summary(entry.dataset, rank) for rank in range(entry.ranks)]
    return not entry.failed and all(
        summary is not None and all(has_size(prefix.root / file.name, file.size) for file in summary.files)
        for summary in summaries
    )
