"""One task of an application under test: writes down what it was given, then runs what else it is told to.

python slurm_rank.py DIRECTORY [PROGRAM ARGUMENTS...]
"""

import contextlib
import json
import os
import runpy
import socket
import sys
from pathlib import Path

import psutil
from mpi4py import MPI


def daemons(base: str) -> list[str]:
    """The nodes of the daemons with run directory `base`; nodes share the machine's process table."""
    nodes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            if environment.get("SCRTUNE_RUN_DIR") == base and process.name() == "scrtune-daemon":
                nodes.append(environment["SLURMD_NODENAME"])
    return sorted(nodes)


def main() -> None:
    """Write ``DIRECTORY/RANK.json``."""
    comm = MPI.COMM_WORLD
    directory = Path(sys.argv[1])
    directory.mkdir(exist_ok=True)
    seen = {
        "ranks": comm.size,
        "host": socket.gethostname(),
        "daemons": daemons(os.environ.get("SCRTUNE_RUN_DIR", "")),
        "environment": dict(os.environ),
    }
    comm.Barrier()
    (directory / f"{comm.rank}.json").write_text(json.dumps(seen))
    if rest := sys.argv[2:]:
        sys.argv = rest
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main()
