"""What the environment says of a recorder: who records, and where to."""

import contextlib
import os
import re
from pathlib import Path

DIRECTORY_VARIABLE = "SCRTUNE_GOODPUT_DIR"
# the launcher of MPI stands within srun's or flux's step: its word is the closer one
_RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "FLUX_TASK_RANK")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def writer_of_rank(rank: int) -> str:
    """The name that rank `rank` of a job records under."""
    return f"rank{rank}"


def writer_from_environment() -> str:
    """``rank<n>`` as torchrun, MPI, Slurm or Flux number this process; empty for a process on its own.

    ``RANK`` is torchrun's only where its ``LOCAL_RANK`` stands beside it: anybody may have a variable of that
    name.
    """
    names = ("RANK", *_RANK_VARIABLES) if "LOCAL_RANK" in os.environ else _RANK_VARIABLES
    found = next((value for name in names if (value := os.environ.get(name, "")).isdecimal()), "")
    return writer_of_rank(int(found)) if found else ""


def log_path(job_name: str, ending: str) -> Path:
    """``<job name>-goodput<ending>`` in $SCRTUNE_GOODPUT_DIR, else in the current directory."""
    name = f"{_UNSAFE.sub('_', job_name)}-goodput{ending}"
    return absolute(Path(os.environ.get(DIRECTORY_VARIABLE, "")) / name)


def absolute(path: Path) -> Path:
    """`path`, whatever directory the application changes to; as it is when there is no current one."""
    with contextlib.suppress(OSError):
        return path.absolute()
    return path
