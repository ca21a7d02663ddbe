"""`scrtune demo`: a checkpointing MPI job without scrtune beside the same job tuned while it runs.

The job starts once from poor settings and once from SCR's defaults. From each it runs alone, tuned, and alone
again, so that a machine that becomes slower or faster meanwhile favours neither; then alone with the settings
that scrtune found, which shows what this machine allows. Everything shown is measured in these runs, by the
job's own clock; when scrtune does not pay the report says so.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import click
import msgspec

from ...client.mpi import mpiexec, plain_environment
from ...daemon.launch.run import job_paths
from ...daemon.views import ExplainView, StatusView
from ...intents.events import TextEnum, Values
from ...units import seconds_text
from ..blocks import Document, Section, Styled, Table, table
from ..defaults import VARIABLE
from ..errors import CommandError
from ..jobs import state as job_state
from ..options import command, option
from ..tables import job as tables
from ..tables.summary import savings
from ..terminal import print_view

RANKS = 2
CHECKPOINTS = 20
STEPS_BETWEEN_CHECKPOINTS = 4
SCALE = 1 / 512
FIRST, LAST = 3, 6
LEAST_NOISE = 0.02
TUNED = ("--redundancy-floor", "SINGLE", "--no-memory")

STARTS = {
    "poor settings": """SCR_CACHE_BYPASS=0
SCR_CACHE_SIZE=1
SCR_COPY_TYPE=XOR
SCR_MPI_BUF_SIZE=32KB
SCR_FLUSH=1
SCR_FLUSH_ASYNC=0
SCR_FLUSH_TYPE=SYNC
SCR_FILE_BUF_SIZE=16KB
""",
    "SCR's defaults": "",
}
"""The user's config file: what users are found with, redundancy that nobody asked for and a blocking flush;
and none, where the cache is bypassed and files go straight to the prefix directory."""

INTRODUCTION = f"""
The same job eight times: {RANKS} ranks, {{}} checkpoints. Alone means without scrtune and DFTracer;
tuned means under `scrtune run {" ".join(TUNED)}` (one copy is declared to be enough).
Then alone once more, with the settings that scrtune found, from the first checkpoint on."""


class DemoOutcome(TextEnum):
    """What tuning made of the time of the whole job; `same` is within what two runs without it differ by."""

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"


class DemoRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: seconds of the whole command, and of each step and each checkpoint by rank 0's clock."""

    step_s: tuple[float, ...]
    checkpoint_s: tuple[float, ...]
    whole_s: float = 0.0

    @property
    def rest_s(self) -> float:
        """Seconds of the command beside steps and checkpoints: start, end, the last flush."""
        return self.whole_s - sum(self.step_s) - sum(self.checkpoint_s)


class DemoComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The job from one start: `alone` before and after it ran `tuned`, and alone with what that `found`.

    `ratio` is the whole job's time to the mean of the two alone, `noise` what these differ by (as a share, at
    least 2 %).
    """

    start: str
    alone: tuple[DemoRun, DemoRun]
    tuned: DemoRun
    found: DemoRun | None
    ratio: float
    noise: float
    outcome: DemoOutcome
    status: StatusView
    explain: ExplainView


class DemoView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole demo, which took `seconds`."""

    comparisons: tuple[DemoComparison, ...]
    seconds: float


@dataclass(frozen=True)
class DemoOptions:
    """Options of `scrtune demo`."""

    checkpoints: int = option(
        "--checkpoints N", "How many the job takes.", click.IntRange(FIRST + LAST), default=CHECKPOINTS
    )
    as_json: bool = option("--json", "Print the report as one JSON object, and nothing else.")


