"""The job of checkpoints.c (which see), with a Session on the embedded engine."""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
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


def write_file(path: str, size_bytes: int, block: bytes, *, is_synced: bool) -> None:
    """Write `size_bytes` in writes of a block; bring them to the storage if `is_synced`."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for done in range(0, size_bytes, len(block)):
        os.write(fd, block[: size_bytes - done])
    if is_synced:
        os.fsync(fd)
    os.close(fd)


def checkpoint(session: Session, number: int, files: int, write: Callable[[str], None]) -> float:
    """Take a checkpoint, each file written by `write`; return its seconds on this rank."""
    began_s = time.perf_counter()
    session.start_output(f"ckpt.{number}", OutputFlags.CHECKPOINT)
    for file in range(files):
        path = session.route_file(f"ckpt.{number}/rank_{MPI.COMM_WORLD.rank}.{file}")
        write(path)
    session.complete_output(valid=True)
    return time.perf_counter() - began_s


def main() -> None:
    """Run the job of the command line."""
    count, compute_ms, busy, size_bytes, files, write_bytes, *synced = map(float, sys.argv[1:])
    write = partial(
        write_file,
        size_bytes=int(size_bytes // files),
        block=b"x" * int(write_bytes),
        is_synced=synced == [1],
    )
    with Session(MPI.COMM_WORLD) as session:
        MPI.COMM_WORLD.Barrier()
        began_s = time.perf_counter()
        took_s: list[float] = []
        step_s: list[float] = []
        for number in range(1, int(count) + 1):
            step_began_s = time.perf_counter()
            with session.step(number):
                compute(compute_ms / 1000, busy)
            step_s.append(time.perf_counter() - step_began_s)
            took_s.append(checkpoint(session, number, int(files), write))
        MPI.COMM_WORLD.Barrier()
        loop_s = time.perf_counter() - began_s
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps({"loop_s": loop_s, "checkpoint_s": took_s, "step_s": step_s}))


if __name__ == "__main__":
    main()
