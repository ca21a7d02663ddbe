"""What the tuner is worth: seconds of real jobs alone and under `scrtune run`, against the best of a grid.

    python -m benchmarks.loop [--quick] [--engine embedded|libscr] [--workloads big-file,...] [--rounds 3]
        [--starts best,...] [--test-api DIR] [--nodes 2] [--checkpoints N] [--compute-ms MS] [--floor SINGLE]
        [--place DIR] [--levers] [--json]

For each workload (settings.py) a grid of joint settings is measured in short jobs, forwards and backwards,
then the three fastest in jobs of full length: the fastest is "best". Each round then runs the whole job from
SCR's defaults, from poor settings and from the best, alone and tuned; forwards and backwards in turn, so that
drift cancels. Intervals (95 %) are of pairs over rounds. The grid keeps the redundancy floor
that `scrtune run` is told, and gives up no checkpoint: the tuner's own guard rails. With --levers only single
departures from two settings are measured.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean

from benchmarks.jobs.runner import PROGRAMS, JobRunner, Ran, Work
from benchmarks.loop.settings import DEFAULTS, POOR_START, SCRS_OWN, WORKLOADS, Setting, grid, levers, quick
from benchmarks.loop.table import SETTLED, Comparison, Seconds, table
from scrtune.intents.observe.faults.redundancy import FLOORS

GRID_CHECKPOINTS = 8
QUICK_GRID_CHECKPOINTS, QUICK_GRID = 5, 7
FINALISTS = 3
QUICK = ("big-file", "compute-heavy")
STARTS = ("defaults", "poor", "best")


class Bench:
    """Runs jobs, and says what each took."""

    def __init__(self, options: argparse.Namespace, place: Path) -> None:
        self._options = options
        self._place = place
        self._runner = JobRunner(options.engine, place, options.mpi, options.test_api)
        self._grid_checkpoints = QUICK_GRID_CHECKPOINTS if options.quick else GRID_CHECKPOINTS
        tune = ["run", "--redundancy-floor", options.floor, *options.run_option, "--"]
        self._scrtune = [sys.executable, "-m", "scrtune", *tune]

    def run(self, work: Work, setting: Setting, *, tuned: bool = False) -> Ran:
        """Run a job. Exits when the disk has no room for it."""
        room_bytes = shutil.disk_usage(self._place).free
        if work.prefix_bytes > 0.8 * room_bytes:
            sys.exit(
                f"{self._place}: a job writes {work.prefix_bytes >> 20} MiB, {room_bytes >> 20} are free"
            )
        os.sync()  # the data of the job before must not be written during this one
        ran = self._runner.run(work, setting.config, self._scrtune if tuned else ())
        name = f"{setting.name}{', tuned' if tuned else ''}"
        step_ms, each_ms = 1000 * fmean(ran.step_s), 1000 * fmean(ran.checkpoint_s)
        self.say(f"{name:40}{ran.whole_s:8.2f} s, {step_ms:6.0f} ms a step, {each_ms:6.0f} ms a checkpoint")
        if tuned and self._options.verbose:
            self.say(ran.said)
        return ran

    def best(self, work: Work) -> Setting:
        """Measure the grid; return what makes the whole job shortest."""
        short = replace(work, checkpoints=self._grid_checkpoints)
        settings = grid(self._options.engine, self._options.floor)
        settings = settings[:QUICK_GRID] if self._options.quick else settings
        finalists = sorted(settings, key=_seconds_in(self._both_ways(short, settings)))[:FINALISTS]
        self.say("the fastest again, in jobs of full length")
        return min(finalists, key=_seconds_in(self._both_ways(work, finalists)))

    def compare(self, name: str, work: Work) -> Comparison:
        """Run all rounds of a workload."""
        self.say(f"== {name}: grid")
        best = self.best(work)
        self.say(f"best: {best.name}")
        every = {"defaults": DEFAULTS, "poor": POOR_START, "best": best}
        starts = {start: every[start] for start in self._options.starts}
        plan = [(start, tuned) for start in starts for tuned in (False, True)]
        runs: dict[tuple[str, bool], list[Seconds]] = {}
        for number in range(self._options.rounds):
            self.say(f"== {name}: round {number + 1}")
            for start, tuned in plan if number % 2 == 0 else reversed(plan):
                ran = self.run(work, starts[start], tuned=tuned)
                runs.setdefault((start, tuned), []).append(seconds_of(ran))
        alone, tuned_runs = ({start: runs[start, tuned] for start in starts} for tuned in (False, True))
        return Comparison(name, best.name, alone, tuned_runs)

    def levers(self, name: str, work: Work) -> None:
        """Print what each departure makes of a short job: means, and the least and most to the defaults."""
        settings = levers(self._options.engine)
        short = replace(work, checkpoints=self._grid_checkpoints)
        found = self._both_ways(short, settings)
        print(f"\n### {name}: {short.checkpoints} checkpoints with the steps between\n")
        print("| setting | ms a step | ms a checkpoint | both to SCR's defaults | least, most |")
        print("|---|---:|---:|---:|---:|")
        own_s = fmean(ran.loop_s for ran in found[DEFAULTS.name])
        for setting in settings:
            runs = found[setting.name]
            ratios = sorted(ran.loop_s / own_s for ran in runs)
            step_ms = 1000 * fmean(each for ran in runs for each in ran.step_s)
            each_ms = 1000 * fmean(each for ran in runs for each in ran.checkpoint_s)
            spread = f"{ratios[0]:.2f}, {ratios[-1]:.2f}"
            print(f"| {setting.name} | {step_ms:.0f} | {each_ms:.0f} | {fmean(ratios):.2f} | {spread} |")

    def _both_ways(self, work: Work, settings: Sequence[Setting]) -> Mapping[str, Sequence[Ran]]:
        """Run each setting forwards and backwards."""
        found: dict[str, list[Ran]] = {}
        for setting in (*settings, *reversed(settings)):
            found.setdefault(setting.name, []).append(self.run(work, setting))
        return found

    def say(self, line: str) -> None:
        """Tell what is going on."""
        print(line, file=sys.stderr, flush=True)


def _seconds_in(found: Mapping[str, Sequence[Ran]]) -> Callable[[Setting], float]:
    return lambda setting: sum(ran.loop_s for ran in found[setting.name])


def seconds_of(ran: Ran) -> Seconds:
    """Return the sums of a run; what changed is in the summary of `scrtune run`."""
    changes = re.search(r"(\d+) changes? kept, (\d+) taken back", ran.said)
    late_checkpoints_s = sum(ran.checkpoint_s[SETTLED:])
    return Seconds(
        whole_s=ran.whole_s,
        checkpoints_s=sum(ran.checkpoint_s),
        late_s=sum(ran.step_s[SETTLED:]) + late_checkpoints_s,
        late_checkpoints_s=late_checkpoints_s,
        kept=int(changes[1]) if changes else 0,
        taken_back=int(changes[2]) if changes else 0,
    )


def workloads(options: argparse.Namespace) -> dict[str, Work]:
    """Return the chosen workloads, changed as the options say."""
    changes = {
        "checkpoints": options.checkpoints,
        "compute_ms": options.compute_ms,
        "mib": options.mib,
        "ranks": options.nodes,
    }
    wanted = {name: value for name, value in changes.items() if value is not None}
    known = {**WORKLOADS, **(SCRS_OWN if options.test_api else {})}
    names = options.workloads or ((*QUICK, *(known.keys() - WORKLOADS)) if options.quick else known)
    return {name: replace(quick(known[name]) if options.quick else known[name], **wanted) for name in names}


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=("embedded", "libscr"), default="embedded")
    parser.add_argument(
        "--workloads", type=lambda text: text.split(","), help=f"default: {','.join(WORKLOADS)}"
    )
    parser.add_argument(
        "--starts", type=lambda text: text.split(","), default=STARTS, help=f"default: {','.join(STARTS)}"
    )
    parser.add_argument("--rounds", type=int, help="default 3, with --quick 1")
    parser.add_argument("--nodes", type=int, default=2, help="simulated, a rank each (default 2)")
    parser.add_argument("--checkpoints", type=int, help="of a job (default 40)")
    parser.add_argument("--compute-ms", type=float, help="before each checkpoint")
    parser.add_argument("--mib", type=int, help="MiB a rank and checkpoint")
    parser.add_argument(
        "--floor", choices=sorted(FLOORS), default="SINGLE", help="declared redundancy floor (default SINGLE)"
    )
    parser.add_argument("--run-option", action="append", default=[], help="a further option of `scrtune run`")
    parser.add_argument("--mpi", type=Path, default=PROGRAMS, help="directory of mpiexec and mpicc")
    parser.add_argument(
        "--test-api",
        type=Path,
        metavar="DIR",
        help="SCR's examples: its test_api becomes a workload (libscr)",
    )
    parser.add_argument("--place", type=Path, help="where the prefix directory is made (default: $TMPDIR)")
    parser.add_argument("--quick", action="store_true", help="two small workloads, one round: seven minutes")
    parser.add_argument("--levers", action="store_true", help="measure single departures and nothing else")
    parser.add_argument("--verbose", action="store_true", help="show what scrtune says")
    parser.add_argument("--json", action="store_true", help="print all seconds as JSON instead of tables")
    options = parser.parse_args()
    if unknown := {*options.starts} - {*STARTS}:
        parser.error(f"--starts {','.join(sorted(unknown))}: choose from {','.join(STARTS)}")
    options.rounds = options.rounds or (1 if options.quick else 3)
    if options.test_api and options.engine != "libscr":
        parser.error("--test-api needs --engine libscr")
    return options


def main() -> None:
    """Run it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # the directories are removed
    options = arguments()
    comparisons = []
    with tempfile.TemporaryDirectory(prefix="bench-loop-", dir=options.place) as place:
        bench = Bench(options, Path(place))
        for name, work in workloads(options).items():
            if options.levers:
                bench.levers(name, work)
                continue
            comparisons.append(bench.compare(name, work))
            if not options.json:
                print("\n" + "\n".join(table(comparisons[-1])) + "\n", flush=True)
    if options.json and not options.levers:
        print(json.dumps([asdict(each) for each in comparisons]))


if __name__ == "__main__":
    main()
