"""How ranks of MPI are started, and what their environment says of the engine; without MPI itself."""

import os
import shutil
import sys
from pathlib import Path

ENGINE_VARIABLE = "SCRTUNE_ENGINE"
"""``libscr`` or ``embedded``: the engine to take, whatever is there."""
NODES_VARIABLE = "SCRTUNE_EMBEDDED_NODES"
"""The nodes that the embedded engine simulates."""


def mpiexec() -> str:
    """Return the mpiexec of the mpich wheel, beside our own interpreter, else that on PATH.

    Raises FileNotFoundError; the text says what to do.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise FileNotFoundError("no mpiexec beside this Python or on PATH; run: pip install 'scrtune[mpich]'")
    return found


def plain_environment() -> dict[str, str]:
    """Return ours, without what would be in force in the job: of SCR, of scrtune, of DFTracer."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SCR_", "SCRTUNE_", "DFTRACER_")) or name == "SCRTUNE_RUN_DIR"
    }
