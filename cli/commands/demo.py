"""`scrtune demo`: a checkpointing MPI job under SCR's defaults, poor settings, and tuned live from those.

Everything shown is measured in these runs; when tuning does not help on this machine the report says so.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from ...client.paths import JobPaths
from ...client.transport.daemon_client import DaemonUnavailable
from ...daemon import views
from ...daemon.apply_event import apply_event
from ...daemon.journal import JournalReader
from ...daemon.launch.run import job_paths
from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.ledger.ledger import PRODUCTIVE, Account
from ...intents.pipeline import Pipeline
from ...intents.tune.decisions import Decision
from .. import jobs

RANKS = 2
STEPS_BETWEEN_CHECKPOINTS = 8
SHORT_CHECKPOINTS = 6
TUNED_CHECKPOINTS = 24
LAST_CHECKPOINTS = 6
NO_HELP_RATIO = 0.98
_POLL_S = 0.25

POOR = """# What users are found with: a redundancy scheme nobody asked for, a blocking flush, small buffers.
SCR_CACHE_BYPASS=0
SCR_CACHE_SIZE=1
SCR_COPY_TYPE=XOR
SCR_MPI_BUF_SIZE=16KB
SCR_FLUSH=1
SCR_FLUSH_ASYNC=0
SCR_FLUSH_TYPE=SYNC
SCR_FILE_BUF_SIZE=16KB
"""


class DemoError(RuntimeError):
    """A run of the demo failed; the text says where its output is."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Median, least and most over `count` checkpoints; seconds, or a share."""

    count: int
    median: float
    least: float
    most: float


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the before/after table.

    `interval_goodput` is the share of each checkpoint interval that is left to compute, `goodput` the
    ledger's, over the whole run or over the checkpoints of this column.
    """

    name: str
    job_id: str
    blocking_s: Spread
    flush_s: Spread
    slowdown_s: Spread
    cost_s: Spread
    interval_goodput: Spread
    goodput: float


class DemoView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole demo."""

    engine: str
    ranks: int
    columns: tuple[Column, ...]
    explain: views.ExplainView
    status: views.StatusView
    ratio: float
    helped: bool
    seconds: float


@dataclass(frozen=True)
class _Run:
    job_id: str
    config: str
    checkpoints: int
    options: tuple[str, ...]


def demo(on_decision: Callable[[Decision], None], on_run: Callable[[str], None]) -> DemoView:
    """Run the demo; tells runs as they begin and decisions as they are made. Raises :class:`DemoError`."""
    started_s = time.monotonic()
    with _workplace() as place:
        stamp = f"demo-{os.getpid()}"
        on_run("SCR's own defaults (cache bypassed, files go straight to the prefix directory)")
        defaults = _run(place, _Run(f"{stamp}-defaults", "", SHORT_CHECKPOINTS, ("--no-tune",)))
        on_run("poor settings, not tuned:\n" + POOR.partition("\n")[2].rstrip())
        poor = _run(place, _Run(f"{stamp}-poor", POOR, SHORT_CHECKPOINTS, ("--no-tune",)))
        on_run("the same poor settings, tuned while the job runs (one copy is declared to be enough)")
        floor = ("--redundancy-floor", "SINGLE")
        tuned = _run(place, _Run(f"{stamp}-tuned", POOR, TUNED_CHECKPOINTS, floor), on_decision)
    return _view(defaults, poor, tuned, time.monotonic() - started_s)


def _view(defaults: JobPaths, poor: JobPaths, tuned: JobPaths, seconds: float) -> DemoView:
    costs = jobs.goodput(tuned).costs
    explained = jobs.explain(tuned)
    begun = [cost for cost in costs if cost.generation == 0]
    columns = (
        _column("SCR's defaults", defaults),
        _column("poor settings", poor),
        _column("tuned: at first", tuned, begun),
        _column("tuned: in the end", tuned, costs[-LAST_CHECKPOINTS:]),
    )
    before, after = columns[1].cost_s.median, columns[-1].cost_s.median
    ratio = after / before if before > 0 else 1.0
    state = jobs.status(tuned)
    return DemoView(
        engine=state.engine,
        ranks=state.ranks,
        columns=columns,
        explain=explained,
        status=state,
        ratio=ratio,
        helped=ratio < NO_HELP_RATIO,
        seconds=seconds,
    )


