"""SCR's calls for an MPI application in Python, tuned: the same settings on every rank at the same point.

    with Session(MPI.COMM_WORLD) as session:
        for step in range(steps):
            with session.step(step):
                compute()
            if session.need_checkpoint():
                session.start_output(f"step.{step}", OutputFlags.CHECKPOINT)
                write(session.route_file(f"step.{step}/rank.{rank}"))
                session.complete_output(valid=True)

Every method but :meth:`Session.route_file` and :meth:`Session.step` is collective. Only rank 0 talks to the
daemon; without one, or when it does not answer, the application runs on with what it has.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from mpi4py import MPI
from typing_extensions import Self

from ..goodput.events import JobEnded, OutputStarted, StepCompleted
from ..intents.events import Event
from .engine import Engine, OutputFlags
from .implicit_steps import ImplicitSteps
from .paths import writer_of_rank
from .select import engine_for
from .transport.daemon_client import DaemonClient, this_process


class Session:
    """One application's use of SCR. Make it once, on all ranks, and close it (or use it as a context).

    `engine` is a real libscr where there is one, else the embedded engine (:mod:`.choose`), unless one is
    given. Raises :class:`.engine.EngineError` when it cannot start.
    """

    def __init__(self, comm: MPI.Intracomm, engine: Engine | None = None) -> None:
        self._engine: Engine = engine_for(comm) if engine is None else engine
        self._link = DaemonClient() if comm.rank == 0 and "SCRTUNE_JOB_ID" in os.environ else None
        self._writer = writer_of_rank(comm.rank)
        self._work = ImplicitSteps(time.time())
        self._generation = 0
        self._dataset = 0
        self._finalized = False
        described = self._engine.describe()
        processes = comm.gather(this_process(), root=0)
        if self._link:
            self._link.introduce(described, processes or ())

    def need_checkpoint(self) -> bool:
        """Whether a checkpoint is due. Also the place where a flush that has ended is noticed."""
        asked_s = time.time()
        self._tell(self._engine.happened())
        needed = self._engine.need_checkpoint()
        self._tell(self._work.asked(asked_s, time.time()))
        return needed

    def start_output(self, name: str, flags: OutputFlags = OutputFlags.CHECKPOINT) -> None:
        """``SCR_Start_output``: apply what the daemon recommends, then open the dataset."""
        self._tell(self._work.output_started(time.time()))
        self._tell(self._engine.happened())
        self._generation = self._engine.apply(self._link.ask() if self._link else None)
        self._dataset = self._engine.start_output(name, flags)
        started = OutputStarted(
            dataset=self._dataset,
            name=name,
            time_s=time.time(),
            generation=self._generation,
            checkpoint=OutputFlags.CHECKPOINT in flags,
        )
        self._tell([started])

    def route_file(self, name: str) -> str:
        """``SCR_Route_file``: where to write (or, in a restart, read) the file `name`.

        It lies below the prefix directory; a relative name is seen from there.
        """
        return self._engine.route_file(name)

    def complete_output(self, valid: bool = True) -> bool:
        """``SCR_Complete_output``: `valid` is this rank's word; returns whether all ranks' were."""
        completed = self._engine.complete_output(valid)
        self._tell([*self._engine.happened(), completed])
        if completed.valid and completed.checkpoint:
            self._work.resumed(self._dataset, time.time())
        else:
            self._work.paused(time.time())
        return completed.valid

    def have_restart(self) -> str | None:
        """``SCR_Have_restart``: the name of the dataset to restart from, or None."""
        name = self._engine.have_restart()
        self._work.paused(time.time())
        return name

    def start_restart(self) -> str:
        """``SCR_Start_restart``: open it; :meth:`route_file` now gives the paths to read."""
        return self._engine.start_restart()

    def complete_restart(self, valid: bool = True) -> bool:
        """``SCR_Complete_restart``: returns whether every rank could read its files."""
        completed = self._engine.complete_restart(valid)
        self._tell([completed])
        self._work.resumed(completed.dataset if completed.valid else 0, time.time())
        return completed.valid

    def should_exit(self) -> bool:
        """``SCR_Should_exit``: whether to end now, since the job was told to or its time is nearly over."""
        return self._engine.should_exit()

    def current(self, name: str) -> None:
        """``SCR_Current``: the application restarted from checkpoint `name` by itself."""
        if dataset := self._engine.current(name):
            self._work.resumed(dataset, time.time())

    def drop(self, name: str) -> None:
        """``SCR_Drop``: forget the dataset `name`; its files stay."""
        self._engine.drop(name)

    def delete(self, name: str) -> None:
        """``SCR_Delete``: delete the dataset `name`."""
        self._engine.delete(name)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Time one step of the main loop, without its checkpoint.

        Without any, what lies between the calls counts as steps (:mod:`.work`).
        """
        self._work.told = True
        start_s = time.time()
        yield
        self._tell([StepCompleted(step=number, start_s=start_s, end_s=time.time(), writer=self._writer)])

    def finalize(self) -> None:
        """``SCR_Finalize``: finish the flush under way. Once; later calls do nothing."""
        if self._finalized:
            return
        self._finalized = True
        self._tell([*self._engine.finalize(), JobEnded(time_s=time.time())])
        if self._link:
            self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.finalize()  # after an exception other ranks may never come to a collective call

    def _tell(self, events: Iterable[Event]) -> None:
        if self._link:
            self._link.tell(events)
