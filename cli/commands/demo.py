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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from ...client.mpi import mpiexec, plain_environment
from ...daemon.launch.run import job_paths
from ...intents.events import Values
from ..defaults import VARIABLE
from ..errors import CommandError
from ..jobs import state as job_state
from ..options import command, option
from ..tables.demo import FIRST, LAST, report
from ..terminal import print_view
from ..views.demo import DemoComparison, DemoRun, DemoView, judged

RANKS = 2
CHECKPOINTS = 20
STEPS_BETWEEN_CHECKPOINTS = 4
SCALE = 1 / 512
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