@command(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Run a checkpointing MPI job without scrtune and tuned by it, and compare: about two minutes.

    From poor settings and from SCR's defaults: alone, tuned, alone, and alone with what was found. All
    measured here and now.
    """
    began_s, quiet = time.monotonic(), options.as_json
    if not quiet:
        click.echo(INTRODUCTION.format(options.checkpoints))
    with tempfile.TemporaryDirectory(prefix="scrtune-demo-") as place:
        found = tuple(_compare(Path(place), start, options.checkpoints, quiet=quiet) for start in STARTS)
    view = DemoView(comparisons=found, seconds=time.monotonic() - began_s)
    if not quiet:
        click.echo()
    print_view(view, "json" if quiet else "table", report)


def _compare(place: Path, start: str, checkpoints: int, *, quiet: bool) -> DemoComparison:
    """Run the job from `start`; unless `quiet`, say what each run took. Raises CommandError."""
    say = (lambda *_texts, **_how: None) if quiet else click.echo
    settings = ", ".join(STARTS[start].split()) or "no config file"
    say("\n" + click.wrap_text(f"{start}: {settings}", subsequent_indent="  "))
    job_id = f"demo-{os.getpid()}-{'poor' if STARTS[start] else 'defaults'}"
    watched = [sys.executable, "-m", "scrtune", "run", "--job-id", job_id, *TUNED, "--"]

    def run(way: str, wrapper: Sequence[str] = (), settings: Values | None = None) -> DemoRun:
        say(f"  {way:24} ", nl=False)
        made = _run(place, checkpoints, STARTS[start], wrapper, settings or {})
        say(f"{made.whole_s:.1f} s")
        return made

    before, tuned, after = run("alone"), run("tuned by scrtune", watched), run("alone, again")
    paths = job_paths(job_id)
    status = job_state.status(paths)
    for_good = status.savings.for_good
    ratio, noise, outcome = judged(before.whole_s, tuned.whole_s, after.whole_s)
    return DemoComparison(
        start=start,
        alone=(before, after),
        tuned=tuned,
        found=run("alone, as it was found", settings=for_good) if for_good else None,
        ratio=ratio,
        noise=noise,
        outcome=outcome,
        status=status,
        explain=job_state.explain(paths),
    )


def judged(before_s: float, tuned_s: float, after_s: float) -> tuple[float, float, DemoOutcome]:
    """Return the ratio of the tuned job's time to that of the two alone, their noise, and the outcome."""
    alone_s = fmean((before_s, after_s))
    ratio, noise = tuned_s / alone_s, max(LEAST_NOISE, abs(before_s - after_s) / alone_s)
    if abs(ratio - 1) <= noise:
        return ratio, noise, DemoOutcome.SAME
    return ratio, noise, DemoOutcome.FASTER if ratio < 1 else DemoOutcome.SLOWER


def _run(place: Path, checkpoints: int, config: str, wrapper: Sequence[str], settings: Values) -> DemoRun:
    """Run the job once, from a clean prefix directory and cache, with `settings` over those of `config`.

    `wrapper` is what comes before mpiexec.
    """
    shared_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  SCR's own default
    conf, prefix, output, times = (place / name for name in ("scr.conf", "prefix", "output", "times.json"))
    conf.write_text(config, encoding="utf-8")
    prefix.mkdir()
    steps = f"--steps {checkpoints * STEPS_BETWEEN_CHECKPOINTS} --every {STEPS_BETWEEN_CHECKPOINTS}"
    train = f"-m scrtune.examples.train {steps} --scale {SCALE} --times".split()
    job = [*wrapper, mpiexec(), "-n", str(RANKS), sys.executable, *train, str(times)]
    with tempfile.TemporaryDirectory(prefix="scrtune-demo-", dir=shared_memory) as cache:
        own = {"SCR_CONF_FILE": str(conf), "SCR_PREFIX": str(prefix), "SCR_CACHE_BASE": cache}
        environment = {**_environment(), **own, **{name: str(value) for name, value in settings.items()}}
        with output.open("wb") as file:
            began_s = time.perf_counter()
            ran = subprocess.run(job, env=environment, stdout=file, stderr=subprocess.STDOUT, check=False)
            whole_s = time.perf_counter() - began_s
    shutil.rmtree(prefix, ignore_errors=True)
    if ran.returncode or not times.exists():
        said = output.read_text(encoding="utf-8", errors="replace")
        raise CommandError(f"{' '.join(job)}\nended with exit code {ran.returncode}:\n{said[-2000:]}")
    run = msgspec.json.decode(times.read_bytes(), type=DemoRun)
    times.unlink()
    return msgspec.structs.replace(run, whole_s=whole_s)


def _environment() -> dict[str, str]:
    """Return ours, without the user's defaults of scrtune's options."""
    # two ranks on one host are one node: SCR would fall back to SINGLE and there were nothing to encode
    nodes = {"SCRTUNE_EMBEDDED_NODES": str(RANKS)}
    return {**plain_environment(), **nodes, VARIABLE: os.devnull, "OMP_NUM_THREADS": "1"}


def report(view: DemoView) -> Document:
    """Return what the job does, every decision with its reason, the table, and a verdict for each start."""
    sections: list[Section] = [[tables.intents(view.comparisons[0].explain.intents)]]
    for each in view.comparisons:
        found = each.explain
        sections.append([Styled(f"Tuned from {each.start} (scrtune explain --job-id {found.job_id})")])
        sections.append([tables.decisions(found.decisions, found.start_s, found.gains)])
    state = view.comparisons[0].status
    notes = (
        f"{state.ranks} ranks, {state.engine} engine, {view.seconds:.0f} s in all. The two runs alone: mean"
        f" (least - most). The first {FIRST} and the last {LAST} checkpoints: median (least - most)."
    )
    verdicts: Document = [[verdict(each), *savings(each.status.savings)] for each in view.comparisons]
    return [*sections, [_table(view)], [notes], *verdicts]


ROWS: dict[str, tuple[Callable[[DemoRun], Sequence[float]], Callable[[Sequence[float]], float]]] = {
    "whole job": (lambda run: [run.whole_s], fmean),
    "steps": (lambda run: [sum(run.step_s)], fmean),
    "checkpoints": (lambda run: [sum(run.checkpoint_s)], fmean),
    "start and end": (lambda run: [run.rest_s], fmean),
    "first checkpoints": (lambda run: run.checkpoint_s[:FIRST], median),
    "last checkpoints": (lambda run: run.checkpoint_s[-LAST:], median),
}
"""What is shown of the runs of a column, in seconds, and which middle of it."""


def _columns(view: DemoView) -> Iterator[tuple[str, ...]]:
    for each in view.comparisons:
        seen = each.status.observation
        yield _column(f"{each.start}\nalone", each.alone, "-")
        observed = f"{seconds_text(seen.cost_s)} ({seen.share:.2%})"
        yield _column(f"{each.start}\ntuned", (each.tuned,), observed)
        if each.found is not None:
            yield _column("alone,\nas found", (each.found,), "-")


def _column(name: str, runs: Sequence[DemoRun], observed: str) -> tuple[str, ...]:
    cells = (
        _with_bounds(middle, [value_s for run in runs for value_s in values_s(run)])
        for values_s, middle in ROWS.values()
    )
    return (f">{name}", *cells, observed)


def _table(view: DemoView) -> Table:
    """Return the columns side by side."""
    title = "The whole job without scrtune and with it, by the clocks of its command and of rank 0"
    headings, *rows = zip(("", *ROWS, "observation"), *_columns(view), strict=True)
    return table(*headings, rows=rows, title=title)


def verdict(each: DemoComparison) -> Styled:
    """Return the result from one start, also when the job was slower for it."""
    before, after = each.alone
    more = f"tuning did not pay: {each.ratio - 1:.0%} more time for the whole job"
    result, style = {
        DemoOutcome.FASTER: (f"the whole job took {1 - each.ratio:.0%} less time", "bold green"),
        DemoOutcome.SAME: (f"no difference of the whole job beyond noise ({each.noise:.0%})", "bold yellow"),
        DemoOutcome.SLOWER: (more, "bold red"),
    }[each.outcome]
    last_s = median([*before.checkpoint_s[-LAST:], *after.checkpoint_s[-LAST:]])
    more_s = each.tuned.rest_s - fmean((before.rest_s, after.rest_s))
    return Styled(
        f"From {each.start}: {result}. {before.whole_s:.1f} and {after.whole_s:.1f} s alone,"
        f" {each.tuned.whole_s:.1f} s tuned, start and end {seconds_text(more_s)} longer;"
        f" a checkpoint in the end {seconds_text(last_s)} alone,"
        f" {seconds_text(median(each.tuned.checkpoint_s[-LAST:]))} tuned. {_allowed(each)}",
        style,
    )


def _allowed(each: DemoComparison) -> str:
    """Return what this machine allows, as far as was found."""
    if each.found is None:
        return f"Nothing better was found: {each.status.savings.why_nothing}."
    took = f"{each.found.whole_s:.1f} s, a checkpoint {seconds_text(median(each.found.checkpoint_s[-LAST:]))}"
    return f"Alone with the settings that were found: {took}."


def _with_bounds(middle: Callable[[Sequence[float]], float], values_s: Sequence[float]) -> str:
    if len(values_s) == 1:
        return seconds_text(values_s[0])
    scale, unit, digits = (1e3, "ms", 1) if max(values_s) < 1 else (1.0, "s", 2)
    shown_s = (middle(values_s), min(values_s), max(values_s))
    mid, low, high = (f"{each * scale:.{digits}f}" for each in shown_s)
    return f"{mid} {unit}\n({low} - {high})"
