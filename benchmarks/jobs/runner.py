"""Runs checkpoints.c or checkpoints.py, each rank a node of its own, from a clean prefix and cache."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scrtune.client.capture.environment import capture_environment
from scrtune.client.libscr.find import find

HERE = Path(__file__).parent
PROGRAMS = Path(sys.executable).parent
OURS = ("SCR", "DFTRACER", "XDG_STATE_HOME")
"""Beginnings of the variables that no job inherits from the shell."""

POOR = """SCR_CACHE_BYPASS=0
SCR_CACHE_SIZE=1
SCR_COPY_TYPE=XOR
SCR_MPI_BUF_SIZE=4KB
SCR_FILE_BUF_SIZE=4KB
SCR_FLUSH=1
SCR_FLUSH_ASYNC=0
"""


class JobFailedError(RuntimeError):
    """A job ended with another exit code than 0; the text has its output's end."""


@dataclass(frozen=True)
class Work:
    """The job: its checkpoints, the milliseconds before each, the share of these on the core, and its files.

    With `is_synced` the application brings its files to the storage itself before it closes them.
    """

    checkpoints: int
    compute_ms: float
    busy: float
    mib: int
    files: int = 1
    write_bytes: int = 1 << 20
    is_synced: bool = False
    ranks: int = 2

    @property
    def arguments(self) -> list[str]:
        """Return the command line of the job."""
        values = (self.checkpoints, self.compute_ms, self.busy, self.mib << 20, self.files, self.write_bytes)
        return [*map(str, values), str(int(self.is_synced))]

    @property
    def prefix_bytes(self) -> int:
        """Return the bytes in the prefix directory when the job ends."""
        return self.checkpoints * self.ranks * (self.mib << 20)


@dataclass(frozen=True)
class Ran:
    """One run: seconds of the whole command, of the loop in it, and of each step and checkpoint on rank 0.

    `said` is what the command wrote to its standard error.
    """

    whole_s: float
    loop_s: float
    checkpoint_s: tuple[float, ...]
    step_s: tuple[float, ...]
    said: str = ""


class JobRunner:
    """Runs jobs on an engine; what they write is below `place` and in shared memory, and removed."""

    def __init__(self, engine: str, place: Path, programs: Path = PROGRAMS) -> None:
        self._engine = engine
        self._place = place
        self._programs = programs
        python = [sys.executable, str(HERE / "checkpoints.py")]
        self._job = self._build() if engine == "libscr" else python

    def run(self, work: Work, config: str, wrapper: Sequence[str] = (), *, traced: bool = False) -> Ran:
        """Run the job under the user's `config`, with `wrapper` before mpiexec, `traced` under DFTracer.

        Raises JobFailedError.
        """
        base = self._place / "run"
        cache = Path(tempfile.mkdtemp(prefix="checkpoint-job-", dir="/dev/shm"))
        try:
            (base / "prefix").mkdir(parents=True)
            (base / "user.conf").write_text(config)
            environment = self._environment(base, cache, work.ranks)
            if traced:
                environment |= _dftracer(base, cache, environment)
            mpiexec = [str(self._programs / "mpiexec"), "-n", str(work.ranks)]
            return _run([*wrapper, *mpiexec, *self._job, *work.arguments], environment)
        finally:
            for directory in (base, cache):
                shutil.rmtree(directory, ignore_errors=True)

    def _build(self) -> list[str]:
        lib = find(os.environ).parent
        target = self._place / "checkpoints"
        places = (f"-I{lib.parent / 'include'}", f"-L{lib}", f"-Wl,-rpath-link,{lib}", "-lscr")
        command = [self._programs / "mpicc", "-O2", "-o", target, HERE / "checkpoints.c", *places]
        subprocess.run(command, check=True)
        return [str(target)]

    def _environment(self, base: Path, cache: Path, nodes: int) -> dict[str, str]:
        own = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
        environment = {
            **own,
            "USER": "benchmark",
            "SCR_CONF_FILE": str(base / "user.conf"),
            "SCR_PREFIX": str(base / "prefix"),
            "SCR_CACHE_BASE": str(cache),
            "SCR_CNTL_BASE": str(cache),
            "SCRTUNE_RUN_DIR": str(base / "jobs"),
            "XDG_STATE_HOME": str(base / "state"),
            "OMP_NUM_THREADS": "1",
        }
        if self._engine == "embedded":
            return {**environment, "SCRTUNE_EMBEDDED_NODES": str(nodes), "SCRTUNE_ENGINE": "embedded"}
        lib = find(os.environ).parent
        paths = {"LD_LIBRARY_PATH": f"{lib}:{own.get('LD_LIBRARY_PATH', '')}"}
        return {**environment, **paths, "SCR_ROOT": str(lib.parent)}


def _dftracer(base: Path, cache: Path, environment: dict[str, str]) -> dict[str, str]:
    (cache / "trace").mkdir()
    data = [base / "prefix", cache]
    live = capture_environment(cache / "trace" / "app", data, "preload", environment)
    return {name: text for name, text in live.items() if name != "DFTRACER_WRITE_BUFFER_SIZE"}


def _run(command: Sequence[str], environment: dict[str, str]) -> Ran:
    began_s = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    whole_s = time.perf_counter() - began_s
    found = next((line for line in done.stdout.splitlines() if line.startswith('{"loop_s"')), None)
    if done.returncode or found is None:
        ends = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise JobFailedError(f"{' '.join(command)}\nended with exit code {done.returncode}\n{ends}")
    times = json.loads(found)
    return Ran(whole_s, times["loop_s"], tuple(times["checkpoint_s"]), tuple(times["step_s"]), done.stderr)
