"""Runs checkpoints.c, checkpoints.py or SCR's test_api: each rank a node of its own, from a clean prefix."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from scrtune.client.capture.environment import capture_environment
from scrtune.client.libscr.find import find_libscr

HERE = Path(__file__).parent
PROGRAMS = Path(sys.executable).parent
OURS = ("SCR", "DFTRACER", "XDG_STATE_HOME")
"""Beginnings of the variables that no job inherits from the shell."""
YIELDING = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
"""Ranks that wait leave the cores to others, under MPICH and Open MPI, for every job alike: else 4 ranks
on 2 cores take 2 to 4 times as long for a checkpoint (MPICH)."""

_COMPLETED = re.compile(r"Completed checkpoint \d+: +([0-9.]+) secs")  # test_api.c

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

    With `is_synced` the application brings its files to the storage itself before it closes them. SCR's own
    test_api (`is_scrs_own`) writes one file a rank, synced, and waits whole seconds after each.
    """

    checkpoints: int
    compute_ms: float
    busy: float
    mib: int
    files: int = 1
    write_bytes: int = 1 << 20
    is_synced: bool = False
    ranks: int = 2
    is_scrs_own: bool = False

    def arguments(self, prefix: Path) -> list[str]:
        """Return the command line of the job."""
        if self.is_scrs_own:  # which takes one checkpoint more than it is told, before it counts
            counts = ["-t", str(self.checkpoints - 1), "-z", str(max(1, round(self.compute_ms / 1000)))]
            return ["-s", f"{self.mib}MB", *counts, "-p", str(prefix)]
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
    """Runs jobs on an engine; what they write is below `place` and in shared memory, and removed.

    `examples` is SCR's directory of examples, for its test_api.
    """

    def __init__(
        self, engine: str, place: Path, programs: Path = PROGRAMS, examples: Path | None = None
    ) -> None:
        self._engine = engine
        self._place = place
        self._programs = programs
        python = [sys.executable, str(HERE / "checkpoints.py")]
        self._job = self._build(HERE / "checkpoints.c") if engine == "libscr" else python
        self._scrs_own: list[str] = []
        if examples is not None:
            self._scrs_own = self._build(examples / "test_api.c", examples / "test_common.c")

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
            job = self._scrs_own if work.is_scrs_own else self._job
            return _run([*wrapper, *mpiexec, *job, *work.arguments(base / "prefix")], environment)
        finally:
            for directory in (base, cache):
                shutil.rmtree(directory, ignore_errors=True)

    def _build(self, *sources: Path) -> list[str]:
        lib = find_libscr(os.environ).parent
        target = self._place / sources[0].stem
        places = (f"-I{lib.parent / 'include'}", f"-L{lib}", f"-Wl,-rpath-link,{lib}", "-lscr")
        command = [self._programs / "mpicc", "-O2", "-o", target, *sources, HERE / "nodes.c", *places]
        subprocess.run(command, check=True)
        return [str(target)]

    def _environment(self, base: Path, cache: Path, nodes: int) -> dict[str, str]:
        own = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
        environment = {
            **own,
            **YIELDING,
            "USER": "benchmark",
            "SCR_CONF_FILE": str(base / "user.conf"),
            "SCR_PREFIX": str(base / "prefix"),
            "SCR_CACHE_BASE": str(cache),
            "SCR_CNTL_BASE": str(cache),
            "SCRTUNE_RUN_DIR": str(base / "jobs"),
            "SCRTUNE_DEFAULTS": os.devnull,
            "XDG_STATE_HOME": str(base / "state"),
            "OMP_NUM_THREADS": "1",
        }
        if self._engine == "embedded":
            return {**environment, "SCRTUNE_EMBEDDED_NODES": str(nodes), "SCRTUNE_ENGINE": "embedded"}
        lib = find_libscr(os.environ).parent
        paths = {"LD_LIBRARY_PATH": f"{lib}:{own.get('LD_LIBRARY_PATH', '')}"}
        return {**environment, **paths, "SCR_ROOT": str(lib.parent)}


def _dftracer(base: Path, cache: Path, environment: dict[str, str]) -> dict[str, str]:
    (cache / "trace").mkdir()
    data = [base / "prefix", cache]
    live = capture_environment(cache / "trace" / "app", data, "preload", environment)
    return {name: text for name, text in live.items() if name != "DFTRACER_WRITE_BUFFER_SIZE"}


def _run(command: Sequence[str], environment: dict[str, str]) -> Ran:
    began_s = time.perf_counter()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        lines = [(time.perf_counter() - began_s, line) for line in process.stdout or ()]
        code = process.wait()
        whole_s = time.perf_counter() - began_s
        errors.seek(0)
        said = errors.read()
    ran = _ran(whole_s, lines, said)
    if code or ran is None:
        ends = f"{''.join(line for _, line in lines)[-2000:]}{said[-2000:]}"
        raise JobFailedError(f"{' '.join(command)}\nended with exit code {code}\n{ends}")
    return ran


def _ran(whole_s: float, lines: Iterable[tuple[float, str]], said: str) -> Ran | None:
    """Return what a job has told, of test_api by when it told it; None if it told nothing."""
    completed: list[tuple[float, float]] = []
    for time_s, line in lines:
        if line.startswith('{"loop_s"'):
            times = json.loads(line)
            return Ran(whole_s, times["loop_s"], tuple(times["checkpoint_s"]), tuple(times["step_s"]), said)
        if found := _COMPLETED.match(line):
            completed.append((time_s, float(found[1])))
    if not completed:
        return None
    pairs = pairwise(completed)
    step_s = [max(0.0, there_s - here_s - took_s) for (here_s, _), (there_s, took_s) in pairs]
    checkpoint_s = tuple(took_s for _, took_s in completed)  # before the first one there was no step
    return Ran(whole_s, sum(step_s) + sum(checkpoint_s), checkpoint_s, (0.0, *step_s), said)
