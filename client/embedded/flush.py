"""Brings datasets from the cache to the prefix directory, one at a time, and notes them in its index."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpi4py import MPI

from ...goodput.events import FlushCompleted
from ..engine import OutputFlags
from .cache import FileMap, NodeCache
from .copy import Copied, Copy, Transfer
from .prefix_index import Prefix, PrefixFile, RankSummary, entry_of, written_in_place
from .settings import Levers


@dataclass(frozen=True)
class _UnderWay:
    transfer: Transfer
    summary: RankSummary
    generation: int
    levers: Levers
    asynchronous: bool


class Flusher:
    """Every method but :attr:`dataset` and :meth:`take` is collective over `comm`; none raises OSError."""

    def __init__(
        self, comm: MPI.Intracomm, prefix: Prefix, clock: Callable[[], float], tell: Callable[[str], None]
    ) -> None:
        self._comm = comm
        self._prefix = prefix
        self._clock = clock
        self._tell = tell
        self._under_way: _UnderWay | None = None
        self._finished: list[FlushCompleted] = []

    @property
    def dataset(self) -> int | None:
        """The dataset that is being flushed; equal on all ranks."""
        return None if self._under_way is None else self._under_way.summary.dataset

    def take(self) -> Sequence[FlushCompleted]:
        """The flushes that ended on all ranks and were not taken yet."""
        finished, self._finished = self._finished, []
        return finished

    def start(self, filemap: FileMap, cache: NodeCache, levers: Levers, *, asynchronous: bool) -> None:
        """Start to flush a cached dataset, after the end of an earlier flush."""
        self.wait()
        own = filemap.files_of(filemap.rank)
        summary = _summary(filemap, ())

        def publish(copied: Sequence[Copied]) -> None:
            by_path = {file.destination: file for file in copied}
            files = (by_path[self._prefix.root / file.name] for file in own)
            self._prefix.write_summary(_summary(filemap, tuple(map(self._prefix_file, files))))

        copies = [
            Copy(cache.file(filemap.dataset, file.name), self._prefix.root / file.name, file.size)
            for file in own
        ]
        transfer = Transfer(copies, levers.flush_means, publish, self._clock)
        self._under_way = _UnderWay(transfer, summary, filemap.generation, levers, asynchronous)

    def wait(self) -> None:
        """Wait for the end of the flush that is under way."""
        if self._under_way is None:
            return
        self._under_way.transfer.wait()
        met = self._comm.Ibarrier()
        while not met.Test():  # an MPI_Barrier would spin, on the cores that the others' threads need
            time.sleep(self._under_way.levers.poll_s)
        self._settle()

    def poll(self) -> None:
        """Note the end of the flush that is under way, if it ended on all ranks."""
        if self._under_way is not None and self._comm.allreduce(self._under_way.transfer.done, op=MPI.LAND):
            self._settle()

    def publish_in_place(self, filemap: FileMap, levers: Levers) -> bool:
        """Note a dataset that the application wrote to the prefix directory; False when that failed."""
        error = ""
        try:
            files = [
                written_in_place(self._prefix.root, file.name) for file in filemap.files_of(filemap.rank)
            ]
            for file in files:
                _sync(self._prefix, file)
            self._prefix.write_summary(_summary(filemap, tuple(files)))
        except OSError as problem:
            error = str(problem)
        return self._note(_summary(filemap, ()), levers, self._comm.allgather(error))

    def _prefix_file(self, copied: Copied) -> PrefixFile:
        name = copied.destination.relative_to(self._prefix.root).as_posix()
        return PrefixFile(name=name, size=copied.size, mtime_ns=copied.mtime_ns, crc32=copied.crc32)

    def _settle(self) -> None:
        """All ranks have ended: note the dataset, and tell how it went."""
        assert self._under_way is not None  # noqa: S101 - both callers asked
        under_way, self._under_way = self._under_way, None
        transfer = under_way.transfer
        error = "" if transfer.error is None else str(transfer.error) or type(transfer.error).__name__
        ranks = self._comm.allgather(
            (transfer.start_s, transfer.end_s, transfer.bytes, transfer.threads, error)
        )
        starts, ends, sizes, threads, errors = zip(*ranks, strict=True)
        valid = self._note(under_way.summary, under_way.levers, errors)
        self._finished.append(
            FlushCompleted(
                dataset=under_way.summary.dataset,
                start_s=min(starts),
                end_s=max(ends),
                generation=under_way.generation,
                asynchronous=under_way.asynchronous,
                bytes=sum(sizes),
                threads=max(threads),
                valid=valid,
            )
        )

    def _note(self, summary: RankSummary, levers: Levers, errors: Sequence[str]) -> bool:
        """Rank 0 writes the index, unless a rank failed, and moves the window of SCR_PREFIX_SIZE."""
        problem = next(filter(None, errors), "")
        if self._comm.rank == 0 and not problem:
            try:
                self._prefix.publish(entry_of(summary))
                self._prefix.keep_newest(levers.prefix_size, exempt=OutputFlags.OUTPUT)
            except OSError as error:
                problem = str(error)
        problem = self._comm.bcast(problem)
        if problem:
            self._tell(
                f"dataset {summary.dataset} ({summary.name}) is not in the prefix directory: {problem}"
            )
        return not problem


def _summary(filemap: FileMap, files: tuple[PrefixFile, ...]) -> RankSummary:
    return RankSummary(
        dataset=filemap.dataset,
        name=filemap.name,
        flags=filemap.flags,
        checkpoint=filemap.checkpoint,
        ranks=filemap.ranks,
        rank=filemap.rank,
        files=files,
    )


def _sync(prefix: Prefix, file: PrefixFile) -> None:
    """What the index calls whole must survive a loss of power; AXL fsyncs what it copies, too."""
    descriptor = os.open(prefix.root / file.name, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