def _column(name: str, paths: JobPaths, costs: Sequence[CheckpointCost] | None = None) -> Column:
    view = jobs.goodput(paths)
    shown = view.costs if costs is None else costs
    if not shown:
        raise DemoError(f"{name}: no checkpoint was completed; see {paths.log}")
    return Column(
        name=name,
        job_id=paths.job_id,
        blocking_s=_spread([cost.blocking_s for cost in shown]),
        flush_s=_spread([cost.flush_s for cost in shown]),
        slowdown_s=_spread([cost.slowdown_s for cost in shown]),
        cost_s=_spread([cost.cost_s for cost in shown]),
        interval_goodput=_spread(
            [1 - cost.cost_s / cost.interval_s for cost in shown if cost.interval_s > 0]
        ),
        goodput=view.goodput if costs is None else _goodput_of(paths, shown),
    )


def _goodput_of(paths: JobPaths, costs: Sequence[CheckpointCost]) -> float:
    """The ledger's goodput from the interval before the first of `costs` to the end of the last."""
    start_s = costs[0].time_s - costs[0].blocking_s - costs[0].interval_s
    pipeline = Pipeline()
    accounts: list[Account] = []
    for now, event in JournalReader(paths.journal):
        apply_event(pipeline, event, now)
        if start_s <= now:
            accounts.append(pipeline.account(now))
        if now >= costs[-1].time_s:
            break
    wall_s = accounts[-1].wall_s - accounts[0].wall_s if accounts else 0.0
    productive_s = accounts[-1].buckets[PRODUCTIVE] - accounts[0].buckets[PRODUCTIVE] if accounts else 0.0
    return productive_s / wall_s if wall_s > 0 else 0.0


def _spread(values: Sequence[float]) -> Spread:
    if not values:
        return Spread(count=0, median=0.0, least=0.0, most=0.0)
    return Spread(count=len(values), median=median(values), least=min(values), most=max(values))


@contextmanager
def _workplace() -> Iterator[Path]:
    """A directory for prefix and output, and below /dev/shm one for the cache; both are gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="scrtune-demo-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(_cache(place), ignore_errors=True)


def _cache(place: Path) -> Path:
    shared_memory = Path("/dev/shm")  # noqa: S108  SCR's own default for the cache
    return shared_memory / place.name if os.access(shared_memory, os.W_OK) else place / "cache"


def _run(place: Path, run: _Run, on_decision: Callable[[Decision], None] | None = None) -> JobPaths:
    """One job under `scrtune run`, as a user would start it."""
    conf = place / f"{run.job_id}.conf"
    conf.write_text(run.config, encoding="utf-8")
    prefix = place / run.job_id
    prefix.mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SCR_", "SCRTUNE_"))}
    if base := os.environ.get("SCRTUNE_RUN_DIR"):
        own["SCRTUNE_RUN_DIR"] = base
    environment = {
        **own,  # what a shell was given by `scrtune env` would pin it in all three runs
        "SCR_CONF_FILE": str(conf),
        "SCR_PREFIX": str(prefix),
        "SCR_CACHE_BASE": str(_cache(place)),
        # two ranks on one host are one node: SCR would fall back to SINGLE and there were nothing to encode
        "SCRTUNE_EMBEDDED_NODES": str(RANKS),
        "OMP_NUM_THREADS": "1",
    }
    steps = run.checkpoints * STEPS_BETWEEN_CHECKPOINTS
    command = [sys.executable, "-m", "scrtune", "run", "--job-id", run.job_id, *run.options, "--"]
    command += [_mpiexec(), "-n", str(RANKS), sys.executable, "-m", "scrtune.examples.train"]
    command += ["--steps", str(steps), "--every", str(STEPS_BETWEEN_CHECKPOINTS)]
    output = place / f"{run.job_id}.out"
    paths = job_paths(run.job_id)
    with output.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
        with process:
            _follow(process, paths, on_decision)
    shutil.rmtree(prefix, ignore_errors=True)
    if process.returncode:
        text = output.read_text(encoding="utf-8", errors="replace")
        raise DemoError(f"the job {run.job_id} ended with exit code {process.returncode}:\n{text[-2000:]}")
    return paths


def _follow(
    process: "subprocess.Popen[bytes]", paths: JobPaths, on_decision: Callable[[Decision], None] | None
) -> None:
    """Tell decisions as the daemon makes them; those of its last moments are read from the journal."""
    told = 0

    def tell(decisions: Sequence[Decision]) -> int:
        for decision in decisions[told:]:
            if on_decision:
                on_decision(decision)
        return max(told, len(decisions))

    while process.poll() is None:
        time.sleep(_POLL_S)
        if on_decision:
            try:
                told = tell(jobs.ask(paths, "explain", views.ExplainView).decisions)
            except DaemonUnavailable:
                continue
    if on_decision and process.returncode == 0:
        tell(jobs.explain(paths).decisions)


def _mpiexec() -> str:
    """The mpiexec of the mpich wheel, beside our own interpreter."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise DemoError("no mpiexec beside this Python or on PATH; run: pip install mpich")
    return found
