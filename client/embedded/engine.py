"""SCR's semantics on one machine, without libscr: real I/O under SCR's parameters (`docs/engine.md`)."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mpi4py import MPI

from ...goodput.events import FlushCompleted, OutputCompleted, RestartCompleted
from ...intents.effects import Advice
from ...intents.events import SettingsObserved
from ...intents.mutability import Mutability
from ...scr_config.files import make_directory
from ...units import count_text
from ..engine import EngineError, OutputFlags
from .cache import Dataset, FileMap, NodeCache, datasets_in
from .checkpoint_clock import CheckpointClock
from .launch import Launch, launch
from .output import OpenOutput, over_ranks
from .prefix.drop_behind import DropBehind
from .prefix.flush import Flusher
from .prefix.index import Prefix
from .redundancy import Encoder
from .restart import Finder, RestartPoint
from .settings import LIVE, Levers, overlay
from .topology import RankGroup


class EmbeddedEngine:
    """SCR's life cycle; every method but `route_file` is collective.

    `config` is what rank 0 gave to SCR_Config, a line each. Raises :class:`EngineError` on all ranks for
    settings that this engine does not support. Failed I/O costs at most one dataset, and rank 0 reports it.
    """

    def __init__(self, comm: MPI.Intracomm, config: str = "") -> None:
        self._comm = comm.Dup()
        found = launch(self._comm, config)
        self._ranks = RankGroup(self._comm, found.node_of)
        bypassed = "nothing is cached, the job goes on as with SCR_CACHE_BYPASS=1"
        if not self._ranks.attempt(self._node_cache(found).check, bypassed):
            found = found.without_cache()
        self._resolved = found.resolved
        self._settings = found.resolved.settings
        self._levers = Levers.of(self._settings)
        self._generation = 0
        self._cache_root = found.cache
        self._cache = self._node_cache(found)
        self._prefix = Prefix(Path(found.prefix))
        self._drop_behind = DropBehind()
        self._flusher = Flusher(self._ranks, self._cache, self._prefix, self._drop_behind)
        self._finder = Finder(self._ranks, self._cache, self._prefix)
        self._encoder = Encoder(self._ranks, self._cache)
        self._output: OpenOutput | None = None
        self._found: RestartPoint | None = None
        self._reading: RestartPoint | None = None
        self._search_s = 0.0
        self._refused: set[int] = set()
        self._cached: set[int] = set()
        self._last_dataset = self._last_checkpoint = 0
        self._continue_earlier_runs()
        if self._settings["SCR_CACHE_PURGE"] or not self._settings["SCR_DISTRIBUTE"]:
            self._evict_all()
        self._checkpoint_clock = CheckpointClock(ended_s=time.time())
        self._ranks.warn(
            "this is scrtune's embedded engine (SCR's semantics on one machine, not libscr):"
            f" {count_text(self._comm.size, 'rank')} on {count_text(self._ranks.nodes, 'node')},"
            f" cache {self._cache_root}"
        )
        for problem in found.resolved.problems:
            self._ranks.warn(f"{problem.source}: {problem}" if problem.source else str(problem))

    def describe(self) -> SettingsObserved:
        """Return the user's own settings, the source of each, and the shape of the job."""
        return SettingsObserved(
            settings=dict(self._resolved.settings),
            sources=dict(self._resolved.sources),
            engine="embedded",
            ranks=self._comm.size,
            nodes=self._ranks.nodes,
            prefix=str(self._prefix.root),
            cache=self._cache_root,
            mutability=dict.fromkeys(sorted(LIVE), Mutability.LIVE),
        )

    def apply(self, advice: Advice | None) -> int:
        """Run the next outputs under the :func:`overlay` of rank 0's `advice`; return its generation."""
        self._must_be_between_outputs("apply")
        advice = self._comm.bcast(advice)
        if advice is not None and advice.generation != self._generation:
            self._settings = overlay(self._resolved.settings, self._settings, advice.settings)
            self._levers = Levers.of(self._settings)
            self._generation = advice.generation
        return self._generation

    def need_checkpoint(self) -> bool:
        """Return whether a checkpoint is due; rank 0 decides."""
        due = self._comm.rank == 0 and self._checkpoint_clock.is_due(self._levers, time.time())
        return bool(self._comm.bcast(due))

    def start_output(self, name: str, flags: OutputFlags) -> int:
        """Open dataset `name`, in the prefix directory when the cache cannot be used; return its number."""
        self._must_be_between_outputs("start_output")
        if self._reading is not None:
            raise EngineError("start_output within a restart; call complete_restart first")
        entered_s = time.time()
        self._found = None
        is_checkpoint = OutputFlags.CHECKPOINT in flags
        self._last_dataset += 1
        self._last_checkpoint += is_checkpoint
        wait_s = 0.0 if self._levers.bypass else self._make_room()
        bypass = self._levers.bypass or not self._open_in_cache(self._last_dataset)
        if bypass:  # the application may write the very files that a flush is about to replace
            wait_s += self._flusher.wait()
        if self._levers.drop_behind:
            self._drop_behind.started()
        draft = FileMap(
            dataset=self._last_dataset,
            name=name,
            flags=int(flags),
            checkpoint=self._last_checkpoint if is_checkpoint else 0,
            ranks=self._comm.size,
            rank=self._comm.rank,
            generation=self._generation,
            scheme="SINGLE",
            members=(self._comm.rank,),
            files=((),),
        )
        self._output = OpenOutput(draft, bypass, self._levers, entered_s, time.time(), wait_s)
        return self._last_dataset

    def route_file(self, name: str) -> str:
        """Return the path of `name`, which lies below the prefix directory, or is relative to it."""
        relative = self._relative(name)
        if self._reading is not None:
            return str(self._reading.directory / relative)
        if self._output is None:
            raise EngineError("route_file outside of an output or a restart; call start_output first")
        if self._output.bypass:
            path = self._prefix.root / relative
            make_directory(path.parent)
        else:
            path = self._cache.file(self._output.draft.dataset, relative)
            path.parent.mkdir(parents=True, exist_ok=True)
        self._output.files[relative] = path
        return str(path)

    def complete_output(self, valid: bool) -> OutputCompleted:
        """Close the dataset: encode and flush it, or drop it unless it is valid and complete on all ranks."""
        output, self._output = self._output, None
        if output is None:
            raise EngineError("complete_output without start_output; call start_output first")
        output.completed_s = time.time()
        written = filemap = output.written()
        if not self._comm.allreduce(valid and written is not None, op=MPI.LAND):
            filemap = None
        output.agreed_s = time.time()
        if filemap and not output.bypass:
            filemap = self._encoder.complete(filemap, output.levers)
        output.encoded_s = time.time()
        if filemap and filemap.checkpoint:
            self._checkpoint_clock.note(output.entered_s, output.encoded_s)
        to_flush = filemap if output.is_flush_due else None
        if to_flush:
            output.flush_wait_s = self._flusher.wait()
            if not output.levers.flush_async:
                self._flusher.flush(to_flush, output.levers)
        if filemap and output.bypass and not self._flusher.publish_in_place(filemap, output.levers):
            filemap = None
        self._give_up_what_is_replaced(output, filemap)
        ends_s, is_kept = time.time(), filemap is not None
        completed = output.completed(
            self._comm, written, ends_s, valid=is_kept, flush_due=to_flush is not None
        )
        if to_flush and output.levers.flush_async:
            self._flusher.start(to_flush, output.levers)  # at last: beside its threads all else takes longer
        return completed

    def _give_up_what_is_replaced(self, output: OpenOutput, kept: FileMap | None) -> None:
        """Take from the cache what an output leaves without use there: itself, or all that are older."""
        if kept is None:
            self._evict(output.draft.dataset)
        elif output.levers.bypass and kept.checkpoint:
            self._evict_all()  # nothing else makes room now, and the prefix directory has a newer one

    def happened(self, *, look: bool = True) -> Sequence[FlushCompleted]:
        """Return the flushes that ended on all ranks since the last call; a failed one has valid=False.

        Without `look` those that are known to have ended: the ranks need not meet.
        """
        if look and self._output is None:
            self._flusher.poll()
        return self._flusher.take()

    def have_restart(self) -> str | None:
        """Return the name of the newest checkpoint to restart from: verified and, if need be, rebuilt."""
        self._must_be_between_outputs("have_restart")
        if self._found is None:
            self._search_s, levers = time.time(), self._levers
            self._found = self._finder.newest(
                self._cached, self._refused, levers.mpi_buffer_bytes, fetch=levers.fetch
            )
        return None if self._found is None else self._found.name

    def start_restart(self) -> str:
        """Open the checkpoint that :meth:`have_restart` names. Raises :class:`EngineError` without any."""
        if self.have_restart() is None or self._found is None:
            raise EngineError("start_restart: there is no checkpoint to restart from; ask have_restart first")
        self._reading = self._found
        return self._reading.name

    def complete_restart(self, valid: bool) -> RestartCompleted:
        """Close the restart; if a rank could not read it, the checkpoint is never offered again."""
        restart, self._reading, self._found = self._reading, None, None
        if restart is None:
            raise EngineError("complete_restart without start_restart; call start_restart first")
        all_valid = self._comm.allreduce(valid, op=MPI.LAND)
        if not all_valid:
            self._refused.add(restart.dataset)
            if restart.dataset == self._flusher.dataset:
                self._flusher.wait()
            self._evict(restart.dataset)
            self._change_index(lambda: self._prefix.mark_failed(restart.dataset))
        own = RestartCompleted(
            dataset=restart.dataset,
            name=restart.name,
            start_s=self._search_s,
            end_s=time.time(),
            source=restart.source,
            valid=all_valid,
        )
        return over_ranks(self._comm, own)

    def should_exit(self) -> bool:
        """Return whether less than SCR_HALT_SECONDS are left until SCR_END_TIME; rank 0 decides."""
        # as SCR's halt check (scr.c, scr_env.c:80) it reads the environment each time
        halt_s = int(self._resolved.settings["SCR_HALT_SECONDS"])
        end_s = os.environ.get("SCR_END_TIME", "")
        is_set = halt_s > 0 and end_s.isdecimal() and int(end_s) > 0
        return bool(self._comm.bcast(is_set and int(end_s) - time.time() <= halt_s))

    def current(self, name: str) -> int:
        """Go on from checkpoint `name` of the prefix directory. No number is used again, unlike in SCR."""
        self._settle("current")
        dataset = int(self._comm.bcast(self._prefix.checkpoint_named(name)))
        if dataset:
            self._change_index(lambda: self._prefix.go_back_to(dataset))
        for later in sorted(cached for cached in self._cached if 0 < dataset < cached):
            self._evict(later)
        return dataset

    def drop(self, name: str) -> None:
        """Forget `name` in the prefix directory; its files stay."""
        self._settle("drop")
        self._change_index(lambda: self._prefix.drop(name))

    def delete(self, name: str) -> None:
        """Delete `name` in the cache and in the prefix directory."""
        self._settle("delete")
        for dataset in sorted(self._cached):
            filemap = self._cache.read(dataset, self._comm.rank)
            if name in self._comm.allgather(filemap.name if filemap else None):
                self._evict(dataset)
        self._change_index(lambda: self._prefix.delete(name))

    def finalize(self) -> Sequence[FlushCompleted]:
        """Wait for the flush under way, and flush the latest checkpoint if SCR_FLUSH > 0. The last call."""
        self._flusher.wait()
        if self._levers.flush > 0 and (latest := self._latest_unflushed()) is not None:
            self._flusher.flush(latest, self._levers)
        self._encoder.free()
        self._comm.Free()
        return self._flusher.take()

    def _node_cache(self, found: Launch) -> NodeCache:
        return NodeCache(Path(found.cache, f"node{self._ranks.node}"))

    def _continue_earlier_runs(self) -> None:
        """Number datasets and checkpoints on from what earlier runs left in cache and prefix directory."""
        here = datasets_in(self._cache.root)
        numbers = {0, *here}
        known: list[Dataset | None] = [self._cache.read(dataset, self._comm.rank) for dataset in here]
        if self._comm.rank == 0:
            self._prefix.load()
            numbers |= {*datasets_in(self._prefix.scr_directory), *self._prefix.entries}
            known += self._prefix.entries.values()
        checkpoint = max((dataset.checkpoint for dataset in known if dataset), default=0)
        self._cached = set().union(*self._comm.allgather(here))
        self._last_dataset = self._comm.allreduce(max(numbers), op=MPI.MAX)
        self._last_checkpoint = self._comm.allreduce(checkpoint, op=MPI.MAX)

    def _make_room(self) -> float:
        """Evict the oldest (scr.c:1499), one that is being flushed last; return the seconds waited for it."""
        waited_s = 0.0
        while len(self._cached) >= self._levers.cache_size:
            free = self._cached - {self._flusher.dataset}
            if not free:
                waited_s += self._flusher.wait()
            self._evict(min(free or self._cached))
        return waited_s

    def _evict(self, dataset: int) -> None:
        """Delete a dataset from the cache, if it is there."""
        if dataset in self._cached:
            if self._ranks.is_leader:
                self._cache.remove(dataset)
            self._comm.Barrier()
            self._cached.discard(dataset)

    def _evict_all(self) -> None:
        """Delete all datasets from the cache; none is being flushed."""
        for dataset in sorted(self._cached):
            self._evict(dataset)

    def _open_in_cache(self, dataset: int) -> bool:
        failure = "the cache cannot be used, this dataset goes to the prefix directory"
        is_open = self._ranks.attempt(lambda: self._cache.create(dataset), failure)
        self._cached.add(dataset)
        if not is_open:
            self._evict(dataset)
        return is_open

    def _latest_unflushed(self) -> FileMap | None:
        """Return the newest checkpoint that all ranks have in the cache, None if it is flushed already."""
        for dataset in sorted(self._cached, reverse=True):
            filemap = self._cache.read(dataset, self._comm.rank)
            usable = filemap is not None and filemap.checkpoint > 0 and filemap.ranks == self._comm.size
            if self._comm.allreduce(usable and dataset not in self._refused, op=MPI.LAND):
                is_flushed = self._comm.bcast(dataset in self._prefix.entries)
                return None if is_flushed else filemap
        return None

    def _change_index(self, change: Callable[[], None]) -> None:
        """Let rank 0 change the index of the prefix directory; a failure is reported, and no more."""
        self._ranks.attempt(change, "the index of the prefix directory could not be written", on=0)

    def _relative(self, name: str) -> str:
        """Return `name` relative to the prefix directory. Raises EngineError for a file elsewhere."""
        root = self._prefix.root
        relative = os.path.relpath(root / name, root)
        if relative == "." or Path(relative).parts[0] in ("..", ".scr"):
            raise EngineError(f"route_file: {name} is not a file below SCR_PREFIX ({root}); name one that is")
        return relative

    def _settle(self, call: str) -> None:
        """Make sure that nothing is under way before the datasets of earlier outputs change."""
        self._must_be_between_outputs(call)
        self._flusher.wait()
        self._found = None

    def _must_be_between_outputs(self, call: str) -> None:
        if self._output is not None:
            raise EngineError(f"{call} within an output; call complete_output first")
