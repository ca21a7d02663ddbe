"""A training loop with checkpoints, in the proportions of the LLNL study's Megatron-DeepSpeed workload.

Each rank writes one optimizer file (5.24 GiB there), 44 layer files (0.14 GiB each) and a small model file,
scaled down by --scale. A step computes on the CPU and then waits for its "device"; nothing is computed that
is worth keeping, but the time is real, the files are real, and so is the checkpoint engine.

    scrtune run -- mpiexec -n 2 python examples/train.py --steps 60
"""

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from mpi4py import MPI

from scrtune.client.engine import OutputFlags  # absolute: an example shows what a user writes
from scrtune.client.session import Session

OPTIMIZER_BYTES = 5_625_371_495
OPTIMIZER_TENSORS = (0.179, 0.179, 0.154, 0.154, 0.334)
FILES = {
    "model": (30_827, (1.0,)),
    **{f"layer-{layer}": (150_323_855, (0.5, 0.5)) for layer in range(44)},
    "optimizer": (OPTIMIZER_BYTES, OPTIMIZER_TENSORS),
}
"""The bytes of each file of a rank, and the shares of its tensors."""
HEADER = b"\0" * 64


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="steps to compute")
    parser.add_argument("--every", type=int, default=4, help="steps between checkpoints; 0: ask SCR")
    parser.add_argument("--scale", type=float, default=1 / 256, help="size of the files against the study's")
    parser.add_argument("--compute-ms", type=float, default=20.0, help="CPU time of a step")
    parser.add_argument("--device-ms", type=float, default=80.0, help="time a step waits for its device")
    parser.add_argument("--cpus", default="", help="bind every rank to these CPUs, such as 0 or 0,2")
    parser.add_argument("--no-fsync", action="store_true", help="do not sync files when they are written")
    parser.add_argument(
        "--times", type=Path, help="write rank 0's seconds of each step and checkpoint, as JSON"
    )
    return parser.parse_args()


def compute(cpu_s: float, matrix: np.ndarray) -> None:
    """Multiply matrices for `cpu_s` seconds of this thread's CPU time: less CPU makes it take longer."""
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        np.dot(matrix, matrix)


def write_file(path: str, tensors: Iterable[int], state: memoryview, sync: bool) -> None:
    """Write tensors as a serialiser does: a small header, then the whole tensor in one call."""
    with Path(path).open("wb", buffering=0) as file:
        for size in tensors:
            file.write(HEADER)
            rest = size
            while rest > 0:
                rest -= file.write(state[: min(rest, len(state))])
        if sync:
            os.fsync(file.fileno())


def checkpoint(
    session: Session, step: int, rank: int, options: argparse.Namespace, state: memoryview
) -> None:
    """Take one checkpoint of this rank: model, layers, optimizer."""
    session.start_output(f"step.{step}", OutputFlags.CHECKPOINT)
    valid = True
    try:
        for name, (size, shares) in FILES.items():
            scaled = size if name == "model" else int(size * options.scale)
            tensors = [max(1, int(scaled * share)) for share in shares]
            path = session.route_file(f"step.{step}/{name}-{rank}.pt")
            write_file(path, tensors, state, not options.no_fsync)
    except OSError as error:
        print(f"rank {rank}: {error}", flush=True)
        valid = False
    session.complete_output(valid)


def restart(session: Session, rank: int) -> int:
    """Read the newest checkpoint back, if there is one; return the step to begin with."""
    while (name := session.have_restart()) is not None:
        session.start_restart()
        path = Path(session.route_file(f"{name}/optimizer-{rank}.pt"))
        if session.complete_restart(path.is_file() and path.stat().st_size > 0):
            return int(name.rpartition(".")[2]) + 1
    return 0


@contextmanager
def timed(took_s: list[float]) -> Iterator[None]:
    """Append the seconds of what is done within."""
    began_s = time.perf_counter()
    yield
    took_s.append(time.perf_counter() - began_s)


def main() -> None:
    """Train."""
    options = arguments()
    comm = MPI.COMM_WORLD
    if options.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in options.cpus.split(",")})
    matrix = np.random.default_rng(comm.rank).random((384, 384))
    largest = int(OPTIMIZER_BYTES * options.scale * max(OPTIMIZER_TENSORS)) + 1
    state = memoryview(np.random.default_rng(comm.rank).bytes(max(largest, FILES["model"][0])))
    step_s: list[float] = []
    checkpoint_s: list[float] = []
    with Session(comm) as session:
        first = restart(session, comm.rank)
        for step in range(first, options.steps):
            with timed(step_s), session.step(step):
                compute(options.compute_ms / 1000, matrix)
                time.sleep(options.device_ms / 1000)
                comm.Barrier()
            needed = session.need_checkpoint()
            if (step + 1) % options.every == 0 if options.every else needed:
                with timed(checkpoint_s):
                    checkpoint(session, step, comm.rank, options, state)
    if options.times and comm.rank == 0:
        options.times.write_text(json.dumps({"step_s": step_s, "checkpoint_s": checkpoint_s}))


if __name__ == "__main__":
    main()
