"""What scrtune costs a job, and gives it: the whole job beside the same job without scrtune and DFTracer.

    python benchmarks/observer_cost.py [--engine embedded|libscr] [--starts defaults,poor,good]
        [--variants plain,dftracer,observed,tuned] [--rounds 3] [--checkpoints 40] [--compute-ms 1000]
        [--busy 0.2] [--mib 64] [--test-api DIR] [--place DIR] [--json]

Each round runs every variant of every start once, forwards and backwards in turn, so that drift cancels:
    plain     the job alone: neither scrtune nor DFTracer
    dftracer  under DFTracer alone, preloaded, with its own defaults (data directories as we set them)
    observed  under `scrtune run --no-tune`: watched, nothing changed
    tuned     under `scrtune run`
and each start is a config file of the user's: SCR's defaults, poor settings, and good ones for this machine.
The job (jobs/checkpoints.c on libscr, jobs/checkpoints.py on the embedded engine) has two ranks, each a node
of its own; with --test-api it is SCR's own test_api, which syncs its files. Time is that of the whole
command, from its start to its end. A ratio is to `plain` in the same round; intervals are of the mean
(Student's t, 95 %). The worst checkpoint is compared with the worst plain one of its round.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import scipy.stats
from jobs.runner import POOR, JobRunner, Ran, Work

TARGET = 1.01
WORST_CHECKPOINT = 1.5
STARTS = {
    "defaults": "",
    "poor": POOR,
    "good": """SCR_CACHE_BYPASS=0
