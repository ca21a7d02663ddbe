"""A real MPI application (mpi_embedded.py) on the embedded engine."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrtune.client.embedded.prefix.copy import TEMPORARY_SUFFIX

MPIEXEC = Path(sys.executable).parent / "mpiexec"
APPLICATION = Path(__file__).parents[2] / "apps" / "mpi_embedded.py"


@dataclass
class Job:
    """One job in directories of its own; each call is one run of it."""

    root: Path
    errors: str = ""

    @property
    def prefix(self) -> Path:
        return self.root / "prefix"

    @property
    def cache(self) -> Path:
        return self.root / "cache" / "somebody" / "scr.job1"

    def start(self, *commands: str, ranks: int = 2, **settings: object) -> "subprocess.CompletedProcess[str]":
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SCR_", "SCRTUNE_"))}
        environment = {
            **own,
            "PATH": f"{self.root}/bin:{own['PATH']}",
            "SCR_PREFIX": str(self.prefix),
            "SCR_CACHE_BASE": str(self.root / "cache"),
            "SCR_USER_NAME": "somebody",
            "SCR_JOB_ID": "job1",
            "SCR_CACHE_BYPASS": "0",
            "SCR_MPI_BUF_SIZE": "3000",
            "SCRTUNE_EMBEDDED_NODES": str(ranks),
            **{name: str(value) for name, value in settings.items()},
        }
        ran = subprocess.run(
            [MPIEXEC, "-n", str(ranks), sys.executable, APPLICATION, *commands],
            env=environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        self.errors = ran.stderr
        return ran

    def __call__(self, *commands: str, ranks: int = 2, **settings: object) -> list[Any]:
        ran = self.start(*commands, ranks=ranks, **settings)
        assert ran.returncode == 0, ran.stderr
        results: list[Any] = json.loads(ran.stdout)
        return results

    def index(self) -> list[str]:
        datasets = json.loads((self.prefix / ".scr/index.json").read_bytes())["datasets"]
        return [dataset["name"] for dataset in datasets]

    def cached(self) -> list[str]:
        return sorted(path.name for path in (self.cache / "node0").iterdir())

    def hold_flush(self, file: str) -> Path:
        """Let the flush of `file` hang: who opens this pipe waits for a reader that never comes."""
        pipe = self.prefix / (file + TEMPORARY_SUFFIX)
        pipe.parent.mkdir(parents=True)
        os.mkfifo(pipe)
        return pipe
