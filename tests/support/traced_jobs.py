"""Traces of jobs as the LLNL study names them, made up: what is known of their I/O, in small.

Each job is written as DFTracer 2.2.0 does, one file for each process.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

KIB, MIB = 1024, 1024**2
START_US = 1_795_252_232_000_000
SECOND_US = 1_000_000


class TracedProcess:
    """One process on `host` that writes its trace into a file of its own below `directory`."""

    def __init__(self, directory: Path, host: str, pid: int) -> None:
        self._path = directory / f"app-{pid:016x}-app.pfw"
        self._who = {"pid": pid, "tid": pid, "type": 3}
        self._host = hash_of(host)
        self._lines: list[dict[str, Any]] = []
        self._files: set[str] = set()
        self._explain("HH", host, self._host)

    def _explain(self, name: str, meaning: str, value: str) -> None:
        args = {"hhash": self._host, "name": meaning, "value": value}
        self._lines.append({"name": name, "cat": "dftracer", **self._who, "ph": 4, "args": args})

    def write(self, path: str, size: int, start_us: int, duration_us: int = 1000) -> None:
        """Write `size` bytes into the file at `path`."""
        if path not in self._files:
            self._files.add(path)
            self._explain("FH", path, hash_of(path))
        args = {"hhash": self._host, "fhash": hash_of(path), "ret": size}
        self._call("write", "POSIX", start_us, duration_us, args)

    def span(self, name: str, start_us: int, duration_us: int, step: int) -> None:
        """Say that `name` of category checkpoint took so long."""
        self._call(name, "checkpoint", start_us, duration_us, {"hhash": self._host, "step": step})

    def _call(self, name: str, category: str, start_us: int, duration_us: int, args: dict[str, Any]) -> None:
        line = {"id": 1, "name": name, "cat": category, "ts": start_us, "dur": duration_us}
        self._lines.append({**line, **self._who, "ph": 1, "args": args})

    def end(self) -> None:
        """Leave the trace."""
        lines = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self._lines)
        self._path.write_text(lines)


def hash_of(path: str) -> str:
    """Return the hash of a path, the same in all processes, as DFTracer makes it."""
    return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()[:16]


def end_all(processes: Iterable[TracedProcess]) -> None:
    """Leave all traces."""
    for process in processes:
        process.end()


def sw4(directory: Path, *, ranks: int = 8, checkpoints: int = 4) -> Path:
    """SW4: all ranks, on two nodes, write their blocks of 4 MiB into one file; C++ code without spans."""
    processes = [TracedProcess(directory, f"node{rank % 2}", 100 + rank) for rank in range(ranks)]
    for number in range(checkpoints):
        begin_us = START_US + number * 20 * SECOND_US
        for rank, process in enumerate(processes):
            for block in range(8):
                at_us = begin_us + block * 25_000 + rank * 100
                process.write(f"/prefix/sw4.cycle={number}.sw4checkpoint", 4 * MIB, at_us, 20_000)
    end_all(processes)
    return directory


def mummi(directory: Path, *, simulations: int = 24, at_once: int = 4) -> Path:
    """MuMMI: one allocation, `at_once` simulations at a time, each a process that writes frames and ends."""
    for number in range(simulations):
        process = TracedProcess(directory, f"node{number % 2}", 1000 + number)
        begin_us = START_US + (number // at_once) * 30 * SECOND_US + (number % at_once) * 1000
        for frame in range(5):
            at_us = begin_us + frame * 5 * SECOND_US
            process.write(f"/prefix/sim{number}/frame{frame}.npz", 300 * KIB, at_us, 3000)
            process.write(f"/prefix/sim{number}/frame{frame}.idx", 512, at_us + 4000, 200)
        process.end()
    return directory


def lido(directory: Path, *, ranks: int = 2, iterations: int = 6, back: int = 3) -> Path:
    """LiDO: an optimiser saves each iteration, goes back by some, and goes on from there."""
    processes = [TracedProcess(directory, "node0", 10 + rank) for rank in range(ranks)]
    now_us = START_US
    again = range(iterations - back + 1, iterations + 2)
    for step in (*range(1, iterations + 1), *again):
        if step == again.start and now_us > START_US + iterations * SECOND_US:
            for process in processes:
                process.span("load_checkpoint", now_us, 50_000, again.start - 1)
            now_us += SECOND_US
        for rank, process in enumerate(processes):
            for call in range(4):
                at_us = now_us + call * 10_000
                process.write(f"/prefix/iteration{step}/design.{rank}", MIB + 64 * KIB * step, at_us, 9000)
            process.span("save_checkpoint", now_us, 50_000, step)
        now_us += 2 * SECOND_US
    end_all(processes)
    return directory
