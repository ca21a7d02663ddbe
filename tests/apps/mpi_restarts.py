"""An application that goes on from the newest checkpoint and takes one more, for test_declared_run.py.

Prints what it went on from, or ``nothing``, on rank 0.
"""

import sys
from pathlib import Path

from mpi4py import MPI

from scrtune.client.session import Session


def main() -> None:
    comm = MPI.COMM_WORLD
    with Session(comm) as session:
        name = session.have_restart()
        if name is not None:
            name = session.start_restart()
            session.complete_restart()
        number = int(name.removeprefix("c")) + 1 if name else 1
        with session.step(number):
            pass
        session.start_output(f"c{number}")
        Path(session.route_file(f"c{number}/rank{comm.rank}")).write_bytes(b"x" * 1000)
        assert session.complete_output(valid=True)
    if comm.rank == 0:
        sys.stdout.write(f"{name or 'nothing'}\n")


if __name__ == "__main__":
    main()
