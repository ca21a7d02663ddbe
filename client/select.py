"""Choose the engine of a job: a real libscr where this process can use one, else the embedded engine."""

import os

from mpi4py import MPI

from .embedded.engine import EmbeddedEngine
from .engine import EngineError, say
from .libscr.engine import LibscrEngine
from .libscr.find import LibscrUnavailable, find_libscr
from .libscr.library import Library
from .mpi import ENGINE_VARIABLE, NODES_VARIABLE


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
