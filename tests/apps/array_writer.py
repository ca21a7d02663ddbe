"""A job of four checkpoints of 1 MiB, written as the argument says: by numpy, or through a mapped file."""

import mmap
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

from scrtune.client.engine import OutputFlags
from scrtune.client.session import Session

HALF = np.zeros(1 << 16)


def by_numpy(directory: Path) -> None:
    """Write two arrays through streams that numpy makes of descriptors."""
    HALF.tofile(directory / "tofile")
    np.save(directory / "save.npy", HALF)


def by_map(directory: Path) -> None:
    """Write a mapped file, and its size alone by a call."""
    with (directory / "mapped").open("w+b") as file:
        file.truncate(2 * HALF.nbytes)
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:] = b"x" * (2 * HALF.nbytes)


FILES = {"numpy": (by_numpy, ("tofile", "save.npy")), "map": (by_map, ("mapped",))}

write, names = FILES[sys.argv[1]]
with Session(MPI.COMM_WORLD) as session:
    for number in range(1, 5):
        with session.step(number):
            pass
        session.start_output(f"ckpt.{number}", OutputFlags.CHECKPOINT)
        routed = [Path(session.route_file(f"ckpt.{number}/{name}")) for name in names]
        routed[0].parent.mkdir(parents=True, exist_ok=True)
        write(routed[0].parent)
        session.complete_output(valid=True)
