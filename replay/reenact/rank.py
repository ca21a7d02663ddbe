"""A rank of a re-enactment: `mpiexec -n N python -m scrtune.replay.reenact.rank DIRECTORY`.

It reads the plan in the directory, writes its files by SCR's calls, and leaves a trace with the spans of its
checkpoints, its calls and, on rank 0, the flushes that the embedded engine reports.
"""

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
from mpi4py import MPI

from ...client.embedded.engine import EmbeddedEngine
from ...client.engine import OutputFlags
from ...client.libscr.engine import LibscrEngine
from ...client.session import engine_for, library_for
from ...goodput.events import FlushCompleted
from .plan import Plan, PlannedFile
from .run import PLAN, TRACES

_STATE_BYTES = 16 << 20
_FLUSHER = 1
_IDLE_PARTS = 16
"""What is done between the calls on a file is slept in so many parts at most."""


class _RankEvent(NamedTuple):
    """A line of the trace: a call on `path`, or the span of the checkpoint `step`."""

    name: str
    start_s: float
    end_s: float
    path: str = ""
    size: int = 0
    step: int = 0
    is_background: bool = False


class Rank:
    """One rank, and what it has done. `host` is the node that it stands for."""

    def __init__(self, engine: EmbeddedEngine | LibscrEngine, rank: int, host: str) -> None:
        self._engine = engine
        self._rank = rank
        self._host = host
        self._state = memoryview(os.urandom(_STATE_BYTES))
        self._events: list[_RankEvent] = []
        self._ended_s: dict[int, float] = {}
        self._overslept_s = 0.0

    def checkpoint(self, number: int, files: Iterable[PlannedFile]) -> None:
        """Write the files of checkpoint `number`. Collective."""
        start_s, self._overslept_s = time.time(), 0.0
        name = f"ckpt.{number}"
        dataset = self._engine.start_output(name, OutputFlags.CHECKPOINT)
        for file in files:
            self._pause(file.pause_s)
            self._write(self._engine.route_file(f"{name}/{self._rank}-{file.name}"), file)
        self._engine.complete_output(True)
        self._ended_s[dataset] = time.time()
        self._events.append(_RankEvent("checkpoint", start_s, self._ended_s[dataset], step=number))

    def _pause(self, seconds: float) -> None:
        """Sleep, less by what sleeps before took too long: where cores are busy that is milliseconds each."""
        start_s, left_s = time.time(), seconds - self._overslept_s
        time.sleep(max(0.0, left_s))
        self._overslept_s = time.time() - start_s - left_s

    def _write(self, path: str, file: PlannedFile) -> None:
        opened_s = time.time()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._add("open64", opened_s, path)
        sizes = [size for size, calls in file.writes for _ in range(calls)]
        idle_before = range(0, len(sizes), -(-len(sizes) // _IDLE_PARTS))
        for number, size in enumerate(sizes):
            if number in idle_before:
                self._pause(file.idle_s / len(idle_before))
            start_s, left = time.time(), size
            while left > 0:
                left -= os.write(descriptor, self._state[:left])
            self._add("write", start_s, path, size)
        if file.is_synced:
            start_s = time.time()
            os.fsync(descriptor)
            self._add("fsync", start_s, path)
        start_s = time.time()
        os.close(descriptor)
        self._add("close", start_s, path)

    def _add(self, name: str, start_s: float, path: str, size: int = 0) -> None:
        self._events.append(_RankEvent(name, start_s, time.time(), path, size))

    def flushed(self, flushes: Iterable[FlushCompleted], prefix: str) -> None:
        """Add flushes, those in the background from when the application went on."""
        for flush in flushes:
            event = _RankEvent("write", flush.start_s, flush.end_s, f"{prefix}/flush", flush.bytes)
            if flush.asynchronous:
                ended_s = self._ended_s.get(flush.dataset, 0.0)
                if flush.start_s < ended_s < flush.end_s:
                    event = event._replace(start_s=ended_s)
                event = event._replace(is_background=True)
            self._events.append(event)

    def trace(self) -> bytes:
        """Return all of it in DFTracer's format."""
        return b"[\n" + b"".join(self._line(number, event) for number, event in enumerate(self._events))

    def _line(self, number: int, event: _RankEvent) -> bytes:
        pid, start_us = os.getpid(), int(event.start_s * 1e6)
        subject = {"fname": event.path, "ret": event.size} if event.path else {"step": event.step}
        line = {
            "id": number,
            "name": event.name,
            "cat": "POSIX" if event.path else "checkpoint",
            "pid": pid,
            "tid": _FLUSHER if event.is_background else pid,
            "ts": start_us,
            "dur": int(event.end_s * 1e6) - start_us,
            "ph": 1,
            "args": {"hostname": self._host, **subject},
        }
        return msgspec.json.encode(line) + b"\n"


def main(directory: Path) -> None:
    """Carry out the plan in `directory`."""
    plan = msgspec.msgpack.decode((directory / PLAN).read_bytes(), type=Plan)
    comm = MPI.COMM_WORLD
    engine = engine_for(comm, library_for(comm))
    rank = Rank(engine, comm.rank, f"node{comm.rank * plan.nodes // comm.size}")
    flushes: list[FlushCompleted] = []
    for number, checkpoint in enumerate(plan.checkpoints):
        time.sleep(checkpoint.think_s)
        comm.Barrier()
        if isinstance(engine, EmbeddedEngine):
            flushes += engine.happened()
        rank.checkpoint(number, checkpoint.ranks[comm.rank])
    flushes += (each for each in engine.finalize() if isinstance(each, FlushCompleted))
    if comm.rank == 0:
        rank.flushed(flushes, os.environ["SCR_PREFIX"])
    (directory / TRACES / f"{comm.rank}.pfw").write_bytes(rank.trace())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