SCR_CACHE_SIZE=2
SCR_COPY_TYPE=SINGLE
SCR_FILE_BUF_SIZE=8MB
SCR_FLUSH=1
SCR_FLUSH_ASYNC=1
SCR_FLUSH_TYPE=PTHREAD
""",
}
VARIANTS = ("plain", "dftracer", "observed", "tuned")


@dataclass(frozen=True)
class Row:
    """One variant of one start against plain: mean ratio with its 95 % interval, and the checkpoints."""

    engine: str
    start: str
    variant: str
    whole_s: float
    ratio: float
    low: float
    high: float
    checkpoint_ms: float
    last_checkpoint_ms: float
    worst_checkpoint: float
    """The worst checkpoint over the worst plain one of the same round, median of the rounds."""


def run(runner: JobRunner, options: argparse.Namespace, start: str, variant: str) -> Ran:
    """Run one variant."""
    work = Work(
        checkpoints=options.checkpoints,
        compute_ms=options.compute_ms,
        busy=options.busy,
        mib=options.mib,
        files=options.files,
        write_bytes=options.write_bytes,
        is_scrs_own=options.test_api is not None,
    )
    wanted = ["--no-tune"] if variant == "observed" else []
    under = [sys.executable, "-m", "scrtune", "run", *wanted, *options.run_option, "--"]
    wrapper = under if variant in ("observed", "tuned") else []
    ran = runner.run(work, STARTS[start], wrapper, traced=variant == "dftracer")
    if options.verbose and wrapper:
        print(ran.said, file=sys.stderr)
    return ran


def measure(options: argparse.Namespace, place: Path) -> list[Row]:
    """Run all rounds; print each run as it ends."""
    runner = JobRunner(options.engine, place, examples=options.test_api)
    runs: dict[tuple[str, str], list[Ran]] = {}
    plan = [(start, variant) for start in options.starts for variant in options.variants]
    for number in range(options.rounds):
        for start, variant in plan if number % 2 == 0 else reversed(plan):
            ran = run(runner, options, start, variant)
            runs.setdefault((start, variant), []).append(ran)
            if not options.json:
                mean_ms, worst_ms = 1000 * fmean(ran.checkpoint_s), 1000 * max(ran.checkpoint_s)
                times = f"{ran.whole_s:7.2f} s whole, {mean_ms:7.1f} ms a checkpoint, worst {worst_ms:7.1f}"
                print(f"round {number + 1} {start:9} {variant:9} {times}", flush=True)
    return [
        row(options.engine, start, variant, runs[start, variant], runs[start, "plain"])
        for start, variant in plan
    ]


def row(engine: str, start: str, variant: str, runs: list[Ran], plain: list[Ran]) -> Row:
    """Compare the runs of a variant with the plain ones of the same rounds."""
    ratios = [ran.whole_s / other.whole_s for ran, other in zip(runs, plain, strict=True)]
    mean = fmean(ratios)
    half = 0.0
    if len(ratios) > 1 and variant != "plain":
        half = float(scipy.stats.t.ppf(0.975, len(ratios) - 1) * scipy.stats.sem(ratios))
    worst = sorted(
        max(ran.checkpoint_s) / max(other.checkpoint_s) for ran, other in zip(runs, plain, strict=True)
    )
    last = [value for ran in runs for value in ran.checkpoint_s[-len(ran.checkpoint_s) // 2 :]]
    return Row(
        engine=engine,
        start=start,
        variant=variant,
        whole_s=fmean(ran.whole_s for ran in runs),
        ratio=mean,
        low=mean - half,
        high=mean + half,
        checkpoint_ms=1000 * fmean(value for ran in runs for value in ran.checkpoint_s),
        last_checkpoint_ms=1000 * fmean(last),
        worst_checkpoint=worst[len(worst) // 2],
    )


def show(rows: list[Row]) -> None:
    """Print the table for people."""
    print(f"\n{'engine':9}{'start':10}{'variant':10}{'whole job':>10}{'to plain (95 %)':>24}", end="")
    print(f"{'checkpoint':>12}{'2nd half':>10}{'worst':>8}")
    for each in rows:
        ratio = f"{each.ratio:.3f} ({each.low:.3f} - {each.high:.3f})"
        print(f"{each.engine:9}{each.start:10}{each.variant:10}{each.whole_s:8.2f} s{ratio:>24}", end="")
        print(f"{each.checkpoint_ms:9.1f} ms{each.last_checkpoint_ms:7.1f} ms{each.worst_checkpoint:6.2f} x")
    print(
        f"targets: observed <= {TARGET} beyond noise (low <= {TARGET}); no checkpoint of it above"
        f" {WORST_CHECKPOINT} x the worst plain one"
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--engine", choices=("embedded", "libscr"), default="embedded", help="default: embedded"
    )
    parser.add_argument(
        "--starts", type=lambda text: text.split(","), default=list(STARTS), help="default: all"
    )
    parser.add_argument(
        "--variants", type=lambda text: text.split(","), default=list(VARIANTS), help="with plain"
    )
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--checkpoints", type=int, default=40, help="default 40")
    parser.add_argument(
        "--compute-ms", type=float, default=1000, help="between two checkpoints (default 1000)"
    )
    parser.add_argument("--busy", type=float, default=0.2, help="share of that on the core (default 0.2)")
    parser.add_argument("--mib", type=int, default=64, help="MiB a rank and checkpoint (default 64)")
    parser.add_argument("--files", type=int, default=1, help="files a rank and checkpoint (default 1)")
    parser.add_argument("--write-bytes", type=int, default=1 << 20, help="size of a write (default 1 MiB)")
    parser.add_argument(
        "--test-api",
        type=Path,
        metavar="DIR",
        help="SCR's examples: the job is SCR's own test_api, which takes whole seconds between (libscr)",
    )
    parser.add_argument("--run-option", action="append", default=[], help="a further option of `scrtune run`")
    parser.add_argument("--verbose", action="store_true", help="show what scrtune says")
    parser.add_argument("--place", type=Path, help="where the prefix directory is made (default: $TMPDIR)")
    parser.add_argument("--json", action="store_true", help="print one JSON array of rows")
    options = parser.parse_args()
    if "plain" not in options.variants:
        parser.error("--variants: plain is what the others are compared with")
    if options.test_api and options.engine != "libscr":
        parser.error("--test-api needs --engine libscr")
    with tempfile.TemporaryDirectory(prefix="observer-cost-", dir=options.place) as place:
        rows = measure(options, Path(place))
    if options.json:
        print(json.dumps([asdict(each) for each in rows]))
    else:
        show(rows)


if __name__ == "__main__":
    main()
