"""A drop-in for SCR's own Python module ``scr``: the same names, arguments, return values and exceptions.

Under ``scrtune run`` the settings are tuned at each :func:`start_output` (`docs/engine.md`). MPI must be
initialized. All but :func:`route_file` are collective over MPI_COMM_WORLD. A call that SCR refuses raises
RuntimeError, such as ``SCR_Init failed``.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import cast

from mpi4py import MPI

from .embedded.launch import ConfigCalls
from .engine import OutputFlags
from .libscr.library import Library
from .session import Session, engine_for, library_for

FLAG_NONE = int(OutputFlags.NONE)
FLAG_CHECKPOINT = int(OutputFlags.CHECKPOINT)
FLAG_OUTPUT = int(OutputFlags.OUTPUT)


@dataclass
class _State:
    """What SCR keeps in globals. `phase` is what route_file is in."""

    configuration: ConfigCalls = field(default_factory=ConfigCalls)
    session: Session | None = None
    phase: str = ""


_state = _State()


def config(conf: str) -> str | None:
    """Return ``NAME``, None when nobody has set it; before :func:`init` ``NAME=[value]`` (un)sets it."""
    if library := _library():
        return library.config(conf)
    with _as_scr("SCR_Config"):
        if "=" in conf and _state.session is not None:
            raise RuntimeError("parameters are set before init")
        value = _state.configuration.config(conf) if MPI.COMM_WORLD.rank == 0 else None
        return cast("str | None", MPI.COMM_WORLD.bcast(value))


def init() -> None:
    """Start: rebuild or fetch what is to be restarted from. Before all other calls but :func:`config`."""
    library = _library()
    with _as_scr("SCR_Init"):
        if _state.session is not None:
            raise RuntimeError("it was called before; call finalize first")
        engine = engine_for(MPI.COMM_WORLD, library, _state.configuration.text)
        _state.session = Session(MPI.COMM_WORLD, engine)


def finalize() -> None:
    """Flush what is to be flushed, and end."""
    with _as_scr("SCR_Finalize"):
        _session().finalize()
    _state.session = None
    _state.configuration = ConfigCalls()


def route_file(fname: str) -> str:
    """Return the path to write `fname` to in an output, to read it from in a restart, else `fname` itself."""
    if not _state.phase:
        return fname
    with _as_scr("SCR_Route_file"):
        path = _session().route_file(os.path.abspath(fname))  # noqa: PTH100 - keeps links, as SCR does
        if _state.phase == "restart" and not os.access(path, os.R_OK):
            raise RuntimeError(f"{path} cannot be read")
        return path


def have_restart() -> str | None:
    """Return the name of the checkpoint that can be read, or None."""
    with _as_scr("SCR_Have_restart"):
        return _session().have_restart()


def start_restart() -> str:
    """Begin to read that checkpoint; return its name."""
    with _as_scr("SCR_Start_restart"):
        name = _session().start_restart()
    _state.phase = "restart"
    return name


def complete_restart(valid: bool = True) -> bool:
    """End reading; `valid` is this rank's word. Return whether all ranks read their files."""
    _state.phase = ""
    with _as_scr("SCR_Complete_restart"):
        return _session().complete_restart(bool(valid))


def need_checkpoint() -> bool:
    """Return whether a checkpoint should be taken now."""
    with _as_scr("SCR_Need_checkpoint"):
        return _session().need_checkpoint()


def start_output(name: str, flags: int) -> None:
    """Begin to write dataset `name`; `flags` are FLAG_CHECKPOINT, FLAG_OUTPUT, both or FLAG_NONE."""
    with _as_scr("SCR_Start_output"):
        _session().start_output(name, OutputFlags(int(flags)))
    _state.phase = "output"


def complete_output(valid: bool = True) -> bool:
    """End writing; `valid` is this rank's word. Return whether all ranks wrote their files."""
    _state.phase = ""
    with _as_scr("SCR_Complete_output"):
        return _session().complete_output(bool(valid))


def should_exit() -> bool:
    """Return whether to end now, since SCR is to halt the job or its time is nearly over."""
    with _as_scr("SCR_Should_exit"):
        return _session().should_exit()


def current(name: str) -> None:
    """Tell SCR that the application restarted from checkpoint `name` by itself."""
    with _as_scr("SCR_Current"):
        _session().current(name)


def delete(name: str) -> None:
    """Delete dataset `name`, its files and directories that this leaves empty."""
    with _as_scr("SCR_Delete"):
        _session().delete(name)


def drop(name: str) -> None:
    """Forget dataset `name`; its files stay."""
    with _as_scr("SCR_Drop"):
        _session().drop(name)


@cache
def _library() -> Library | None:
    return library_for(MPI.COMM_WORLD)


def _session() -> Session:
    if _state.session is None:
        raise RuntimeError("call init first")
    return _state.session


@contextmanager
def _as_scr(call: str) -> Iterator[None]:
    """Raise errors in the words of SCR's own module; what is wrong is their cause."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        raise RuntimeError(f"{call} failed") from error
