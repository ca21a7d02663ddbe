"""A run of an application on a real libscr below libscrtune.so."""

import subprocess
import sys
from pathlib import Path

import pytest

from scrtune.intents.events import Value

from ...apps.mpi_libscr import content
from ...conftest import RealScr
from ...support.native_build import (
    POLITE_MPI,
    Told,
    decision,
)

IN_CACHE = {"SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "0", "SCR_CACHE_SIZE": "2"}
Decisions = dict[int, dict[str, Value]]
TWIN = (sys.executable, str(Path(__file__).parents[2] / "apps" / "mpi_libscr.py"))
MIB = 1 << 20
in_both = pytest.mark.parametrize("job", ["C", "Python"], indirect=True)
in_python = pytest.mark.parametrize("job", ["Python"], indirect=True)


class Job:
    """One run of an application below libscrtune.so."""

    def __init__(
        self, scr: RealScr, base: Path, application: tuple[str, ...], preloaded: tuple[Path, ...] = ()
    ) -> None:
        """`application` is how a rank is started."""
        self.scr, self.base, self.application, self.preloaded = scr, base, application, preloaded
        self.decision, self.events, self.plan = (base / name for name in ("decision", "events", "plan"))
        self.plan.mkdir()

    def run(
        self,
        outputs: int,
        *more: object,
        decisions: Decisions | None = None,
        nodes: int = 0,
        **variables: str,
    ) -> Told:
        """Four ranks; `decisions` are there before the output of their number."""
        for number, values in (decisions or {}).items():
            (self.plan / str(number)).write_text(decision(number, **values))
        arguments = [str(argument) for argument in (outputs, *(more or (1, 1000)))]
        ran = self.scr.mpiexec(
            self.base, 4, *self.application, *arguments, nodes=nodes, **self.variables(**variables)
        )
        return Told.of(ran, self.events)

    def variables(self, **more: str) -> dict[str, str]:
        return {
            **POLITE_MPI,
            **IN_CACHE,
            "SCRTUNE_DECISION_FILE": str(self.decision),
            "SCRTUNE_EVENTS_FILE": str(self.events),
            "DECISIONS": str(self.plan),
            "LD_PRELOAD": ":".join(map(str, self.preloaded)),
            **more,
        }

    @property
    def flushed(self) -> list[str]:
        """The datasets that SCR lists as complete in the prefix directory."""
        command = (
            self.scr.path.parent.parent / "bin" / "scr_index",
            "--prefix",
            self.base / "prefix",
            "--list",
        )
        environment = self.scr.environment(self.base)
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return sorted(line.split()[-1] for line in ran.stdout.splitlines()[1:] if line.split()[1] == "YES")


def read_back(job: Job, names: list[str], size: int) -> None:
    """Every file of the outputs `names` is in the prefix directory, bit for bit."""
    for name in names:
        for rank in range(4):
            data = (job.base / "prefix" / name / f"rank_{rank}.0").read_bytes()
            assert data == content(name, rank, size), f"{name} of rank {rank}"
