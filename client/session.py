"""SCR's calls for an MPI application in Python, tuned: the same settings on every rank at the same point.

Every method but :meth:`Session.route_file` and :meth:`Session.step` is collective. On the embedded engine
rank 0 looks at the job's decision file before each output, and reports to the daemon; on a real libscr
libscrtune.so does both, within SCR's calls. Without a daemon the application keeps its settings.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

import msgspec
from mpi4py import MPI
from typing_extensions import Self

from ..goodput.events import JobEnded, JobStarted, OutputStarted, StepCompleted
from ..intents.effects import Advice
from ..intents.events import ApplyRefused, Event
from ..scr_config.decision import DecisionError, DecisionFile
from .capture.gate import TracedCalls, TraceGate
from .core_time import CoreTime, CoreTimer
from .embedded.engine import EmbeddedEngine
from .engine import EngineError, OutputFlags, say
from .implicit_steps import ImplicitSteps
from .job_terms import declared
from .libscr.engine import LibscrEngine
from .libscr.find import LibscrUnavailable, find_libscr
from .libscr.library import Library
from .mpi import ENGINE_VARIABLE, NODES_VARIABLE
from .paths import JobPaths, host_name, writer_of_rank
from .transport.sender import Emitter

_EXIT_LINGER_S = 0.5


class Session:
    """One application's use of SCR. Make it once, on all ranks, and close it (or use it as a context).

    `engine` is by default a real libscr, where this process can use one, else the embedded engine. Raises
    :class:`.engine.EngineError` when it cannot start.
    """

    def __init__(self, comm: MPI.Intracomm, engine: EmbeddedEngine | LibscrEngine | None = None) -> None:
        engine = engine_for(comm, library_for(comm)) if engine is None else engine
        self._engine = engine
        self._libscr = engine if isinstance(engine, LibscrEngine) else None
        self._tuned = None if isinstance(engine, LibscrEngine) else engine
        self._emitter: Emitter | None = None
        self._decision: DecisionFile | None = None
        self._writer = writer_of_rank(comm.rank)
        self._implicit_steps = ImplicitSteps(time.time())
        self._generation = 0
        self._dataset = 0
        self._is_due = False
        self._timer, self._core_time = CoreTimer(), CoreTime()
        self._finalized = False
        self._gate: TraceGate | None = None
        if self._tuned:
            self._introduce(comm, self._tuned)

    def need_checkpoint(self) -> bool:
        """Return whether a checkpoint is due. Also the place where a flush that has ended is noticed."""
        asked_s = time.time()
        ended = self._happened()
        needed = self._is_due = self._engine.need_checkpoint()
        self._hold([*ended, *self._implicit_steps.asked(asked_s, time.time())])
        return needed

    def start_output(self, name: str, flags: OutputFlags = OutputFlags.CHECKPOINT) -> None:
        """Apply what the daemon has decided, then open the dataset."""
        self._core_time = self._timer.end()
        step = self._implicit_steps.output_started(time.time())
        before = [*self._happened(), *step]  # what has happened did so before the step's end
        if self._tuned:
            self._generation = self._tuned.apply(self._decided())
        self._dataset = self._engine.start_output(name, flags)
        started = OutputStarted(
            dataset=self._dataset,
            name=name,
            time_s=time.time(),
            generation=self._generation,
            checkpoint=OutputFlags.CHECKPOINT in flags,
        )
        self._hold([*before, started])  # the output's end comes soon, with what the daemon decides by
        if self._gate:
            self._gate.open()

    def route_file(self, name: str) -> str:
        """Return where to write, or in a restart read, `name`, perhaps relative to the prefix directory."""
        return self._engine.route_file(name)

    def complete_output(self, valid: bool = True) -> bool:
        """Close the dataset; `valid` is this rank's word. Return whether all ranks' were."""
        traced = self._gate.close() if self._gate else TracedCalls()
        completed = self._engine.complete_output(valid)
        completed = msgspec.structs.replace(
            completed,
            write_s=max(0.0, completed.write_s - traced.cost_s),
            observed=traced.calls,
            observe_s=traced.cost_s,
            due=self._is_due,
            cpu_s=self._core_time.cpu_s,
            run_delay_s=self._core_time.run_delay_s,
        )
        self._is_due = False
        # what has just begun to be flushed has not ended: to meet beside its threads would take long
        self._report([*self._happened(look=False), completed])
        if self._gate:
            self._gate.deliver()
        if completed.valid and completed.checkpoint:
            self._implicit_steps.resumed(self._dataset, time.time())
        else:
            self._implicit_steps.paused(time.time())
        if self._emitter:
            self._timer.begin()
        return completed.valid

    def have_restart(self) -> str | None:
        """Return the name of the dataset to restart from, or None."""
        name = self._engine.have_restart()
        self._implicit_steps.paused(time.time())
        return name

    def start_restart(self) -> str:
        """Open it and return its name; :meth:`route_file` now gives the paths to read."""
        return self._engine.start_restart()

    def complete_restart(self, valid: bool = True) -> bool:
        """Close it; return whether every rank could read its files."""
        completed = self._engine.complete_restart(valid)
        self._report([completed])
        self._implicit_steps.resumed(completed.dataset if completed.valid else 0, time.time())
        return completed.valid

    def should_exit(self) -> bool:
        """Return whether to end now, since the job is to halt or its time is nearly over."""
        return self._engine.should_exit()

    def current(self, name: str) -> None:
        """Note that the application restarted from checkpoint `name` by itself."""
        if dataset := self._engine.current(name):
            self._implicit_steps.resumed(dataset, time.time())

    def drop(self, name: str) -> None:
        """Forget the dataset `name`; its files stay."""
        self._engine.drop(name)

    def delete(self, name: str) -> None:
        """Delete the dataset `name`."""
        self._engine.delete(name)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Time one step; without any, :mod:`.implicit_steps` are what lies between the calls."""
        self._implicit_steps.has_explicit = True
        start_s = time.time()
        yield
        end_s = time.time()
        if self._libscr:
            self._libscr.add_step(number, start_s, end_s)
        self._hold([StepCompleted(step=number, start_s=start_s, end_s=end_s, writer=self._writer)])

    def finalize(self) -> None:
        """Finish the flush under way. Once; later calls do nothing."""
        if self._finalized:
            return
        self._finalized = True
        self._report([*self._engine.finalize(), JobEnded(time_s=time.time())])
        if self._emitter:
            if self._emitter.dropped:
                say(f"{self._emitter.dropped} events were dropped")
            self._emitter.close(_EXIT_LINGER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.finalize()  # after an exception other ranks may never come to a collective call
        else:
            self._report([])  # what is held

    def _introduce(self, comm: MPI.Intracomm, engine: EmbeddedEngine) -> None:
        processes = comm.gather((host_name(), os.getpid()), root=0) or ()
        described = msgspec.structs.replace(engine.describe(), processes=tuple(processes))
        self._gate = TraceGate(described.prefix)
        if comm.rank == 0 and (paths := JobPaths.announced()):
            self._emitter = Emitter.to_daemon_of(paths)
            self._decision = DecisionFile(paths.decision)
            started = JobStarted(time_s=time.time(), ranks=described.ranks, nodes=described.nodes)
            self._report([started, declared(described, os.environ)])
            if self._emitter.dropped:
                say("the job runs untuned, and is not reported: a path or a setting is not UTF-8")

    def _decided(self) -> Advice | None:
        """Return what the next outputs shall run under, or None where nothing is new."""
        try:
            if self._decision and (decision := self._decision.look()):
                return Advice(generation=decision.generation, settings=decision.settings())
        except DecisionError as error:
            self._report([ApplyRefused(generation=0, why=str(error))])
            say(f"the decision is refused, the settings stay: {error}")
        return None

    def _happened(self, *, look: bool = True) -> Sequence[Event]:
        return self._tuned.happened(look=look) if self._tuned else ()

    def _report(self, events: Sequence[Event]) -> None:
        """Send `events`, and those that are held."""
        if self._emitter:
            self._emitter.emit(*events)

    def _hold(self, events: Sequence[Event]) -> None:
        """Send `events` with the next ones, an output's end at the latest, if some were sent just before."""
        if self._emitter and events:
            self._emitter.hold(*events)


def library_for(comm: MPI.Intracomm) -> Library | None:
    """Return the libscr that all ranks of `comm` have loaded, or None for the embedded engine. Collective.

    Rank 0's environment counts. Raises :class:`EngineError` on all ranks for what cannot be had.
    """
    asked, path, why = comm.bcast(_look() if comm.rank == 0 else ("", None, ""))
    is_world = MPI.Comm.Compare(comm, MPI.COMM_WORLD) in (MPI.IDENT, MPI.CONGRUENT)
    library = None
    if asked not in ("", "libscr", "embedded"):
        raise EngineError(f"{ENGINE_VARIABLE}={asked}: the engines are libscr and embedded; choose one")
    if path is not None and not is_world:
        path, why = None, "libscr works over MPI_COMM_WORLD alone, and this is another communicator"
    if path is not None:
        try:
            library = Library(path)
        except LibscrUnavailable as error:
            why = str(error)
        why = next(filter(None, comm.allgather(why)), "")
    if library is not None and not why:
        return library
    if asked == "libscr":
        raise EngineError(f"{ENGINE_VARIABLE}=libscr: {why}")
    if why and comm.rank == 0:
        say(f"{why}: the job runs on the embedded engine ({ENGINE_VARIABLE}=libscr says where was looked)")
    return None


def engine_for(
    comm: MPI.Intracomm, library: Library | None, config: str = ""
) -> EmbeddedEngine | LibscrEngine:
    """Return the engine over `comm`, ready for use. Collective. Raises :class:`EngineError` on all ranks."""
    return EmbeddedEngine(comm, config) if library is None else LibscrEngine(comm, library)


def _look() -> tuple[str, "os.PathLike[str] | None", str]:
    """Return which engine was asked for, where a libscr is, and why there is none."""
    asked = os.environ.get(ENGINE_VARIABLE, "")
    # simulated nodes are the embedded engine's: who asks for them asks for it
    if asked == "embedded" or (not asked and os.environ.get(NODES_VARIABLE)):
        return "embedded", None, ""
    try:
        return asked, find_libscr(os.environ), ""
    except LibscrUnavailable as error:
        return asked, None, str(error) if asked else error.short
