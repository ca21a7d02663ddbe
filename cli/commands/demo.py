"""`scrtune demo`: a checkpointing MPI job under SCR's defaults, poor settings, and tuned live from those.

Everything shown is measured in these runs; when tuning does not help on this machine the report says so.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text
from typing_extensions import Self

from ...client.paths import JobPaths
from ...daemon.launch.run import job_paths
from ...daemon.views import ExplainView, StatusView
from ...goodput.checkpoint_cost import CheckpointCost
from ...units import seconds_text
from .. import job_record, job_state
from ..errors import CommandError
from ..options import command, option
from ..text import job as text
from ..text.tables import plain_table, print_view

RANKS = 2
STEPS_BETWEEN_CHECKPOINTS = 8
SHORT_CHECKPOINTS = 6
TUNED_CHECKPOINTS = 24
LAST_CHECKPOINTS = 6
NO_HELP_RATIO = 0.98

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


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Median, least and most over `count` checkpoints; seconds, or a share."""

    count: int
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of `values`; all 0 if there are none."""
        known = values or [0.0]
        return cls(count=len(values), median=median(known), least=min(known), most=max(known))


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
    """The whole demo; `ratio` is what a checkpoint costs in the end, to what it costs with poor settings."""

    engine: str
    ranks: int
    columns: tuple[Column, ...]
    explain: ExplainView
    status: StatusView
    ratio: float
    helped: bool
    seconds: float


@dataclass(frozen=True)
class DemoOptions:
    """Options of `scrtune demo`."""

    as_json: bool = option("--json", "Print the report as one JSON object, and nothing else.")


@command(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Run a checkpointing MPI job with poor settings and see it tuned, in about a minute.

    Three runs of the same job: SCR's defaults, poor settings, poor settings tuned live. All measured here
    and now.
    """
    print_view(run_demo(quiet=options.as_json), "json" if options.as_json else "table", report)


def run_demo(*, quiet: bool) -> DemoView:
    """Run the demo; unless `quiet`, say which run begins. Raises CommandError."""
    started_s = time.monotonic()
    say = (lambda _: None) if quiet else click.echo
    shared_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  SCR's own default
    with (
        tempfile.TemporaryDirectory(prefix="scrtune-demo-") as place,
        tempfile.TemporaryDirectory(prefix="scrtune-demo-", dir=shared_memory) as cache,
    ):
        run = partial(_run, Path(place), cache)
        say("\nRunning: SCR's own defaults (cache bypassed, files go straight to the prefix directory)")
        defaults = run("defaults", SHORT_CHECKPOINTS, "", "--no-tune")
        say("\nRunning: poor settings, not tuned:\n" + POOR.partition("\n")[2].rstrip())
        poor = run("poor", SHORT_CHECKPOINTS, POOR, "--no-tune")
        say("\nRunning: the same poor settings, tuned while the job runs (one copy is declared to be enough)")
        tuned = run("tuned", TUNED_CHECKPOINTS, POOR, "--redundancy-floor", "SINGLE")
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
    goodput = view.goodput
    if costs is not None:
        job, start_s = job_record.of_job(paths), shown[0].time_s - shown[0].blocking_s - shown[0].interval_s
        goodput = job.ledger.window(start_s, shown[-1].time_s, job.now).goodput
    times_s = {
        field: Spread.of([getattr(cost, field) for cost in shown])
        for field in ("blocking_s", "flush_s", "slowdown_s", "cost_s")
    }
    shares = Spread.of([1 - cost.cost_s / cost.interval_s for cost in shown if cost.interval_s > 0])
    return Column(name=name, job_id=paths.job_id, goodput=goodput, interval_goodput=shares, **times_s)


def _run(place: Path, cache: str, name: str, checkpoints: int, config: str, *options: str) -> JobPaths:
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
        "SCR_CACHE_BASE": cache,
        # two ranks on one host are one node: SCR would fall back to SINGLE and there were nothing to encode
        "SCRTUNE_EMBEDDED_NODES": str(RANKS),
        "OMP_NUM_THREADS": "1",
    }
    steps = checkpoints * STEPS_BETWEEN_CHECKPOINTS
    arguments = [sys.executable, "-m", "scrtune", "run", "--job-id", job_id, *options, "--"]
    arguments += [_mpiexec(), "-n", str(RANKS), sys.executable, "-m", "scrtune.examples.train"]
    arguments += ["--steps", str(steps), "--every", str(STEPS_BETWEEN_CHECKPOINTS)]
    with output.open("wb") as file:
        ran = subprocess.run(arguments, env=environment, stdout=file, stderr=subprocess.STDOUT, check=False)
    shutil.rmtree(prefix, ignore_errors=True)
    if ran.returncode:
        text = output.read_text(encoding="utf-8", errors="replace")
        raise CommandError(f"the job {job_id} ended with exit code {ran.returncode}:\n{text[-2000:]}")
    return job_paths(job_id)


def _mpiexec() -> str:
    """Return the mpiexec of the mpich wheel, beside our own interpreter, else that on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise CommandError("no mpiexec beside this Python or on PATH; run: pip install mpich")
    return found


def report(view: DemoView) -> RenderableType:
    """Return events, intents, every decision with its reason, the before/after table, and the verdict."""
    counters = view.status.counters
    seen = (
        f"Seen in the tuned run: {counters.trace_events} I/O events of DFTracer"
        f" in {counters.trace_lines} lines, {sum(counters.dropped.values())} lines dropped;"
        f" {counters.events} events in all, {sum(counters.lost.values())} messages lost."
    )
    decisions = text.decisions(view.explain.decisions, view.explain.start_s)
    parts = (seen, text.intents(view.explain.intents), decisions, _table(view), verdict(view))
    return Group(*(line for part in parts for line in ("", part)))


def _table(view: DemoView) -> RenderableType:
    """Return the columns side by side: the median over the checkpoints, and least to most."""
    rows: tuple[tuple[str, Callable[[Column], str]], ...] = (
        ("checkpoints", lambda column: str(column.cost_s.count)),
        ("blocking time", lambda column: _spread(column.blocking_s, seconds_text)),
        ("flush time", lambda column: _spread(column.flush_s, seconds_text)),
        ("slowdown by flush", lambda column: _spread(column.slowdown_s, seconds_text)),
        ("cost (blocking + slowdown)", lambda column: _spread(column.cost_s, seconds_text)),
        ("goodput per interval", lambda column: _spread(column.interval_goodput, "{:.0%}".format)),
        ("goodput, by the ledger", lambda column: f"{column.goodput:.1%}"),
    )
    return plain_table(
        "a checkpoint costs",
        *(f">{column.name}" for column in view.columns),
        rows=((name, *map(cell, view.columns)) for name, cell in rows),
        title="Before and after",
    )


def verdict(view: DemoView) -> Text:
    """Return the result in one sentence, also when tuning did not help."""
    defaults, before, after = (view.columns[index].cost_s.median for index in (0, 1, -1))
    what = f"{seconds_text(before)} -> {seconds_text(after)} a checkpoint"
    engine = f"{view.ranks} ranks, {view.engine} engine, {view.seconds:.0f} s in all."
    if not view.helped:
        return Text(f"Tuning did not help on this machine: {what}. {engine}", style="bold yellow")
    return Text(
        f"Tuned while it ran: {what}, {1 / view.ratio:.1f} times cheaper than the poor settings,"
        f" {after / defaults:.2f} x SCR's defaults. {engine}",
        style="bold green",
    )


def _spread(spread: Spread, shown: Callable[[float], str]) -> str:
    return f"{shown(spread.median)}\n({shown(spread.least)} - {shown(spread.most)})"
