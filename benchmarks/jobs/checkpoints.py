"""The job of checkpoints.c (which see), with a Session on the embedded engine."""

import json
import os
import sys
import time
from pathlib import Path

from mpi4py import MPI

from scrtune.client.engine import OutputFlags
from scrtune.client.session import Session


def compute(wanted_s: float, busy: float) -> None:
    """Compute for `wanted_s`, of which `busy` (0 to 1) on the core; the rest waits, as for a device."""
    until_s = time.thread_time() + wanted_s * busy
    while time.thread_time() < until_s:
        pass
    time.sleep(wanted_s * (1 - busy))
    MPI.COMM_WORLD.Barrier()


def write_file(path: str, size_bytes: int, block: bytes) -> None:
    """Write `size_bytes` in writes of a block."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for done in range(0, size_bytes, len(block)):
        os.write(fd, block[: size_bytes - done])
    os.close(fd)


def checkpoint(session: Session, number: int, files: int, size_bytes: int, block: bytes) -> float:
    """Take a checkpoint; return its seconds on this rank."""
    began_s = time.perf_counter()
    session.start_output(f"ckpt.{number}", OutputFlags.CHECKPOINT)
    for file in range(files):
        path = session.route_file(f"ckpt.{number}/rank_{MPI.COMM_WORLD.rank}.{file}")
        write_file(path, size_bytes // files, block)
    session.complete_output(valid=True)
    return time.perf_counter() - began_s


def main() -> None:
    """Run the job of the command line."""
    count, compute_ms, busy, size_bytes, files, write_bytes = map(float, sys.argv[1:])
    block = b"x" * int(write_bytes)
    with Session(MPI.COMM_WORLD) as session:
        MPI.COMM_WORLD.Barrier()
        began_s = time.perf_counter()
        took_s: list[float] = []
        for number in range(1, int(count) + 1):
            with session.step(number):
                compute(compute_ms / 1000, busy)
            took_s.append(checkpoint(session, number, int(files), int(size_bytes), block))
        MPI.COMM_WORLD.Barrier()
        loop_s = time.perf_counter() - began_s
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps({"loop_s": loop_s, "checkpoint_s": took_s}))


if __name__ == "__main__":
    main()
