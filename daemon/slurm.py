"""Inside a Slurm allocation: one daemon a node beside the application, and its environment by task prolog.

The daemons run in a step of their own, with ``--overlap`` (else one of the steps would wait for the other)
and an explicit ``-n`` (else the inherited SLURM_NTASKS starts several a node). The application's own srun
line stays as it is: SLURM_TASK_PROLOG gives each task the variables of its node.
"""

import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..client.paths import JobPaths

log = logging.getLogger("scrtune.run")

_READY_LIMIT_S = 30.0
_STOP_LIMIT_S = 15.0
_ASK_LIMIT_S = 10.0
_POLL_S = 0.1

# A prolog that fails kills the task and one that hangs holds it up: a bounded wait, and exit 0 in every case.
_PROLOG = """#!/bin/sh
# Written by scrtune: the variables of this task's node (slurm.conf(5), TaskProlog).
{own}
environment={base}/{job_id}/$(uname -n | cut -d. -f1)/environment.sh
tries=0
while [ ! -r "$environment" ] && [ $tries -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
cat "$environment" 2>/dev/null
exit 0
"""


def in_allocation(environment: Mapping[str, str]) -> bool:
    """Whether we are in a Slurm allocation but in no step of it: a batch script, or a shell of salloc."""
    return "SLURM_JOB_ID" in environment and environment.get("SLURM_STEP_ID", "") in _NO_STEP


_NO_STEP = {"", "4294967291", "4294967290"}  # none, SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP


def environment_lines(variables: Mapping[str, str]) -> str:
    """What a task prolog prints: ``export NAME=value``, the value as it is, without any quoting."""
    return "".join(f"export {name}={value}\n" for name, value in variables.items())


class SlurmServices:
    """`scrtune node` on every node of the allocation, as one step that overlaps with the application's."""

    def __init__(self, paths: JobPaths, shared: Path, node_options: Sequence[str]) -> None:
        """`shared` is a directory that all nodes see; the task prolog is put there."""
        self._paths = paths
        self._shared = shared
        self._node_options = node_options
        self._name = f"scrtune-{paths.job_id}"
        self._step: subprocess.Popen[bytes] | None = None

    @property
    def prolog(self) -> Path:
        """The task prolog's path, for SLURM_TASK_PROLOG."""
        return self._shared / "task_prolog.sh"

    def start(self) -> None:
        """Start the daemons and wait until the one of this node is ready, or for 30 s."""
        self._write_prolog()
        nodes = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES", "1")
        command = ["srun", "--overlap", "--mpi=none", "-N", nodes, "-n", nodes, "--ntasks-per-node=1"]
        command += ["-J", self._name, sys.executable, "-m", "scrtune.daemon", "node"]
        command += ["--job-id", self._paths.job_id, *self._node_options]
        with (self._shared / "daemons.log").open("ab") as output:
            self._step = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "SCRTUNE_RUN_DIR": str(self._paths.base)},
                start_new_session=True,
            )
        self._wait_until_ready(int(nodes))

    def check(self) -> None:
        """Nothing to do: `scrtune node` looks after the daemon of its node."""

    def stop(self) -> None:
        """End the daemons' step; only ``scancel --signal`` lets them end cleanly (TERM to srun is a KILL)."""
        if self._step is None or self._step.poll() is not None:
            return
        for step in self._steps():
            subprocess.run(["scancel", "--signal=TERM", step], check=False, timeout=_ASK_LIMIT_S)
        try:
            self._step.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            log.warning("the daemons' step did not end within %.0f s", _STOP_LIMIT_S)
            self._step.kill()
            self._step.wait()

    def _wait_until_ready(self, nodes: int) -> None:
        deadline_s = time.monotonic() + _READY_LIMIT_S
        while time.monotonic() < deadline_s and self._step and self._step.poll() is None:
            if len(list(self._shared.glob("ready.*"))) >= nodes:
                return
            time.sleep(_POLL_S)
        log.warning("not every daemon is ready; see %s. The application runs all the same.", self._shared)

    def _steps(self) -> list[str]:
        found = subprocess.run(
            ["squeue", "-h", "-s", "-j", os.environ["SLURM_JOB_ID"], "-o", "%i %j"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASK_LIMIT_S,
        )
        rows = (line.split(maxsplit=1) for line in found.stdout.splitlines())
        return [row[0] for row in rows if row[1:] == [self._name]]

    def _write_prolog(self) -> None:
        self._shared.mkdir(parents=True, exist_ok=True)
        own = os.environ.get("SLURM_TASK_PROLOG", "")
        text = _PROLOG.format(
            own=f"{shlex.quote(own)} || exit $?" if own else "# (the user has no prolog of their own)",
            base=shlex.quote(str(self._paths.base)),
            job_id=shlex.quote(self._paths.job_id),
        )
        self.prolog.write_text(text, encoding="utf-8")
        self.prolog.chmod(0o755)
