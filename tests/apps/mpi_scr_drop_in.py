"""An application on SCR's Python calls, for test_scr.py and libscr/test_engine.py: obeys a script.

Started as ``mpiexec -n N python mpi_scr_drop_in.py RESULTS COMMAND...``: each command is an argument. Every
rank writes what its calls returned to RESULTS/<rank>, as JSON. But for the first import this is what an
application for SCR's own module looks like. Before output N the file $DECISIONS/N becomes the job's decision.
"""

import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from scrtune.client import scr

FILES = 2


def content(name: str, rank: int, number: int, size: int) -> bytes:
    return np.random.default_rng(zlib.crc32(f"{name} {rank} {number}".encode())).bytes(size + rank)


class Application:
    def __init__(self) -> None:
        self.rank = MPI.COMM_WORLD.rank
        self.size = 1000
        self.outputs = 0

    def config(self, text: str) -> Any:
        return scr.config(text)

    def init(self) -> Any:
        return scr.init()

    def bytes(self, size: str) -> None:
        """How large the files are from now on."""
        self.size = int(size)

    def restart(self, *refused: str) -> list[Any]:
        """Read the newest checkpoint; one that is `refused` is no good to the last rank."""
        seen: list[Any] = []
        while scr.have_restart():
            name = scr.start_restart()
            seen += [name, error_of(lambda: scr.route_file("a_file_that_is_not_there"))]
            intact = all(
                Path(scr.route_file(f"{name}.{self.rank}.{number}")).read_bytes()
                == content(name, self.rank, number, self.size)
                for number in range(FILES)
            )
            is_last = self.rank == MPI.COMM_WORLD.size - 1
            ended = scr.complete_restart(not (name in refused and is_last))
            seen += [intact, ended]
            if ended:
                break
        return seen

    def start(self, name: str, flags: int) -> None:
        self.outputs += 1
        decision = Path(os.environ.get("DECISIONS", "none"), str(self.outputs))
        if self.rank == 0 and decision.exists():
            decision.rename(os.environ["SCRTUNE_DECISION_FILE"])
        return scr.start_output(name, flags)

    def save(self, name: str, *words: str) -> list[Any]:
        """One output, ``output`` or a checkpoint; the last rank calls it ``invalid``."""
        flags = scr.FLAG_OUTPUT if "output" in words else scr.FLAG_CHECKPOINT
        began = self.start(name, flags)
        for number in range(FILES):
            path = Path(scr.route_file(f"{name}.{self.rank}.{number}"))
            path.write_bytes(content(name, self.rank, number, self.size))
        is_last = self.rank == MPI.COMM_WORLD.size - 1
        return [began, scr.complete_output(not ("invalid" in words and is_last))]

    def clash(self, *bases: str) -> bool:
        """An output in which every rank has files of the same base names, in a directory of its own."""
        self.start("clash", scr.FLAG_CHECKPOINT)
        for base in bases:
            Path(scr.route_file(f"{self.rank}/{base}")).write_text(str(self.rank))
        return scr.complete_output(True)

    def share(self, name: str, *words: str) -> bool:
        """An output, or a checkpoint, of which all ranks write the same file."""
        self.start(name, scr.FLAG_OUTPUT if "output" in words else scr.FLAG_CHECKPOINT)
        Path(scr.route_file(f"{name}.shared")).write_text(name)
        return scr.complete_output(True)

    def loop(self, steps: str, every: str, compute_ms: str) -> int:
        """A main loop that asks in each step; returns how often it was told to save."""
        asked = 0
        for step in range(int(steps)):
            time.sleep(float(compute_ms) / 1000)
            asked += scr.need_checkpoint()
            if step % int(every) == 0:
                self.save(f"step_{step}")
            if scr.should_exit():
                break
        return asked

    def need(self, times: str) -> list[bool]:
        return [scr.need_checkpoint() for _ in range(int(times))]

    def exit(self) -> bool:
        return scr.should_exit()

    def outside(self) -> str:
        return scr.route_file("some/where")

    def current(self, name: str) -> Any:
        return scr.current(name)

    def drop(self, name: str) -> Any:
        return scr.drop(name)

    def delete(self, name: str) -> Any:
        return scr.delete(name)

    def there(self, *names: str) -> list[bool]:
        """Whether the first file of each dataset is in the working directory, the prefix directory."""
        return [Path(f"{name}.{self.rank}.0").exists() for name in names]

    def finalize(self) -> Any:
        return scr.finalize()


def error_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def main() -> None:
    application = Application()
    results = []
    for command in sys.argv[2:]:
        verb, *words = command.split()
        try:
            results.append(getattr(application, verb)(*words))
        except RuntimeError as error:
            results.append(f"RuntimeError: {error}")
    (Path(sys.argv[1]) / str(application.rank)).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
