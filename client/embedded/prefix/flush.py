"""Brings datasets from the cache to the prefix directory, one at a time, and notes them in its index."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mpi4py import MPI

from ....goodput.events import FlushCompleted
from ...engine import OutputFlags
from ..cache import FileMap, NodeCache
from ..output import over_ranks
from ..settings import Levers
from ..topology import RankGroup
from .copy import Copy, CopyThreads
from .drop_behind import DropBehind
from .index import IndexEntry, Prefix, PrefixFile, RankSummary


@dataclass(frozen=True)
class _UnderWay:
    threads: CopyThreads
    filemap: FileMap
    levers: Levers
    asynchronous: bool


class Flusher:
    """Every method but :attr:`dataset` and :meth:`take` is collective; none raises OSError."""

    def __init__(self, ranks: RankGroup, cache: NodeCache, prefix: Prefix, drop_behind: DropBehind) -> None:
        self._ranks = ranks
        self._cache = cache
        self._prefix = prefix
        self._drop_behind = drop_behind
        self._under_way: _UnderWay | None = None
        self._finished: list[FlushCompleted] = []

    @property
    def dataset(self) -> int | None:
        """The dataset that is being flushed; equal on all ranks."""
        return None if self._under_way is None else self._under_way.filemap.dataset

    def take(self) -> Sequence[FlushCompleted]:
        """Return the flushes that ended on all ranks and were not returned yet."""
        finished, self._finished = self._finished, []
        return finished

    def flush(self, filemap: FileMap, levers: Levers) -> None:
        """Flush a cached dataset, when no other flush is under way."""
        self.start(filemap, levers, asynchronous=False)
        self.wait()

    def start(self, filemap: FileMap, levers: Levers, *, asynchronous: bool = True) -> None:
        """Start to flush a cached dataset, when no other flush is under way."""
        copies = [
            Copy(self._cache.file(filemap.dataset, file.name), self._prefix.root, file.name, file.size)
            for file in filemap.own_files
        ]

        def publish(copied: Sequence[PrefixFile]) -> None:
            self._prefix.write_summary(RankSummary.of(filemap, copied))

        threads = CopyThreads(copies, levers.copy_options, publish)
        self._under_way = _UnderWay(threads, filemap, levers, asynchronous)

    def wait(self) -> float:
        """Wait for the end of the flush that is under way; return the seconds."""
        before_s = time.time()
        if self._under_way is not None:
            self._under_way.threads.wait()
            met = self._ranks.comm.Ibarrier()
            while not met.Test():  # an MPI_Barrier would spin, on the cores that the others' threads need
                time.sleep(self._under_way.levers.poll_us / 1e6)
            self._settle(self._under_way)
        return time.time() - before_s

    def poll(self) -> None:
        """Note the end of the flush that is under way, if it ended on all ranks."""
        under_way = self._under_way
        if under_way is not None and self._ranks.comm.allreduce(under_way.threads.done, op=MPI.LAND):
            self._settle(under_way)

    def publish_in_place(self, filemap: FileMap, levers: Levers) -> bool:
        """Note a dataset that the application wrote to the prefix directory; False when that failed."""

        def publish() -> None:
            files = [self._prefix.sync_written(file.name) for file in filemap.own_files]
            self._prefix.write_summary(RankSummary.of(filemap, files))

        return self._ranks.attempt(publish, _missing(filemap)) and self._note(filemap, levers)

    def _settle(self, under_way: _UnderWay) -> None:
        """All ranks have ended: note the dataset, and record how it went."""
        self._under_way = None
        threads, filemap = under_way.threads, under_way.filemap
        is_copied = self._ranks.attempt(threads.check, _missing(filemap))
        own = FlushCompleted(
            dataset=filemap.dataset,
            start_s=threads.start_s,
            end_s=threads.end_s,
            generation=filemap.generation,
            asynchronous=under_way.asynchronous,
            bytes=threads.bytes,
            threads=threads.count,
            valid=is_copied and self._note(filemap, under_way.levers),
            cpu_s=threads.core_time.cpu_s,
            run_delay_s=threads.core_time.run_delay_s,
        )
        self._finished.append(over_ranks(self._ranks.comm, own))

    def _note(self, filemap: FileMap, levers: Levers) -> bool:
        """Write the index, and move the window of SCR_PREFIX_SIZE; False when that failed."""

        def publish() -> None:
            self._prefix.publish(IndexEntry.of(filemap))
            self._prefix.keep_newest(levers.prefix_size, exempt=OutputFlags.OUTPUT)

        is_noted = self._ranks.attempt(publish, _missing(filemap), on=0)
        if is_noted and filemap.checkpoint:
            self._drop_behind.published(self._prefix.root / file.name for file in filemap.own_files)
        return is_noted


def _missing(filemap: FileMap) -> str:
    return f"{filemap} is not in the prefix directory"
