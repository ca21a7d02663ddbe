"""A real libscr as an engine: SCR's life cycle, which libscrtune.so tunes and reports within SCR's calls."""

import ctypes
import os
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from mpi4py import MPI

from ...goodput.events import OutputCompleted, RestartCompleted
from ...intents.events import Event
from ..engine import EngineError, OutputFlags, say, user_name
from .library import MAX_FILENAME, Library


class _Opened(NamedTuple):
    """The output that is open; `routed`: where this rank writes -> the file that is meant."""

    name: str
    flags: OutputFlags
    start_s: float
    routed: dict[str, str]


class LibscrEngine:
    """SCR's life cycle over `library`, for MPI_COMM_WORLD's ranks; it calls SCR_Init, so make it once.

    What SCR refuses raises :class:`.EngineError`; calls out of turn abort the job, as in SCR.
    libscrtune.so applies decisions and reports what happens: nothing of it passes through here.
    """

    def __init__(self, comm: MPI.Intracomm, library: Library) -> None:
        # SCR_Init aborts a job of nobody's, as in some containers
        os.environ.setdefault("USER", user_name())
        self._scr = library
        library.call("SCR_Init")
        # the ranks that share a cache: those of a node, as SCR counts nodes
        own_number = zlib.crc32(os.fsencode(os.uname().nodename)) & 0x7FFF_FFFF
        host = library.integer("scr_my_hostid", otherwise=own_number)
        self._node = cast("MPI.Intracomm", comm.Split(host, comm.rank))
        self._opened: _Opened | None = None
        self._reading = ("", 0.0)

    def add_step(self, number: int, start_s: float, end_s: float) -> None:
        """Report step `number` of the main loop, from `start_s` to `end_s` (epoch seconds), on rank 0."""
        self._scr.add_step(number, start_s, end_s)

    def need_checkpoint(self) -> bool:
        """``SCR_Need_checkpoint``."""
        return self._scr.flag("SCR_Need_checkpoint")

    def start_output(self, name: str, flags: OutputFlags) -> int:
        """``SCR_Start_output``."""
        start_s = time.time()
        self._scr.call("SCR_Start_output", os.fsencode(name), int(flags))
        self._opened = _Opened(name, flags, start_s, {})
        return self._dataset

    def route_file(self, name: str) -> str:
        """``SCR_Route_file`` of `name`; a relative one is seen from the prefix directory."""
        wanted = str(Path(self._scr.string("scr_prefix"), name))
        buffer = ctypes.create_string_buffer(MAX_FILENAME)
        self._scr.call("SCR_Route_file", os.fsencode(wanted), buffer)
        path = os.fsdecode(buffer.value)
        if self._opened is not None:
            routed = self._opened.routed
            routed[path] = wanted if routed.get(path, wanted) == wanted else ""
        return path

    def complete_output(self, valid: bool) -> OutputCompleted:
        """``SCR_Complete_output``. A dataset two files of which took each other's place is not valid."""
        is_whole = self._has_own_places()
        all_valid = self._scr.succeeds("SCR_Complete_output", int(valid and is_whole))
        opened, self._opened = self._opened, None
        if opened is None:  # MPI_Abort, which SCR has called, may leave us a moment
            raise EngineError("complete_output without start_output; call start_output first")
        return OutputCompleted(
            dataset=self._dataset,
            name=opened.name,
            start_s=opened.start_s,
            end_s=time.time(),
            checkpoint=OutputFlags.CHECKPOINT in opened.flags,
            valid=all_valid,
        )

    def have_restart(self) -> str | None:
        """``SCR_Have_restart``; SCR may fetch a checkpoint from the prefix directory in it."""
        name = ctypes.create_string_buffer(MAX_FILENAME)
        return os.fsdecode(name.value) if self._scr.flag("SCR_Have_restart", name) else None

    def start_restart(self) -> str:
        """``SCR_Start_restart``."""
        name = ctypes.create_string_buffer(MAX_FILENAME)
        start_s = time.time()
        self._scr.call("SCR_Start_restart", name)
        self._reading = os.fsdecode(name.value), start_s
        return self._reading[0]

    def complete_restart(self, valid: bool) -> RestartCompleted:
        """``SCR_Complete_restart``."""
        dataset, (name, start_s) = self._dataset, self._reading
        all_valid = self._scr.succeeds("SCR_Complete_restart", int(valid))
        ended_s = time.time()
        return RestartCompleted(dataset=dataset, name=name, start_s=start_s, end_s=ended_s, valid=all_valid)

    def should_exit(self) -> bool:
        """``SCR_Should_exit``."""
        return self._scr.flag("SCR_Should_exit")

    def current(self, name: str) -> int:
        """``SCR_Current``; returns the dataset that SCR counts on from."""
        self._scr.call("SCR_Current", os.fsencode(name))
        return self._dataset

    def drop(self, name: str) -> None:
        """``SCR_Drop``."""
        self._scr.call("SCR_Drop", os.fsencode(name))

    def delete(self, name: str) -> None:
        """``SCR_Delete``."""
        self._scr.call("SCR_Delete", os.fsencode(name))

    def finalize(self) -> Sequence[Event]:
        """``SCR_Finalize``. The last call."""
        self._scr.call("SCR_Finalize")
        self._node.Free()
        return ()

    @property
    def _dataset(self) -> int:
        return self._scr.integer("scr_dataset_id")

    def _has_own_places(self) -> bool:
        """Return whether each file that the ranks of this node wrote has a place of its own. Collective.

        SCR's cache has a node's files by base names (scr.c:518); SCR would call an overwritten one whole.
        """
        meant: dict[str, str] = {}
        for routed in self._node.allgather(self._opened.routed if self._opened else {}):
            for path, wanted in routed.items():
                if not wanted or meant.setdefault(path, wanted) != wanted:
                    if self._node.rank == 0:
                        say(f"several files have the base name of {path}; this dataset is dropped")
                    return False
        return True
