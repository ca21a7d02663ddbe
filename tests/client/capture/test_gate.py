"""`scrtune run` observes a job while it must, says so, and leaves a trace of the user's own alone."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from scrtune.cli.jobs import state as job_state
from scrtune.cli.jobs.find import journal_of
from scrtune.client.capture.environment import OBSERVE, capture_environment
from scrtune.client.capture.gate import TraceGate
from scrtune.client.libscr.library import WHY_NOT, libscrtune_path
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.views import IntentView, StatusView
from scrtune.goodput.events import OutputCompleted
from scrtune.intents.events import TraceDigest
from scrtune.intents.observe.observation import WhyEnded

from ...conftest import RealScr
from ...support.native_build import POLITE_MPI, ROOT, compiler, run

MPIEXEC = Path(sys.executable).with_name("mpiexec")
JOBS = ROOT / "benchmarks" / "jobs"
CHECKPOINTS, FILES, WRITES = 24, 2, 16
CALLS_OF_A_FILE = WRITES + 2
SHAPE = (CHECKPOINTS, 100, 0, FILES * WRITES * 4096, FILES, 4096)

needs_library = pytest.mark.skipif(libscrtune_path() is None, reason=WHY_NOT)


@dataclass(frozen=True)
class Ended:
    """A job that has ended: what it said, and what scrtune knows of it."""

    paths: JobPaths
    standard_error: str

    @property
    def status(self) -> StatusView:
        return job_state.status(self.paths)

    @property
    def outputs(self) -> list[OutputCompleted]:
        events = [event for _, event in JournalReader(journal_of(self.paths))]
        return [event for event in events if isinstance(event, OutputCompleted)]

    @property
    def accesses(self) -> int:
        """The calls on files that were traced, of all ranks."""
        events = [event for _, event in JournalReader(journal_of(self.paths))]
        digests = [event for event in events if isinstance(event, TraceDigest)]
        return sum(access.count for digest in digests for access in digest.accesses)

    def assert_sound(self) -> None:
        """All checkpoints are there, complete and of the bytes that were written."""
        assert len(self.outputs) == CHECKPOINTS
        assert all(output.valid for output in self.outputs)
        prefix = self.paths.base.parent / "prefix"
        files = [path for path in prefix.glob("ckpt.*/rank_*") if path.is_file()]
        assert len(files) == CHECKPOINTS * FILES * 2
        assert all(path.read_bytes() == b"x" * WRITES * 4096 for path in files)

    def assert_ended(self, *why: WhyEnded) -> None:
        """Some outputs were traced, within the budget, and no more since it ended."""
        observation = self.status.observation
        assert not observation.on
        assert observation.ended in why
        assert 2 <= observation.outputs < CHECKPOINTS
        assert observation.cost_s > 0
        traced = [output for output in self.outputs if output.observed]
        assert len(traced) == observation.outputs
        assert sum(output.observed for output in traced) == observation.calls
        assert all(output.observe_s > 0 for output in traced)
        assert not [output for output in self.outputs[-5:] if output.observed or output.observe_s]
        assert self.accesses < 2 * (100 + 30 * FILES * observation.outputs)
        assert f"observation: {observation.outputs} outputs traced" in self.standard_error


def scrtune_run(
    base: Path, *command: object, options: tuple[str, ...] = (), ranks: int = 2, **more: str
) -> Ended:
    """Run `command` in `ranks` processes below `scrtune run`, in the prefix directory."""
    (base / "prefix").mkdir(exist_ok=True)
    foreign = ("SCR", "DFTRACER", "SLURM")
    own = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    environment = {
        **own,
        **POLITE_MPI,
        "SCRTUNE_RUN_DIR": str(base / "r"),
        "SCRTUNE_EMBEDDED_NODES": str(ranks),
        "SCRTUNE_ENGINE": "embedded",
        "SCR_PREFIX": str(base / "prefix"),
        "SCR_CACHE_BASE": str(base / "cache"),
        "SCR_CACHE_BYPASS": "0",
        "SCR_FLUSH": "1",
        **more,
    }
    ours = [sys.executable, "-m", "scrtune", "run", "--job-id", "j", *options, "--"]
    ran = subprocess.run(
        [*ours, MPIEXEC, "-n", str(ranks), *map(str, command)],
        cwd=base,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return Ended(JobPaths.of("j", base=base / "r"), ran.stderr)


EMBEDDED = (sys.executable, JOBS / "checkpoints.py", *SHAPE)


# ---- the embedded engine


@needs_library
@pytest.mark.mpi
def test_observation_ends_by_itself_and_status_says_what_it_was(tmp_path: Path) -> None:
    ended = scrtune_run(tmp_path, *EMBEDDED)
    ended.assert_sound()
    ended.assert_ended(WhyEnded.STABLE, WhyEnded.ENOUGH)
    assert ended.status.observation.calls >= ended.status.observation.outputs * FILES * CALLS_OF_A_FILE
    intents = [intent.sentence for intent in job_state.explain(ended.paths).intents]
    assert [sentence for sentence in intents if "top by bytes: 4 KiB 100%" in sentence]


def buffer_sizes(base: Path, how: str) -> IntentView:
    """The intent of a job that writes in a way that DFTracer by itself does not see, at its end."""
    app = ROOT / "tests" / "apps" / "array_writer.py"
    ended = scrtune_run(base, sys.executable, app, how, options=("--observe-budget", "100"), ranks=1)
    return next(each for each in job_state.explain(ended.paths).intents if each.name == "buffer sizes")


@needs_library
@pytest.mark.mpi
def test_what_numpy_writes_is_in_the_buffer_sizes(tmp_path: Path) -> None:
    seen = buffer_sizes(tmp_path, "numpy")
    assert "top by bytes: 512 KiB 100%" in seen.sentence
    assert "the trace has" not in seen.sentence


@needs_library
@pytest.mark.mpi
def test_bytes_that_are_missing_in_the_trace_are_said_and_the_rest_is_of_low_confidence(
    tmp_path: Path,
) -> None:
    seen = buffer_sizes(tmp_path, "map")
    assert "the trace has 0 B of the" in seen.sentence
    assert "mapped files" in seen.sentence
    assert seen.confidence in {"none", "low"}


@needs_library
@pytest.mark.mpi
def test_what_it_may_cost_is_an_option(tmp_path: Path) -> None:
    ended = scrtune_run(tmp_path, *EMBEDDED, options=("--observe-budget", "0"))
    ended.assert_sound()
    observation = ended.status.observation
    assert observation.budget == 0
    # STABLE where the ranks heard so late that they had traced enough
    assert observation.ended in {WhyEnded.BUDGET, WhyEnded.STABLE}
    assert 1 <= observation.outputs < CHECKPOINTS - 5


@needs_library
@pytest.mark.mpi
def test_a_trace_of_the_users_own_is_neither_paused_nor_moved(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    data = [tmp_path / "prefix", tmp_path / "cache"]
    mine = capture_environment(tmp_path / "mine" / "app", data, "preload", {})
    ended = scrtune_run(tmp_path, *EMBEDDED, **mine)
    ended.assert_sound()
    assert "DFTRACER_ENABLE=1 is yours" in ended.standard_error
    assert not [output for output in ended.outputs if output.observed]
    assert ended.status.observation.outputs == 0
    assert ended.status.counters.trace_lines == 0
    names: Counter[str] = Counter()
    for path in (tmp_path / "mine").glob("*.pfw"):
        names.update(json.loads(line)["name"] for line in path.read_text().splitlines())
    assert names["write"] >= 2 * CHECKPOINTS * FILES * WRITES


@needs_library
@pytest.mark.mpi
def test_an_application_that_traces_itself_with_pydftracer_works_under_ours(tmp_path: Path) -> None:
    application = f"""
