"""Finds the newest checkpoint that can be restarted from, and rebuilds it when nodes were lost.

For each checkpoint, newest first: the cache, if it is there on all ranks; the cache after a rebuild, if its
redundancy scheme survives what is lost; the prefix directory, if every byte of it is as it was written.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
from mpi4py import MPI

from .cache import FileMap, NodeCache, has_size
from .prefix_index import Entry, Prefix
from .redundancy import Member, can_rebuild, rebuild, redundancy_bytes


@dataclass(frozen=True)
class Restart:
    """A checkpoint to read: `source` as in RestartCompleted, its files below `directory`."""

    dataset: int
    name: str
    source: str
    directory: Path


@dataclass(frozen=True)
class Finder:
    """Every method is collective over `comm`; nothing is raised for what is broken: it is passed over."""

    comm: MPI.Intracomm
    cache: NodeCache
    prefix: Prefix
    tell: Callable[[str], None]

    def newest(
        self, cached: Collection[int], refused: Collection[int], chunk_bytes: int, *, fetch: bool
    ) -> Restart | None:
        """The newest checkpoint but for those `refused`; `cached` are those to look for in the cache.

        Checkpoints after the one that the application went back to come last.
        """
        indexed, current = self._indexed() if fetch else ({}, 0)
        known = sorted({*cached, *indexed} - set(refused), reverse=True)
        for dataset in sorted(known, key=lambda number: 0 < current < number):  # stable: newest first
            found = self._in_cache(dataset, chunk_bytes) if dataset in cached else None
            if found is None and dataset in indexed:
                found = self._in_prefix(indexed[dataset])
            if found is not None:
                return found
        return None

    def _indexed(self) -> tuple[dict[int, Entry], int]:
        """The checkpoints of the prefix directory, and which is the current one, as rank 0 knows them."""
        entries = self.prefix.entries.values()
        known = {entry.dataset: entry for entry in entries if entry.checkpoint and not entry.failed}
        return cast("tuple[dict[int, Entry], int]", self.comm.bcast((known, self.prefix.current)))

    def _in_cache(self, dataset: int, chunk_bytes: int) -> Restart | None:
        rank, ranks = self.comm.rank, self.comm.size
        own = self.cache.read(dataset, rank)
        everybody = self.comm.allgather((own, own is not None and self._is_intact(own)))
        maps = _complete_maps([filemap for filemap, _ in everybody], ranks)
        if maps is None:
            return None
        lost = {rank for rank, (_, intact) in enumerate(everybody) if not intact}
        for filemap in maps:
            lost_here = {index for index, member in enumerate(filemap.members) if member in lost}
            if not can_rebuild(filemap.scheme, len(filemap.members), lost_here):
                self.tell(
                    f"dataset {dataset} ({filemap.name}): more is lost from the cache than can be rebuilt"
                )
                return None
        if lost and not self._rebuild(maps[rank], lost, chunk_bytes):
            return None
        source = "rebuild" if lost else "cache"
        return Restart(dataset, maps[rank].name, source, self.cache.directory(dataset))

    def _is_intact(self, filemap: FileMap) -> bool:
        """Whether this rank's files are there, and the redundancy data it keeps for others."""
        keeps = redundancy_bytes(filemap.scheme, filemap.members.index(filemap.rank), filemap.sizes)
        return self.cache.has_files(filemap) and (
            filemap.scheme == "SINGLE"
            or has_size(self.cache.redundancy(filemap.dataset, filemap.rank), keeps)
        )

    def _rebuild(self, filemap: FileMap, lost: Collection[int], chunk_bytes: int) -> bool:
        """Restore what the `lost` ranks had; True when all of it is there again."""
        place = filemap.members.index(filemap.rank)
        lost_here = frozenset(index for index, member in enumerate(filemap.members) if member in lost)
        own = [
            (self.cache.file(filemap.dataset, file.name), file.size)
            for file in filemap.files_of(filemap.rank)
        ]
        error: OSError | None = None
        set_comm = cast("MPI.Intracomm", self.comm.Split(min(filemap.members), place))
        if lost_here:
            redundancy = self.cache.redundancy(filemap.dataset, filemap.rank)
            member = Member(set_comm, own, redundancy, filemap.sizes, chunk_bytes)
            error = rebuild(filemap.scheme, member, lost_here)
        set_comm.Free()
        if place in lost_here and error is None:
            try:
                self.cache.write(filemap)
            except OSError as problem:
                error = problem
        problems = [text for text in self.comm.allgather(str(error) if error else "") if text]
        if problems:
            self.tell(f"dataset {filemap.dataset} ({filemap.name}) could not be rebuilt: {problems[0]}")
        return not problems

    def _in_prefix(self, entry: Entry) -> Restart | None:
        """Verify a dataset of the prefix directory together; another number of ranks may have written it."""
        mine = range(self.comm.rank, entry.ranks, self.comm.size)
        summaries = [self.prefix.summary(entry.dataset, rank) for rank in mine]
        intact = all(summary is not None and self.prefix.is_intact(summary) for summary in summaries)
        if not self.comm.allreduce(intact, op=MPI.LAND):
            self.tell(
                f"dataset {entry.dataset} ({entry.name}) in the prefix directory is not as it was written"
            )
            return None
        return Restart(entry.dataset, entry.name, "prefix", self.prefix.root)


def _complete_maps(found: list[FileMap | None], ranks: int) -> list[FileMap] | None:
    """The file map of each rank, a lost one from its set's other members; None when this is no checkpoint.

    So it is when a set is lost altogether, or another number of ranks wrote it, or the maps do not agree.
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
