"""An application under the embedded engine, for test_engine.py: obeys a script, prints JSON.

Started as ``mpiexec -n N python mpi_embedded.py COMMAND...``; each command is an argument and gives a result.
"""

import json
import os
import shutil
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from mpi4py import MPI

from scrtune.client.embedded.engine import EmbeddedEngine
from scrtune.client.engine import OutputFlags
from scrtune.intents.effects import Advice
from scrtune.scr_config.catalogue import coerce

FILES = 3
GIVE_UP_S = 30.0


def content(name: str, rank: int, number: int) -> bytes:
    """What a file of checkpoint `name` holds: ranks differ in size, and each has an empty file."""
    size = 0 if number == FILES - 1 else 20_000 + 1_777 * rank + 313 * number
    seed = zlib.crc32(f"{name} {rank} {number}".encode())
    return np.random.default_rng(seed).bytes(size)


def file_name(name: str, rank: int, number: int) -> str:
    return f"{name}/rank_{rank}/layer_{number}.bin"


class Application:
    def __init__(self) -> None:
        self.comm = MPI.COMM_WORLD
        self.engine = EmbeddedEngine(self.comm)
        self.generation = 0

    def save(self, name: str, *words: str) -> Any:
        """One output; rank 1 calls it ``invalid``, has a file ``missing`` or its parity ``blocked``."""
        flags = OutputFlags.OUTPUT if "output" in words else OutputFlags.CHECKPOINT
        dataset = self.engine.start_output(name, flags)
        if "blocked" in words and self.comm.rank == 1:
            cache = Path(self.engine.describe().cache)
            (cache / f"node1/scr.dataset.{dataset}/.scr/redundancy.1").mkdir()
        for number in range(FILES):
            path = self.engine.route_file(file_name(name, self.comm.rank, number))
            if not ("missing" in words and self.comm.rank == 1 and number == 0):
                Path(path).write_bytes(content(name, self.comm.rank, number))
        return self.engine.complete_output("invalid" not in words or self.comm.rank != 1)

    def share(self, name: str) -> Any:
        """A checkpoint of which all ranks write the same file."""
        self.engine.start_output(name, OutputFlags.CHECKPOINT)
        Path(self.engine.route_file(f"{name}/all")).write_bytes(content(name, 0, 0))
        return self.engine.complete_output(True)

    def restart(self, *words: str) -> Any:
        """Read the newest checkpoint; ``as N``: N ranks wrote it, ``refuse``: the last rank cannot."""
        if self.engine.have_restart() is None:
            return None
        name = self.engine.start_restart()
        writers = int(words[1]) if words[:1] == ("as",) else self.comm.size
        intact = all(
            Path(self.engine.route_file(file_name(name, rank, number))).read_bytes()
            == content(name, rank, number)
            for rank in range(self.comm.rank, writers, self.comm.size)
            for number in range(FILES)
        )
        refuses = "refuse" in words and self.comm.rank == self.comm.size - 1
        completed = self.engine.complete_restart(not refuses)
        return {**msgspec.to_builtins(completed), "intact": self.comm.allreduce(intact, op=MPI.LAND)}

    def apply(self, *pairs: str) -> None:
        """Take over settings; a value that SCR's catalogue does not accept is sent as text."""
        settings = {}
        for pair in pairs:
            name, _, text = pair.partition("=")
            try:
                settings[name] = coerce(name, text)
            except ValueError:
                settings[name] = text
        self.generation += 1
        self.engine.apply(Advice(generation=self.generation, settings=settings, reason="the test"))

    def flushes(self) -> Any:
        return list(self.engine.happened())

    def await_flush(self) -> Any:
        """Poll, as an application's steps do, until a flush has ended."""
        give_up_s = time.monotonic() + GIVE_UP_S
        while not (finished := self.engine.happened()):
            if self.comm.bcast(time.monotonic() > give_up_s):
                return []
            time.sleep(0.002)
        return list(finished)

    def lose(self, *nodes: str) -> None:
        """The nodes are gone, and with them their cache."""
        self.comm.Barrier()
        if self.comm.rank == 0:
            for node in nodes:
                shutil.rmtree(Path(self.engine.describe().cache) / f"node{node}")
        self.comm.Barrier()

    def need(self, times: str) -> list[bool]:
        return [self.engine.need_checkpoint() for _ in range(int(times))]

    def describe(self) -> Any:
        return self.engine.describe()

    def misuse(self) -> list[str]:
        """Calls out of turn, and files that are none of a job's."""
        calls = [
            lambda: self.engine.complete_output(True),
            lambda: self.engine.complete_restart(True),
            lambda: self.engine.route_file("a"),
            self.engine.start_restart,
        ]
        errors = [_error_of(call) for call in calls]
        self.engine.start_output("open", OutputFlags.CHECKPOINT)
        errors.append(_error_of(lambda: self.engine.start_output("again", OutputFlags.CHECKPOINT)))
        errors.append(_error_of(lambda: self.engine.apply(Advice())))
        errors += [
            _error_of(lambda n=name: self.engine.route_file(n)) for name in ("/etc/passwd", "../x", ".scr/x")
        ]
        self.engine.complete_output(False)
        return errors

    def kill(self) -> None:
        """All ranks die at once, in the middle of whatever is under way."""
        for line in Path("/proc/self/maps").read_text().splitlines():
            if "/mpich_shm_" in line:  # the dead would leave MPICH's shared memory behind
                Path(line.split(maxsplit=5)[5].removesuffix(" (deleted)")).unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def finalize(self) -> Any:
        return list(self.engine.finalize())


def _error_of(call: Any) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def tell(results: list[Any]) -> None:
    """Rank 0 prints, and nobody goes on before."""
    if MPI.COMM_WORLD.rank == 0:
        sys.stdout.write(json.dumps(results) + "\n")
        sys.stdout.flush()
    MPI.COMM_WORLD.Barrier()


def main() -> None:
    application = Application()
    results = []
    for command in sys.argv[1:]:
        verb, *words = command.split()
        if verb == "kill":
            tell(results)
        results.append(msgspec.to_builtins(getattr(application, verb)(*words)))
    tell(results)


if __name__ == "__main__":
    main()