import runpy, sys
from dftracer.python import dftracer, dft_fn
log = dftracer.initialize_log(logfile=None, data_dir=None, process_id=-1)
with dft_fn("application", name="everything"):
    sys.argv = ["checkpoints.py", *{list(map(str, SHAPE))!r}]
    runpy.run_path({str(JOBS / "checkpoints.py")!r}, run_name="__main__")
log.finalize()
"""
    ended = scrtune_run(tmp_path, sys.executable, "-c", application)
    ended.assert_sound()
    ended.assert_ended(WhyEnded.STABLE, WhyEnded.ENOUGH)


@pytest.mark.mpi
def test_without_the_library_nothing_is_traced(tmp_path: Path) -> None:
    ended = scrtune_run(tmp_path, *EMBEDDED, options=("--preload", "never"))
    ended.assert_sound()
    assert "without libscrtune.so tracing cannot be paused" in ended.standard_error
    assert ended.status.counters.trace_lines == 0
    assert ended.status.observation.sentence() == "no output was traced yet"


# ---- a real SCR


@pytest.fixture(scope="session")
def in_c(libscr: RealScr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same job in C."""
    lib, target = libscr.path.parent, tmp_path_factory.mktemp("job") / "checkpoints"
    mpicc = MPIEXEC.with_name("mpicc")
    if not mpicc.exists() or not (lib.parent / "include" / "scr.h").is_file():
        pytest.skip("needs mpicc, and scr.h next to libscr")
    compiler()
    places = (f"-I{lib.parent / 'include'}", f"-L{lib}", f"-Wl,-rpath-link,{lib}", "-lscr")
    run(str(mpicc), "-O1", "-o", str(target), str(JOBS / "checkpoints.c"), *places)
    return target


