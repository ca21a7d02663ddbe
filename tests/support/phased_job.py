"""A job under `scrtune run` that takes outputs in phases, with what is done to it in between."""

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from scrtune.client.paths import JobPaths

from ..apps.outputs import FILES, content
from ..conftest import until

APPLICATION = Path(__file__).parents[1] / "apps" / "outputs.py"
SETTINGS = {
    "SCR_CACHE_BYPASS": "0",
    "SCR_COPY_TYPE": "SINGLE",
    "SCR_FLUSH": "1",
    "SCRTUNE_ENGINE": "embedded",
}


@dataclass
class Phase:
    """What the application says of a phase: the outputs that were valid or not, and how often it slept."""

    valid: list[int] = field(default_factory=list)
    invalid: list[int] = field(default_factory=list)
    slept: int = 0


class PhasedJob:
    """`counts` are the outputs of each phase. All is below `base`, unless `variables` say otherwise."""

    def __init__(self, base: Path, *counts: int, options: tuple[str, ...] = (), **variables: str) -> None:
        for name in ("words", "prefix", "cache"):
            (base / name).mkdir(exist_ok=True)
        self._words = base / "words"
        places = {
            "SCRTUNE_RUN_DIR": str(base / "r"),
            "SCR_PREFIX": str(base / "prefix"),
            "SCR_CACHE_BASE": str(base / "cache"),
        }
        foreign = ("SCR", "DFTRACER", "SLURM")
        own = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
        self._environment = {**own, **SETTINGS, **places, **variables}
        self.paths = JobPaths.of("j", base=Path(self._environment["SCRTUNE_RUN_DIR"]))
        self.engine = self._environment["SCRTUNE_ENGINE"]
        self.prefix = Path(self._environment["SCR_PREFIX"])
        application = [sys.executable, str(APPLICATION), str(self._words), *map(str, counts)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "scrtune", "run", "--job-id", "j", *options, "--", *application],
            cwd=self.prefix,  # where a real SCR takes relative names from
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def phase(self, number: int) -> Phase:
        """Have it take the outputs of phase `number`; returns when it has."""
        (self._words / f"go.{number}").touch()
        done = self._words / f"done.{number}"
        until(lambda: done.exists() or self._process.poll() is not None)
        if not done.exists():
            raise AssertionError(f"it ended early: {self._process.communicate()[1]}")
        found = Phase()
        for line in done.read_text().splitlines():
            first, second = line.split()
            if first == "slept":
                found.slept = int(second)
            else:
                (found.valid if second == "valid" else found.invalid).append(int(first))
        return found

    def end(self) -> str:
        """Wait for its end, which must be a good one; returns what was said on standard error."""
        said = self._process.communicate(timeout=100)[1]
        assert self._process.returncode == 0, said
        return said

    def daemon(self) -> psutil.Process:
        """Its daemon, which must answer by now."""
        until(lambda: self.paths.control_socket.exists() and self._daemons())
        return self._daemons()[0]

    def _daemons(self) -> list[psutil.Process]:
        found = []
        for process in psutil.Process(self._process.pid).children():
            with contextlib.suppress(psutil.Error):
                if process.name() == "scrtune-daemon":
                    found.append(process)
        return found

    def assert_kept(self, *outputs: int) -> None:
        """Every byte of `outputs` is in the prefix directory."""
        for number in outputs:
            for file in range(FILES):
                assert (self.prefix / f"ckpt.{number}" / str(file)).read_bytes() == content(number, file)

    def close(self) -> None:
        """End it after a test that failed."""
        if self._process.poll() is None:
            self._process.kill()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._process.wait()
