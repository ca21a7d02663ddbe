"""The output that is open, and what it cost when it is closed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from mpi4py import MPI

from ...goodput.events import OutputCompleted
from ..engine import OutputFlags
from .cache import CachedFile, FileMap
from .settings import Levers


@dataclass(frozen=True)
class Times:
    """When this rank was through with each part of an output; how long it waited for earlier flushes.

    `completed_s` is the call of complete_output, `agreed_s` when the slowest rank had come there, too: what
    lies between is neither this rank's writing nor anybody's encoding.
    """

    entered_s: float
    opened_s: float
    completed_s: float
    agreed_s: float
    encoded_s: float
    flushed_s: float
    start_wait_s: float
    flush_wait_s: float


@dataclass
class Output:
    """One output, under the settings of its start. `files`: name below the prefix -> where it is written."""

    dataset: int
    name: str
    flags: OutputFlags
    checkpoint: int
    bypass: bool
    levers: Levers
    generation: int
    entered_s: float
    opened_s: float
    wait_s: float
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def is_flush_due(self) -> bool:
        """Whether the cached dataset is to be flushed: pure output, or every SCR_FLUSH-th checkpoint."""
        every = self.levers.flush
        return OutputFlags.OUTPUT in self.flags or (
            self.checkpoint > 0 and every > 0 and self.checkpoint % every == 0
        )

    def written(self) -> list[CachedFile] | None:
        """The routed files with their sizes; None when one is missing."""
        try:
            return [CachedFile(name, path.stat().st_size) for name, path in self.files.items()]
        except OSError:
            return None

    def filemap(self, files: Sequence[CachedFile], rank: int, ranks: int) -> FileMap:
        """This rank's file map, not yet encoded."""
        return FileMap(
            dataset=self.dataset,
            name=self.name,
            flags=int(self.flags),
            checkpoint=self.checkpoint,
            generation=self.generation,
            ranks=ranks,
            rank=rank,
            scheme="SINGLE",
            members=(rank,),
            files=(tuple(files),),
        )

    def completed(
        self,
        comm: MPI.Intracomm,
        files: Sequence[CachedFile],
        times: Times,
        *,
        valid: bool,
        flush_due: bool,
    ) -> OutputCompleted:
        """The output as its slowest rank felt it; collective over `comm`."""
        mine = (
            times.entered_s,
            times.flushed_s,
            sum(file.size for file in files),
            len(files),
            times.completed_s - times.opened_s,
            times.encoded_s - times.agreed_s,
            times.flushed_s - times.encoded_s - times.flush_wait_s,
            times.start_wait_s + times.flush_wait_s,
            tuple(self.files),
        )
        parts = comm.allgather(mine)
        starts, ends, sizes, counts, writes, encodes, flushes, waits, names = zip(*parts, strict=True)
        every = list(chain.from_iterable(names))
        return OutputCompleted(
            dataset=self.dataset,
            name=self.name,
            start_s=min(starts),
            end_s=max(ends),
            generation=self.generation,
            checkpoint=self.checkpoint > 0,
            valid=valid,
            bytes=sum(sizes),
            files=sum(counts),
            write_s=max(writes),
            encode_s=max(encodes),
            # a cached dataset whose flush is not due was not flushed, and must not look as if it had been
            flush_s=max(flushes) if flush_due or self.bypass else 0.0,
            wait_s=max(waits),
            flush_due=flush_due,
            # the parts that ranks write of one file are in several caches, and no flush joins them
            shared_files=len(set(every)) < len(every) if every else None,
        )