def on_libscr(scr: RealScr, base: Path) -> dict[str, str]:
    """The variables for a job on a real SCR."""
    wanted = scr.environment(base)
    return {name: wanted[name] for name in ("USER", "SCR_ROOT", "LD_LIBRARY_PATH", "SCR_CNTL_BASE")}


@needs_library
@pytest.mark.mpi
def test_on_a_real_scr_observation_ends_by_itself_too(tmp_path: Path, libscr: RealScr, in_c: Path) -> None:
    ended = scrtune_run(tmp_path, in_c, *SHAPE, **on_libscr(libscr, tmp_path))
    ended.assert_sound()
    ended.assert_ended(WhyEnded.STABLE, WhyEnded.ENOUGH)
    assert ended.status.observation.calls >= ended.status.observation.outputs * FILES * CALLS_OF_A_FILE
    intents = [intent.sentence for intent in job_state.explain(ended.paths).intents]
    assert [sentence for sentence in intents if "top by bytes: 4 KiB 100%" in sentence]


@needs_library
@pytest.mark.mpi
def test_scrs_own_copies_are_not_traced(tmp_path: Path, libscr: RealScr, in_c: Path) -> None:
    """Each checkpoint is copied with buffers of 1 KiB, which would be four times the application's calls."""
    variables = {**on_libscr(libscr, tmp_path), "SCR_COPY_TYPE": "XOR", "SCR_FILE_BUF_SIZE": "1024"}
    ended = scrtune_run(tmp_path, in_c, *SHAPE, options=("--no-tune",), **variables)
    ended.assert_sound()
    observation = ended.status.observation
    # a few more: the hash of each file, and what SCR_Route_file looks for
    assert observation.calls <= observation.outputs * FILES * (CALLS_OF_A_FILE + 8)


@needs_library
@pytest.mark.mpi
def test_on_a_real_scr_a_trace_of_the_users_own_goes_on(tmp_path: Path, libscr: RealScr, in_c: Path) -> None:
    (tmp_path / "mine").mkdir()
    mine = capture_environment(tmp_path / "mine" / "app", [tmp_path / "prefix"], "preload", {})
    mine["DFTRACER_DATA_DIR"] += f":{tmp_path / 'cache'}"
    ended = scrtune_run(tmp_path, in_c, *SHAPE, **on_libscr(libscr, tmp_path), **mine)
    ended.assert_sound()
    assert not [output for output in ended.outputs if output.observed]
    written = sum(path.read_text().count('"name":"write"') for path in (tmp_path / "mine").glob("*.pfw"))
    assert written >= 2 * CHECKPOINTS * FILES * WRITES


# ---- without any of it


def test_where_scrtune_traces_nothing_the_gate_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OBSERVE, raising=False)
    gate = TraceGate("/p")
    gate.open()
    assert gate.close() == (0, 0.0)
    gate.deliver()
