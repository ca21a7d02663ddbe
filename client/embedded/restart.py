"""Finds the newest checkpoint that can be restarted from, and rebuilds it when nodes were lost.

For each checkpoint, newest first: the cache, if it is there on all ranks; the cache after a rebuild, if its
redundancy scheme survives the losses; the prefix directory, if every byte of it is as it was written.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
from mpi4py import MPI

from .cache import FileMap, NodeCache, has_size
from .prefix.index import IndexEntry, Prefix
from .redundancy import Member, can_rebuild, rebuild_set, redundancy_bytes
from .topology import RankGroup


@dataclass(frozen=True)
class RestartPoint:
    """A checkpoint to read: `source` as in RestartCompleted, its files below `directory`."""

    dataset: int
    name: str
    source: str
    directory: Path


@dataclass(frozen=True)
class Finder:
    """Every method is collective. Checkpoints that are broken are passed over, without an exception."""

    ranks: RankGroup
    cache: NodeCache
    prefix: Prefix

    def newest(
        self, cached: Collection[int], refused: Collection[int], chunk_bytes: int, *, fetch: bool
    ) -> RestartPoint | None:
        """Return the newest checkpoint that is not `refused`; those after the current one come last."""
        indexed, current = self._indexed() if fetch else ({}, 0)
        known = sorted({*cached, *indexed} - set(refused), reverse=True)
        for dataset in sorted(known, key=lambda number: 0 < current < number):  # stable: newest first
            found = self._in_cache(dataset, chunk_bytes) if dataset in cached else None
            if found is None and dataset in indexed:
                found = self._in_prefix(indexed[dataset])
            if found is not None:
                return found
        return None

    def _indexed(self) -> tuple[dict[int, IndexEntry], int]:
        """Return the checkpoints of the prefix directory and the current one, as rank 0 knows them."""
        entries = self.prefix.entries.values()
        known = {entry.dataset: entry for entry in entries if entry.checkpoint and not entry.failed}
        indexed = self.ranks.comm.bcast((known, self.prefix.current))
        return cast("tuple[dict[int, IndexEntry], int]", indexed)

    def _in_cache(self, dataset: int, chunk_bytes: int) -> RestartPoint | None:
        own = self.cache.read(dataset, self.ranks.comm.rank)
        everybody = self.ranks.comm.allgather((own, own is not None and self._is_intact(own)))
        maps = _complete_maps([filemap for filemap, _ in everybody], self.ranks.comm.size)
        if maps is None:
            return None
        lost = {rank for rank, (_, intact) in enumerate(everybody) if not intact}
        for filemap in maps:
            if not can_rebuild(filemap.scheme, len(filemap.members), _lost_of(filemap, lost)):
                self.ranks.warn(f"{filemap}: more is lost from the cache than can be rebuilt")
                return None
        mine = maps[self.ranks.comm.rank]
        if lost and not self._rebuild(mine, _lost_of(mine, lost), chunk_bytes):
            return None
        source = "rebuild" if lost else "cache"
        return RestartPoint(dataset, mine.name, source, self.cache.directory(dataset))

    def _is_intact(self, filemap: FileMap) -> bool:
        """Return whether this rank's files are there, and the redundancy data it keeps for others."""
        expected = self.cache.sized_files(filemap)
        if filemap.scheme != "SINGLE":
            kept = redundancy_bytes(filemap.scheme, filemap.place, filemap.sizes)
            expected.append((self.cache.redundancy(filemap), kept))
        return all(has_size(path, size) for path, size in expected)

    def _rebuild(self, filemap: FileMap, lost: frozenset[int], chunk_bytes: int) -> bool:
        """Restore what the members `lost` of this rank's set had; True when all ranks have theirs again."""
        comm = cast("MPI.Intracomm", self.ranks.comm.Split(min(filemap.members), filemap.place))

        def restore() -> None:
            if lost:
                member = Member.of(comm, self.cache, filemap, chunk_bytes)
                rebuild_set(filemap.scheme, member, lost)
            if filemap.place in lost:
                self.cache.write(filemap)

        is_restored = self.ranks.attempt(restore, f"{filemap} could not be rebuilt")
        comm.Free()
        return is_restored

    def _in_prefix(self, entry: IndexEntry) -> RestartPoint | None:
        """Verify a dataset of the prefix directory together; another number of ranks may have written it."""
        mine = range(self.ranks.comm.rank, entry.ranks, self.ranks.comm.size)
        summaries = [self.prefix.summary(entry.dataset, rank) for rank in mine]
        intact = all(summary is not None and self.prefix.is_intact(summary) for summary in summaries)
        if not self.ranks.comm.allreduce(intact, op=MPI.LAND):
            self.ranks.warn(f"{entry} in the prefix directory is not as it was written")
            return None
        return RestartPoint(entry.dataset, entry.name, "prefix", self.prefix.root)


def _lost_of(filemap: FileMap, lost: Collection[int]) -> frozenset[int]:
    """Return the places in the map's set of its members that are among the ranks `lost`."""
    return frozenset(place for place, member in enumerate(filemap.members) if member in lost)


def _complete_maps(found: list[FileMap | None], ranks: int) -> list[FileMap] | None:
    """Return the file map of each rank, a lost one from its set's other members.

    None when a set is lost, or these are no maps of one checkpoint by as many ranks.
    """
    by_rank: dict[int, FileMap] = {}
    for filemap in filter(None, found):
        for member in filemap.members:
            by_rank.setdefault(member, msgspec.structs.replace(filemap, rank=member))
    if set(by_rank) != set(range(ranks)):
        return None
    if len({(m.name, m.checkpoint, m.ranks, m.scheme) for m in by_rank.values()}) != 1:
        return None
    first = by_rank[0]
    return [by_rank[rank] for rank in range(ranks)] if first.ranks == ranks and first.checkpoint else None
