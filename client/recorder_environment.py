"""What the environment says of a recorder: who records, and where to."""

import os
from pathlib import Path

from ..goodput.log import line_log

# the launcher of MPI stands within srun's or flux's step: its word is the closer one
_RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "FLUX_TASK_RANK")


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
    """``<job name>-goodput<ending>``, where logs lie (:func:`..goodput.line_log.log_path`)."""
    return line_log.log_path(f"{job_name}-goodput", ending)
