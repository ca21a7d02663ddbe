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
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

import msgspec
from mpi4py import MPI
from typing_extensions import Self

from ..goodput.events import GoodputEvent, JobEnded, JobStarted, OutputStarted, StepCompleted
from ..intents.effects import Advice
from ..intents.events import Event, SettingsObserved
from ..scr_config.parameters import SECRETS
from .advice import AdviceClient
from .embedded import EmbeddedEngine
from .emit import Emitter
from .engine import Engine, OutputFlags
from .paths import JobPaths

_EXIT_LINGER_S = 0.5
_NOT_TOLD = SECRETS | {"SCR_CONF_FILE"}
"""Secrets, and a path that `scrtune run` itself has set: no setting of the user's."""


class Session:
    """One application's use of SCR. Make it once, on all ranks, and close it (or use it as a context)."""

    def __init__(self, comm: MPI.Intracomm, engine: Engine | None = None) -> None:
        self._comm = comm
        self._engine: Engine = EmbeddedEngine(comm) if engine is None else engine
        self._link = _Link() if comm.rank == 0 and "SCRTUNE_JOB_ID" in os.environ else None
        self._generation = 0
        self._finalized = False
        self._introduce()

    def need_checkpoint(self) -> bool:
        """Whether a checkpoint is due. Also the place where a flush that has ended is noticed."""
        self._tell(self._engine.finished_flushes())
        return self._engine.need_checkpoint()

    def start_output(self, name: str, flags: OutputFlags = OutputFlags.CHECKPOINT) -> None:
        """``SCR_Start_output``: apply what the daemon recommends, then open the dataset."""
        self._tell(self._engine.finished_flushes())
        self._generation = self._engine.apply(self._link.ask() if self._link else None)
        dataset = self._engine.start_output(name, flags)
        started = OutputStarted(
            dataset=dataset,
            name=name,
            time_s=time.time(),
            generation=self._generation,
            checkpoint=OutputFlags.CHECKPOINT in flags,
        )
        self._tell([started])

    def route_file(self, name: str) -> str:
        """``SCR_Route_file``: where to write (or, in a restart, read) the file `name`."""
        return self._engine.route_file(name)

    def complete_output(self, valid: bool = True) -> bool:
        """``SCR_Complete_output``: `valid` is this rank's word; returns whether all ranks' were."""
        completed = self._engine.complete_output(valid)
        self._tell([*self._engine.finished_flushes(), completed])
        return completed.valid

    def have_restart(self) -> str | None:
        """``SCR_Have_restart``: the name of the dataset to restart from, or None."""
        return self._engine.have_restart()

    def start_restart(self) -> str:
        """``SCR_Start_restart``: open it; :meth:`route_file` now gives the paths to read."""
        return self._engine.start_restart()

    def complete_restart(self, valid: bool = True) -> bool:
        """``SCR_Complete_restart``: returns whether every rank could read its files."""
        completed = self._engine.complete_restart(valid)
        self._tell([completed])
        return completed.valid

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Time one step of the main loop, without its checkpoint."""
        start_s = time.time()
        yield
        self._tell([StepCompleted(step=number, start_s=start_s, end_s=time.time())])

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

    def _introduce(self) -> None:
        """Tell the daemon the shape of the job and the user's own settings."""
        described = self._engine.describe()
        processes = self._comm.gather((socket.gethostname().split(".")[0], os.getpid()), root=0)
        if not self._link:
            return
        observed = msgspec.structs.replace(
            described,
            settings={name: value for name, value in described.settings.items() if name not in _NOT_TOLD},
            sources={name: source for name, source in described.sources.items() if name not in _NOT_TOLD},
            processes=tuple(processes or ()),
            floor=os.environ.get("SCRTUNE_REDUNDANCY_FLOOR", ""),
            override=os.environ.get("SCRTUNE_OVERRIDE", "0") != "0",
            tuning=os.environ.get("SCRTUNE_TUNING", "1") != "0",
        )
        self._tell([JobStarted(time_s=time.time(), ranks=observed.ranks, nodes=observed.nodes), observed])

    def _tell(self, events: Iterable[GoodputEvent | SettingsObserved]) -> None:
        if self._link:
            self._link.emit(events)


class _Link:
    """Rank 0's line to the daemon. Nothing here blocks beyond the 50 ms of a question, or raises."""

    def __init__(self) -> None:
        paths = JobPaths.of()
        self._emitter = Emitter(paths.events_endpoint)
        self._advice = AdviceClient(paths.control_endpoint, last_known=paths.advice)

    def ask(self) -> Advice | None:
        return self._advice.ask()

    def emit(self, events: Iterable[Event]) -> None:
        for event in events:
            self._emitter.emit(event)

    def close(self) -> None:
        if self._emitter.dropped:
            print(f"scrtune: {self._emitter.dropped} events were dropped", file=sys.stderr)  # noqa: T201
        self._emitter.close(_EXIT_LINGER_S)
        self._advice.close()
