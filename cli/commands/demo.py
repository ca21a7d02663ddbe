"""`scrtune demo`: a checkpointing MPI job under SCR's defaults, poor settings, and tuned live from those.

Everything shown is measured in these runs; when tuning does not help on this machine the report says so.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ...client.paths import JobPaths
from ...client.transport.daemon_client import DaemonUnavailable
from ...daemon.journal import JournalReader, apply_event
from ...daemon.launch.run import job_paths
from ...daemon.views import ExplainView
from ...goodput.account import Account
from ...goodput.buckets import PRODUCTIVE
from ...goodput.checkpoint_cost import CheckpointCost
from ...intents.pipeline import Pipeline
from ...intents.tune.decisions import Decision
from .. import job_state
from ..errors import CommandError, UnknownJobError
from ..options import command, option
from ..output import json_text
from ..text import tables
from ..text.demo import report
from ..views.demo import Column, DemoView

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


@dataclass(frozen=True)
class DemoOptions:
    """Options of `scrtune demo`."""

    as_json: bool = option("--json", "Print the report as one JSON object, and nothing else.")
    svg: Path | None = option("--svg FILE", "Also save the report as a picture.")


@command(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Run a checkpointing MPI job with poor settings and watch it being tuned, in about a minute.

    Three runs of the same job: SCR's defaults, poor settings, poor settings tuned live. All measured here
    and now.
    """
    out = tables.console()
    if options.as_json:
        view = run_demo(lambda _: None, lambda _: None)
        click.echo(json_text(view), nl=False)
    else:
        view = run_demo(
            lambda decision: out.print(tables.decision_line(decision)),
            lambda what: out.print(f"\nRunning: {what}"),
        )
        out.print(report(view))
    if options.svg is not None:
        options.svg.write_text(tables.picture(report(view), "scrtune demo"), encoding="utf-8")


def run_demo(on_decision: Callable[[Decision], None], on_run: Callable[[str], None]) -> DemoView:
    """Run the demo; calls back when a run begins and when a decision is made. Raises CommandError."""
    started_s = time.monotonic()
    with _workplace() as place:
        on_run("SCR's own defaults (cache bypassed, files go straight to the prefix directory)")
        defaults = _run(place, "defaults", SHORT_CHECKPOINTS, "", "--no-tune")
        on_run("poor settings, not tuned:\n" + POOR.partition("\n")[2].rstrip())
        poor = _run(place, "poor", SHORT_CHECKPOINTS, POOR, "--no-tune")
        on_run("the same poor settings, tuned while the job runs (one copy is declared to be enough)")
        floor = ("--redundancy-floor", "SINGLE")
        tuned = _run(place, "tuned", TUNED_CHECKPOINTS, POOR, *floor, on_decision=on_decision)
    costs = job_state.goodput(tuned).costs
    columns = (
        _column("SCR's defaults", defaults),
        _column("poor settings", poor),
        _column("tuned: at first", tuned, [cost for cost in costs if cost.generation == 0]),
        _column("tuned: in the end", tuned, costs[-LAST_CHECKPOINTS:]),
    )
    before, after = columns[1].cost_s.median, columns[-1].cost_s.median
    ratio = after / before if before > 0 else 1.0
    state = job_state.status(tuned)
    return DemoView(
        engine=state.engine,
        ranks=state.ranks,
        columns=columns,
        explain=job_state.explain(tuned),
        status=state,
        ratio=ratio,
        helped=ratio < NO_HELP_RATIO,
        seconds=time.monotonic() - started_s,
    )


def _column(name: str, paths: JobPaths, costs: Sequence[CheckpointCost] | None = None) -> Column:
    view = job_state.goodput(paths)
    shown = view.costs if costs is None else costs
    if not shown:
        raise CommandError(f"{name}: no checkpoint was completed; see {paths.log}")
    goodput = view.goodput if costs is None else _goodput_of(paths, shown)
    return Column.of(name, paths.job_id, shown, goodput)


def _goodput_of(paths: JobPaths, costs: Sequence[CheckpointCost]) -> float:
    """Return the ledger's goodput from the interval before the first of `costs` to the end of the last."""
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


@contextlib.contextmanager
def _workplace() -> Iterator[Path]:
    """Make a directory for prefix and output, and below /dev/shm one for the cache, until the demo ends."""
    place = Path(tempfile.mkdtemp(prefix="scrtune-demo-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(_cache(place), ignore_errors=True)


def _cache(place: Path) -> Path:
    shared_memory = Path("/dev/shm")  # noqa: S108  SCR's own default for the cache
    return shared_memory / place.name if os.access(shared_memory, os.W_OK) else place / "cache"


def _run(
    place: Path,
    name: str,
    checkpoints: int,
    config: str,
    *options: str,
    on_decision: Callable[[Decision], None] | None = None,
) -> JobPaths:
    """Run one job under `scrtune run`, as a user would start it, and return its run directory."""
    job_id = f"demo-{os.getpid()}-{name}"
    conf, prefix, output = place / f"{job_id}.conf", place / job_id, place / f"{job_id}.out"
    conf.write_text(config, encoding="utf-8")
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
    steps = checkpoints * STEPS_BETWEEN_CHECKPOINTS
    arguments = [sys.executable, "-m", "scrtune", "run", "--job-id", job_id, *options, "--"]
    arguments += [_mpiexec(), "-n", str(RANKS), sys.executable, "-m", "scrtune.examples.train"]
    arguments += ["--steps", str(steps), "--every", str(STEPS_BETWEEN_CHECKPOINTS)]
    paths = job_paths(job_id)
    with (
        output.open("wb") as file,
        subprocess.Popen(arguments, env=environment, stdout=file, stderr=subprocess.STDOUT) as process,
    ):
        if on_decision is not None:
            _follow(process, paths, on_decision)
    shutil.rmtree(prefix, ignore_errors=True)
    if process.returncode:
        text = output.read_text(encoding="utf-8", errors="replace")
        raise CommandError(f"the job {job_id} ended with exit code {process.returncode}:\n{text[-2000:]}")
    return paths


def _follow(
    process: "subprocess.Popen[bytes]", paths: JobPaths, on_decision: Callable[[Decision], None]
) -> None:
    """Report decisions as the daemon makes them; those of its last moments are read from the journal."""
    seen = 0
    is_running = True
    while is_running:
        time.sleep(_POLL_S)
        is_running = process.poll() is None
        with contextlib.suppress(DaemonUnavailable, UnknownJobError):
            view = job_state.ask(paths, "explain", ExplainView) if is_running else job_state.explain(paths)
            for decision in view.decisions[seen:]:
                on_decision(decision)
            seen = max(seen, len(view.decisions))


def _mpiexec() -> str:
    """Return the mpiexec of the mpich wheel, beside our own interpreter, else that on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise CommandError("no mpiexec beside this Python or on PATH; run: pip install mpich")
    return found
