"""The output that is open, and its costs when it is closed; what the slowest rank felt of an event."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from mpi4py import MPI

from ...goodput.events import FlushCompleted, OutputCompleted, RestartCompleted
from ..engine import OutputFlags
from .cache import CachedFile, FileMap
from .settings import Levers

_Event = TypeVar("_Event", OutputCompleted, FlushCompleted, RestartCompleted)
_OVER_RANKS: dict[str, Callable[[list[Any]], Any]] = {
    "start_s": min,
    **dict.fromkeys(("end_s", "write_s", "encode_s", "flush_s", "wait_s", "threads"), max),
    **dict.fromkeys(("bytes", "files"), sum),
}


def over_ranks(comm: MPI.Intracomm, own: _Event) -> _Event:
    """Return what all ranks together felt, this one as in `own`. Collective."""
    every = comm.allgather(own)
    together = {
        name: _OVER_RANKS[name]([getattr(each, name) for each in every])
        for name in own.__struct_fields__
        if name in _OVER_RANKS
    }
    return msgspec.structs.replace(own, **together)


@dataclass
class OpenOutput:
    """One output, under the settings of its start. `files`: name below the prefix -> where it is written.

    `draft` is this rank's file map, without files so far. The times are epoch seconds of this rank, each at
    the end of a part: `completed_s` is the call of complete_output, `agreed_s` when the slowest rank had come
    there, too. It waited for earlier flushes: `wait_s` before `opened_s`, `flush_wait_s` after `encoded_s`.
    """

    draft: FileMap
    bypass: bool
    levers: Levers
    entered_s: float
    opened_s: float
    wait_s: float = 0.0
    completed_s: float = 0.0
    agreed_s: float = 0.0
    encoded_s: float = 0.0
    flush_wait_s: float = 0.0
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def is_flush_due(self) -> bool:
        """Return whether to flush the cached dataset: pure output, or every SCR_FLUSH-th checkpoint."""
        checkpoint, every = self.draft.checkpoint, self.levers.flush
        is_nth = checkpoint > 0 and every > 0 and checkpoint % every == 0
        return not self.bypass and (is_nth or bool(self.draft.flags & OutputFlags.OUTPUT))

    def written(self) -> FileMap | None:
        """Return this rank's file map, not yet encoded; None when a routed file is missing."""
        try:
            files = tuple(CachedFile(name, path.stat().st_size) for name, path in self.files.items())
        except OSError:
            return None
        return msgspec.structs.replace(self.draft, files=(files,))

    def completed(
        self,
        comm: MPI.Intracomm,
        written: FileMap | None,
        flushed_s: float,
        *,
        valid: bool,
        flush_due: bool,
    ) -> OutputCompleted:
        """Return the output as its slowest rank felt it; collective over `comm`."""
        files = () if written is None else written.own_files
        every = list(chain.from_iterable(comm.allgather(tuple(self.files))))
        own = OutputCompleted(
            dataset=self.draft.dataset,
            name=self.draft.name,
            start_s=self.entered_s,
            end_s=flushed_s,
            generation=self.draft.generation,
            checkpoint=self.draft.checkpoint > 0,
            valid=valid,
            bytes=sum(file.size for file in files),
            files=len(files),
            write_s=self.completed_s - self.opened_s,
            encode_s=self.encoded_s - self.agreed_s,
            # a cached dataset whose flush is not due was not flushed, and must not look as if it had been
            flush_s=flushed_s - self.encoded_s - self.flush_wait_s if flush_due or self.bypass else 0.0,
            wait_s=self.wait_s + self.flush_wait_s,
            flush_due=flush_due,
            # the parts that ranks write of one file are in several caches, and no flush joins them
            shared_files=len(set(every)) < len(every) if every else None,
        )
        return over_ranks(comm, own)
