"""An application that takes checkpoints until it is told to stop, for test_kills.py. Prints how many.

Started as ``mpiexec -n N python mpi_steady.py STOP``: it ends when the file STOP is there.
"""

import hashlib
import sys
import time
from pathlib import Path

from mpi4py import MPI

from scrtune.client.session import Session

FILES = 2
STEP_S = 0.02


def content(number: int, rank: int, file: int) -> bytes:
    """What a file of checkpoint `number` holds, which test_kills.py knows, too."""
    return hashlib.shake_256(f"{number} {rank} {file}".encode()).digest(400_000)


def main() -> None:
    comm, number = MPI.COMM_WORLD, 0
    with Session(comm) as session:
        while not comm.bcast(Path(sys.argv[1]).exists()):
            for step in range(3):
                with session.step(3 * number + step):
                    time.sleep(STEP_S)
            session.start_output(f"c{number}")
            for file in range(FILES):
                path = session.route_file(f"c{number}/rank{comm.rank}.{file}")
                Path(path).write_bytes(content(number, comm.rank, file))
            assert session.complete_output(valid=True)
            number += 1
    if comm.rank == 0:
        sys.stdout.write(f"{number}\n")


if __name__ == "__main__":
    main()
